"""Elementary and special functions of `DoubleDouble` arrays, to a relative error below 2^-72 (2e-22).

That is 19 bits more than float64 holds, so a formula that is built from them and does not cancel by more than that is
correctly rounded but for one result in a million, and within one ulp always.

The tables behind them are short and computed on first use, in decimal arithmetic of 50 digits.
"""

from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.functions.double_double import DoubleDouble, Float64, fast_two_sum, maximum, two_prod, two_sum, where

PI: Final = Decimal("3.14159265358979323846264338327950288419716939937510582097494")

DECIMAL: Final = Context(prec=50)
"""Fifty digits, whatever precision the caller's own decimal context has."""

# exp(±16384) is far outside float64 even after a product with the cube of its largest number; it is where ±∞ ends.
_EXP_LIMIT: Final = 16384.0
# The table holds exp(j/256) for |j/256| <= ln(2)/2.
_EXP_STEP: Final = 256
_EXP_END: Final = 89
# Below this size expm1(x) and log1p(x) are x to all the bits there are.
_NEGLIGIBLE: Final = 2.0**-120

_MILLS_STEP: Final = 16
# φ(56) times the largest float64 is still below the smallest: beyond it, the ratio does not matter.
_MILLS_END: Final = 56
_MILLS_TERMS: Final = 14
_MILLS_PAIRS: Final = 4


def _pair(number: Decimal) -> tuple[float, float]:
    hi = float(number)
    return hi, float(number - Decimal(hi))


@cache
def _ln2_parts() -> tuple[float, float, float]:
    """The logarithm of 2 in three floats: 32 bits, 32 bits, the rest. Up to 2^21 times the first two is exact."""
    with localcontext(DECIMAL):
        ln2 = Decimal(2).ln()
        first = int(ln2 * 2**32) / 2**32
        second = int((ln2 - Decimal(first)) * 2**64) / 2**64
        return first, second, float(ln2 - Decimal(first) - Decimal(second))


@cache
def _exp_table() -> tuple[Float64, Float64]:
    """exp(j/256) as pairs for j from -89 to 89."""
    with localcontext(DECIMAL):
        pairs = [_pair((Decimal(j) / _EXP_STEP).exp()) for j in range(-_EXP_END, _EXP_END + 1)]
    hi, lo = np.array(pairs).T
    return np.ascontiguousarray(hi), np.ascontiguousarray(lo)


def _expm1_series(s: DoubleDouble) -> DoubleDouble:
    """exp(s) - 1 for |s| <= 1/512, where s^3/6 in float64 is good to 2^-82."""
    tail = np.full_like(s.hi, 1 / 40320)
    for factorial in (5040, 720, 120, 24, 6):
        tail = tail * s.hi + 1 / factorial
    square, square_error = two_prod(s.hi, s.hi)
    rest = (square_error / 2 + s.hi * s.lo) + tail * s.hi * square
    high, low = two_sum(s.hi, square / 2)
    return DoubleDouble(*two_sum(high, low + (s.lo + rest)))


def _exp_parts(x: DoubleDouble) -> tuple[NDArray[np.int32], DoubleDouble, DoubleDouble, NDArray[np.bool_]]:
    """k, T, q and where both k is 0 and T is 1, such that exp(x) = 2^k·T·(1 + q)."""
    x = x.clipped(_EXP_LIMIT)
    first, second, third = _ln2_parts()
    k = np.rint(x.hi / np.log(2.0))
    # Exact: k·first has trailing zeros enough, and the difference of two numbers so near each other is a float64. The
    # same holds for the subtraction of j/256 below.
    high, low = two_sum(x.hi - k * first, -k * second)
    j = np.rint(high * _EXP_STEP)
    s = DoubleDouble(*two_sum(high - j / _EXP_STEP, low + (x.lo - k * third)))
    index = j.astype(np.intp) + _EXP_END
    table_hi, table_lo = _exp_table()
    power = DoubleDouble(table_hi[index], table_lo[index])
    return k.astype(np.int32), power, _expm1_series(s), (k == 0) & (j == 0)


def _scaled(x: DoubleDouble, k: NDArray[np.int32]) -> DoubleDouble:
    """x·2^k, without an exponent where all are small enough for four of them to be multiplied."""
    if np.all(np.abs(k) <= 100):
        return DoubleDouble(np.ldexp(x.hi, k), np.ldexp(x.lo, k))
    return DoubleDouble(x.hi, x.lo, k)


def exp(x: DoubleDouble) -> DoubleDouble:
    """e^x: k·ln 2 + j/256 taken off, the rest by its Taylor series."""
    k, power, rest, _ = _exp_parts(x)
    return _scaled(power + power * rest, k)


def expm1(x: DoubleDouble) -> DoubleDouble:
    """e^x - 1, to the same relative error for small x."""
    k, power, rest, small = _exp_parts(x)
    result = where(small, rest, _scaled(power + power * rest, k) - 1)
    # Only numbers with an exponent can be so small that the series runs out of float64's range.
    return result if x.exponent is None else where(np.abs(x.to_float64()) < _NEGLIGIBLE, x, result)


def log1p(x: DoubleDouble) -> DoubleDouble:
    """ln(1 + x) for x >= 0: one Newton step on exp from float64's own."""
    guess = np.log1p(x.to_float64())
    start = DoubleDouble(guess, np.zeros_like(guess))
    step = (x - expm1(start)).to_float64() / (1 + x.to_float64())
    result = DoubleDouble(*fast_two_sum(guess, step))
    return result if x.exponent is None else where(x.to_float64() < _NEGLIGIBLE, x, result)


def sigmoid(x: DoubleDouble) -> DoubleDouble:
    """1/(1 + e^-x)."""
    return 1 / (1 + exp(-x))


def softplus(x: DoubleDouble) -> DoubleDouble:
    """ln(1 + e^x)."""
    return maximum(x, 0) + log1p(exp(-abs(x)))


def tanh(x: DoubleDouble) -> DoubleDouble:
    """(e^2x - 1)/(e^2x + 1)."""
    e = expm1(2 * x)
    return e / (e + 2)


def _mills_coefficients() -> Iterator[list[Decimal]]:
    """Taylor coefficients of the Mills ratio at 56, 56 - 1/16, …, 0.

    M' = t·M - 1 gives all of them from M(t), and M one step down from them. Going down damps every error by
    exp(-t·h), so that the start, Laplace's continued fraction 1/(t + 1/(t + 2/(t + …))), is all it needs.
    """
    t = Decimal(_MILLS_END)
    ratio = t
    for n in range(60, 0, -1):
        ratio = t + n / ratio
    ratio = 1 / ratio
    step = Decimal(1) / _MILLS_STEP
    for _ in range(_MILLS_END * _MILLS_STEP + 1):
        c = [ratio, t * ratio - 1]
        for n in range(1, 21):
            c.append((t * c[n] + c[n - 1]) / (n + 1))
        yield c[:_MILLS_TERMS]
        ratio = Decimal(0)
        for coefficient in reversed(c):
            ratio = coefficient - step * ratio
        t -= step


@cache
def _mills_table() -> tuple[Float64, Float64]:
    """Taylor coefficients at j/16, and what the first few lose by rounding: arrays of shape (terms, points)."""
    with localcontext(DECIMAL):
        points = list(_mills_coefficients())[::-1]
        hi = np.array([[float(c) for c in point] for point in points])
        lo = np.array([[_pair(c)[1] for c in point[:_MILLS_PAIRS]] for point in points])
    return np.ascontiguousarray(hi.T), np.ascontiguousarray(lo.T)


def mills_ratio(t: DoubleDouble) -> DoubleDouble:
    """(1 - Φ(t))/φ(t) for t >= 0; held at its value for 56 beyond that, where its product with φ(t) is 0 anyway."""
    t = t.clipped(_MILLS_END)
    nearest = np.rint(t.hi * _MILLS_STEP)
    index = nearest.astype(np.intp)
    s = DoubleDouble(t.hi - nearest / _MILLS_STEP, np.zeros_like(t.hi)) + DoubleDouble(t.lo, np.zeros_like(t.hi))
    table_hi, table_lo = _mills_table()
    tail = np.zeros_like(s.hi)
    for coefficients in table_hi[: _MILLS_PAIRS - 1 : -1]:
        tail = tail * s.hi + coefficients[index]
    result = DoubleDouble(tail, np.zeros_like(tail))
    for hi, lo in zip(table_hi[_MILLS_PAIRS - 1 :: -1], table_lo[::-1], strict=True):
        result = result * s + DoubleDouble(hi[index], lo[index])
    return result


_INV_SQRT_2PI: Final = DoubleDouble.of(DECIMAL.divide(1, DECIMAL.sqrt(DECIMAL.multiply(2, PI))))


def normal_pdf(x: DoubleDouble) -> DoubleDouble:
    """φ(x) = exp(-x²/2)/√(2π)."""
    return exp(x * x * -0.5) * _INV_SQRT_2PI


def normal_cdf(x: DoubleDouble) -> DoubleDouble:
    """Φ(x), never by way of 1 + erf, which is 0 to float64 below -8.3 while Φ is not until -38.5."""
    t = abs(x)
    tail = normal_pdf(t) * mills_ratio(t)
    return where(x.hi < 0, tail, 1 - tail)
