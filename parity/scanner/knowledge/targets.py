"""What a deployment target computes for an activation of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from parity.errors import InputError
from parity.scanner.knowledge.files import data
from parity.scanner.model import ActivationUse

Status = Literal["same", "differs", "unknown"]

ASSUMED: Final = "assumed"
"""Evidence of what only a name speaks for."""

UNCHECKED: Final = "assumed from the name, neither measured nor read in its source"
"""The same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one target does with one activation.

    Attributes:
        target: Name of the target.
        status: ``same`` or ``differs`` from what the model computes, or ``unknown``.
        variant: What the target computes; None when unknown.
        version: Version of the target that this holds for.
        evidence: ``measured here``, ``source read``, ``documented``, or ``assumed`` where only a name speaks for it.
        note: Why, in a sentence.
        fix: The setting that mends a difference; empty where there is none.
    """

    target: str
    status: Status
    variant: str | None
    version: str
    evidence: str
    note: str = ""
    fix: str = ""


def target_names() -> list[str]:
    """Names of all targets."""
    return list(data("targets")["targets"])


@cache
def _by_name() -> Mapping[str, str]:
    entries = data("targets")["targets"]
    return {alias: name for name, entry in entries.items() for alias in (name, *entry["aliases"])}


def resolved(names: Sequence[str]) -> list[str]:
    """Targets by the names that a user gave, each once.

    Raises:
        InputError: There is no such target.
    """
    known = _by_name()
    for name in names:
        if name.lower() not in known:
            raise InputError.unknown("target", name, target_names())
    return list(dict.fromkeys(known[name.lower()] for name in names))


def answer(target: str, use: ActivationUse, model_type: str) -> Answer:
    """What ``target`` computes where the model computes ``use``."""
    about = data("targets")["targets"][target]
    entry = next((one for one in about["entries"] if _fits(one, use, model_type)), about["otherwise"])
    computes = use.variant if entry["computes"] == "same" else entry["computes"]
    status: Status = "unknown" if None in (computes, use.variant) else "same" if computes == use.variant else "differs"
    if _same_but_gated(computes, use.variant):
        status, computes = "same", use.variant
    note = entry.get("note", "")
    if entry["evidence"] == ASSUMED:
        note = f"{note}; {UNCHECKED}" if note else UNCHECKED
    return Answer(
        target=target,
        status=status,
        variant=computes,
        version=entry.get("version", about["version"]),
        evidence=entry["evidence"],
        note=note,
        fix=entry.get("fix", "") if status == "differs" else "",
    )


def measurements(target: str) -> list[tuple[str, str]]:
    """Functions of a target with the variant that each is known to compute.

    They are callables, as ``module:name``, or implementations that the suite measures, as ``adapter/implementation``.
    """
    return list(data("targets")["targets"][target].get("measure", {}).items())


GATED = {"geglu_erf": "gelu_erf", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}
"""The function that gates, by gated variant."""


def _same_but_gated(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and GATED.get(one, one) == GATED.get(other, other)


def _fits(entry: Mapping[str, Any], use: ActivationUse, model_type: str) -> bool:
    return (
        ("value" not in entry or use.value in entry["value"])
        and ("variant" not in entry or use.variant in entry["variant"])
        and ("model_type" not in entry or model_type in entry["model_type"])
    )
