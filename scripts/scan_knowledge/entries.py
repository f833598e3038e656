"""The entry of a model type in transformers.json: what was measured, without what says nothing."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from sys import modules
from typing import Any, Final

from transformers import PreTrainedConfig

from scan_knowledge.building import Build
from scan_knowledge.source import classes_of, functional, options
from scan_truth.classes import base_class

SOURCE_READ: Final = Path(__file__).with_name("source_read.json")

MOST_REWRITES: Final = 10
"""Values beyond which a class that makes the same of all of them does so with any."""

REASONS: Final = {
    "gemma": "GemmaConfig rewrites 'gelu', a legacy value of the first release, to the tanh form that was meant",
    "feed_forward_proj": "the config class turns 'gated-gelu' into gelu_new, which is the tanh form",
}
"""Why a value is rewritten."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of all classes.

    Attributes:
        builds: Of models, by the name of the config class.
        keys: What each key of ``ACT2FN`` computes.
        unread: Fields that nothing reads, with the class of their config.
    """

    builds: Mapping[str, Build]
    keys: Mapping[str, str]
    unread: set[tuple[str, str]]


def entry(name: str, owner: type[PreTrainedConfig], known: dict[str, Any], measured: Measured) -> dict[str, Any]:
    """All that is known of one model type.

    Args:
        name: The model type.
        owner: Class of its config.
        known: What the class makes of values.
        measured: Of its model, and of all others.
    """
    build = measured.builds.get(owner.__name__)
    found = {**known, "fields": _fields(name, owner, known, measured.unread)}
    if build:
        governing = {field for _, field in build.governs}
        own: dict[str, Any] = {field: {} for file in build.files for field in options(file, governing)}
        found["fields"] = {**own, **found["fields"]}
        found["literals"] = _literals(build, measured.keys, owner)
        found["unread"] = build.unread
    elif base_class(owner):
        found["literals"] = _literals_of_source(owner)
    read = _source_read().get(name, {})
    found["literals"] = [*found.get("literals", []), *read.get("literals", [])]
    for key, more in read.get("fields", {}).items():
        found["fields"][key] |= more
    return {key: value for key, value in found.items() if value}


def _fields(
    name: str, owner: type[PreTrainedConfig], known: Mapping[str, Any], unread: set[tuple[str, str]]
) -> dict[str, Any]:
    found = {}
    for key, one in known["fields"].items():
        values = dict(one["values"])
        reason = ""
        if values:
            reason = REASONS.get(key) or REASONS.get(name) or f"{owner.__name__} rewrites the value"
        field = {"default": one["default"], "values": values, "reason": reason}
        if len(values) > MOST_REWRITES and len(set(values.values())) == 1:
            field = {**field, "values": {}, "always": next(iter(values.values()))}
        field["overridden_by"] = one.get("overridden_by", "")
        found[key] = {k: v for k, v in field.items() if v not in (None, "", {})}
        if (owner.__name__, key) in unread and not one.get("overridden_by"):
            found[key]["read"] = False
    return found


def _literals(build: Build, keys: Mapping[str, str], owner: type[PreTrainedConfig]) -> list[dict[str, str]]:
    """Activations that no field governs: of modules, and in functional calls."""
    scopes: dict[str, list[str]] = defaultdict(list)
    for scope, kind in build.own:
        scopes[keys.get(kind, kind)].append(scope)
    found = [
        {"variant": variant, "scope": _some(places), "reason": "the model's code names it; no field of the config does"}
        for variant, places in scopes.items()
    ]
    for file in build.files:
        for variant, places in functional(file, build.names).items():
            found.append(_called(variant, places, owner))
    return found


def _called(variant: str, places: list[str], owner: type[PreTrainedConfig], more: str = "") -> dict[str, str]:
    """A function that is called, with its parameter by the config's default where a field of the config holds it."""
    scope = _some([place.partition(" ")[0] for place in places])
    made = {"variant": variant, "scope": scope, "reason": f"called in {_some(places)}{more}"}
    name, _, parameter = variant.rstrip("]").partition("=")
    if parameter.isidentifier():
        place, default = _default(owner, parameter)
        made["variant"] = f"{name}={default}]"
        made["parameter"] = place
    return made


def _default(owner: type[PreTrainedConfig], name: str) -> tuple[str, float]:
    """Where a field stands in a config, or in a config within it, and its default."""
    parts = {"": owner, **owner.sub_configs}
    key, part = next((key, part) for key, part in parts.items() if hasattr(part(), name))
    return f"{key}.{name}".lstrip("."), getattr(part(), name)


def _literals_of_source(owner: type[PreTrainedConfig]) -> list[dict[str, str]]:
    """Functional calls in the code of a model that cannot be built here, heads left out."""
    config = Path(str(modules[owner.__module__].__file__))
    file = config.with_name(config.name.replace("configuration_", "modeling_"))
    if not file.is_file():
        return []
    named = {one.name for one in classes_of(str(file)) if "Head" not in one.name and "For" not in one.name}
    return [
        _called(variant, places, owner, "; the model was not built")
        for variant, places in functional(str(file), named).items()
    ]


def _some(places: list[str]) -> str:
    """The first three of many places."""
    names = list(dict.fromkeys(places))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@cache
def _source_read() -> dict[str, Any]:
    """What was read by hand, by model type."""
    given = json.loads(SOURCE_READ.read_text(encoding="utf-8"))
    gates = {name: {"literals": [_gate(**one)]} for name, one in given["gate_of_gpt_oss"].items()}
    return {**gates, **given["models"]}


def _gate(who: str, scope: str, instead_of: str) -> dict[str, str]:
    """The gate of GPT-OSS, which stands in the code of its heirs too."""
    reason = f"{who} gate · sigmoid(swiglu_alpha · gate), where swiglu_alpha is 1.702 unless the config gives another"
    return {
        "variant": "quick_gelu",
        "parameter": "swiglu_alpha",
        "scope": scope,
        "instead_of": instead_of,
        "reason": reason + (f"; {instead_of} is never read" if instead_of else ""),
    }
