"""Which function is this? Identification of a variant from inputs and outputs, below the rounding if need be.

Every registered variant is a hypothesis, ranked by likelihood under the noise model of `parity.functions.fitting`.
The first wins if

1. what it leaves looks like rounding in the data's dtype (`RESIDUAL_LIMIT`), with the constants inside the formula
where they
   belong up to truncation (`CONSTANT_TOLERANCE`): a truncated constant is the same variant; a swapped coefficient and a
   half-precision table are not;
2. every rival is told apart. With d = z_rival - z_winner and e = y - z_winner, both over the noise, the projection
   a = <e, d> / <d, d> is 0 if the winner is right and 1 if the rival is. Its standard error takes the residuals as
   independent (the heteroscedasticity-consistent estimator of H. White, Econometrica 48, 1980). On bfloat16 data the
   largest errors of erf and tanh are alike, and this projection still tells them apart by dozens of standard errors.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions.fitting import Data, Fit, Float64, fit, fit_constants, fit_parameters, smooth_share
from parity.functions.variants import FORMULAS, Variant, variant
from parity.ulps import ulp

RESIDUAL_LIMIT: Final = {2: 1.0, 4: 4.0, 8: 4.0}
"""Root mean square of the error, in ulp of the rounding scale, up to which the data are the variant and rounding, by
bytes of the dtype: a 16-bit ulp is as large as the variants are apart."""

LARGEST_RESIDUAL: Final = {2: 6.0, 4: 48.0, 8: 48.0}
"""Likewise the largest single error."""

FEWEST: Final = 4
"""Distinct inputs below which no function is told from another."""

SETTLED: Final = 1.0
"""The same, up to which a hypothesis leaves nothing that other parameters or, in a wide dtype, other constants would
explain."""

SEPARATION: Final = 6.0
"""Standard errors from the data to a rival from which the rival is told apart."""

BETWEEN: Final = 0.25
"""Coefficient from which data that separate two hypotheses sharply lie between them and are neither."""

CONSTANT_TOLERANCE: Final = 5e-4
"""Relative change of a constant that counts as its truncation: 0.7979 for the square root of 2/pi, 0.0447 for
0.044715."""

SMOOTH: Final = 0.45
"""Share of the error in a 16-bit dtype, smooth in the input, from which it is not rounding. Chains of operators in
float16 and bfloat16 were measured to leave up to 0.32, functions half an ulp away 0.5 and more."""

FEW: Final = 64
"""Elements below which the answer says how few they were."""

FAULTLESS: Final = 0.05
"""Residual in ulp of the rounding scale below which not even honest rounding is left: what there is says nothing."""

ROUNDS_ONCE: Final = 1e-3
"""Noise of intermediate results (beta) below which the data come from a kernel that rounds once."""

RANGE: Final = (2.0**-10, 64.0)
"""Magnitudes of inputs that say something on the variant: smaller ones tell the slope at 0 and no more, larger ones
overflow. Others are left out where enough of these are there."""

SAMPLES: Final = 8_192
"""Elements looked at, evenly spread over the sorted inputs."""

SHORTLIST: Final = 5
"""Hypotheses looked at closely, after a first look at one element in `FIRST_LOOK`."""

NAMED: Final = 4
"""Ambiguous variants named in a sentence; `Identification.ambiguous` holds all."""

FIRST_LOOK: Final = 16

STILL_IN: Final = 30.0
"""Deviance behind the best of the first look within which a hypothesis stays, however many others do."""

LOOKED_OVER: Final = 2**20
"""Elements among which the telling ones are sought; of larger arrays a random sample, so that time and memory are
bounded."""

UNSEEN: Final = 2.0**-12
"""Difference in ulp of the rounding scale that no data show."""

SAME_INSIDE: Final = {"gelu_clipped": "gelu_erf", "relu6": "relu", "threshold": "relu", "celu": "elu"}
"""Variants that coincide with a plainer one on part of the line or, with these parameters, on all of it; where the
data show no difference, the plainer one is meant – or the one that was asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identification:
    """What was found.

    Attributes:
        variant: The variant that the data are, with fitted parameters; None where nothing fits or the data cannot tell.
        nearest: The best hypothesis, whether it was accepted or not.
        reason: One sentence: why this one, or why none.
        residual_ulp: Root mean square error of ``nearest`` in ulp at max(1, |x|, |y|).
        max_residual_ulp: The largest such error, at input ``worst_x``.
        worst_x: Where it is (the gate's value for gated variants).
        runner_up: The best hypothesis of another formula.
        margin: Standard errors from the data to the runner-up, along the line from ``nearest`` to it.
        coefficient: Projection of the error on the difference to the runner-up; 0 says ``nearest``, 1 the runner-up.
        standard_error: Of the coefficient; infinite where the two coincide on these inputs.
        constants: Relative change of the constants inside the formula that the data ask for, by name.
        ambiguous: Variants that the data cannot tell from ``nearest``.
        undecided: Whether the data fit ``nearest`` and were not accepted only because they fit others, too.
        coincide: Variants that are the same as ``nearest`` on these inputs, which do not reach where they part.
        effective_bits: Significant bits of the data as an evaluation of ``nearest``: 24 for a faultless float32.
        smooth_share: Share of the squared error that is a smooth function of the input, in 16-bit dtypes; see
            `parity.functions.fitting.smooth_share`.
        count: Elements used.
    """

    variant: Variant | None
    nearest: Variant
    reason: str
    residual_ulp: float
    max_residual_ulp: float
    worst_x: float
    runner_up: Variant
    margin: float
    coefficient: float
    standard_error: float
    constants: Mapping[str, float]
    ambiguous: tuple[Variant, ...]
    undecided: bool
    coincide: tuple[Variant, ...]
    effective_bits: float
    smooth_share: float
    count: int


def identify(x: Any, y: Any, *, extra: Iterable[Variant] = ()) -> Identification:
    """Says which variant ``y`` is of ``x``.

    Args:
        x: Inputs of a floating dtype, shape (n,), or (n, 2) with value and gate for gated variants.
        y: Outputs, shape (n,); their dtype says how they were rounded.
        extra: Further hypotheses beside the registry with its default parameters, for example a declared variant; of
            hypotheses that coincide on these inputs one of them is named.

    Raises:
        InputError: Shapes or dtypes do not fit, or there is nothing finite to look at.
    """
    return Identifier(x).identify(y, extra=extra)


class Identifier:
    """Identification of many outputs of the same inputs: the exact values of every hypothesis are computed once.

    Args:
        x: Inputs as for `identify`.
    """

    def __init__(self, x: Any) -> None:
        self._x = _checked("x", np.asarray(x))
        self._values: dict[tuple[Variant, int], tuple[NDArray[np.intp], Float64]] = {}

    def identify(self, y: Any, *, extra: Iterable[Variant] = ()) -> Identification:
        """Says which variant ``y`` is of this identifier's inputs; see `identify`."""
        # Squares of errors overflow on extreme inputs: an infinite deviance is what such a hypothesis deserves.
        with np.errstate(all="ignore"):
            return self._identify(_checked("y", np.asarray(y)), extra)

    def _identify(self, y: NDArray[Any], extra: Iterable[Variant]) -> Identification:
        x = self._x
        arity = _arity(x, y)
        places = _places(x.reshape(-1, arity), y.reshape(-1))
        inputs = x.reshape(-1, arity)[places].astype(np.float64)
        outputs = y.reshape(-1)[places].astype(np.float64)
        data = Data.of(inputs[:, 0] if arity == 1 else inputs, outputs, _carried(x.dtype, y.dtype, inputs, outputs))
        hypotheses = [variant(name) for name, formula in FORMULAS.items() if formula.arity == arity]
        asked = [one for one in extra if one.arity == arity]
        hypotheses += [one for one in dict.fromkeys(asked) if one not in hypotheses]
        values = {one: self._value(one, places, data) for one in hypotheses}
        plain = _shortlist(values, data)
        tuned = _tuned(plain, data)
        best = _named(min(plain + tuned, key=lambda one: one.deviance), asked, data)
        # A default must be told apart from other defaults only: a formula with free numbers comes near to anything.
        rivals = plain + tuned if any(best is one for one in tuned) else plain
        if best.rms > _limit(data):
            best = _of_that_form(best, plain, data)
        others = [one for one in rivals if one.variant.name != best.variant.name]
        rivals = [one for one in others if not _coincides(one, best)]
        same = tuple(one.variant for one in others if _coincides(one, best))
        return _decide(best, sorted(rivals, key=lambda one: one.deviance), same, data)

    def _value(self, hypothesis: Variant, places: NDArray[np.intp], data: Data) -> Float64:
        known = self._values.get((hypothesis, len(places)))
        if known is None or not np.array_equal(known[0], places):
            known = places, hypothesis.value(data.x)
            self._values[hypothesis, len(places)] = known
        return known[1]


def _checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.name not in FLOAT_DTYPES:
        raise InputError(
            f"'{name}' has dtype {array.dtype.name}; identification needs one of {', '.join(FLOAT_DTYPES)}.",
            hint="Save the tensors as the model computed them.",
        )
    return array


def _arity(x: NDArray[Any], y: NDArray[Any]) -> int:
    if x.shape not in (y.shape, (*y.shape, 2)):
        raise InputError(
            f"'x' has shape {x.shape} and 'y' has shape {y.shape}; an elementwise function keeps the shape.",
            hint="For a gated variant x has one more axis, the last, of length two: value and gate.",
        )
    if y.size == 0:
        raise InputError(
            "'x' and 'y' are empty; there is nothing to identify.", hint="Save a few hundred elements or more."
        )
    return 1 if x.shape == y.shape else 2


def _places(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Positions to look at: finite, in `RANGE` if enough are, spread evenly over the sorted inputs."""
    some = np.arange(len(x))
    if len(x) > LOOKED_OVER:
        some = np.unique(np.random.default_rng(0).integers(0, len(x), LOOKED_OVER))
        x, y = x[some], y[some]
    sizes = np.abs(x.astype(np.float64))
    size, last = sizes.max(axis=1), x[:, -1].astype(np.float64)
    finite = np.isfinite(size) & np.isfinite(y.astype(np.float64))
    telling = finite & (size <= RANGE[1]) & (sizes[:, -1] >= RANGE[0])
    keep = np.flatnonzero(telling if telling.sum() >= 16 else finite)
    if keep.size == 0:
        raise InputError("No element of 'x' and 'y' is finite on both sides; there is nothing to identify.")
    # The same input twice is no second witness: a function gives it the same output.
    pairs = np.column_stack([x[keep].astype(np.float64), y[keep].astype(np.float64)])
    _, first = np.unique(pairs, axis=0, return_index=True)
    keep = keep[np.sort(first)]
    order = keep[np.argsort(last[keep], kind="stable")]
    return some[order[np.linspace(0, len(order) - 1, min(SAMPLES, len(order))).astype(np.intp)]]


def _carried(x: np.dtype[Any], y: np.dtype[Any], inputs: Float64, outputs: Float64) -> np.dtype[Any]:
    """The dtype whose rounding the outputs carry: the coarser of the two, or a 16-bit one saved as a wider one.

    Tensors are often widened to save them. If inputs and outputs all are numbers of a 16-bit dtype, they were of it.
    """
    coarser = max(x, y, key=lambda one: float(ulp(1.0, one)))
    if coarser.itemsize == 2 or len(outputs) < 16:
        return coarser
    for narrow in (FLOAT_DTYPES["bfloat16"], FLOAT_DTYPES["float16"]):
        if all((one.astype(narrow).astype(np.float64) == one).all() for one in (inputs, outputs)):
            return narrow
    return coarser


def _limit(data: Data) -> float:
    return RESIDUAL_LIMIT[data.dtype.itemsize]


def _shortlist(values: Mapping[Variant, Float64], data: Data) -> list[Fit]:
    """The hypotheses that fit best, in order. Of equals the one registered first, the plainer one, comes first."""
    step = FIRST_LOOK if len(data.y) >= 64 * FIRST_LOOK else 1
    some = data.every(step)
    first = sorted((fit(one, some, z=z[::step]) for one, z in values.items()), key=lambda one: one.deviance)
    # Where the inputs tell little, many are alike, and each of them is to be named.
    close = first[:SHORTLIST] + [one for one in first[SHORTLIST:] if one.deviance < first[0].deviance + STILL_IN]
    return sorted((fit(one.variant, data, z=values[one.variant]) for one in close), key=lambda one: one.deviance)


def _tuned(plain: list[Fit], data: Data) -> list[Fit]:
    """Formulas with fitted parameters: the best hypothesis, or every one where it explains too little.

    Where that is only one of the best's own constants, another formula must fit as well as it.
    """
    own = fit_parameters(plain[0], data)
    if any(one is not None and one.rms <= SETTLED for one in (plain[0], own)):
        return [own] if own else []
    constants = fit_constants(plain[0], data)
    settled = constants is not None and constants.rms <= SETTLED
    listed = {one.variant.name for one in plain}
    others = [
        fit(variant(name), data)
        for name, formula in FORMULAS.items()
        if formula.arity == data.x.ndim and formula.parameters and name not in listed
    ]
    tuned = [own, *(fit_parameters(one, data) for one in (*plain[1:], *others))]
    return [
        one
        for one in tuned
        if one is not None and (not settled or (one.rms <= SETTLED and one.variant.name not in SAME_INSIDE))
    ]


def _of_that_form(best: Fit, plain: list[Fit], data: Data) -> Fit:
    """Where nothing fits: the hypothesis that would fit with other constants inside, else the best as it is."""
    for one in plain:
        tuned = fit_constants(one, data)
        if tuned is not None and tuned.rms <= _limit(data):
            return one
    return best


def _coincides(one: Fit, other: Fit) -> bool:
    """Whether both have the same plainer form, or one is it, and these inputs do not reach where they part."""
    plainer = {SAME_INSIDE.get(name, name) for name in (one.variant.name, other.variant.name)}
    return len(plainer) == 1 and _alike(one, other)


def _named(best: Fit, asked: Iterable[Variant], data: Data) -> Fit:
    """The best fit, under the name of an ``asked`` variant or the plainer one where it coincides with it."""
    plain = SAME_INSIDE.get(best.variant.name)
    for name in (*asked, *([variant(plain)] if plain else ())):
        other = fit(name, data)
        if _alike(other, best):
            return other
    return best


def _alike(one: Fit, other: Fit) -> bool:
    """Whether the exact values differ by less than any rounding to the data's dtype shows."""
    return bool((np.abs(one.z - other.z) <= one.scale * UNSEEN).all())


def _decide(best: Fit, rivals: list[Fit], same: tuple[Variant, ...], data: Data) -> Identification:
    apart = [(rival, *_projection(best, rival)) for rival in rivals]
    runner_up, coefficient, error = apart[0]
    # In a 16-bit dtype a constant can be off by more than its truncation and stay below the rounding.
    tuned = fit_constants(best, data) if best.rms > SETTLED or data.dtype.itemsize == 2 else None
    chosen = tuned if tuned is not None and tuned.rms < best.rms else best
    relative = np.abs(chosen.error / chosen.scale)
    worst = int(np.argmax(relative))
    nominal = {**FORMULAS[best.variant.name].constants, **dict(best.variant.parameters)}
    result = Identification(
        variant=best.variant,
        nearest=best.variant,
        reason="",
        residual_ulp=best.rms,
        max_residual_ulp=float(np.max(np.abs(best.error / best.scale))),
        worst_x=float(np.atleast_1d(data.x[worst])[-1]),
        runner_up=runner_up.variant,
        margin=(1 - coefficient) / error,
        coefficient=coefficient,
        standard_error=error,
        constants={name: value / nominal[name] - 1 for name, value in chosen.changed.items()},
        ambiguous=tuple(
            rival.variant
            for rival, a, se in apart
            if se * SEPARATION > 1 - a and not _out_of_question(best, rival, data)
        ),
        undecided=False,
        coincide=same,
        effective_bits=_effective_bits(chosen, data),
        smooth_share=smooth_share(chosen, data) if data.dtype.itemsize == 2 else 0.0,
        count=len(data.y),
    )
    reason = _objection(result, chosen, data)
    if reason:
        return replace(result, variant=None, reason=reason)
    doubt = _doubt(result)
    if doubt:
        return replace(result, variant=None, reason=doubt, undecided=True)
    return replace(result, reason=_grounds(result, chosen))


def _grounds(result: Identification, chosen: Fit) -> str:
    """Why the best hypothesis is accepted."""
    changed = ", ".join(f"its {name} off by a factor of 1{change:+.2g}" for name, change in result.constants.items())
    rounded = f"with {changed} ({result.residual_ulp:.3g} ulp from the formula) " if changed else ""
    same = f"; here {' and '.join(map(str, result.coincide))} would look the same" if result.coincide else ""
    few = f"; these are only {result.count} elements" if result.count < FEW else ""
    told = f"{result.runner_up} is {result.margin:.3g} standard errors away"
    return f"{rounded}it leaves {chosen.rms:.2g} ulp of rounding; {told}{same}{few}"


def _projection(best: Fit, rival: Fit) -> tuple[float, float]:
    """Coefficient of the error on the difference rival - best, and its standard error."""
    # One element that is wildly different would otherwise carry the whole sum and hide what the others say.
    difference = np.clip((rival.z - best.z) / best.noise, -1e3, 1e3)
    error = np.clip(best.error / best.noise, -1e3, 1e3)
    power = float(np.sum(difference**2))
    if power == 0:
        return 0.0, math.inf
    coefficient = float(np.sum(error * difference)) / power
    rest = error - coefficient * difference
    # The noise model holds at the least what the last rounding adds: an exact hit does not make an element certain.
    return coefficient, math.sqrt(float(np.sum(difference**2 * np.maximum(rest**2, 1.0)))) / power


def _out_of_question(best: Fit, rival: Fit, data: Data) -> bool:
    """Whether the rival is far off by sheer size, whatever its projection."""
    return rival.rms > _limit(data) and rival.rms > 4 * best.rms


def _effective_bits(best: Fit, data: Data) -> float:
    """Bits of the dtype less those that the residual takes; honest rounding leaves a root mean square of 0.29 ulp."""
    bits = 1 - math.log2(float(ulp(1.0, data.dtype)))
    return bits - max(0.0, math.log2(max(best.rms, 1e-300) * math.sqrt(12)))


def _objection(result: Identification, chosen: Fit, data: Data) -> str:
    """Why the best hypothesis is not accepted; empty where it is."""
    constants = FORMULAS[result.nearest.name].constants
    # A constant is rounded to the dtype, too; where every step rounds, what the steps lose looks like more of the same.
    composed = chosen.composed > ROUNDS_ONCE
    tolerance = max(CONSTANT_TOLERANCE, (4.0 if composed else 0.6) * float(ulp(1.0, data.dtype)))
    far = {name: change for name, change in result.constants.items() if name in constants and abs(change) > tolerance}
    most = float(np.abs(chosen.error / chosen.scale).max())
    if chosen.rms <= _limit(data) and most > LARGEST_RESIDUAL[data.dtype.itemsize]:
        return f"nothing fits: the nearest, {result.nearest}, is off by {most:.3g} ulp at x = {result.worst_x:.6g}"
    if chosen.rms > _limit(data):
        return (
            f"nothing fits: the nearest, {result.nearest}, is off by {result.residual_ulp:.3g} ulp (rms) of "
            f"{data.dtype.name}, {result.max_residual_ulp:.3g} at x = {result.worst_x:.6g}, as if it had "
            f"{result.effective_bits:.1f} significant bits"
        )
    if far:
        what = ", ".join(
            f"{name} {constants[name] * (1 + change):.6g} in place of {constants[name]:.6g}"
            for name, change in far.items()
        )
        return f"nothing fits: it has the form of {result.nearest} with another constant ({what})"
    # Steps that each round have a bias of their own, which may lead away from the rival but must not lead to it.
    astray = result.coefficient if composed else abs(result.coefficient)
    if result.standard_error * SEPARATION < 1 and astray > max(BETWEEN, SEPARATION * result.standard_error):
        between = f"{result.nearest} and {result.runner_up} (coefficient {result.coefficient:.2f})"
        return f"nothing fits: it lies between {between}"
    if result.smooth_share > SMOOTH and chosen.rms > FAULTLESS:
        share = f"{result.smooth_share:.0%} of what the nearest, {result.nearest}, leaves is smooth in x"
        return f"nothing fits: {share}, as of another function, where rounding jumps"
    return ""


def _doubt(result: Identification) -> str:
    """Why the best hypothesis is one of several; empty where it is the only one."""
    if result.count < FEWEST:
        return f"so few distinct inputs ({result.count}) cannot tell a function; {result.nearest} is one that fits"
    if result.ambiguous:
        named = " or ".join(map(str, result.ambiguous[:NAMED]))
        more = len(result.ambiguous) - NAMED
        return f"these inputs cannot tell {result.nearest} from {named}{f' or {more} others' if more > 0 else ''}"
    return ""
