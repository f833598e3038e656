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
from parity.compare import native
from parity.dtypes import float_dtype

Float64 = NDArray[np.float64]

BLOCK: Final = 1 << 15
"""Elements at a time: a block's arrays stay in the processor's cache."""

SAMPLE: Final = 4096
"""Elements by which it is found out whether a tensor holds what a mask fills in."""

LOWER: Final = 0.1
"""Quantile of the magnitudes that stands for what is not filled in: masks may cover most of a tensor."""

FILLED: Final = 1e6
"""Factor over it from which an element is filled in."""

EXPONENT: Final = np.int64(0x7FF0000000000000)
"""The bits of a float64 that hold its exponent."""

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
        max_excess: That in units of the greatest error of the twin.
        max_gap: Greatest difference of the two functions, likewise; None as ``gap``.
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
    max_excess: float
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
    """Measures a region. All arrays are of one size and order; they are read block by block.

    Args:
        exact: z, float64.
        twin: The reference's region in the candidate's precision, or its recorded output where that is the same.
        candidate: The candidate's output.
        candidate_exact: The candidate's region in float64; None where it cannot be computed so.
        dtype: The floating-point type in which both are meant to be computed.
    """
    arrays = [_flat(one) for one in (exact, twin, candidate)]
    own = None if candidate_exact is None else _flat(candidate_exact)
    total = _Sums(dtype, bulk_limit(arrays[0]))
    for start in range(0, arrays[0].size, BLOCK):
        place = slice(start, start + BLOCK)
        z, twin, candidate = (one[place] for one in arrays)
        total.add(z, twin, candidate, None if own is None else own[place])
    return total.result(has_own=own is not None)


class _Sums:
    """Sums of squares and greatest magnitudes over blocks."""

    def __init__(self, dtype: str, bulk: float) -> None:
        self._bulk = bulk
        info = ml_dtypes.finfo(float_dtype(dtype))
        self._eps, self._least = float(info.eps), float(info.smallest_normal)
        self._count = self._finite = self._lost = self._gained = 0
        self._squares = dict.fromkeys(("z", "twin", "error", "gap", "rounding", "ulp"), 0.0)
        self._largest = dict.fromkeys(self._squares, 0.0)
        self._native = native.LocalSizes() if native.available() and not np.isfinite(bulk) else None

    def add(self, z: Array, twin: Array, candidate: Array, own: Array | None) -> None:
        """Takes a block."""
        self._count += z.size
        z, own = _wide(z), None if own is None else _wide(own)
        if self._native is not None and native.add_local(
            (z, twin, candidate, own), self._least, self._eps, self._native
        ):
            self._finite += z.size
        else:
            self._add_any(z, _wide(twin), _wide(candidate), own)

    def _add_any(self, z: Float64, twin: Float64, candidate: Float64, own: Float64 | None) -> None:
        """Takes a block whose numbers may be any, of infinities and of what masks fill in too."""
        if not np.isfinite(dot(z, twin) + dot(candidate, z if own is None else own)):
            z, twin, candidate, own = self._finite_only(z, twin, candidate, own)
        if np.isfinite(self._bulk):
            z, twin, candidate, own = self._bulk_only(z, twin, candidate, own)
        self._finite += z.size
        self._note("z", z)
        self._note("twin", twin - z)
        self._note("error", candidate - z)
        self._note("ulp", np.maximum(_power_of_two(z), self._least) * self._eps)
        if own is not None:
            self._note("gap", own - z)
            self._note("rounding", candidate - own)

    def _finite_only(
        self, z: Float64, twin: Float64, candidate: Float64, own: Float64 | None
    ) -> tuple[Float64, Float64, Float64, Float64 | None]:
        fine_z, fine = np.isfinite(z), np.isfinite(candidate)
        self._lost += int(np.count_nonzero(fine_z & ~fine))
        self._gained += int(np.count_nonzero(fine & ~fine_z))
        kept = fine_z & fine & np.isfinite(twin)
        if own is not None:
            kept &= np.isfinite(own)
        return z[kept], twin[kept], candidate[kept], None if own is None else own[kept]

    def _bulk_only(
        self, z: Float64, twin: Float64, candidate: Float64, own: Float64 | None
    ) -> tuple[Float64, Float64, Float64, Float64 | None]:
        """Without what masks fill in on both sides: next to a billion, every score is less than its rounding."""
        filled = np.abs(z) > self._bulk
        other = [one for one in (candidate, own) if one is not None]
        for one in other:
            filled &= np.abs(one) > self._bulk
        kept = ~filled
        return z[kept], twin[kept], candidate[kept], None if own is None else own[kept]

    def _note(self, name: str, values: Float64) -> None:
        if values.size:
            self._squares[name] += dot(values, values)
            self._largest[name] = max(self._largest[name], float(values.max()), -float(values.min()))

    def result(self, *, has_own: bool) -> LocalError:
        """What all blocks add up to."""
        if self._native is not None:
            for name in self._squares:
                squares, largest = getattr(self._native, name)
                self._squares[name] += squares
                self._largest[name] = max(self._largest[name], largest)
        size = {name: math.sqrt(total / self._finite) if self._finite else 0.0 for name, total in self._squares.items()}
        most = self._largest
        unit = max(most["twin"], most["ulp"] / 2)
        return LocalError(
            count=self._count,
            scale=size["z"],
            floor=max(size["twin"], HALF_ULP_RMS * size["ulp"]),
            error=size["error"],
            gap=size["gap"] if has_own else None,
            rounding=size["rounding"] if has_own else None,
            max_abs=most["error"],
            max_excess=ratio(most["error"], unit),
            max_gap=ratio(most["gap"], unit) if has_own else None,
            finite_lost=self._lost,
            finite_gained=self._gained,
        )


def bulk_limit(z: Array) -> float:
    """Magnitude above which an element is a mask's filling; infinite where there is none such."""
    sample = np.abs(z[:: max(1, z.size // SAMPLE)].astype(np.float64))
    sample = sample[np.isfinite(sample) & (sample > 0)]
    if not sample.size:
        return math.inf
    lower = int(LOWER * sample.size)
    limit = FILLED * float(np.partition(sample, lower)[lower])
    return limit if float(sample.max()) > limit else math.inf


def dot(a: Float64, b: Float64) -> float:
    """Sum of products of two vectors, without the threads of a BLAS, which get in the way of the workers."""
    return float(np.einsum("i,i->", a, b))


def rms(array: NDArray[Any]) -> float:
    """Root mean square of float64 numbers, in whatever range they lie; 0 for none."""
    if not array.size:
        return 0.0
    unit = float(np.max(np.abs(array)))
    if unit == 0 or not math.isfinite(unit):
        return unit
    return unit * math.sqrt(float(np.mean(np.square(array / unit))))


def _flat(array: Array) -> Array:
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array).view(array.real.dtype)
    return np.asarray(array).reshape(-1)


def _wide(array: Array) -> Float64:
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64, copy=False)


def _power_of_two(z: Float64) -> Float64:
    """The greatest power of two up to the magnitude of each number: its bits without sign and significand."""
    return (z.view(np.int64) & EXPONENT).view(np.float64)
