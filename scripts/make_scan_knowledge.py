"""Measures what transformers does with the activation fields of its configs, for ``parity scan``.

python scripts/make_scan_knowledge.py        writes transformers.json and differences.json of
                                             parity/scanner/knowledge, in about ten minutes

1. Every key of ``ACT2FN`` is evaluated and identified.
2. Every config class is made with every value of every activation field: what it keeps, rewrites, derives, refuses.
3. Every model that ``AutoModel`` builds is built without memory (two layers, device ``meta``), once as it is and once
   for each field with an activation in it that no model names: the modules that change are those that the field
   governs, the others are the code's own.
4. The source is read, as text, for what building does not show: fields that only a head or a forward pass reads, and
   functional calls.
5. The largest differences of variants are taken on a grid.
"""

import ast
import json
import logging
import re
import signal
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import getsourcefile
from itertools import combinations
from pathlib import Path
from sys import modules
from typing import Any, Final

import numpy as np
import torch
import transformers
from torch import nn
from transformers import AutoModel, PreTrainedConfig, activations
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING

from parity.functions import FORMULAS, variant
from parity.functions.identify import identify

KNOWLEDGE: Final = Path(__file__).parents[1] / "parity/scanner/knowledge"

TARGET: Final = KNOWLEDGE / "transformers.json"

NOT_COMPARED: Final = ("sparse_plus", "sparse_sigmoid", "threshold", "soft_shrink", "hard_shrink", "tanh_shrink")
"""Variants that no model is known to have mistaken for another."""

FIELD: Final = re.compile(
    r"(?:.*_)?(?:act|activation|afn)(?:_(?:fn|func|function|layer|type|str|name))?|feed_forward_proj|conv_glu_type"
)
"""Names of fields that may hold an activation."""

NO_FUNCTIONS: Final = {"is_gated_act"}
"""Fields with such names that hold none."""

LAYERS: Final = re.compile(
    r"(?:num_|n_)?(?:hidden_|encoder_|decoder_|text_|vision_|attention_)*(?:layers?|blocks?|depth)"
)
"""Names of fields that say how deep a model is."""

PROBE: Final = "mish"
"""An activation that no model's code names."""

SECONDS: Final = 60
"""After which the building of a model is given up."""

NEEDED: Final[Mapping[str, dict[str, Any]]] = {
    "AutoformerConfig": {"prediction_length": 8},
    "InformerConfig": {"prediction_length": 8},
    "TimeSeriesTransformerConfig": {"prediction_length": 8},
    "EsmConfig": {"vocab_size": 33},
}
"""Values without which a model cannot be built."""

NAMED: Final = {
    "GELU:none": "gelu_erf", "GELU:tanh": "gelu_tanh", "SiLU": "silu", "ReLU": "relu", "ReLU6": "relu6",
    "LeakyReLU": "leaky_relu", "Mish": "mish", "Hardswish": "hard_swish", "Hardsigmoid": "hard_sigmoid",
    "Sigmoid": "sigmoid", "Tanh": "tanh", "ELU": "elu", "SELU": "selu", "CELU": "celu", "GLU": "glu",
    "PReLU": "leaky_relu[negative_slope=0.25]", "Softplus": "softplus",
    "F.gelu": "gelu_erf", "F.gelu:tanh": "gelu_tanh", "F.silu": "silu", "F.relu": "relu", "F.mish": "mish",
    "F.elu": "elu", "F.leaky_relu": "leaky_relu", "F.glu": "glu", "F.hardswish": "hard_swish",
}  # fmt: skip
"""Modules and functions of PyTorch, and what they compute."""


def _gated(who: str, scope: str, instead_of: str = "hidden_act") -> dict[str, str]:
    """The gate of GPT-OSS, which stands in the code of its heirs too."""
    return {
        "variant": "quick_gelu",
        "parameter": "swiglu_alpha",
        "scope": scope,
        "instead_of": instead_of,
        "reason": f"{who} gate · sigmoid(swiglu_alpha · gate), with swiglu_alpha 1.702 unless the config has another"
        + (f"; {instead_of} is never read" if instead_of else ""),
    }


SOURCE_READ: Final[Mapping[str, dict[str, Any]]] = {
    "gpt_oss": {"literals": [_gated("GptOssExperts computes", "layers.*.mlp.experts")]},
    "minimax_m3_vl_text": {"literals": [_gated("MiniMaxM3VL's MLP and experts compute", "layers.*.mlp")]},
    "openai_privacy_filter": {
        "literals": [_gated("OpenAIPrivacyFilterExperts computes", "layers.*.mlp.experts", "")],
    },
    "rwkv": {
        "literals": [
            {
                "variant": "relu2",
                "scope": "blocks.*.feed_forward",
                "reason": "written out: torch.square(torch.relu(key))",
            }
        ]
    },
    "esm": {
        "literals": [
            {
                "variant": "gelu_erf",
                "scope": "encoder.layer.*.intermediate",
                "reason": "written out with erf, as in the original ESM",
            }
        ]
    },
    "bloom": {
        "literals": [
            {
                "variant": "gelu_tanh",
                "scope": "h.*.mlp.gelu_impl",
                "reason": "BloomGelu writes out the tanh form",
            }
        ]
    },
    "openai-gpt": {
        "fields": {
            "afn": {"values": {"gelu": "gelu_new"}, "reason": "ACT_FNS of the model's code calls gelu_new 'gelu'"}
        }
    },
}
"""What neither building nor the search of the source shows; read in the source."""

MOST_REWRITES: Final = 10
"""Values beyond which a class that makes the same of all of them does so with any."""

REASONS: Final = {
    "gemma": "GemmaConfig rewrites 'gelu', a legacy value of the first release, to the tanh form that was meant",
    "feed_forward_proj": "the config class turns 'gated-gelu' into gelu_new, which is the tanh form",
}
"""Why a value is rewritten."""


class GivenUp(Exception):  # noqa: N818 – not an error: the model is counted as not built
    """Building took too long."""


def _variant(call: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """The variant that a callable computes, with its parameters."""
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    found = identify(x.numpy(), call(x).detach().numpy().astype(np.float64)).variant
    return str(found) if found else ""


def activation_keys() -> dict[str, str]:
    """What each key of ``ACT2FN`` computes."""
    keys: dict[str, str] = {}
    for key in activations.ACT2CLS:
        module = activations.ACT2FN[key].to(torch.float64)
        keys[key] = "xielu" if key == "xielu" else _variant(module)
    return keys


def config_classes() -> dict[type[PreTrainedConfig], list[str]]:
    """Every config class, with the names under which a config asks for it: model types, else that of the class."""
    found: dict[type[PreTrainedConfig], list[str]] = defaultdict(list)
    for name in CONFIG_MAPPING_NAMES:
        found[CONFIG_MAPPING[name]].append(name)
    for owner in list(found):
        for inner in getattr(owner, "sub_configs", {}).values():
            if inner not in found and inner is not transformers.AutoConfig:
                found[inner].append(getattr(inner, "model_type", "") or inner.__name__)
    return found


def _made(owner: type[PreTrainedConfig], **values: Any) -> PreTrainedConfig | None:
    try:
        return owner(**values)
    except Exception:  # noqa: BLE001 – whatever a config class raises, it refuses the values
        return None


def _fields(owner: type[PreTrainedConfig], made: PreTrainedConfig | None) -> dict[str, Any]:
    """Activation fields of a class with their defaults."""
    declared = {name for base in owner.__mro__ for name in vars(base).get("__annotations__", {})}
    names = {name for name in declared | set(vars(made) if made else ()) if FIELD.fullmatch(name)} - NO_FUNCTIONS
    defaults = {name: getattr(made, name, getattr(owner, name, None)) for name in names}
    return {name: value for name, value in sorted(defaults.items()) if isinstance(value, str | bool | dict | None)}


def config_knowledge(owner: type[PreTrainedConfig]) -> dict[str, Any]:
    """Defaults, rewrites and nested configs of one class."""
    made = _made(owner)
    fields: dict[str, dict[str, Any]] = {}
    for name, default in _fields(owner, made).items():
        fields[name] = {"default": default, "values": _rewrites(owner, name, default)}
    if "feed_forward_proj" in fields and "dense_act_fn" in fields:
        fields["feed_forward_proj"] |= _derived(owner)
        fields["dense_act_fn"]["default"] = None
    aliases = {alias: name for alias, name in getattr(owner, "attribute_map", {}).items() if FIELD.fullmatch(alias)}
    subs = {}
    for key, inner in getattr(owner, "sub_configs", {}).items():
        actual = type(getattr(made, key, None)) if inner is transformers.AutoConfig else inner
        if issubclass(actual, PreTrainedConfig) and actual is not PreTrainedConfig:
            subs[key] = getattr(actual, "model_type", "") or actual.__name__
    replaced = [key for key in subs if _replaces(owner, key)]
    return {"fields": fields, "aliases": aliases, "sub_configs": subs, "replaced_by_dict": replaced}


def _rewrites(owner: type[PreTrainedConfig], name: str, default: Any) -> dict[str, str]:
    """Values that the class replaces, with what by."""
    if not isinstance(default, str | None):
        return {}
    kept = ((value, getattr(_made(owner, **{name: value}), name, value)) for value in activations.ACT2CLS)
    return {value: now for value, now in kept if now != value and isinstance(now, str)}


def _derived(owner: type[PreTrainedConfig]) -> dict[str, Any]:
    """What ``feed_forward_proj`` makes of ``dense_act_fn``, where it is not the name after ``gated-``."""
    values = {}
    for key in activations.ACT2CLS:
        made = _made(owner, feed_forward_proj=f"gated-{key}")
        if made and made.dense_act_fn != key:
            values[f"gated-{key}"] = made.dense_act_fn
    return {"values": values, "overridden_by": "dense_act_fn", "read": True}


def _replaces(owner: type[PreTrainedConfig], key: str) -> bool:
    """Whether ``KEY_dict`` replaces all of the nested config ``KEY``, its defaults included, as in CLIP."""
    alone = getattr(_made(owner, **{key: {"hidden_act": PROBE}}), key, None)
    both = getattr(_made(owner, **{key: {"hidden_act": PROBE}, f"{key}_dict": {}}), key, None)
    return getattr(alone, "hidden_act", None) == PROBE and getattr(both, "hidden_act", PROBE) != PROBE


def _shrunk(config: PreTrainedConfig, depth: int = 0) -> PreTrainedConfig:
    """The same config with two layers."""
    for name, value in list(vars(config).items()):
        if isinstance(value, int) and not isinstance(value, bool) and value > 3 and LAYERS.fullmatch(name):
            setattr(config, name, 2)
        elif isinstance(value, PreTrainedConfig) and depth < 4:
            _shrunk(value, depth + 1)
    return config


def _places(config: PreTrainedConfig, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every activation field of a config and those in it: path and config that holds it."""
    for name in _fields(type(config), config):
        yield (*path, name), config
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig) and len(path) < 4:
            yield from _places(value, (*path, name))


def _built(owner: type[PreTrainedConfig], path: tuple[str, ...] = (), value: Any = None) -> nn.Module:
    """The model of a config class, with one field changed."""
    config = holder = _shrunk(owner(**NEEDED.get(owner.__name__, {})))
    for name in path[:-1]:
        holder = getattr(holder, name)
    if path:
        setattr(holder, path[-1], value)
    with torch.device("meta"):
        model: nn.Module = AutoModel.from_config(config)
    return model


def _kind(module: nn.Module) -> str:
    """What an activation module computes, by its class; empty for any other module."""
    name = type(module).__name__
    if type(module).__module__ == activations.__name__:
        return KEY_OF_CLASS.get(name, "")
    if name == "GELU":
        name = f"GELU:{module.approximate}"
    return NAMED.get(name, "") if type(module).__module__.startswith("torch.nn") else ""


KEY_OF_CLASS: Final[Mapping[str, str]] = {
    (one if isinstance(one, type) else one[0]).__name__: key
    for key, one in reversed(activations.ACT2CLS.items())
    if (one if isinstance(one, type) else one[0]).__module__ == activations.__name__
}
"""Key of ``ACT2FN`` by class."""


def _activations(model: nn.Module) -> dict[str, str]:
    """Scope and kind of every activation module of a model."""
    kinds = ((re.sub(r"\.\d+(?=\.|$)", ".*", name), _kind(module)) for name, module in model.named_modules())
    return {scope: kind for scope, kind in kinds if kind}


def measured(owner: type[PreTrainedConfig]) -> dict[str, Any]:
    """What governs the activations of the model of a config class.

    Returns:
        ``governs``: modules by (config class, field); ``own``: modules that no field governs; ``classes``: of modules.
    """
    model = _built(owner)
    plain = _activations(model)
    governs: dict[tuple[str, str], set[str]] = {}
    for path, holder in list(_places(_shrunk(owner(**NEEDED.get(owner.__name__, {}))))):
        old = getattr(holder, path[-1], None)
        try:
            now = _activations(_built(owner, path, not old if isinstance(old, bool) else PROBE))
        except GivenUp:
            raise
        except Exception as error:  # noqa: BLE001 – a field whose change is refused is read
            now = {"": str(error)}
        changed = {scope for scope in plain.keys() | now.keys() if plain.get(scope) != now.get(scope)}
        governs.setdefault((type(holder).__name__, path[-1]), set()).update(changed)
    governed = set().union(*governs.values()) if governs else set()
    return {
        "governs": governs,
        "own": {scope: kind for scope, kind in plain.items() if scope not in governed},
        "classes": {
            type(module) for module in model.modules() if type(module).__module__.startswith("transformers.models")
        },
    }


@cache
def _source(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _classes_of(file: str) -> Iterator[ast.ClassDef]:
    return (node for node in _source(file).body if isinstance(node, ast.ClassDef))


def _reads(node: ast.AST, *, by_name: bool = False) -> Iterator[str]:
    """Names of activation fields that a piece of source reads of a config; ``by_name`` only those of ``getattr``."""
    for one in ast.walk(node):
        if (
            not by_name
            and isinstance(one, ast.Attribute)
            and FIELD.fullmatch(one.attr)
            and "config" in ast.unparse(one.value)
        ):
            yield one.attr
        elif (
            isinstance(one, ast.Call) and ast.unparse(one.func) == "getattr" and isinstance(one.args[1], ast.Constant)
            and FIELD.fullmatch(str(one.args[1].value))
        ):  # fmt: skip
            yield str(one.args[1].value)


def read_elsewhere(file: str, built: set[str]) -> set[str]:
    """Fields that classes read that were not built: heads and options."""
    return {name for node in _classes_of(file) if node.name not in built for name in _reads(node)}


def options(file: str, fields: set[str]) -> dict[str, Any]:
    """Fields that the source reads by ``getattr`` and no config class has: they count where a file gives them."""
    return {name: {} for owner in _classes_of(file) for name in _reads(owner, by_name=True) if name not in fields}


def functional(file: str, built: set[str]) -> dict[str, list[str]]:
    """Functional calls of activations in classes that were built: variant → places."""
    found: dict[str, list[str]] = defaultdict(list)
    for owner in _classes_of(file):
        if owner.name not in built:
            continue
        for call in (one for one in ast.walk(owner) if isinstance(one, ast.Call)):
            name = re.sub(r"^(?:torch\.)?nn\.functional\.|^F\.", "F.", ast.unparse(call.func))
            if any(word.arg == "approximate" and "tanh" in ast.unparse(word.value) for word in call.keywords):
                name += ":tanh"
            if name in NAMED and name.startswith("F."):
                found[NAMED[name]].append(f"{owner.name} ({Path(file).name}:{call.lineno})")
    return found


def build_all(owners: Mapping[type[PreTrainedConfig], list[str]]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Every model that can be built: what was measured, and why the others were not, by name of the config class."""
    builds, failures = {}, {}
    for number, owner in enumerate(owners):
        if owner not in MODEL_MAPPING:
            continue
        signal.alarm(SECONDS)
        try:
            builds[owner.__name__] = measured(owner)
        except GivenUp:
            failures[owner.__name__] = "takes too long"
        except Exception as error:  # noqa: BLE001 – whatever it raises, it is not built
            failures[owner.__name__] = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        finally:
            signal.alarm(0)
        if number % 50 == 0:
            print(f"{number} of {len(owners)} config classes, {len(builds)} models built", flush=True)
    return builds, failures


def unread_fields(builds: Mapping[str, dict[str, Any]]) -> set[tuple[str, str]]:
    """(config class, field) that changes nothing in any build, and that in one of them no other class reads."""
    read, unread = set(), set()
    for build in builds.values():
        built = {one.__name__ for one in build["classes"]}
        files = {getsourcefile(modules[one.__module__]) for one in build["classes"]}
        elsewhere = {name for file in files if file for name in read_elsewhere(file, built)}
        for place, changed in build["governs"].items():
            if changed:
                read.add(place)
            elif place[1] not in elsewhere:
                unread.add(place)
    return unread - read


def literals(build: Mapping[str, Any], keys: Mapping[str, str]) -> list[dict[str, str]]:
    """Activations that no field governs: of modules, and in functional calls."""
    scopes: dict[str, list[str]] = defaultdict(list)
    for scope, kind in build["own"].items():
        scopes[keys.get(kind, kind)].append(scope)
    found = [
        {"variant": variant, "scope": _some(places), "reason": "the model's code names it; no field of the config does"}
        for variant, places in scopes.items()
    ]
    built = {one.__name__ for one in build["classes"]}
    for file in {getsourcefile(modules[one.__module__]) for one in build["classes"]}:
        for name, places in functional(file, built).items() if file else ():
            scope = _some([place.partition(" ")[0] for place in places])
            found.append({"variant": name, "scope": scope, "reason": f"called in {_some(places)}"})
    return found


def literals_of_source(owner: type[PreTrainedConfig]) -> list[dict[str, str]]:
    """Functional calls in the code of a model that cannot be built here, heads left out."""
    config = Path(str(modules[owner.__module__].__file__))
    file = config.with_name(config.name.replace("configuration_", "modeling_"))
    if not file.is_file():
        return []
    named = {one.name for one in _classes_of(str(file)) if not re.search(r"Head|For[A-Z]", one.name)}
    return [
        {
            "variant": variant,
            "scope": _some([place.partition(" ")[0] for place in places]),
            "reason": f"called in {_some(places)}; the model was not built",
        }
        for variant, places in functional(str(file), named).items()
    ]


def _options(build: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `options` in all files of a build."""
    fields = {name for _, name in build["governs"]}
    files = {getsourcefile(modules[one.__module__]) for one in build["classes"]}
    return {name: one for file in files if file for name, one in options(file, fields).items()}


def _some(places: list[str]) -> str:
    """The first three of many places."""
    names = list(dict.fromkeys(places))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _entry(
    name: str, owner: type[PreTrainedConfig], known: dict[str, Any], unread: set[tuple[str, str]]
) -> dict[str, Any]:
    """Fields of one model type, without what says nothing."""
    fields = {}
    for key, one in known["fields"].items():
        values = dict(one["values"])
        reason = ""
        if values:
            reason = REASONS.get(key) or REASONS.get(name) or f"{owner.__name__} rewrites the value"
        field = {"default": one["default"], "values": values, "reason": reason}
        if len(values) > MOST_REWRITES and len(set(values.values())) == 1:
            field = {**field, "values": {}, "always": next(iter(values.values()))}
        field["overridden_by"] = one.get("overridden_by", "")
        entry = {k: v for k, v in field.items() if v not in (None, "", {})}
        if (owner.__name__, key) in unread and not one.get("overridden_by"):
            entry["read"] = False
        fields[key] = entry
    return {k: v for k, v in {**known, "fields": fields}.items() if v}


def write_differences() -> None:
    """The largest difference of every two variants between -12 and 12, and where it is."""
    x = np.linspace(-12, 12, 240_001)
    names = [name for name, formula in FORMULAS.items() if formula.arity == 1 and name not in NOT_COMPARED]
    values = {name: variant(name).value(x) for name in names}
    pairs = {}
    for one, other in combinations(names, 2):
        apart = np.abs(values[one] - values[other])
        at = int(apart.argmax())
        pairs[f"{one} {other}"] = [float(f"{apart[at]:.6g}"), float(f"{x[at]:.6g}")]
    note = "Largest |a - b| for x between -12 and 12 in steps of 1e-4, and that x; by parity.functions in float64."
    document = {"provenance": {"evidence": "measured here", "note": note}, "pairs": pairs}
    (KNOWLEDGE / "differences.json").write_text(json.dumps(document, indent=0) + "\n")


def main() -> None:
    """Measures all and writes the file."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")

    def give_up(_signal: int, _frame: object) -> None:
        raise GivenUp

    signal.signal(signal.SIGALRM, give_up)
    write_differences()
    keys = activation_keys()
    owners = config_classes()
    builds, failures = build_all(owners)
    unread = unread_fields(builds)
    entries: dict[str, dict[str, Any]] = {}
    for owner, names in owners.items():
        known = config_knowledge(owner)
        for name in names:
            entry = _entry(name, owner, known, unread)
            if owner.__name__ in builds:
                entry["literals"] = literals(builds[owner.__name__], keys)
                entry["fields"] = {**_options(builds[owner.__name__]), **entry.get("fields", {})}
            elif owner in MODEL_MAPPING:
                entry["literals"] = literals_of_source(owner)
            read = SOURCE_READ.get(name, {})
            entry["literals"] = [*entry.get("literals", []), *read.get("literals", [])]
            for key, more in read.get("fields", {}).items():
                entry["fields"][key] |= more
            entries[name] = {key: value for key, value in entry.items() if value}
    head = {
        "library": "transformers",
        "version": transformers.__version__,
        "evidence": "measured here",
        "note": "Made by scripts/make_scan_knowledge.py. Fields, defaults, rewrites and what governs which module are "
        "measured; functional calls, and what reads a field in a head, are read in the source.",
        "built": len(builds),
        "not_built": failures,
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(entries.items()))
    top = f' "provenance": {json.dumps(head)},\n "activations": {json.dumps(keys)},\n'
    TARGET.write_text(f'{{\n{top} "models": {{\n{lines}\n }}\n}}\n')
    print(f"{len(entries)} model types, {len(builds)} models built, {len(unread)} fields that nothing reads")


if __name__ == "__main__":
    main()
