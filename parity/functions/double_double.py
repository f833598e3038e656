"""Arrays of real numbers to about 106 bits, over a range that no activation function can leave.

A float64 result is only known to be right if it was computed with more than 53 bits, and the tails of the activations
are exactly where the usual tricks fail: x·Φ(x) at -38 is a product of a number of ordinary size and one that float64
can no longer hold. So a number here is the unevaluated sum of two float64 and, where needed, a power of two of its own:
(hi + lo)·2^exponent. With that, ``x / (1 + exp(-x))`` is right as it stands for every finite x.

The algorithms are the classical ones: Dekker (Numer. Math. 18, 1971) and Knuth for the error-free sum and product,
Hida, Li & Bailey (ARITH-15, 2001) for the arithmetic on pairs.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Union

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]
Real = Union["DoubleDouble", float]

INFINITE_EXPONENT: Final = 3000
"""±2^3000 stands in for ±∞: beyond every float64, and exp of its negative is far below every power of it."""

PLAIN_RANGE: Final = 2.0**250
"""Between 1/PLAIN_RANGE and PLAIN_RANGE no exponent is needed: a product of four is still a normal float64."""

_SPLITTER: Final = 2.0**27 + 1


def two_sum(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    """Sum and its rounding error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    """Sum and its rounding error, exactly, where |a| >= |b| (Dekker)."""
    total = a + b
    return total, b - (total - a)


def _split(a: Float64) -> tuple[Float64, Float64]:
    """Two halves of at most 26 bits each (Veltkamp)."""
    shifted = _SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def two_prod(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    """Product and its rounding error, exactly (Dekker)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@dataclass(frozen=True, slots=True, eq=False)
class DoubleDouble:
    """The numbers (hi + lo)·2^exponent, elementwise; float operands are taken exactly.

    Attributes:
        hi: The numbers rounded to float64; finite.
        lo: The rest, at most half an ulp of ``hi``.
        exponent: Power of two of each element; None is 0 everywhere and costs nothing.
    """

    hi: Float64
    lo: Float64
    exponent: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, number: "float | Fraction | Decimal | DoubleDouble") -> "DoubleDouble":
        """One number, scalar; ±∞ becomes its stand-in."""
        if isinstance(number, DoubleDouble):
            return number
        if isinstance(number, float | int) and np.isinf(number):
            return cls.from_float64(np.asarray(number))
        hi, exponent, fraction = float(number), None, Fraction(number)
        if hi and not 1 / PLAIN_RANGE < abs(hi) < PLAIN_RANGE:
            exponent = np.frexp(hi)[1]
            fraction /= Fraction(2) ** int(exponent)
            hi = float(fraction)
        return cls(np.asarray(hi), np.asarray(float(fraction - Fraction(hi))), exponent)

    @classmethod
    def from_float64(cls, x: Float64) -> "DoubleDouble":
        """The numbers ``x`` exactly; ±∞ becomes its stand-in. No NaN."""
        magnitude = np.abs(x)
        if np.all((magnitude < PLAIN_RANGE) & ((magnitude > 1 / PLAIN_RANGE) | (x == 0))):
            return cls(x, np.zeros_like(x))
        infinite = np.isinf(x)
        hi, exponent = np.frexp(np.where(infinite, np.copysign(1.0, x), x))
        return cls(hi, np.zeros_like(hi), np.where(infinite, np.int32(INFINITE_EXPONENT + 1), exponent))

    def to_float64(self) -> Float64:
        """The nearest float64 (a subnormal within ¾ of its ulp); overflow gives ±∞, underflow a signed zero."""
        return self.hi if self.exponent is None else np.ldexp(self.hi, self.exponent)

    def rounded(self) -> "DoubleDouble":
        """The same numbers with what float64 holds of them, and no more."""
        return DoubleDouble(self.hi, np.zeros_like(self.lo), self.exponent)

    def clipped(self, limit: float) -> "DoubleDouble":
        """The same numbers with no exponent, held to ±limit; what is below 2^-1074 becomes zero."""
        hi = self.to_float64()
        lo = self.lo if self.exponent is None else np.ldexp(self.lo, self.exponent)
        return DoubleDouble(np.clip(hi, -limit, limit), np.where(np.abs(hi) < limit, lo, 0.0))

    def __neg__(self) -> "DoubleDouble":
        return DoubleDouble(-self.hi, -self.lo, self.exponent)

    def __abs__(self) -> "DoubleDouble":
        return where(self.hi < 0, -self, self)

    def __add__(self, other: Real) -> "DoubleDouble":
        other = DoubleDouble.of(other)
        a_hi, a_lo, b_hi, b_lo, exponent = _aligned(self, other)
        high, high_error = two_sum(a_hi, b_hi)
        low, low_error = two_sum(a_lo, b_lo)
        high, high_error = fast_two_sum(high, high_error + low)
        return DoubleDouble(*fast_two_sum(high, high_error + low_error), exponent)

    def __sub__(self, other: Real) -> "DoubleDouble":
        return self + -DoubleDouble.of(other)

    def __mul__(self, other: Real) -> "DoubleDouble":
        other = DoubleDouble.of(other)
        product, error = two_prod(self.hi, other.hi)
        error = error + (self.hi * other.lo + self.lo * other.hi)
        return DoubleDouble(*fast_two_sum(product, error), _sum_of_exponents(self.exponent, other.exponent))

    def __truediv__(self, other: Real) -> "DoubleDouble":
        other = DoubleDouble.of(other)
        numerator, divisor = (DoubleDouble(number.hi, number.lo) for number in (self, other))
        first = numerator.hi / divisor.hi
        rest = numerator - divisor * DoubleDouble(first, np.zeros_like(first))
        negated = None if other.exponent is None else -other.exponent
        return DoubleDouble(*fast_two_sum(first, rest.hi / divisor.hi), _sum_of_exponents(self.exponent, negated))

    def __radd__(self, other: float) -> "DoubleDouble":
        return self + other

    def __rsub__(self, other: float) -> "DoubleDouble":
        return -self + other

    def __rmul__(self, other: float) -> "DoubleDouble":
        return self * other

    def __rtruediv__(self, other: float) -> "DoubleDouble":
        return DoubleDouble.of(other) / self

    def __lt__(self, other: Real) -> Bool:
        return self._difference(other) < 0

    def __gt__(self, other: Real) -> Bool:
        return self._difference(other) > 0

    def __le__(self, other: Real) -> Bool:
        return self._difference(other) <= 0

    def __ge__(self, other: Real) -> Bool:
        return self._difference(other) >= 0

    def _difference(self, other: Real) -> Float64:
        """A float64 of the sign of self - other; most comparisons are with 0 and need no subtraction."""
        return self.hi if isinstance(other, float | int) and other == 0 else (self - other).hi


def _aligned(a: DoubleDouble, b: DoubleDouble) -> tuple[Float64, Float64, Float64, Float64, Any]:
    """Parts of both at one exponent: the larger, so that what falls off the end of the smaller does not matter."""
    if a.exponent is None and b.exponent is None:
        return a.hi, a.lo, b.hi, b.lo, None
    a_exponent = np.int32(0) if a.exponent is None else a.exponent
    b_exponent = np.int32(0) if b.exponent is None else b.exponent
    # The exponent of a zero says nothing about its size and must not push the other number out of range.
    a_exponent = np.where(a.hi == 0, b_exponent, a_exponent)
    b_exponent = np.where(b.hi == 0, a_exponent, b_exponent)
    exponent = np.maximum(a_exponent, b_exponent)
    a_shift, b_shift = a_exponent - exponent, b_exponent - exponent
    return np.ldexp(a.hi, a_shift), np.ldexp(a.lo, a_shift), np.ldexp(b.hi, b_shift), np.ldexp(b.lo, b_shift), exponent


def _sum_of_exponents(a: NDArray[np.int32] | None, b: NDArray[np.int32] | None) -> NDArray[np.int32] | None:
    if a is None:
        return b
    return a if b is None else a + b


def where(condition: Bool, a: Real, b: Real) -> DoubleDouble:
    """``a`` where the condition holds, else ``b``."""
    a, b = DoubleDouble.of(a), DoubleDouble.of(b)
    exponent = None
    if a.exponent is not None or b.exponent is not None:
        zero = np.int32(0)
        exponent = np.where(
            condition, zero if a.exponent is None else a.exponent, zero if b.exponent is None else b.exponent
        )
    return DoubleDouble(np.where(condition, a.hi, b.hi), np.where(condition, a.lo, b.lo), exponent)


def maximum(a: Real, b: Real) -> DoubleDouble:
    """The larger of both."""
    a = DoubleDouble.of(a)
    return where(a > b, a, b)


def minimum(a: Real, b: Real) -> DoubleDouble:
    """The smaller of both."""
    a = DoubleDouble.of(a)
    return where(a < b, a, b)


def clip(a: DoubleDouble, low: Real, high: Real) -> DoubleDouble:
    """``a`` held between ``low`` and ``high``; ``high`` wins where they cross."""
    return minimum(maximum(a, low), high)


def sqrt(a: DoubleDouble) -> DoubleDouble:
    """Square root of positive numbers: one Newton step from the float64 root (Karp & Markstein)."""
    hi, lo, half = a.hi, a.lo, None
    if a.exponent is not None:
        odd = a.exponent & 1
        hi, lo, half = np.ldexp(hi, odd), np.ldexp(lo, odd), (a.exponent - odd) // 2
    root = np.sqrt(hi)
    square = DoubleDouble(*two_prod(root, root))
    rest = DoubleDouble(hi, lo) - square
    return DoubleDouble(*fast_two_sum(root, rest.hi / (2 * root)), half)
