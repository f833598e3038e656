"""The arithmetic of one block, and the totals it is added to.

A block takes the cheapest of three ways that is provably right for it:

1. *Equal*: the bits agree, and the sum of squares says that all of them are finite numbers.
2. *Close*: no |c - r| exceeds |r| / 2. By Sterbenz's lemma (c - r is exact where r/2 ≤ c ≤ 2r) the differences are
   exact in the working type – float32 for float32 and narrower – and signs agree, so bit patterns can be
   subtracted as they are. This is what rounding noise looks like.
3. *General*: everything else, in float64, position by position as the docstring of `Comparison` defines it.

`Kernel` keeps its buffers from block to block: at these sizes an allocation costs as much as a pass.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.compare.comparison import Sums, add_histograms
from parity.compare.traversal import Traversal
from parity.ulps import Spacing, ordered_distance, ulp_into

Array = NDArray[Any]

_CLOSE: Final = 0.49
"""Largest computed |c - r| / |r| of a close block: 1/2 less a margin above its own rounding (2^-22 at most)."""


_BLAS_SERIAL: Final = 8192
"""OpenBLAS splits scalar products of more than 10,000 elements over threads of its own. Their spinning made one of
16,384 elements two hundred times slower on a loaded machine (numpy 2.4, OpenBLAS 0.3.31)."""


_PREFIX: Final = 64
"""Elements looked at before a whole block is tested for equality."""


@dataclass(slots=True)
class Totals:
    """What has been seen so far. Positions are in C order of the whole; the rest is as in `Comparison`."""

    finite_count: int = 0
    differing: int = 0
    zero_reference: int = 0
    over_limit: int = 0
    reference_nan: int = 0
    reference_inf: int = 0
    candidate_nan: int = 0
    candidate_inf: int = 0
    nonfinite_differences: int = 0
    first_nonfinite: int | None = None
    max_abs: float = 0.0
    worst: int | None = None
    max_rel: float | None = None
    max_ulp: int | float = 0
    histogram: tuple[int, ...] = ()
    sums: Sums = field(default_factory=Sums)

    def add(self, other: "Totals") -> None:
        """Takes in the totals of other blocks of the same arrays."""
        self.offer_worst(other.max_abs, other.worst)
        self.offer_nonfinite(other.first_nonfinite)
        self.offer_relative(other.max_rel)
        self.max_ulp = max(self.max_ulp, other.max_ulp)
        self.histogram = add_histograms(self.histogram, other.histogram)
        self.sums = self.sums.plus(other.sums)
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def offer_worst(self, max_abs: float, position: int | None) -> None:
        """Keeps the larger difference; of equal ones the first in C order."""
        if position is None or max_abs < self.max_abs:
            return
        if self.worst is None or max_abs > self.max_abs or position < self.worst:
            self.max_abs, self.worst = max_abs, position

    def offer_nonfinite(self, position: int | None) -> None:
        """Keeps the first position of a non-finite difference."""
        if position is not None and (self.first_nonfinite is None or position < self.first_nonfinite):
            self.first_nonfinite = position

    def offer_relative(self, max_rel: float | None) -> None:
        """Keeps the larger relative difference."""
        if max_rel is not None and (self.max_rel is None or max_rel > self.max_rel):
            self.max_rel = max_rel


_ADDED: Final = (
    "finite_count",
    "differing",
    "zero_reference",
    "over_limit",
    "reference_nan",
    "reference_inf",
    "candidate_nan",
    "candidate_inf",
    "nonfinite_differences",
)


class Kernel:
    """Adds blocks to `totals`, in buffers of its own; one a thread.

    Args:
        size: Largest number of elements in a block.
        reference: Native floating-point dtype of the reference blocks.
        candidate: That of the candidate blocks.
        unit: Spacing of the type whose ulp is the unit, or None to count steps (needs equal dtypes of that type).
        limit: Limit on |c - r|, or None.
        walk: The walk that the blocks are of, for their positions in C order.
    """

    __slots__ = (
        "_bits", "_candidate", "_difference", "_distance", "_flags", "_limit", "_quotient", "_reference", "_smallest",
        "_unit", "_walk", "_wide", "_work", "totals",
    )  # fmt: skip

    def __init__(
        self,
        size: int,
        reference: np.dtype[Any],
        candidate: np.dtype[Any],
        *,
        unit: Spacing | None,
        limit: float | None,
        walk: Traversal,
    ) -> None:
        double = np.dtype(np.float64)
        self.totals = Totals()
        self._unit, self._limit, self._walk = unit, limit, walk
        self._work = double if double in (reference, candidate) else np.dtype(np.float32)
        self._smallest = np.finfo(self._work).tiny
        self._bits = np.dtype(f"i{reference.itemsize}") if reference == candidate else None
        self._wide = np.ones((3, size))  # r, c - r and ones, in float64
        self._reference = np.empty(size if reference != self._work else 0, self._work)
        self._candidate = np.empty(size if candidate != self._work else 0, self._work)
        self._difference = self._wide[1] if self._work == double else np.empty(size, self._work)
        self._quotient = np.empty(size, self._work)
        self._distance = np.empty(size, double if unit else self._bits)
        self._flags = np.empty(size, bool)

    def add(self, reference: Array, candidate: Array, start: int) -> None:
        """Adds a block: two contiguous flat arrays, whose first element has position ``start`` in the walk."""
        if self._add_equal(reference, candidate) or self._add_close(reference, candidate, start):
            return
        self._add_general(reference, candidate, start)

    def _add_equal(self, reference: Array, candidate: Array) -> bool:
        if self._bits is None:
            return False
        size = reference.size
        r, c = reference.view(self._bits), candidate.view(self._bits)
        if (r[:_PREFIX] != c[:_PREFIX]).any() or not np.equal(r, c, out=self._flags[:size]).all():
            return False
        wide = self._wide[0, :size]
        np.copyto(wide, reference)
        squares = _dot(wide, wide)
        if not math.isfinite(squares):
            return False
        totals = self.totals
        totals.finite_count += size
        totals.histogram = add_histograms(totals.histogram, (size,))
        totals.sums = totals.sums.plus(Sums(reference=squares, candidate=squares, product=squares))
        if squares or reference.any():  # the squares of small float64 values underflow
            totals.offer_relative(0.0)
        return True

    def _add_close(self, reference: Array, candidate: Array, start: int) -> bool:
        totals, size = self.totals, reference.size
        r, c = _cast(reference, self._reference), _cast(candidate, self._candidate)
        difference = np.subtract(c, r, out=self._difference[:size])
        quotient = np.divide(difference, r, out=self._quotient[:size])
        np.absolute(quotient, out=quotient)
        # 0/0, where both are 0, is NaN and passed over by fmax; so is any NaN input, which the squares show below.
        largest = np.fmax.reduce(quotient)
        if not largest <= _CLOSE or (largest < self._smallest and difference.any()):
            return False
        wide = self._wide[:, :size]
        np.copyto(wide[0], r)
        if self._work != wide.dtype:
            np.copyto(wide[1], difference)
        # One product of matrices makes all the sums, more than twice as fast as scalar products one by one.
        (rr, rd, _), (_, dd, d) = np.matmul(wide[:2], wide.T).tolist()
        if not math.isfinite(rr + dd):
            return False
        if self._unit is None:
            distance = self._subtracted_bits(reference, candidate)
            if distance is None:
                return False
        else:
            distance = self._distance[:size]
            ulp_into(wide[0], self._unit, distance)
            np.divide(wide[1], distance, out=distance)
            np.absolute(distance, out=distance)

        totals.finite_count += size
        # Here c = r + d with |d| ≤ |r|/2, so these sums cancel by a factor of 9 at most.
        totals.sums = totals.sums.plus(
            Sums(
                reference=rr,
                candidate=rr + 2 * rd + dd,
                product=rr + rd,
                error=dd,
                difference=d,
                ulp=self._add_distances(distance),
            )
        )
        self._offer_quotients(quotient, largest, wide)
        max_abs = max(difference.max(), -difference.min())
        if self._limit is not None and float(max_abs) > self._limit:
            totals.over_limit += int(np.count_nonzero(np.abs(wide[1]) > self._limit))
        if self._may_be_worst(max_abs):
            self._offer_worst(np.absolute(difference, out=difference), max_abs, start, None)
        return True

    def _subtracted_bits(self, reference: Array, candidate: Array) -> Array | None:
        """Distances in steps of numbers of equal sign; None if +0 meets -0."""
        signed = self._distance[: reference.size]
        np.subtract(reference.view(signed.dtype), candidate.view(signed.dtype), out=signed)
        steps = np.absolute(signed, out=signed).view(f"u{signed.itemsize}")
        # The bits of +0 and -0 differ by the one number that has no absolute value in the signed type.
        return None if steps.max() > np.iinfo(signed.dtype).max else steps

    def _offer_quotients(self, quotient: Array, largest: Any, wide: Array) -> None:
        """Offers the largest relative difference. The quotients are rounded to the working type, float64's rightly."""
        best = self.totals.max_rel
        if self._work == np.float64:
            self.totals.offer_relative(float(largest))
        elif best is None or float(largest) * (1 + 2.0**-22) > best:
            # Only what rounding could have put below the largest needs to be divided again.
            near = np.flatnonzero(quotient >= largest * np.float32(1 - 2.0**-22))
            self.totals.offer_relative(float(np.abs(wide[1, near] / wide[0, near]).max()))

    def _add_general(self, reference: Array, candidate: Array, start: int) -> None:
        totals = self.totals
        r, c = reference.astype(np.float64), candidate.astype(np.float64)
        finite = np.isfinite(r) & np.isfinite(c)
        kept = None
        if not finite.all():
            self._add_nonfinite(r, c, finite, start)
            kept = np.flatnonzero(finite)
            if not kept.size:
                return
            r, c, reference, candidate = r[kept], c[kept], reference[kept], candidate[kept]
        totals.finite_count += r.size
        difference = c - r
        error = np.abs(difference)
        nonzero = r != 0
        totals.zero_reference += int(np.count_nonzero(error[~nonzero]))
        if nonzero.any():
            totals.offer_relative(float((error[nonzero] / np.abs(r[nonzero])).max()))
        if self._unit is None:
            distance = ordered_distance(reference, candidate)
        else:
            distance = np.empty_like(r)
            ulp_into(r, self._unit, distance)
            np.divide(error, distance, out=distance)
        totals.sums = totals.sums.plus(
            Sums(
                reference=_dot(r, r),
                candidate=_dot(c, c),
                product=_dot(r, c),
                error=_dot(difference, difference),
                difference=float(difference.sum()),
                ulp=self._add_distances(distance),
            )
        )
        max_abs = error.max()
        if self._may_be_worst(max_abs):
            self._offer_worst(error, max_abs, start, kept)
        if self._limit is not None:
            totals.over_limit += int(np.count_nonzero(error > self._limit))

    def _add_nonfinite(self, r: Array, c: Array, finite: Array, start: int) -> None:
        """Counts NaN and infinities, and the pairs that they make different."""
        totals = self.totals
        r_nan, c_nan = np.isnan(r), np.isnan(c)
        totals.reference_nan += int(np.count_nonzero(r_nan))
        totals.candidate_nan += int(np.count_nonzero(c_nan))
        totals.reference_inf += int(np.count_nonzero(np.isinf(r)))
        totals.candidate_inf += int(np.count_nonzero(np.isinf(c)))
        different = np.flatnonzero(~finite & ~(r_nan & c_nan) & (r != c))
        if different.size:
            totals.nonfinite_differences += different.size
            totals.differing += different.size
            totals.over_limit += different.size
            totals.offer_nonfinite(self._walk.c_order(start + different))

    def _may_be_worst(self, max_abs: Any) -> bool:
        """Whether a block's largest difference displaces the one so far; off C order, an equal one can."""
        best = self.totals.max_abs
        return bool(max_abs > best or (max_abs == best > 0 and self._walk.axes is not None))

    def _offer_worst(self, error: Array, max_abs: Any, start: int, kept: Array | None) -> None:
        ties = np.flatnonzero(error == max_abs)
        positions = ties if kept is None else kept[ties]
        self.totals.offer_worst(float(max_abs), self._walk.c_order(start + positions))

    def _add_distances(self, distance: Array) -> int | float:
        """Takes in the distances of finite pairs in ulp – 0 where equal, and only there – and returns their sum."""
        totals = self.totals
        largest = distance.max()
        counts = _histogram(distance, self._flags)
        totals.differing += distance.size - counts[0]
        totals.max_ulp = max(totals.max_ulp, largest.item())
        totals.histogram = add_histograms(totals.histogram, counts)
        return _exact_sum(distance, int(largest)) if self._unit is None else float(distance.sum())


def _cast(values: Array, buffer: Array) -> Array:
    """``values`` in the type of ``buffer``: themselves, or a copy in its beginning."""
    if values.dtype == buffer.dtype:
        return values
    out = buffer[: values.size]
    np.copyto(out, values)
    return out


def _dot(a: Array, b: Array) -> float:
    """Scalar product in float64, in pieces that BLAS does not split over threads of its own."""
    return sum(
        float(np.dot(a[low : low + _BLAS_SERIAL], b[low : low + _BLAS_SERIAL]))
        for low in range(0, a.size, _BLAS_SERIAL)
    )


def _exact_sum(values: Array, largest: int) -> int:
    """Sum of unsigned integers, however large."""
    bound = largest * values.size
    if bound <= np.iinfo(values.dtype).max:
        return int(np.add.reduce(values, dtype=values.dtype))  # without a cast, three times as fast
    if bound < 2**64:
        return int(np.add.reduce(values, dtype=np.uint64))
    high, low = values >> np.uint64(32), values & np.uint64(2**32 - 1)
    return (int(high.sum()) << 32) + int(low.sum())


def _histogram(values: Array, flags: NDArray[np.bool_]) -> list[int]:
    """Counts of ``values`` ≥ 0 in the bins {0}, (0, 1], (1, 2], (2, 4], … up to the last that is not empty."""
    above = int(np.count_nonzero(values))
    counts = [values.size - above]
    edge = values.dtype.type(1).item()
    while above:
        mask = np.greater(values, edge, out=flags[: values.size])
        beyond = int(np.count_nonzero(mask))
        counts.append(above - beyond)
        if beyond * 8 < values.size:  # carry on with the few that are left
            values = values[mask]
        above, edge = beyond, edge * 2
    return counts
