"""Cause: another activation, or another parameter of it."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from parity.adapter import Array
from parity.align.alignment import Alignment
from parity.align.view import GraphView
from parity.diagnose import fixes
from parity.diagnose.case import Case, Hypothesis, Part, Repair, put
from parity.diagnose.chains import Activation, active, chains_to
from parity.dtypes import FLOAT_DTYPES
from parity.edits import ReplaceActivation
from parity.errors import InputError, ParityError
from parity.functions import Variant, parse, variant
from parity.functions.probing import sweep
from parity.graph import LAYOUT
from parity.sides import Side

SAME: Final = 1e-5
"""Largest difference on the sweep, relative to the value or to 1, up to which two chains are one function: truncated
constants and float32 roundings of them stay below."""

SAME_NARROW: Final = 0.02
"""Likewise for a 16-bit type, whose constants are rounded more coarsely; then the identified variants decide."""

MOST_DEGREES: Final = 4
"""Degree up to which a function of no name is told as a polynomial."""

FAR: Final = 6.0
"""Greatest input of the sweep that the evidence shows: beyond, activations are 0 or straight lines."""

SHOWN: Final = 121
"""Inputs of the sweep that the evidence shows at most."""

POWERS: Final = ("", " x", " x²", " x³", " x⁴")

LIKELY: Final = (
    *("gelu_tanh", "gelu_erf", "quick_gelu", "silu", "relu", "identity", "relu6", "hard_swish", "leaky_relu", "elu"),
    *("mish", "tanh", "sigmoid", "hard_sigmoid", "softplus"),
)
"""Variants that are tried in the place of an activation whose counterpart cannot be looked at by itself."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two activations that are one another's counterpart and not the same function.

    Attributes:
        reference: The reference's.
        candidate: The candidate's.
        largest: Their largest difference on the sweep, at input ``worst``.
        worst: Where it is.
    """

    reference: Activation
    candidate: Activation
    largest: float
    worst: float

    @property
    def rule(self) -> str:
        """Another parameter of the same formula, or another formula."""
        ours, theirs = self.reference.variant, self.candidate.variant
        same_formula = ours is not None and theirs is not None and ours.name == theirs.name
        return "activation-parameter" if same_formula else "activation-variant"


def differences(
    views: tuple[GraphView, GraphView],
    alignment: Alignment,
    ours: Sequence[Activation],
    theirs: Sequence[Activation],
) -> list[Difference]:
    """Counterparts that differ, in the reference's order."""
    return [found for one, two in counterparts(views, alignment, ours, theirs) if (found := compare(one, two))]


def counterparts(
    views: tuple[GraphView, GraphView],
    alignment: Alignment,
    ours: Sequence[Activation],
    theirs: Sequence[Activation],
) -> Iterator[tuple[Activation, Activation]]:
    """Activations that are one another's: by the tensor that they make, by that which they read, and else by order."""
    reference, candidate = views
    left = list(theirs)
    waiting = []
    for one in ours:
        two = _by_tensor(reference, candidate, alignment, one, left)
        if two is None:
            waiting.append(one)
        else:
            left.remove(two)
            yield one, two
    telling = [one for one in waiting if one.telling]
    others = [two for two in left if two.telling]
    if len(telling) == len(others):
        yield from zip(telling, others, strict=True)


def _by_tensor(
    reference: GraphView, candidate: GraphView, alignment: Alignment, one: Activation, theirs: Sequence[Activation]
) -> Activation | None:
    for end in ("target", "source"):
        mine = {getattr(one.chain, end), reference.origin(getattr(one.chain, end))}
        partners = {alignment.of_reference[name].candidate for name in mine if name in alignment.of_reference}
        for two in theirs:
            yours = {getattr(two.chain, end), candidate.origin(getattr(two.chain, end))}
            if partners & yours:
                return two
    return None


def compare(one: Activation, two: Activation) -> Difference | None:
    """The difference of two activations; None where they are the same function up to rounded constants.

    Two functions of no name are none either: a norm's root is one, and has causes of its own.
    """
    if not (one.telling or two.telling):
        return None
    same_name = one.variant is not None and one.name == two.name
    if one.values is None or two.values is None:
        unsure = one.variant is None or two.variant is None
        return None if unsure or one.name == two.name else Difference(one, two, math.nan, math.nan)
    if one.dtype != two.dtype:
        return None if one.name == two.name else Difference(one, two, math.nan, math.nan)
    fine = np.isfinite(one.values) & np.isfinite(two.values)
    gap = np.where(fine, np.abs(one.values - two.values) / np.maximum(1.0, np.abs(one.values)), 0.0)
    worst = int(np.argmax(gap))
    narrow = FLOAT_DTYPES[one.dtype].itemsize == 2
    if gap[worst] <= SAME or (same_name and (narrow or gap[worst] <= SAME_NARROW)):
        return None
    return Difference(one, two, float(gap[worst]), float(sweep(one.dtype)[worst]))


def examine(case: Case, known: Sequence[Difference]) -> Iterator[Hypothesis]:
    """The differing activations that lie in the region, each repaired by the reference's own function."""
    names = {site.name for site in case.candidate.sites}
    for difference in known:
        if difference.candidate.chain.sites[-1].name in names:
            yield hypothesis(case.reference.side, difference, case.candidate.framework)


def examine_fused(case: Case, ours: Sequence[Activation]) -> Iterator[Hypothesis]:
    """Activations that the candidate's operators name, and likely ones, in the place of each of the reference's.

    For candidates whose own one cannot be told from what is around it: fused with a product of matrices, or not there.
    """
    own = {site.name for site in case.reference.sites}
    others = dict.fromkeys((*_inside(case.candidate), *map(variant, LIKELY)))
    for one in ours:
        if one.telling and not one.chain.biases and {site.name for site in one.chain.sites} <= own:
            yield from (_injected(case, one, other) for other in others if other != one.variant)


def _inside(part: Part) -> Iterator[Variant]:
    """Activations that a region's operators name as a part of themselves."""
    for site in part.sites:
        with contextlib.suppress(InputError):
            yield parse(str(site.attributes.get("activation", "")))


def _injected(case: Case, one: Activation, other: Variant) -> Hypothesis:
    assert one.variant is not None  # noqa: S101 – only known activations are replaced
    parameter = other.name == one.variant.name
    return Hypothesis(
        rule="activation-parameter" if parameter else "activation-variant",
        message=f"the candidate computes {other if other.name != 'identity' else 'no activation'} where the reference "
        f"computes {one.name}, fused with what is around it",
        expected=str(one.variant) if parameter else one.variant.name,
        observed=str(other) if parameter else other.name,
        fix=fixes.activation(case.candidate.framework, one.variant, None),
        places={
            "reference": [site.name for site in one.chain.sites],
            "candidate": [site.name for site in case.candidate.sites],
        },
        injection=_replacement(one, other),
    )


def examine_unknown(case: Case, ours: Sequence[Activation]) -> Iterator[Hypothesis]:
    """An activation that is all that the reference's region does, where the candidate only does arithmetic."""
    own = {site.name for site in case.reference.sites if site.kind not in LAYOUT}
    alone = (one for one in ours if own == {site.name for site in one.chain.sites if site.kind not in LAYOUT})
    one = next((one for one in alone if one.telling), None)
    starts = {pair.candidate for pair in case.region.boundary}
    found = (two for two in chains_to(case.candidate.view, case.candidate.target) if two.source in starts)
    chain = next(found, None)
    if one is None or one.variant is None or chain is None or active(chain):
        return
    formula = _polynomial(case.candidate.value(chain.source), case.candidate.value(chain.target))
    yield Hypothesis(
        rule="activation-variant",
        message=f"the candidate computes {formula}, no known activation, where the reference computes {one.name}",
        expected=one.variant.name,
        observed="unknown",
        fix=fixes.activation(case.candidate.framework, one.variant, chain),
        places={
            "reference": [site.name for site in one.chain.sites],
            "candidate": [site.name for site in chain.sites],
        },
        repair=put(case.candidate.target, case.exact),
        edits=[ReplaceActivation(source=chain.source, target=chain.target, variant=str(one.variant))],
    )


def _polynomial(x: Array, y: Array) -> str:
    """What is computed as a polynomial of x, of the lowest degree that fits; in words where none does."""
    x, y = (np.asarray(one, np.float64).reshape(-1) for one in (x, y))
    for degree in range(1, MOST_DEGREES + 1) if x.size == y.size else ():
        fitted = np.polynomial.Polynomial.fit(x, y, degree)
        if np.abs(fitted(x) - y).max() <= SAME * max(1.0, float(np.abs(y).max())):
            factors = np.asarray(fitted.convert().coef)
            terms = [f"{factor:.4g}{POWERS[k]}" for k, factor in enumerate(factors) if abs(factor) > SAME]
            return " + ".join(reversed(terms)).replace("+ -", "- ")
    return "another function"


def _replacement(one: Activation, other: Variant) -> Repair:
    def inject(part: Part, overrides: dict[str, Array]) -> None:
        x = part.value(one.chain.source, overrides)
        overrides[one.chain.target] = other.value(x).reshape(x.shape)

    return inject


def hypothesis(reference: Side | None, difference: Difference, framework: str = "") -> Hypothesis:
    """The hypothesis that this difference is the cause.

    Args:
        reference: The reference's session; None for a trace.
        difference: Which.
        framework: The candidate's adapter; empty for a trace.
    """
    ours, theirs = difference.reference, difference.candidate
    largest, worst = _apart(difference)
    apart = "" if math.isnan(largest) else f" (largest difference {largest:.2g} at x = {worst:.3g})"
    return Hypothesis(
        rule=difference.rule,
        message=f"the candidate computes {theirs.name} where the reference computes {ours.name}{apart}",
        expected=_told(ours, difference.rule),
        observed=_told(theirs, difference.rule),
        fix=_fix(difference, framework),
        places={
            "reference": [site.name for site in ours.chain.sites],
            "candidate": [site.name for site in theirs.chain.sites],
        },
        repair=None if reference is None else _repair(reference, difference),
        evidence={"probe_max_abs": largest, "probe_worst_x": worst} | _by_input(difference),
        edits=_edits(difference),
    )


def _edits(difference: Difference) -> tuple[ReplaceActivation, ...]:
    """The candidate's activation replaced by the reference's, where that has a name."""
    chain, ours = difference.candidate.chain, difference.reference
    if ours.variant is None:
        return ()
    replacement = ReplaceActivation(
        source=chain.source,
        target=chain.target,
        variant=str(ours.variant),
        scale=difference.candidate.scale,
        biases=chain.biases,
    )
    return (replacement,)


def _told(one: Activation, rule: str) -> str:
    """The variant's name, with its parameters where these are what differs."""
    return one.name if rule == "activation-parameter" or one.variant is None else one.variant.name


def _apart(difference: Difference) -> tuple[float, float]:
    """The largest difference of the two on the sweep, and at which input; NaN where that is not known."""
    ours, theirs = difference.reference, difference.candidate
    if ours.values is None or theirs.values is None or ours.dtype != theirs.dtype:
        return math.nan, math.nan
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.abs(ours.values - theirs.values), nan=0.0, posinf=0.0)
    at = int(np.argmax(gap >= (1 - SAME) * gap.max()))
    return float(gap[at]), float(sweep(ours.dtype)[at])


def _by_input(difference: Difference) -> dict[str, Any]:
    """As ``sweep``: some inputs, and how far the two are apart at each; nothing where that is not known."""
    ours, theirs = difference.reference, difference.candidate
    if ours.values is None or theirs.values is None or ours.dtype != theirs.dtype:
        return {}
    x = sweep(ours.dtype).astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = theirs.values - ours.values
    shown = np.flatnonzero((np.abs(x) <= FAR) & np.isfinite(error))
    shown = shown[:: max(1, -(-shown.size // SHOWN))]
    if not shown.size:
        return {}
    return {
        "sweep": {
            "x": [float(f"{one:.6g}") for one in x[shown]],
            "error": [float(f"{one:.4g}") for one in error[shown]],
        }
    }


def _fix(difference: Difference, framework: str) -> str:
    ours, theirs = difference.reference, difference.candidate
    if ours.variant is None:
        return "Use the reference's own function there."
    said = fixes.activation(framework, ours.variant, theirs.chain)
    if difference.rule == "activation-parameter" or theirs.variant is None:
        return said
    return f"{said} If the weights were trained with {theirs.name}, the reference is wrong."


def _repair(reference: Side, difference: Difference) -> Repair:
    ours, theirs = difference.reference.chain, difference.candidate.chain
    shape, scale = difference.reference.shape, difference.candidate.scale / difference.reference.scale

    def repair(part: Part, overrides: dict[str, Array]) -> None:
        x = part.value(theirs.source, overrides)
        for name in theirs.biases:
            x = x + part.weight(name).astype(np.float64)
        zeros = {name: np.zeros(1) for name in ours.biases}
        try:
            given = {ours.source: x.reshape(shape), **zeros}
            made = reference.evaluate(difference.reference.names, given, [ours.target])[ours.target]
        except ParityError:
            return
        overrides[theirs.target] = made.reshape(x.shape) * scale

    return repair
