"""Numbers about the GELU family that are quoted, rightly or wrongly, in papers, issues and blog posts.

Each was computed once to 50 digits; the tests find them again from the registry alone.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.dtypes import FLOAT_DTYPES
from parity.functions import Variant, variant

Float64 = NDArray[np.float64]
COARSE = np.linspace(-12, 12, 24001)
ERF, TANH, QUICK = variant("gelu_erf"), variant("gelu_tanh"), variant("quick_gelu")


def root(function: Callable[[Float64], Float64], low: float, high: float) -> float:
    """Where ``function`` changes sign, by sections of 1,000."""
    for _ in range(6):
        x = np.linspace(low, high, 1001)
        sign = np.sign(function(x))
        first = int(np.flatnonzero(sign[1:] != sign[0])[0])
        low, high = x[first], x[first + 1]
    return (low + high) / 2


def largest(function: Callable[[Float64], Float64], low: float, high: float) -> tuple[float, float]:
    """Place and value of the greatest magnitude on a grid of 10^-5."""
    x = np.arange(low, high, 1e-5)
    size = np.abs(function(x))
    return float(x[size.argmax()]), float(size.max())


@pytest.mark.parametrize(
    ("v", "expected"), [(ERF, 0.841344746069), (TANH, 0.841191990608), (QUICK, 0.845795765933)], ids=str
)
def test_value_at_one(v: Variant, expected: float) -> None:
    assert v.value(np.array([1.0]))[0] == pytest.approx(expected, abs=5e-13)


def test_value_far_in_the_tail() -> None:
    # x·Φ(x) to 20 digits; 1 + erf would give 0 here.
    assert ERF.value(np.array([-37.5]))[0] == pytest.approx(-1.7270073785932330664e-306, rel=1.2e-16)


def test_erf_and_tanh_differ_most_at_2_69894() -> None:
    at, size = largest(lambda x: ERF.value(x) - TANH.value(x), 2.6, 2.8)
    assert at == pytest.approx(2.69894, abs=2e-5)
    assert size == pytest.approx(4.7324e-4, abs=5e-9)
    assert size > np.abs(ERF.value(COARSE) - TANH.value(COARSE)).max()


def test_erf_and_tanh_cross_at_1_88457() -> None:
    assert root(lambda x: ERF.value(x) - TANH.value(x), 1.0, 2.5) == pytest.approx(1.88457, abs=5e-6)


def test_erf_and_tanh_at_minus_3_2() -> None:
    x = np.array([-3.2])
    assert ERF.value(x)[0] == pytest.approx(-0.00219884, abs=5e-9)
    assert TANH.value(x)[0] == pytest.approx(-0.00186957, abs=5e-9)


def test_erf_and_quick_differ_most_at_2_2704() -> None:
    at, size = largest(lambda x: ERF.value(x) - QUICK.value(x), 2.2, 2.4)
    assert at == pytest.approx(2.2704, abs=5e-5)
    assert size == pytest.approx(2.0335e-2, abs=5e-7)
    assert size > np.abs(ERF.value(COARSE) - QUICK.value(COARSE)).max()


def test_derivative_of_gelu_vanishes_at_the_minimum() -> None:
    assert root(ERF.derivative, -1.0, -0.5) == pytest.approx(-0.751791524694, abs=5e-13)
    assert ERF.value(np.array([-0.751791524694]))[0] == pytest.approx(-0.16997, abs=5e-6)
    assert ERF.derivative(np.array([-0.17]))[0] == pytest.approx(0.3657, abs=5e-5)


def test_derivative_of_gelu_is_least_at_minus_sqrt_2() -> None:
    x = np.arange(-1.6, -1.2, 1e-5)
    slope = ERF.derivative(x)
    assert x[slope.argmin()] == pytest.approx(-np.sqrt(2), abs=2e-5)
    assert slope.min() == pytest.approx(-0.128904, abs=5e-7)


def test_derivatives_of_erf_and_tanh_differ_most_at_2_0187() -> None:
    at, size = largest(lambda x: ERF.derivative(x) - TANH.derivative(x), 1.9, 2.1)
    assert at == pytest.approx(2.0187, abs=5e-5)
    assert size == pytest.approx(8.68e-4, abs=5e-7)
    assert size > np.abs(ERF.derivative(COARSE) - TANH.derivative(COARSE)).max()


def test_derivatives_of_erf_and_quick_differ_most_at_1_422() -> None:
    at, size = largest(lambda x: ERF.derivative(x) - QUICK.derivative(x), 1.3, 1.5)
    assert at == pytest.approx(1.422, abs=5e-4)
    assert size == pytest.approx(2.91e-2, abs=5e-5)


def test_negative_tail_of_the_derivative() -> None:
    far = ERF.derivative(np.array([-7.0, -100.0, 7.2]))
    assert far[0] == pytest.approx(-6.3e-11, abs=5e-13)
    assert far[1] == 0
    assert far[2] == pytest.approx(1.0, abs=2e-11)


@pytest.mark.parametrize(
    ("dtype", "constant", "change"), [("float16", 0.044708251953125, 3.8e-6), ("bfloat16", 0.044677734375, 2.1e-5)]
)
def test_the_constant_of_the_tanh_form_rounded_to_16_bits(dtype: str, constant: float, change: float) -> None:
    assert float(np.float64(0.044715).astype(FLOAT_DTYPES[dtype])) == constant
    x = np.array([-2.0])
    moved = TANH.value(x, constants={"cubic": constant}) - TANH.value(x)
    assert abs(moved[0]) == pytest.approx(change, rel=0.05)


def test_erf_of_python_does_not_overflow() -> None:
    assert [math.erf(x) for x in (10, 1e308)] == [1, 1]
    assert math.erfc(30) == 0
