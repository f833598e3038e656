"""The arithmetic against exact fractions, the elementary functions against mpmath, beyond the range of float64."""

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.functions import exact
from parity.functions.double_double import DoubleDouble, clip, sqrt, where

finite = st.floats(allow_nan=False, allow_infinity=False)
nonzero = finite.filter(bool)


def number(x: float) -> DoubleDouble:
    return DoubleDouble.from_float64(np.array([x]))


def fraction(x: DoubleDouble, index: int = 0) -> Fraction:
    exponent = 0 if x.exponent is None else int(np.broadcast_to(x.exponent, x.hi.shape)[index])
    return (Fraction(float(x.hi[index])) + Fraction(float(x.lo[index]))) * Fraction(2) ** exponent


def close(got: Fraction, want: Fraction, bits: int = 98) -> bool:
    return abs(got - want) <= abs(want) / 2**bits


@settings(deadline=None, max_examples=60)
@given(finite, finite)
def test_sum_and_difference(a: float, b: float) -> None:
    assert close(fraction(number(a) + number(b)), Fraction(a) + Fraction(b))
    assert close(fraction(number(a) - number(b)), Fraction(a) - Fraction(b))


@settings(deadline=None, max_examples=60)
@given(finite, finite, nonzero)
def test_products_quotients_and_their_sum(a: float, b: float, c: float) -> None:
    assert close(fraction(number(a) * number(b)), Fraction(a) * Fraction(b))
    assert close(fraction(number(a) / number(c)), Fraction(a) / Fraction(c))
    assert close(fraction(number(a) * number(a) + number(b) * number(b)), Fraction(a) ** 2 + Fraction(b) ** 2)


@settings(deadline=None, max_examples=60)
@given(st.floats(min_value=5e-324, allow_infinity=False))
def test_square_root(a: float) -> None:
    assert close(fraction(sqrt(number(a))) ** 2, Fraction(a))


@settings(deadline=None, max_examples=60)
@given(finite, finite)
def test_comparison_is_that_of_the_numbers(a: float, b: float) -> None:
    x, y = number(a), number(b)
    assert (bool((x < y)[0]), bool((x <= y)[0]), bool((x > y)[0]), bool((x >= y)[0])) == (a < b, a <= b, a > b, a >= b)
    assert bool((x > 0)[0]) == (a > 0)


@settings(deadline=None, max_examples=60)
@given(finite)
def test_there_and_back(a: float) -> None:
    assert number(a).to_float64()[0] == a
    assert fraction(abs(-number(a))) == abs(Fraction(a))


def test_choice_between_numbers_with_and_without_exponent() -> None:
    small, large = number(1e-300), number(2.0)
    np.testing.assert_array_equal(where(np.array([True]), small, large).to_float64(), [1e-300])
    np.testing.assert_array_equal(where(np.array([False]), small, large).to_float64(), [2.0])
    np.testing.assert_array_equal(clip(number(-1e300), -1.0, 1.0).to_float64(), [-1.0])


def test_infinities_stand_beyond_every_float() -> None:
    infinite = DoubleDouble.from_float64(np.array([-math.inf, math.inf]))
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(infinite.to_float64(), [-math.inf, math.inf])
        np.testing.assert_array_equal((1 / infinite).to_float64(), [0.0, 0.0])
        assert (abs(infinite) > np.finfo(np.float64).max).all()


ELEMENTARY: list[tuple[Callable[[DoubleDouble], DoubleDouble], Callable[[mp.mpf], mp.mpf], float, float]] = [
    (exact.exp, mp.exp, -16000, 16000),
    (exact.exp, mp.exp, -1, 1),
    (exact.expm1, mp.expm1, -800, 800),
    (exact.expm1, mp.expm1, -0.01, 0.01),
    (exact.expm1, mp.expm1, -1e-300, 1e-300),
    (exact.log1p, mp.log1p, 0, 1),
    (exact.log1p, mp.log1p, 0, 1e-300),
    (exact.tanh, mp.tanh, -30, 30),
    (exact.tanh, mp.tanh, -0.01, 0.01),
    (exact.softplus, lambda x: mp.log1p(mp.exp(x)), -800, 800),
    (exact.normal_cdf, mp.ncdf, -5, 5),
    (exact.normal_cdf, lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, -55, 0),
    (exact.mills_ratio, lambda t: mp.erfc(t / mp.sqrt(2)) * mp.exp(t * t / 2) * mp.sqrt(mp.pi / 2), 0, 55),
]


@pytest.mark.parametrize(("function", "oracle", "low", "high"), ELEMENTARY)
def test_relative_error_below_2_to_the_minus_72(
    function: Callable[[DoubleDouble], DoubleDouble], oracle: Callable[[mp.mpf], mp.mpf], low: float, high: float
) -> None:
    x = np.random.default_rng(0).uniform(low, high, 200)
    result = function(DoubleDouble.from_float64(x))
    with mp.workprec(260), np.errstate(under="ignore"):
        for index, point in enumerate(x):
            want = oracle(mp.mpf(float(point)))
            got = fraction(result, index)
            assert abs(mp.mpf(got.numerator) / got.denominator / want - 1) < mp.mpf(2) ** -72, point
