"""Every formula against its textbook form over mpmath numbers.

The oracle shares nothing with the package, and its derivatives are difference quotients at a precision that makes them
exact (closed forms for the normal distribution, where that precision takes too long).
"""

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from parity.functions import FORMULAS, parse, variant


def real(number: str | float) -> mp.mpf:
    """A decimal number to far more bits than any precision that is worked at here, whatever the precision is now."""
    with mp.workprec(8000):
        return mp.mpf(number)


Float64 = NDArray[np.float64]
Oracle = Callable[[mp.mpf], mp.mpf]


def at_precision(function: Oracle) -> Oracle:
    """``function``, recomputed with more bits until its cancellations no longer show."""

    def precise(x: mp.mpf) -> mp.mpf:
        small = max(0, -mp.frexp(x)[1]) if x else 0
        with mp.workprec(260 + 3 * small):
            return function(x)

    return precise


def phi(z: mp.mpf) -> mp.mpf:
    return mp.erfc(-z / mp.sqrt(2)) / 2


def sigma(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x))


def softplus(x: mp.mpf) -> mp.mpf:
    return mp.log1p(mp.exp(x))


def gelu_tanh(x: mp.mpf) -> mp.mpf:
    u = mp.sqrt(2 / mp.pi) * (x + real("0.044715") * x**3)
    # (1 + tanh u)/2, written so that 260 bits are enough at u = -1000.
    return x * mp.exp(u) / (2 * mp.cosh(u))


def clip(x: mp.mpf, low: mp.mpf, high: mp.mpf) -> mp.mpf:
    return max(low, min(x, high))


def elu(x: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    return x if x > 0 else alpha * mp.expm1(x)


def shrink(x: mp.mpf, threshold: mp.mpf, shift: mp.mpf) -> mp.mpf:
    return x - mp.sign(x) * shift if abs(x) > threshold else real(0)


def xielu(x: mp.mpf, alpha_p: mp.mpf, alpha_n: mp.mpf, beta: mp.mpf, eps: mp.mpf) -> mp.mpf:
    return alpha_p * x * x + beta * x if x > 0 else (mp.expm1(min(x, eps)) - x) * alpha_n + beta * x


def selu(x: mp.mpf) -> mp.mpf:
    return real("1.0507009873554804934193349852946") * elu(x, real("1.6732632423543772848170429916717"))


ORACLES: dict[str, Oracle] = {
    "gelu_erf": lambda x: x * phi(x),
    "gelu_tanh": gelu_tanh,
    "quick_gelu": lambda x: x * sigma(real("1.702") * x),
    "quick_gelu[alpha=1.5]": lambda x: x * sigma(real("1.5") * x),
    "gelu_clipped": lambda x: clip(x * phi(x), real(-10), real(10)),
    "gelu_clipped[low=-0.1,high=3]": lambda x: clip(x * phi(x), -real("0.1"), real(3)),
    "silu": lambda x: x * sigma(x),
    "relu": lambda x: max(x, real(0)),
    "relu6": lambda x: clip(x, real(0), real(6)),
    "relu2": lambda x: max(x, real(0)) ** 2,
    "leaky_relu": lambda x: x if x > 0 else x / 100,
    "leaky_relu[negative_slope=0.2]": lambda x: x if x > 0 else x / 5,
    "elu": lambda x: elu(x, real(1)),
    "elu[alpha=0.7]": lambda x: elu(x, real("0.7")),
    "selu": selu,
    "celu": lambda x: elu(x, real(1)),
    "celu[alpha=0.3]": lambda x: x if x > 0 else real("0.3") * mp.expm1(x / real("0.3")),
    "softplus": softplus,
    "softplus[beta=3,threshold=20]": lambda x: x if 3 * x > 20 else softplus(3 * x) / 3,
    "mish": lambda x: x * mp.tanh(softplus(x)),
    "hard_sigmoid": lambda x: clip(x / 6 + real("0.5"), real(0), real(1)),
    "hard_sigmoid[slope=0.2]": lambda x: clip(x / 5 + real("0.5"), real(0), real(1)),
    "hard_swish": lambda x: x * clip(x / 6 + real("0.5"), real(0), real(1)),
    "sigmoid": sigma,
    "tanh": mp.tanh,
    "laplace": lambda x: phi((x - real("0.707107")) / real("0.282095")),
    "sqrt_softplus": lambda x: mp.sqrt(softplus(x)),
    "sqrt_softplus[threshold=20]": lambda x: mp.sqrt(softplus(x) if x <= 20 else x),
    "identity": lambda x: x,
    "hard_tanh": lambda x: clip(x, real(-1), real(1)),
    "hard_tanh[low=-0.3,high=2.5]": lambda x: clip(x, -real("0.3"), real("2.5")),
    "log_sigmoid": lambda x: -softplus(-x),
    "softsign": lambda x: x / (1 + abs(x)),
    "tanh_shrink": lambda x: x - mp.tanh(x),
    "soft_shrink": lambda x: shrink(x, real("0.5"), real("0.5")),
    "hard_shrink": lambda x: shrink(x, real("0.5"), real(0)),
    "threshold": lambda x: x if x > 0 else real(0),
    "threshold[threshold=0.25,value=-2]": lambda x: x if x > real("0.25") else real(-2),
    "squareplus": lambda x: (x + mp.sqrt(x * x + 4)) / 2,
    "squareplus[b=0.1]": lambda x: (x + mp.sqrt(x * x + real("0.1"))) / 2,
    "sparse_plus": lambda x: real(0) if x <= -1 else x if x >= 1 else (x + 1) ** 2 / 4,
    "sparse_sigmoid": lambda x: clip((x + 1) / 2, real(0), real(1)),
    "xielu": lambda x: xielu(x, real("0.8"), real("0.8"), real("0.5"), -real("1e-6")),
    "xielu[alpha_p=0.55,alpha_n=1.3]": lambda x: xielu(x, real("0.55"), real("1.3"), real("0.5"), -real("1e-6")),
}
"""By ``str(variant)``: every ungated formula with its defaults, and some with other parameters."""

GATES = {"geglu_erf": "gelu_erf", "geglu_tanh": "gelu_tanh", "swiglu": "silu", "glu": "sigmoid"}
"""Gated variant to the activation of its gate."""


def derivative(function: Oracle) -> Oracle:
    """Difference quotient over a step of 2^-200 relative to x, whose own error is below 2^-300."""

    def quotient(x: mp.mpf) -> mp.mpf:
        small = max(0, -mp.frexp(x)[1]) if x else 1300
        # exp(-x) and its like are the difference of numbers near 1: their own size needs as many bits again.
        with mp.workprec(700 + 3 * small + (1100 if abs(x) > 3 else 200)):
            step = abs(x) * real(2) ** -200 if x else real(2) ** -1300
            return (function(x + step) - function(x - step)) / (2 * step)

    return quotient


def gelu_erf_derivative(x: mp.mpf) -> mp.mpf:
    return phi(x) + x * mp.npdf(x)


def gelu_clipped_derivative(low: mp.mpf, high: mp.mpf) -> Oracle:
    return lambda x: gelu_erf_derivative(x) if low < x * phi(x) < high else real(0)


DERIVATIVES: dict[str, Oracle] = {name: derivative(function) for name, function in ORACLES.items()} | {
    "gelu_erf": at_precision(gelu_erf_derivative),
    "gelu_clipped": at_precision(gelu_clipped_derivative(real(-10), real(10))),
    "gelu_clipped[low=-0.1,high=3]": at_precision(gelu_clipped_derivative(-real("0.1"), real(3))),
    "laplace": at_precision(lambda x: mp.npdf(x, real("0.707107"), real("0.282095"))),
}

ZEROS = (-0.7518, -0.7525, -1.1924, -1.2785, -1.5)
"""Near here, to four digits, the derivatives of gelu_erf, gelu_tanh, mish, silu and hard_swish vanish."""


def ulp_error(result: Float64, exact: list[mp.mpf]) -> Float64:
    """Distance of each result from the exact number, in units in the last place of float64 there."""
    with mp.workprec(300):
        errors = []
        for got, want in zip(result, exact, strict=True):
            nearest = float(want)
            if np.isinf(nearest) or np.isinf(got):
                errors.append(0.0 if got == nearest else np.inf)
            else:
                errors.append(float(abs(real(float(got)) - want) / real(float(np.spacing(abs(nearest))))))
    return np.array(errors)


def sample(count: int, near: tuple[float, ...], seed: int) -> Float64:
    """``count`` points, stratified: (-40, 40), all magnitudes, where exp underflows, subnormals, around ``near``."""
    rng = np.random.default_rng(seed)
    strata = [
        rng.uniform(-40, 40, count // 2),
        rng.choice([-1.0, 1.0], count // 6) * 2.0 ** rng.uniform(-1074, 9.6, count // 6),
        rng.choice([-1.0, 1.0], count // 6) * 2.0 ** rng.uniform(-30, 5, count // 6),
        rng.uniform(-760, -700, count // 24),
        rng.uniform(-39, -36, count // 24),
        rng.integers(-(2**52), 2**52, count // 24) * 5e-324,
        np.array([0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, -2.2250738585072014e-308]),
    ]
    for point in near:
        distances = 2.0 ** rng.uniform(-19, 0, count // 24) * rng.choice([-1.0, 1.0], count // 24)
        neighbours = point + np.arange(-4, 5) * np.spacing(abs(point))
        strata += [point + distances, neighbours]
    return np.concatenate(strata)


def value_error(name: str, count: int, seed: int) -> tuple[float, float]:
    """The largest error of the value in ulp, and where."""
    x = sample(count, (*parse(name).kinks, *ZEROS), seed)
    oracle = at_precision(ORACLES[name])
    errors = ulp_error(parse(name).value(x), [oracle(real(float(point))) for point in x])
    return float(errors.max()), float(x[errors.argmax()])


def derivative_error(name: str, count: int, seed: int) -> tuple[float, float]:
    """The largest error of the derivative in ulp outside the kinks, and where."""
    kinks = parse(name).kinks
    x = sample(count, (*kinks, *ZEROS), seed)
    x = x[~np.isin(x, kinks)]
    errors = ulp_error(parse(name).derivative(x), [DERIVATIVES[name](real(float(point))) for point in x])
    return float(errors.max()), float(x[errors.argmax()])


def test_every_formula_has_an_oracle() -> None:
    assert {parse(name).name for name in ORACLES} | set(GATES) == set(FORMULAS)


def test_the_oracle_sees_a_wrong_last_digit() -> None:
    x = sample(200, (), seed=0)
    wrong = variant("quick_gelu", alpha=1.702 * (1 + 1e-15)).value(x)
    oracle = at_precision(ORACLES["quick_gelu"])
    assert ulp_error(wrong, [oracle(real(float(point))) for point in x]).max() > 2


@pytest.mark.parametrize("name", ORACLES)
def test_value_within_one_ulp(name: str) -> None:
    error, where = value_error(name, 800, seed=1)
    assert error <= 1, f"{error} ulp at {where!r}"


@pytest.mark.parametrize("name", ORACLES)
def test_derivative_within_two_ulp(name: str) -> None:
    error, where = derivative_error(name, 400, seed=2)
    assert error <= 2, f"{error} ulp at {where!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_value_within_one_ulp_at_100_000_points(name: str) -> None:
    error, where = value_error(name, 100_000, seed=3)
    assert error <= 1, f"{error} ulp at {where!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
def test_derivative_within_two_ulp_at_20_000_points(name: str) -> None:
    error, where = derivative_error(name, 20_000, seed=4)
    assert error <= 2, f"{error} ulp at {where!r}"


@pytest.mark.parametrize(("name", "activation"), GATES.items())
def test_gated_value_and_derivative(name: str, activation: str) -> None:
    gate = sample(300, ZEROS, seed=5)
    value = np.random.default_rng(6).permutation(sample(300, ZEROS, seed=7))
    oracle, slope = at_precision(ORACLES[activation]), DERIVATIVES[activation]
    pairs = np.stack([value, gate], axis=-1)
    numbers = [(real(float(v)), real(float(g))) for v, g in pairs]

    with mp.workprec(300):
        product = [v * oracle(g) for v, g in numbers]
        by_gate = [v * slope(g) for v, g in numbers]
    derivatives = variant(name).derivative(pairs)
    assert ulp_error(variant(name).value(pairs), product).max() <= 1
    assert ulp_error(derivatives[:, 0], [oracle(g) for _, g in numbers]).max() <= 1
    assert ulp_error(derivatives[:, 1], by_gate).max() <= 2
    assert derivatives.shape == pairs.shape


CHANGED_CONSTANTS: dict[tuple[str, str, float], Oracle] = {
    ("gelu_erf", "scale", 0.7071): lambda x: x * mp.erfc(-real("0.7071") * x) / 2,
    ("gelu_tanh", "scale", 0.8): lambda x: x * sigma(real("1.6") * (x + real("0.044715") * x**3)),
    ("gelu_tanh", "cubic", 0.0447): lambda x: x * sigma(2 * mp.sqrt(2 / mp.pi) * (x + real("0.0447") * x**3)),
    ("laplace", "mu", 0.7): lambda x: phi((x - real("0.7")) / real("0.282095")),
    ("selu", "alpha", 1.6733): lambda x: real("1.0507009873554804934193349852946") * elu(x, real("1.6733")),
    ("relu6", "cap", 6.5): lambda x: clip(x, real(0), real("6.5")),
}


@pytest.mark.parametrize(("name", "constant", "number"), CHANGED_CONSTANTS)
def test_changed_constants(name: str, constant: str, number: float) -> None:
    x = np.random.default_rng(8).uniform(-12, 12, 300)
    oracle = CHANGED_CONSTANTS[name, constant, number]
    changed = {constant: number}
    values = ulp_error(variant(name).value(x, constants=changed), [at_precision(oracle)(real(float(p))) for p in x])
    few = x[:40]
    derivatives = variant(name).derivative(few, constants=changed)
    assert values.max() <= 1
    assert ulp_error(derivatives, [derivative(oracle)(real(float(point))) for point in few]).max() <= 2
