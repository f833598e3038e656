"""What every report is made of: findings, and the words for verdicts and severities (the JSON contract)."""

import math
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from numbers import Integral, Real
from typing import Any, Final, Literal, get_args

SCHEMA: Final = "framework-parity/1"

Verdict = Literal["pass", "mismatch", "inconclusive", "error"]
Severity = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""The worst first."""

RULES: Final = (
    *("activation-variant", "activation-parameter", "activation-unknown", "normalization-epsilon"),
    *("normalization-mode", "normalization-form", "nondeterminism", "precision", "weights", "attention-scale"),
    *("attention-mask", "softmax-axis", "pooling-divisor", "resize-coordinates", "padding", "rounding-mode"),
    *("recurrent-form", "rotary-form", "overflow", "shape", "missing-output", "graph-optimizer", "batch-dependence"),
    "unexplained",
)
"""Kinds of findings of a comparison of two models."""

SCAN_RULES: Final = (
    *("activation-variant", "config-conflict", "config-unknown-activation", "config-ignored-field", "target-differs"),
    "optimizer-risk",
)
"""Kinds of findings of a scan."""

EXIT_CODES: Final[Mapping[Verdict, int]] = {"pass": 0, "mismatch": 1, "inconclusive": 3, "error": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault.

    Attributes:
        rule: Its kind, from the list in the JSON contract.
        severity: ``error`` decides the verdict, ``warning`` is worth reading, ``note`` explains.
        message: What, where, by how much, against which limit.
        fix: What to change, as one can type it; empty where nothing is known.
        location: Places by side: ``reference`` and ``candidate``; a name, or a mapping with ``scope``, ``site``,
            ``tensor``, ``source`` and further ``names``.
        expected: Variant or value on the reference side.
        observed: Variant or value on the candidate side.
        evidence: The numbers behind it.
        impact: ``outputs``: for each one its error as it is and with this cause alone mended, and the share of the
            error that goes away; ``reason`` in its place where that failed; empty where it was not tried.
    """

    rule: str
    severity: Severity
    message: str
    fix: str = ""
    location: Mapping[str, Any] = field(default_factory=dict)
    expected: str | None = None
    observed: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    impact: Mapping[str, Any] = field(default_factory=dict)


class Report:
    """What every report is beside its fields: shown by a notebook as its page, or as text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # By name: reports are made below the layer that shows them.
        return str(import_module("parity.report.notebook").html_of(self))


def worst_verdict(findings: Iterable[Finding], *, engine_failed: bool, compared: int) -> Verdict:
    """The verdict that findings add up to. A mismatch stands whatever else failed; nothing compared is never a pass."""
    if any(finding.severity == "error" for finding in findings):
        return "mismatch"
    if engine_failed:
        return "error"
    return "pass" if compared else "inconclusive"


def environment(versions: Mapping[str, Mapping[str, str]], threads: int) -> dict[str, Any]:
    """What a report says about where it was made."""
    return {
        "python": platform.python_version(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "threads": threads,
        "adapters": {name: dict(found) for name, found in versions.items()},
    }


def counted(number: int, what: str) -> str:
    """``number`` of something, in words: 1 warning, 2 warnings."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def sentence(text: str) -> str:
    """The text with a full stop, where it does not end a sentence already."""
    text = text.rstrip(" :")
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def to_json(value: Any) -> Any:
    """Dataclasses and containers as plain JSON values; NaN and infinities, which JSON lacks, as strings."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(one) for one in value]
    return _scalar(value)


def _scalar(value: Any) -> bool | int | float | str | None:
    """One number or string; those of NumPy register with the abstract types of `numbers`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    return str(float(value)) if isinstance(value, Real) else str(value)
