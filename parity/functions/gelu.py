"""GELU and its approximations."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from parity.functions.double_double import DoubleDouble, clip, where
from parity.functions.exact import exp, mills_ratio, normal_cdf, normal_pdf, sigmoid
from parity.functions.formula import Formula, evaluate, real

_SQRT_2: Final = 2 * real(math.sqrt(0.5))


def gelu_erf(x: DoubleDouble, *, scale: DoubleDouble) -> DoubleDouble:
    """``x · ½(1 + erf(scale·x))``, with scale = √½: x·Φ(x)."""
    return x * normal_cdf(x * (scale * _SQRT_2))


def gelu_erf_derivative(x: DoubleDouble, *, scale: DoubleDouble) -> DoubleDouble:
    """Φ(z) + z·φ(z) at z = √2·scale·x, by way of φ(t)·(M(t) - t) with the Mills ratio M at t = |z|.

    Zero at z = -0.7518.
    """
    z = x * (scale * _SQRT_2)
    t = abs(z)
    tail = normal_pdf(t) * (mills_ratio(t) - t)
    return where(z < 0, tail, 1 - tail)


def gelu_tanh(x: DoubleDouble, *, cubic: DoubleDouble, scale: DoubleDouble) -> DoubleDouble:
    """``x · ½(1 + tanh(scale·(x + cubic·x³)))``, which is x·σ(2·scale·(x + cubic·x³))."""
    return x * sigmoid(2 * scale * x * (1 + cubic * (x * x)))


def gelu_tanh_derivative(x: DoubleDouble, *, cubic: DoubleDouble, scale: DoubleDouble) -> DoubleDouble:
    """σ(u)·(1 + x·σ(-u)·u') with u = 2·scale·(x + cubic·x³). Zero at x = -0.7525."""
    term = cubic * (x * x)
    complement = exp(-2 * scale * x * (1 + term))
    return (1 + x * (2 * scale * (1 + 3 * term)) * (complement / (1 + complement))) / (1 + complement)


def quick_gelu(x: DoubleDouble, *, alpha: DoubleDouble) -> DoubleDouble:
    """x·σ(alpha·x)."""
    return x * sigmoid(alpha * x)


def quick_gelu_derivative(x: DoubleDouble, *, alpha: DoubleDouble) -> DoubleDouble:
    """σ(z)·(1 + z·σ(-z)) at z = alpha·x. Zero at z = -1.2785."""
    z = alpha * x
    complement = exp(-z)
    return (1 + z * (complement / (1 + complement))) / (1 + complement)


def silu(x: DoubleDouble) -> DoubleDouble:
    """x·σ(x)."""
    return x * sigmoid(x)


def silu_derivative(x: DoubleDouble) -> DoubleDouble:
    """σ(x)·(1 + x·σ(-x)). Zero at x = -1.2785."""
    return quick_gelu_derivative(x, alpha=real(1.0))


def gelu_clipped(x: DoubleDouble, *, low: DoubleDouble, high: DoubleDouble, scale: DoubleDouble) -> DoubleDouble:
    """x·Φ(x) held between low and high."""
    return clip(gelu_erf(x, scale=scale), low, high)


def gelu_clipped_derivative(
    x: DoubleDouble, *, low: DoubleDouble, high: DoubleDouble, scale: DoubleDouble
) -> DoubleDouble:
    """That of x·Φ(x) strictly between low and high, else 0."""
    value = gelu_erf(x, scale=scale)
    return where((value > low) & (value < high), gelu_erf_derivative(x, scale=scale), 0.0)


def _gelu_clipped_kinks(*, low: float, high: float, scale: float) -> tuple[float, ...]:
    """Where x·Φ(x) passes a bound: by bisection on either side of its minimum."""
    bottom = -0.7517915246935645 / (scale * math.sqrt(2))

    def value(x: float) -> float:
        return float(evaluate(_GELU_ERF, x, {"scale": scale}))

    def crossings(bound: float) -> Iterator[float]:
        if value(bottom) < bound < 0:
            yield _bisect(lambda x: value(x) < bound, 53 * bottom, bottom)
        if value(bottom) < bound < math.inf:
            yield _bisect(lambda x: value(x) >= bound, bottom, max(2 * bound, 1.0))

    return tuple(sorted({kink for bound in (low, high) for kink in crossings(bound)}))


def _bisect(above: Callable[[float], bool], low: float, high: float) -> float:
    """Where ``above`` changes from false at ``low`` to true at ``high``, to the last bit."""
    while low < (middle := (low + high) / 2) < high or high < middle < low:
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


_HENDRYCKS_GIMPEL: Final = "Hendrycks & Gimpel, Gaussian Error Linear Units, arXiv:1606.08415"
_SHAZEER: Final = "Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202"
_ERF: Final = {"scale": math.sqrt(0.5)}
_TANH: Final = {"cubic": 0.044715, "scale": math.sqrt(2 / math.pi)}

_GELU_ERF: Final = Formula(
    name="gelu_erf", value=gelu_erf, derivative=gelu_erf_derivative, source=_HENDRYCKS_GIMPEL, constants=_ERF
)
_GELU_TANH: Final = Formula(
    name="gelu_tanh", value=gelu_tanh, derivative=gelu_tanh_derivative, source=_HENDRYCKS_GIMPEL, constants=_TANH
)
_SILU: Final = Formula(
    name="silu",
    value=silu,
    derivative=silu_derivative,
    source="Elfwing, Uchibe & Doya, Sigmoid-weighted linear units, arXiv:1702.03118",
)

FORMULAS: Final = (
    _GELU_ERF,
    _GELU_TANH,
    Formula(
        name="quick_gelu",
        value=quick_gelu,
        derivative=quick_gelu_derivative,
        source=_HENDRYCKS_GIMPEL,
        parameters={"alpha": 1.702},
    ),
    Formula(
        name="gelu_clipped",
        value=gelu_clipped,
        derivative=gelu_clipped_derivative,
        source="Wu et al., Integer Quantization for Deep Learning Inference, arXiv:2004.09602",
        parameters={"low": -10.0, "high": 10.0},
        constants=_ERF,
        unbounded=("low", "high"),
        kinks=_gelu_clipped_kinks,
    ),
    _SILU,
    replace(_GELU_ERF, name="geglu_erf", source=_SHAZEER, gated=True),
    replace(_GELU_TANH, name="geglu_tanh", source=_SHAZEER, gated=True),
    replace(_SILU, name="swiglu", source=_SHAZEER, gated=True),
)
