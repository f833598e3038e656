"""From measurements to findings: what is a fault, what is worth a warning, and how it is said."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from parity.errors import EngineError
from parity.findings import SEVERITIES, Finding, Severity
from parity.inputs import CORE
from parity.measure.activation import Profile, Row

ACCURACY_ULP: Final[Mapping[tuple[str, int], float]] = {
    ("exact", 16): 1.0,
    ("exact", 64): 1.0,
    ("kernel", 16): 1.0,
    ("kernel", 64): 6.0,
    ("composed", 16): 4.0,
    ("composed", 64): 8.0,
}
"""Largest honest error of a class at |x| <= 20, in dtypes of up to so many bits: of ``exact`` in ulp at the exact
result, else at max(|x|, |y|). Measured on torch 2.13, TensorFlow 2.21, JAX 0.10.2, ONNX Runtime 1.32: the largest
there is about half of each."""

GRADIENT_ULP: Final[Mapping[int, float]] = {16: 10.0, 64: 32.0}
"""Likewise of gradients, in ulp at max(|gradient|, 1): a derivative is a chain of more steps."""


TAIL_KEPT: Final[Mapping[str, str]] = {
    "gelu_erf": "Written as 0.5 * x * erfc(-x / sqrt(2)) the same function keeps its tail.",
    "gelu_tanh": "Written as x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3)) the same function keeps its tail.",
}
"""By variant, a form of it that does not cancel."""

KEEP_SMALL = "Keep inputs below that, or compute this function in float32."

INFINITE_INPUTS = "It matters where a mask puts infinities into an activation: put a large finite number there."

FLOAT32_INSIDE = "Constants inside it are float32: take it for no more accurate than float32."


def _float32_inside(profile: Profile, error: float) -> bool:
    """Whether a float64 result is as far off as float32 constants put it."""
    return profile.dtype == "float64" and 2.0**18 < error < 2.0**31


def _width(profile: Profile) -> int:
    return 16 if profile.dtype in ("float16", "bfloat16") else 64


def findings_of(profiles: Iterable[Profile]) -> list[Finding]:
    """All findings on the measured implementations, one for each kind of fault of each implementation."""
    findings = []
    ordered = sorted(profiles, key=lambda profile: (profile.adapter, profile.implementation))
    for _, group in groupby(ordered, key=lambda profile: (profile.adapter, profile.implementation)):
        same = list(group)
        for check in CHECKS:
            hits = [(profile, said) for profile in same if (said := check(profile))]
            if hits:
                findings.append(_merged(check.__name__, hits))
    return findings


def judged(profiles: Iterable[Profile]) -> dict[tuple[str, str, str], str]:
    """The status of each measurement by adapter, implementation and dtype."""
    statuses = {}
    for profile in profiles:
        severities = {said.severity for check in CHECKS if (said := check(profile))}
        status = "mismatch" if "error" in severities else "warning" if "warning" in severities else "pass"
        statuses[profile.adapter, profile.implementation, profile.dtype] = status
    return statuses


def finding_of_failure(adapter: str, begun: tuple[str, str, str] | None, error: EngineError) -> Finding:
    """The finding for a worker that crashed, hung or refused, and what it was at."""
    at = f" while measuring {begun[0]} in {begun[1]}" if begun else ""
    return Finding(
        rule="unexplained",
        severity="warning",
        message=f"{error.message}{at and ' It ended' + at + '.'}",
        fix=error.hint,
        location={"candidate": f"{adapter}: {begun[0]}" if begun else adapter},
        evidence={"status": error.status},
    )


def finding_of_refusal(row: Row) -> Finding:
    """The finding for an implementation that gave nothing to measure in a dtype that its adapter lists."""
    return Finding(
        rule="missing-output",
        severity="warning",
        message=f"{row.implementation} gives nothing that can be measured in {row.dtype} ({row.reason}).",
        location={"candidate": f"{row.adapter}: {row.implementation}"},
        expected=row.declared,
        evidence={"kind": "refused", "dtype": row.dtype},
    )


def _merged(kind: str, hits: list[tuple[Profile, Finding]]) -> Finding:
    """One finding for an implementation from those of its dtypes; what is said alike is said once."""
    hits.sort(key=lambda hit: SEVERITIES.index(hit[1].severity))
    profile, first = hits[0]
    said: dict[str, list[str]] = {}
    for other, finding in hits:
        said.setdefault(finding.message, []).append(other.dtype)
    message = "; ".join(f"{phrase} in {', '.join(dtypes)}" for phrase, dtypes in said.items())
    evidence: dict[str, Any] = {"kind": kind} | {other.dtype: dict(finding.evidence) for other, finding in hits}
    return replace(first, message=f"{profile.implementation} {message}.", evidence=evidence)


def _finding(
    profile: Profile, rule: str, severity: Severity, message: str, *, fix: str = "", **evidence: Any
) -> Finding:
    """A finding in one dtype; ``message`` is the predicate of a sentence that `_merged` completes."""
    return Finding(
        rule=rule,
        severity=severity,
        message=message,
        fix=fix,
        location={"candidate": f"{profile.adapter}: {profile.implementation}"},
        expected=profile.declared,
        observed=profile.identified,
        evidence=evidence,
    )


def another_variant(profile: Profile) -> Finding | None:
    """The implementation is not the variant that it declares."""
    if profile.identified == profile.declared:
        return None
    if profile.identified:
        message = f"declares {profile.declared} and computes {profile.identified}"
        return _finding(profile, "activation-variant", "error", message, reason=profile.reason)
    message = f"declares {profile.declared} and computes no known variant ({profile.reason})"
    return _finding(profile, "activation-unknown", "error", message, nearest=profile.nearest, reason=profile.reason)


def not_finite_at_core(profile: Profile) -> Finding | None:
    """NaN or infinity where activations live."""
    at = profile.nonfinite_core
    if at is None:
        return None
    message = f"is not finite at x = {at:.6g}, within |x| <= {CORE:g}"
    return _finding(profile, "overflow", "error", message, x=at)


def gradient_not_finite_at_core(profile: Profile) -> Finding | None:
    """The same for the gradient: training suffers, what is exported and served does not."""
    at = profile.gradient_core
    if at is None:
        return None
    message = f"has a gradient that is not finite at x = {at:.6g}, within |x| <= {CORE:g}"
    return _finding(profile, "overflow", "warning", message, x=at)


def overflows_beyond(profile: Profile) -> Finding | None:
    """NaN or infinity at a large finite input."""
    at = profile.nonfinite_beyond
    if at is None:
        return None
    return _finding(profile, "overflow", "warning", f"is not finite from |x| = {abs(at):.6g}", fix=KEEP_SMALL, x=at)


def gradient_overflows_beyond(profile: Profile) -> Finding | None:
    """The same for the gradient."""
    at = profile.gradient_beyond
    if at is None:
        return None
    message = f"has a gradient that is not finite from |x| = {abs(at):.6g}"
    return _finding(profile, "overflow", "warning", message, fix=KEEP_SMALL, x=at)


def wrong_at_special(profile: Profile) -> Finding | None:
    """Wrong values at infinities and NaN."""
    if not profile.special:
        return None
    said = ", ".join(f"{result} at {x} (exact: {exact})" for x, exact, result in profile.special)
    special = [list(one) for one in profile.special]
    return _finding(profile, "overflow", "warning", f"gives {said}", fix=INFINITE_INPUTS, special=special)


def less_accurate_than_its_class(profile: Profile) -> Finding | None:
    """Larger errors than the class of the implementation explains."""
    limit = ACCURACY_ULP[profile.accuracy, _width(profile)]
    near = profile.max_ulp if profile.accuracy == "exact" else profile.scaled_ulp
    error, at = max(near, profile.beyond_ulp)
    if error <= limit:
        return None
    message = f"is off by {error:.3g} ulp at x = {at:.6g} (class {profile.accuracy}: {limit:g})"
    fix = FLOAT32_INSIDE if _float32_inside(profile, error) else ""
    return _finding(profile, "precision", "warning", message, fix=fix, max_ulp=error, x=at, limit=limit)


def gradient_less_accurate(profile: Profile) -> Finding | None:
    """A gradient that is off by more than the class explains, or is that of another function."""
    if profile.gradient_ulp is None:
        return None
    error, at = profile.gradient_ulp
    limit = GRADIENT_ULP[_width(profile)]
    if error <= limit:
        return None
    message = f"has a gradient off by {error:.3g} ulp at x = {at:.6g} (allowed: {limit:g})"
    fix = FLOAT32_INSIDE if _float32_inside(profile, error) else ""
    return _finding(profile, "precision", "warning", message, fix=fix, max_ulp=error, x=at, limit=limit)


def loses_the_tail(profile: Profile) -> Finding | None:
    """Zero where the exact result is small and can be represented: cancellation, as in 1 + erf and in exp(x) - 1."""
    at = profile.lost_below
    if at is None:
        return None
    message = f"gives 0 at x = {at:.6g} though the exact result is not 0: its digits cancel"
    return _finding(profile, "precision", "note", message, fix=TAIL_KEPT.get(profile.declared, ""), x=at)


def flushes_subnormals(profile: Profile) -> Finding | None:
    """Subnormal numbers treated as zero."""
    return _finding(profile, "precision", "note", "flushes subnormal numbers to 0") if profile.flushes else None


CHECKS: Final[tuple[Callable[[Profile], Finding | None], ...]] = (
    another_variant,
    not_finite_at_core,
    gradient_not_finite_at_core,
    wrong_at_special,
    overflows_beyond,
    gradient_overflows_beyond,
    less_accurate_than_its_class,
    gradient_less_accurate,
    loses_the_tail,
    flushes_subnormals,
)
"""In the order in which they are told."""
