"""How well a hypothesis fits data: its error, the noise that the data carry, and its numbers fitted.

Two scales of rounding meet in real data. A kernel that computes in higher precision and rounds once is off by half an
ulp of the result. A chain of operators that each round is off by an ulp of what passes through it, which for these
functions is at most about ``max(1, |x|, |y|)``: ``1 + erf`` loses half an ulp of 1, times x, however small the
result. The noise is modelled as

    variance = ulp(z)^2 / 12 + beta * ulp(max(1, |x|, |z|))^2

with beta estimated from the data under each hypothesis, where the result is small against the input. A well-rounded
kernel has beta near 0, and its negative tail then tells variants apart that no tolerance separates.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.functions.variants import FORMULAS, Variant, variant
from parity.ulps import ulp

Float64 = NDArray[np.float64]

PARAMETER_PENALTY: Final = 30.0
"""Deviance that a fitted parameter must earn, or the default is meant (a likelihood ratio of e^15)."""

NOMINAL: Final = 1e-6
"""Relative distance from a short decimal number within which a parameter is that number, rounded by somebody on the
way."""

FEWEST_TO_FIT: Final = 16
"""Distinct inputs below which no number is fitted: a formula with free numbers goes through a few points anyhow."""

DEEPEST: Final = 2.0**-24
"""Ratio of the two ulp below which a result counts no more than at it: what a kernel does far out decides nothing."""

TAIL: Final = 8.0
"""Ratio of the two ulp from which an element speaks for the noise of the intermediate results alone."""

NOISE_GRID: Final = np.concatenate([[0.0], 16.0 ** np.arange(-12, 17)])
"""Values of beta that are tried, in squared ulp."""

NOISE_SAMPLES: Final = 512
"""Elements that beta is estimated from."""

SMOOTH_DEGREE: Final = 7
"""Degree of the polynomial, in the rank of the input, that counts as smooth."""

SMOOTH_SAMPLES: Final = 64
"""Distinct inputs that it takes to tell a smooth error from one that jumps."""

DESCENT_SAMPLES: Final = 1024
"""Elements on which numbers are fitted."""


@dataclass(frozen=True, slots=True)
class Data:
    """Inputs (n,) or (n, 2) and outputs (n,) in float64, and the dtype whose rounding the outputs carry.

    ``size`` is the magnitude of what passes through a formula at each element: |x|, or the product of value and gate,
    and at least 1, for the constants 1 in the formulas are rounded beside it.
    """

    x: Float64
    y: Float64
    dtype: np.dtype[Any]
    size: Float64

    @property
    def flat(self) -> bool:
        """Whether the outputs are one number, which every formula that can be flattened would fit."""
        return bool((self.y == self.y[0]).all())

    @classmethod
    def of(cls, x: Float64, y: Float64, dtype: np.dtype[Any]) -> "Data":
        """Data with the sizes that belong to the inputs."""
        size = np.abs(x) if x.ndim == 1 else np.abs(x[:, 0]) * np.maximum(np.abs(x[:, 1]), 1.0)
        return cls(x, y, dtype, np.maximum(size, 1.0))

    def every(self, step: int) -> "Data":
        """Every ``step``-th element."""
        return Data(self.x[::step], self.y[::step], self.dtype, self.size[::step])

    @property
    def stride(self) -> int:
        """Of so many elements one is kept where numbers are fitted."""
        return max(1, len(self.y) // DESCENT_SAMPLES)

    def thinned(self) -> "Data":
        """As many elements as numbers are fitted on."""
        return self.every(self.stride)


@dataclass(frozen=True, slots=True)
class Fit:
    """One hypothesis on some data.

    Attributes:
        variant: The hypothesis.
        z: Its exact values.
        error: y - z.
        scale: Ulp at max(1, |x|, |z|).
        noise: Standard deviation of the noise model at each element, up to the common factor in ``deviance``.
        composed: The estimated beta: about 0 for a kernel that rounds once.
        deviance: Minus twice the log-likelihood, up to a constant of the data.
        changed: Fitted values of constants and parameters where they are not the variant's own, by name.
    """

    variant: Variant
    z: Float64
    error: Float64
    scale: Float64
    noise: Float64
    composed: float
    deviance: float
    changed: Mapping[str, float] = field(default_factory=dict)

    @property
    def rms(self) -> float:
        """Root mean square error in ulp of the rounding scale."""
        return math.sqrt(float(np.mean((self.error / self.scale) ** 2)))


def fit(hypothesis: Variant, data: Data, *, z: Float64 | None = None) -> Fit:
    """The hypothesis as it stands on the data; ``z`` are its exact values where they are already known."""
    if z is None:
        z = hypothesis.value(data.x)
    error = data.y - z
    scale = ulp(np.maximum(data.size, np.abs(z)), data.dtype)
    relative = error / scale
    last = np.maximum(ulp(z, data.dtype) / scale, DEEPEST)
    beta = _composed_noise(relative, last)
    variance = last**2 / 12 + beta
    spread = float(np.mean(relative**2 / variance))
    deviance = float(np.log(variance).sum() + 2 * np.log(scale).sum()) + len(z) * math.log(max(spread, 1e-2))
    return Fit(hypothesis, z, error, scale, scale * np.sqrt(variance), beta, deviance)


def _composed_noise(relative: Float64, last: Float64) -> float:
    """Beta by maximum likelihood over `NOISE_GRID`, from elements whose result is small against the input."""
    tail = np.flatnonzero(last * TAIL <= 1)
    if tail.size < 16:
        tail = np.arange(relative.size)
    tail = tail[:: max(1, tail.size // NOISE_SAMPLES)]
    squares, rounding = relative[tail] ** 2, last[tail] ** 2 / 12
    variance = rounding + NOISE_GRID[:, np.newaxis]
    return float(NOISE_GRID[np.argmin((np.log(variance) + squares / variance).sum(axis=1))])


def fit_parameters(start: Fit, data: Data) -> Fit | None:
    """The same formula with its free parameters fitted, where that earns its penalty; None otherwise.

    The variant of the result has short decimal numbers where the fitted ones are those up to rounding: a leaky slope
    of 0.2 that went through float32 is 0.2, and ``changed`` tells the rest.
    """
    formula = FORMULAS[start.variant.name]
    free = {name: value for name, value in start.variant.parameters if math.isfinite(value)}
    if not free or data.flat or len(data.y) < FEWEST_TO_FIT:
        return None
    few = data.thinned()

    def evaluate(values: Mapping[str, float]) -> Fit:
        return fit(variant(start.variant.name, **{**dict(start.variant.parameters), **values}), few)

    values, errors = _descend(evaluate(free), free, formula.positive, evaluate)
    if values == free:
        return None
    room = {name: max(4 * errors[name], 0.5 * float(ulp(value, data.dtype))) for name, value in values.items()}
    short = {
        name: _shortest(value, max(room[name], NOMINAL * abs(value)), (free[name], formula.parameters[name]))
        for name, value in values.items()
    }
    # Within its own error the short number is the number; beyond, it names a number that was rounded elsewhere.
    used = {name: short[name] if abs(short[name] - value) <= room[name] else value for name, value in values.items()}
    result = fit(evaluate(used).variant, data)
    if start.deviance - result.deviance < PARAMETER_PENALTY * len(free):
        return None
    named = variant(start.variant.name, **{**dict(start.variant.parameters), **short})
    changed = {name: value for name, value in used.items() if value != short[name]}
    return replace(result, variant=named, changed=changed)


def fit_constants(start: Fit, data: Data) -> Fit | None:
    """The same formula with the constants inside it fitted, without those that stay within four standard errors."""
    formula = FORMULAS[start.variant.name]
    if not formula.constants or data.flat:
        return None
    few = data.thinned()

    def evaluate(values: Mapping[str, float], on: Data = few) -> Fit:
        return fit(start.variant, on, z=start.variant.value(on.x, constants=values))

    values, errors = _descend(evaluate({}), dict(formula.constants), formula.positive, evaluate)
    moved = {name: value for name, value in values.items() if abs(value - formula.constants[name]) > 4 * errors[name]}
    return replace(evaluate(moved, data), changed=moved) if moved else None


Numbers = dict[str, float]


def _descend(
    start: Fit, values: Numbers, positive: tuple[str, ...], evaluate: Callable[[Mapping[str, float]], Fit]
) -> tuple[Numbers, Numbers]:
    """Gauss-Newton from ``values``: the values of the best fit, and their standard errors."""
    best, errors = start, dict.fromkeys(values, math.inf)
    for _ in range(12):
        solution = _step(best, values, positive, evaluate)
        if solution is None:
            break
        steps, errors = solution
        moved = {name: value + steps[name] for name, value in values.items()}
        if any(moved[name] <= 0 for name in positive if name in moved):
            break
        trial = evaluate(moved)
        if not trial.rms < best.rms:
            break
        settled = trial.rms > 0.9999 * best.rms
        best, values = trial, moved
        if settled:
            break
    return values, errors


def _step(
    best: Fit, values: Numbers, positive: tuple[str, ...], evaluate: Callable[[Mapping[str, float]], Fit]
) -> tuple[Numbers, Numbers] | None:
    """One least-squares step on the noise scale, and standard errors; None where the values move nothing."""
    columns = _sensitivities(values, positive, lambda moved: evaluate(moved).z, best.noise)
    if not columns:
        return None
    jacobian = np.stack(list(columns.values()), axis=1)
    residual = best.error / best.noise
    normal = np.linalg.pinv(np.einsum("ij,ik->jk", jacobian, jacobian))
    step = normal @ np.einsum("ij,i->j", jacobian, residual)
    deviations = np.sqrt(np.maximum(np.diag(normal), 0.0) * max(1.0, float(np.mean(residual**2))))
    steps, errors = dict.fromkeys(values, 0.0), dict.fromkeys(values, math.inf)
    steps |= dict(zip(columns, map(float, step), strict=True))
    errors |= dict(zip(columns, map(float, deviations), strict=True))
    return steps, errors


def _sensitivities(
    values: Mapping[str, float], positive: tuple[str, ...], z: Callable[[Mapping[str, float]], Float64], noise: Float64
) -> dict[str, Float64]:
    """Derivatives of the exact values by each number, over the noise, without those that nothing depends on."""
    columns = {}
    for name, value in values.items():
        width = 1e-5 * (abs(value) if name in positive else max(abs(value), 1e-3))
        column = (z({**values, name: value + width}) - z({**values, name: value - width})) / (2 * width) / noise
        if np.isfinite(column).all() and column.any():
            columns[name] = column
    return columns


def smooth_share(one: Fit, data: Data) -> float:
    """Share of the squared error, over the noise, that a smooth function of the input explains; 0 of too few inputs.

    Rounding, of a chain of operators too, jumps from one input to the next and leaves a few per cent. Another function
    near the hypothesis leaves most. What other parameters and constants would explain is taken out first: how far these
    may be off is judged by their own tolerance.
    """
    few, step = data.thinned(), data.stride
    inputs = few.x if few.x.ndim == 1 else few.x[:, 1]
    distinct = np.flatnonzero(np.diff(inputs, prepend=np.nan) != 0)  # they are sorted
    if len(distinct) < SMOOTH_SAMPLES:
        return 0.0
    noise = one.noise[::step]
    formula = FORMULAS[one.variant.name]
    parameters = {name: value for name, value in one.variant.parameters if math.isfinite(value)}

    def z(values: Mapping[str, float]) -> Float64:
        moved = {name: value for name, value in values.items() if name in parameters}
        fixed = {name: value for name, value in values.items() if name in formula.constants}
        hypothesis = variant(one.variant.name, **{**dict(one.variant.parameters), **moved})
        return hypothesis.value(few.x, constants=fixed)

    numbers = {**parameters, **formula.constants, **one.changed}
    columns = _sensitivities(numbers, formula.positive, z, noise)
    residual = _without((one.error[::step] / noise)[distinct], [column[distinct] for column in columns.values()])
    # By rank: that of the inputs is even whatever their distribution.
    rank = np.linspace(-1, 1, len(distinct))
    smooth = np.polynomial.chebyshev.chebvander(rank, SMOOTH_DEGREE)
    rest = _without(residual, list(smooth.T))
    total = float(np.sum(residual**2))
    return 1 - float(np.sum(rest**2)) / total if total > 0 else 0.0


def _without(residual: Float64, columns: list[Float64]) -> Float64:
    """What a linear combination of the columns leaves of the residual."""
    if not columns:
        return residual
    basis, _ = np.linalg.qr(np.stack(columns, axis=1))
    kept: Float64 = residual - np.einsum("ij,j->i", basis, np.einsum("ij,i->j", basis, residual))
    return kept


def _shortest(value: float, room: float, known: tuple[float, ...]) -> float:
    """A known number within ``room`` of the value, else the shortest decimal one there: 0.2, not 0.200000003."""
    candidates = (*known, *(float(f"{value:.{digits}g}") for digits in range(1, 17)))
    return next((one for one in candidates if abs(one - value) <= room), value)
