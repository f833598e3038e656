"""Local error: what one region of the candidate does to the reference's own numbers, against what rounding would do.

All sizes are root mean squares over the elements at which every array is finite. The words are those of the design:

    z          the reference's region in float64 on the recorded inputs (exact)
    floor      the twin's error: the reference's region in the candidate's precision, minus z; at least half an ulp of z
    error      the candidate's region on the same inputs, minus z
    gap        the candidate's region in float64, minus z: how far the two *functions* are apart, rounding aside
    rounding   the candidate's region minus the same in float64: how far it is from its own function
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.dtypes import float_dtype

HALF_ULP_RMS: Final = 0.5 / math.sqrt(3.0)
"""Root mean square of an error spread evenly over half an ulp to either side, in ulp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalError:
    """The numbers by which a region is judged.

    Attributes:
        count: Elements compared.
        scale: Size of z.
        floor: Noise floor.
        error: The candidate's error against z; its own recorded one where it was only traced.
        gap: Distance of the two functions; None where one of them cannot be computed in float64.
        rounding: The candidate's error against its own function; None likewise.
        max_abs: Greatest error of the candidate.
        max_gap: Greatest difference of the two functions, in units of the greatest error of the twin there.
        finite_lost: Elements where z is finite and the candidate is not.
        finite_gained: Elements where the candidate is finite and z is not.
    """

    count: int
    scale: float
    floor: float
    error: float
    gap: float | None
    rounding: float | None
    max_abs: float
    max_gap: float | None
    finite_lost: int
    finite_gained: int

    @property
    def excess(self) -> float:
        """Error over noise floor; 0 where both are nothing."""
        return ratio(self.error, self.floor)

    @property
    def gap_excess(self) -> float | None:
        """Distance of the functions over noise floor."""
        return None if self.gap is None else ratio(self.gap, self.floor)

    @property
    def rounding_excess(self) -> float | None:
        """The candidate's own rounding over noise floor."""
        return None if self.rounding is None else ratio(self.rounding, self.floor)


def ratio(error: float, floor: float) -> float:
    """``error`` over ``floor``, which is 0 only where every number is."""
    if floor > 0:
        return error / floor
    return 0.0 if error == 0 else math.inf


def local_error(
    *, exact: Array, twin: Array, candidate: Array, candidate_exact: Array | None, dtype: str
) -> LocalError:
    """Measures a region. All arrays are of one shape.

    Args:
        exact: z, float64.
        twin: The reference's region in the candidate's precision, or its recorded output where that is the same.
        candidate: The candidate's output.
        candidate_exact: The candidate's region in float64; None where it cannot be computed so.
        dtype: The floating-point type in which both are meant to be computed.
    """
    z, t, y = (_wide(one) for one in (exact, twin, candidate))
    g = None if candidate_exact is None else _wide(candidate_exact)
    finite = np.isfinite(z) & np.isfinite(t) & np.isfinite(y)
    if g is not None:
        finite &= np.isfinite(g)
    fine, fine_z = np.isfinite(y), np.isfinite(z)
    kept_z = z[finite]
    twin_error, error = t[finite] - kept_z, y[finite] - kept_z
    step = _ulp(kept_z, dtype)
    gap = None if g is None else g[finite] - kept_z
    return LocalError(
        count=z.size,
        scale=rms(kept_z),
        floor=max(rms(twin_error), HALF_ULP_RMS * rms(step)),
        error=rms(error),
        gap=None if gap is None else rms(gap),
        rounding=None if g is None else rms(y[finite] - g[finite]),
        max_abs=largest(error),
        max_gap=None if gap is None else ratio(largest(gap), max(largest(twin_error), largest(step) / 2)),
        finite_lost=int(np.count_nonzero(fine_z & ~fine)),
        finite_gained=int(np.count_nonzero(fine & ~fine_z)),
    )


def rms(array: NDArray[Any]) -> float:
    """Root mean square of float64 numbers, in whatever range they lie; 0 for none."""
    if not array.size:
        return 0.0
    unit = float(np.max(np.abs(array)))
    if unit == 0 or not math.isfinite(unit):
        return unit
    return unit * math.sqrt(float(np.mean(np.square(array / unit))))


def largest(array: NDArray[Any]) -> float:
    """Greatest magnitude; 0 for no elements."""
    return float(np.max(np.abs(array))) if array.size else 0.0


def _wide(array: Array) -> NDArray[np.float64]:
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array).view(array.real.dtype)
    with np.errstate(invalid="ignore"):
        return np.asarray(array).astype(np.float64).reshape(-1)


def _ulp(z: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Spacing of the dtype's numbers at each z."""
    info = ml_dtypes.finfo(float_dtype(dtype))
    size = np.maximum(np.abs(z), float(info.smallest_normal))
    return np.asarray(np.ldexp(float(info.eps), np.frexp(size)[1] - 1), np.float64)
