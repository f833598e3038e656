"""Units in the last place: the spacing of a floating-point type, and distances counted in it.

An ulp here is the gap between neighbouring numbers of the binade that holds |x|, as in Muller et al., *Handbook
of Floating-Point Arithmetic*, 2nd ed., section 2.3.2 (Goldberg's definition, extended to all reals).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError

_EXPONENT_FIELD: Final = np.uint64(0x7FF0_0000_0000_0000)


@dataclass(frozen=True, slots=True)
class Spacing:
    """How the numbers of a binary floating-point type are spaced.

    Attributes:
        relative: Spacing in [1, 2).
        smallest: Spacing at 0 and among the subnormals: the smallest subnormal.
        largest: Spacing in the last binade.
    """

    relative: float
    smallest: float
    largest: float


@cache
def spacing(dtype: np.dtype[Any]) -> Spacing:
    """The `Spacing` of one of `parity.dtypes.FLOAT_DTYPES`."""
    info = ml_dtypes.finfo(dtype)
    relative = float(info.eps)
    return Spacing(relative, float(info.smallest_subnormal), relative * 2.0 ** (int(info.maxexp) - 1))


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """``dtype`` (a name or anything NumPy takes) as one of `parity.dtypes.FLOAT_DTYPES`.

    Raises:
        InputError: It is another type.
    """
    if isinstance(dtype, str) and dtype in FLOAT_DTYPES:
        return FLOAT_DTYPES[dtype]
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise InputError.unknown("floating-point type", str(dtype), FLOAT_DTYPES) from None
    native = found.newbyteorder("=") if found.kind == "f" else found
    if native not in FLOAT_DTYPES.values():
        raise InputError.unknown("floating-point type", native.name, FLOAT_DTYPES)
    return native


def ulp(x: ArrayLike, dtype: DTypeLike) -> NDArray[np.float64]:
    """Spacing of ``dtype`` at |x|.

    Args:
        x: Real numbers of any shape, taken as float64.
        dtype: One of `parity.dtypes.FLOAT_DTYPES`, as a name or a dtype.

    Returns:
        float64 of the shape of ``x``: the distance between neighbours in the binade of |x|. From 0 through the
        subnormals that is the smallest subnormal; beyond the largest finite number it stays that of the last
        binade; at infinities and NaN it is NaN. Every value is an exact power of two.

    Raises:
        InputError: ``dtype`` is another type.
    """
    values = np.asarray(x, dtype=np.float64)
    result = np.empty_like(values)
    ulp_into(values, spacing(float_type(dtype)), result)
    result[~np.isfinite(values)] = np.nan
    return result


def ulp_into(x: NDArray[np.float64], unit: Spacing, out: NDArray[np.float64]) -> None:
    """`ulp` of finite ``x``, written to ``out`` without allocating."""
    # With its sign and significand cleared, a float64 is the power of two of its binade (0 for subnormals).
    np.bitwise_and(x.view(np.uint64), _EXPONENT_FIELD, out=out.view(np.uint64))
    np.multiply(out, unit.relative, out=out)
    np.clip(out, unit.smallest, unit.largest, out=out)


def ulp_distance(a: ArrayLike, b: ArrayLike) -> NDArray[Any]:
    """Number of steps from ``a`` to ``b`` along the numbers of their common type.

    The numbers are put in order as integers (Bruce Dawson, *Comparing Floating Point Numbers*, 2012), so the count
    runs through the subnormals and over zero; +0 and -0 are 0 apart, and infinity is the step after the largest
    finite number.

    Args:
        a: Array of one of `parity.dtypes.FLOAT_DTYPES`.
        b: Array of the same dtype; shapes broadcast.

    Returns:
        Unsigned integers of the width of the dtype, exact. Two NaN are 0 apart; a NaN and a number are apart by the
        largest value of the type, which two numbers never reach.

    Raises:
        InputError: The dtypes differ or are not floating-point types of this package.
    """
    left, right = np.asarray(a), np.asarray(b)
    if left.dtype != right.dtype:
        raise InputError(
            f"A distance in ulp needs one dtype; these are {left.dtype.name} and {right.dtype.name}.",
            hint="Cast one side, or measure in real-valued units: abs(a - b) / ulp(b, dtype).",
        )
    dtype = float_type(left.dtype)
    left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
    # Signalling NaN are no error here, nor is the wrapping subtraction, of which NumPy warns for scalars.
    with np.errstate(invalid="ignore", over="ignore"):
        left_nan, right_nan = np.isnan(left), np.isnan(right)
        distance = np.asarray(ordered_distance(left, right))
    distance[left_nan & right_nan] = 0
    distance[left_nan ^ right_nan] = np.iinfo(distance.dtype).max
    return distance


def ordered_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """`ulp_distance` of arrays of one native dtype without NaN."""
    x, y = _ordered(a), _ordered(b)
    # The largest distance, twice the largest magnitude, needs one bit more than the signed type has. Subtracting
    # the smaller from the larger in the unsigned type gives it exactly.
    unsigned = f"u{a.dtype.itemsize}"
    difference: NDArray[Any] = np.maximum(x, y).view(unsigned) - np.minimum(x, y).view(unsigned)
    return difference


def _ordered(values: NDArray[Any]) -> NDArray[Any]:
    """Signed integers in the order of the floats: sign-magnitude turned into two's complement."""
    width = values.dtype.itemsize
    bits = np.atleast_1d(values).view(f"i{width}").reshape(values.shape)
    magnitude = bits & np.iinfo(bits.dtype).max
    return np.where(bits < 0, -magnitude, magnitude)
