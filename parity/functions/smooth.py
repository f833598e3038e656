"""Smooth functions built from exp and log: sigmoid, tanh, softplus and their kin, the exponential linear units."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

from parity.functions import exact
from parity.functions.double_double import DoubleDouble, minimum, sqrt, where
from parity.functions.exact import exp, expm1
from parity.functions.formula import Formula


def sigmoid(x: DoubleDouble) -> DoubleDouble:
    """σ(x) = 1/(1 + e^-x)."""
    return exact.sigmoid(x)


def sigmoid_derivative(x: DoubleDouble) -> DoubleDouble:
    """σ(x)·σ(-x)."""
    e = exp(-abs(x))
    return e / ((1 + e) * (1 + e))


def tanh(x: DoubleDouble) -> DoubleDouble:
    """The hyperbolic tangent."""
    return exact.tanh(x)


def tanh_derivative(x: DoubleDouble) -> DoubleDouble:
    """1 - tanh², as 4·σ(2x)·σ(-2x)."""
    return 4 * sigmoid_derivative(2 * x)


def laplace(x: DoubleDouble, *, mu: DoubleDouble, sigma: DoubleDouble) -> DoubleDouble:
    """½(1 + erf((x - mu)/(sigma·√2))), the normal distribution that approximates squared ReLU."""
    return exact.normal_cdf((x - mu) / sigma)


def laplace_derivative(x: DoubleDouble, *, mu: DoubleDouble, sigma: DoubleDouble) -> DoubleDouble:
    """φ((x - mu)/sigma)/sigma."""
    return exact.normal_pdf((x - mu) / sigma) / sigma


def softplus(x: DoubleDouble, *, beta: DoubleDouble, threshold: DoubleDouble) -> DoubleDouble:
    """``ln(1 + e^(beta·x))/beta``; x itself where beta·x > threshold."""
    z = beta * x
    return where(z > threshold, x, exact.softplus(z) / beta)


def softplus_derivative(x: DoubleDouble, *, beta: DoubleDouble, threshold: DoubleDouble) -> DoubleDouble:
    """σ(beta·x); 1 where beta·x > threshold."""
    z = beta * x
    return where(z > threshold, 1.0, exact.sigmoid(z))


def _softplus_kinks(*, beta: float, threshold: float) -> tuple[float, ...]:
    return () if math.isinf(threshold) else (threshold / beta,)


def log_sigmoid(x: DoubleDouble) -> DoubleDouble:
    """``ln σ(x)`` = -ln(1 + e^-x)."""
    return -exact.softplus(-x)


def log_sigmoid_derivative(x: DoubleDouble) -> DoubleDouble:
    """σ(-x)."""
    return exact.sigmoid(-x)


def sqrt_softplus(x: DoubleDouble, *, threshold: DoubleDouble) -> DoubleDouble:
    """√ln(1 + e^x); √x where x > threshold."""
    return sqrt(where(x > threshold, x, exact.softplus(x)))


def sqrt_softplus_derivative(x: DoubleDouble, *, threshold: DoubleDouble) -> DoubleDouble:
    """σ(x)/(2·√ln(1 + e^x)); 1/(2·√x) where x > threshold."""
    return where(x > threshold, 1.0, exact.sigmoid(x)) / (2 * sqrt_softplus(x, threshold=threshold))


def _sqrt_softplus_kinks(*, threshold: float) -> tuple[float, ...]:
    return _softplus_kinks(beta=1.0, threshold=threshold)


def mish(x: DoubleDouble) -> DoubleDouble:
    """``x·tanh(ln(1 + e^x))``, a rational function of e = e^x: x·e(e + 2)/(e(e + 2) + 2)."""
    e = exp(x)
    n = e * (e + 2)
    return x * (n / (n + 2))


def mish_derivative(x: DoubleDouble) -> DoubleDouble:
    """n/(n + 2) + x·4e(e + 1)/(n + 2)² with e = e^x, n = e(e + 2). Zero at x = -1.1924."""
    e = exp(x)
    n = e * (e + 2)
    return (n + x * (4 * e * (e + 1) / (n + 2))) / (n + 2)


def softsign(x: DoubleDouble) -> DoubleDouble:
    """``x/(1 + |x|)``."""
    return x / (1 + abs(x))


def softsign_derivative(x: DoubleDouble) -> DoubleDouble:
    """1/(1 + |x|)²."""
    return 1 / ((1 + abs(x)) * (1 + abs(x)))


def squareplus(x: DoubleDouble, *, b: DoubleDouble) -> DoubleDouble:
    """(x + √(x² + b))/2; for x < 0 as b/(2(√(x² + b) - x)), which does not cancel."""
    root = sqrt(x * x + b)
    half = (root + abs(x)) * 0.5
    return where(x > 0, half, b * 0.25 / half)


def squareplus_derivative(x: DoubleDouble, *, b: DoubleDouble) -> DoubleDouble:
    """(1 + x/√(x² + b))/2, which is the value over √(x² + b)."""
    return squareplus(x, b=b) / sqrt(x * x + b)


# tanh_shrink cancels to x³/3: below this size its Taylor series takes over, with these coefficients of x^3, x^5, …
_SERIES_END: Final = 0.0625
_SHRINK_SERIES: Final = (
    (1, 3),
    (-2, 15),
    (17, 315),
    (-62, 2835),
    (1382, 155925),
    (-21844, 6081075),
    (929569, 638512875),
    (-6404582, 10854718875),
)


def tanh_shrink(x: DoubleDouble) -> DoubleDouble:
    """``x - tanh(x)``."""
    small = abs(x) < _SERIES_END
    square = where(small, x * x, 0.0)
    series = DoubleDouble.of(0.0)
    for numerator, denominator in reversed(_SHRINK_SERIES):
        series = series * square + DoubleDouble.of(Fraction(numerator, denominator))
    return where(small, x * square * series, x - exact.tanh(x))


def tanh_shrink_derivative(x: DoubleDouble) -> DoubleDouble:
    """tanh²(x)."""
    y = exact.tanh(x)
    return y * y


def elu(x: DoubleDouble, *, alpha: DoubleDouble) -> DoubleDouble:
    """The identity where x > 0, else alpha·(e^x - 1)."""
    return where(x > 0, x, alpha * expm1(minimum(x, 0)))


def elu_derivative(x: DoubleDouble, *, alpha: DoubleDouble) -> DoubleDouble:
    """1 where x > 0, else alpha·e^x."""
    return where(x > 0, 1.0, alpha * exp(minimum(x, 0)))


def selu(x: DoubleDouble, *, alpha: DoubleDouble, scale: DoubleDouble) -> DoubleDouble:
    """scale·elu(x; alpha)."""
    return scale * elu(x, alpha=alpha)


def selu_derivative(x: DoubleDouble, *, alpha: DoubleDouble, scale: DoubleDouble) -> DoubleDouble:
    """scale·elu'(x; alpha)."""
    return scale * elu_derivative(x, alpha=alpha)


def celu(x: DoubleDouble, *, alpha: DoubleDouble) -> DoubleDouble:
    """The identity where x > 0, else alpha·(e^(x/alpha) - 1)."""
    return where(x > 0, x, alpha * expm1(minimum(x, 0) / alpha))


def celu_derivative(x: DoubleDouble, *, alpha: DoubleDouble) -> DoubleDouble:
    """1 where x > 0, else e^(x/alpha)."""
    return where(x > 0, 1.0, exp(minimum(x, 0) / alpha))


def xielu(
    x: DoubleDouble, *, alpha_p: DoubleDouble, alpha_n: DoubleDouble, beta: DoubleDouble, eps: DoubleDouble
) -> DoubleDouble:
    """alpha_p·x² + beta·x where x > 0, else alpha_n·(e^min(x, eps) - 1 - x) + beta·x, as it is implemented.

    The paper's integral has x for min(x, eps): it is continuous at 0, this jumps there by alpha_n·(e^eps - 1).
    """
    negative = alpha_n * (expm1(minimum(x, eps)) - x) + beta * x
    return where(x > 0, (alpha_p * x + beta) * x, negative)


def xielu_derivative(
    x: DoubleDouble, *, alpha_p: DoubleDouble, alpha_n: DoubleDouble, beta: DoubleDouble, eps: DoubleDouble
) -> DoubleDouble:
    """2·alpha_p·x + beta where x > 0, alpha_n·(e^x - 1) + beta where x < eps, and beta - alpha_n between."""
    negative = where(x < eps, alpha_n * expm1(minimum(x, eps)), -alpha_n) + beta
    return where(x > 0, 2 * alpha_p * x + beta, negative)


_SIGMOID: Final = Formula(
    name="sigmoid", value=sigmoid, derivative=sigmoid_derivative, source="logistic function; ONNX Sigmoid"
)

FORMULAS: Final = (
    _SIGMOID,
    replace(_SIGMOID, name="glu", source="Dauphin et al., Gated Convolutional Networks, arXiv:1612.08083", gated=True),
    Formula(name="tanh", value=tanh, derivative=tanh_derivative, source="hyperbolic tangent; ONNX Tanh"),
    Formula(
        name="laplace",
        value=laplace,
        derivative=laplace_derivative,
        source="Ma et al., Mega: Moving Average Equipped Gated Attention, arXiv:2209.10655",
        constants={"mu": 0.707107, "sigma": 0.282095},
        positive=("sigma",),
    ),
    Formula(
        name="softplus",
        value=softplus,
        derivative=softplus_derivative,
        source="Dugas et al., Incorporating Second-Order Functional Knowledge, NIPS 2000; threshold as in torch",
        parameters={"beta": 1.0, "threshold": math.inf},
        positive=("beta",),
        unbounded=("threshold",),
        kinks=_softplus_kinks,
    ),
    Formula(
        name="log_sigmoid",
        value=log_sigmoid,
        derivative=log_sigmoid_derivative,
        source="logarithm of the logistic function",
    ),
    Formula(
        name="sqrt_softplus",
        value=sqrt_softplus,
        derivative=sqrt_softplus_derivative,
        source="the router scores of DeepSeek-V4, `sqrtsoftplus` in transformers; threshold as in torch's softplus",
        parameters={"threshold": math.inf},
        unbounded=("threshold",),
        kinks=_sqrt_softplus_kinks,
    ),
    Formula(name="mish", value=mish, derivative=mish_derivative, source="Misra, Mish, arXiv:1908.08681"),
    Formula(
        name="softsign", value=softsign, derivative=softsign_derivative, source="Bergstra et al. 2009; ONNX Softsign"
    ),
    Formula(
        name="squareplus",
        value=squareplus,
        derivative=squareplus_derivative,
        source="Barron, Squareplus, arXiv:2112.11687",
        parameters={"b": 4.0},
        positive=("b",),
    ),
    Formula(
        name="tanh_shrink",
        value=tanh_shrink,
        derivative=tanh_shrink_derivative,
        source="torch.nn.Tanhshrink: x - tanh(x)",
    ),
    Formula(
        name="elu",
        value=elu,
        derivative=elu_derivative,
        source="Clevert, Unterthiner & Hochreiter, arXiv:1511.07289",
        parameters={"alpha": 1.0},
        kinks=lambda *, alpha: () if alpha == 1 else (0.0,),
    ),
    Formula(
        name="selu",
        value=selu,
        derivative=selu_derivative,
        source="Klambauer et al., Self-Normalizing Neural Networks, arXiv:1706.02515",
        constants={"alpha": 1.6732632423543772, "scale": 1.0507009873554805},
        kinks=lambda **_: (0.0,),
    ),
    Formula(
        name="celu",
        value=celu,
        derivative=celu_derivative,
        source="Barron, Continuously Differentiable Exponential Linear Units, arXiv:1704.07483",
        parameters={"alpha": 1.0},
        positive=("alpha",),
    ),
    Formula(
        name="xielu",
        value=xielu,
        derivative=xielu_derivative,
        source="Huang & Schlag, xIELU, arXiv:2411.13010, as in transformers, learned parameters after their softplus",
        parameters={"alpha_p": 0.8, "alpha_n": 0.8, "beta": 0.5, "eps": -1e-6},
        kinks=lambda *, eps, **_: (eps, 0.0),
    ),
)
