"""A few numbers of a tensor that do not depend on the order of its elements, by which counterparts are looked for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.compare import native
from parity.dtypes import FLOAT_DTYPES

BLOCK: Final = 1 << 13
"""Elements at a time: few enough that a BLAS does not split their scalar product over threads of its own."""

HALF: Final = frozenset(FLOAT_DTYPES[name] for name in ("float16", "bfloat16"))
"""Types whose numbers are all numbers of float32, where C sums them."""

HALF_BLOCK: Final = 1 << 16
"""Elements of these at a time."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What is the same in every layout of the same numbers.

    Attributes:
        count: Elements.
        finite: Elements that are neither NaN nor infinite; the rest of the numbers is of these alone.
        mean: Their mean.
        rms: Root of their mean square.
        low: The least.
        high: The greatest.
    """

    count: int
    finite: int
    mean: float
    rms: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Standard deviation."""
        return math.sqrt(max(self.rms * self.rms - self.mean * self.mean, 0.0))

    def distance(self, other: "Signature") -> float:
        """How far two tensors are apart at least, in units of the larger spread; infinite where the counts differ."""
        if self.count != other.count or self.finite != other.finite:
            return float("inf")
        unit = max(self.spread, other.spread) or max(abs(self.mean), abs(other.mean)) or 1.0
        return max(abs(self.mean - other.mean), abs(self.rms - other.rms)) / unit


class Signatures:
    """Many signatures as columns, to be held against one at a time.

    Args:
        many: Of tensors of one number of elements.
    """

    def __init__(self, many: Sequence[Signature]) -> None:
        columns = np.array([(one.finite, one.mean, one.rms, one.spread) for one in many], np.float64).reshape(-1, 4)
        self._finite, self._mean, self._rms, self._spread = columns.T

    def distances(self, one: Signature) -> NDArray[np.float64]:
        """`Signature.distance` of each; they have as many elements as ``one``."""
        unit = np.maximum(self._spread, one.spread)
        size = np.maximum(np.abs(self._mean), abs(one.mean))
        unit = np.where(unit > 0, unit, np.where(size > 0, size, 1.0))
        far: NDArray[np.float64] = np.maximum(np.abs(self._mean - one.mean), np.abs(self._rms - one.rms)) / unit
        far[self._finite != one.finite] = np.inf
        return far


def signature(array: Array) -> Signature:
    """The signature of a tensor of any dtype and shape."""
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array).view(array.real.dtype)
    flat = np.asarray(array).ravel(order="K")  # as it lies in memory: of what is merely transposed no copy is made
    if flat.size and native.available():
        found = native.Moments(low=math.inf, high=-math.inf)
        if all(native.add_moments(block, None, found) for block in _widened(flat)):
            mean, rms = found.sum / flat.size, math.sqrt(found.squares / flat.size)
            return Signature(flat.size, flat.size, mean, rms, found.low, found.high)
    total = _Sums(unit=_unit(flat))
    for start in range(0, flat.size, BLOCK):
        total.add(flat[start : start + BLOCK])
    return total.signature(flat.size)


def _widened(flat: Array) -> Iterator[Array]:
    """Blocks in float32 of numbers in half as many bits; others as they are."""
    if flat.dtype not in HALF:
        yield flat
        return
    for start in range(0, flat.size, HALF_BLOCK):
        yield flat[start : start + HALF_BLOCK].astype(np.float32)


def _unit(flat: Array) -> float:
    """In units of which squares neither overflow nor vanish: 1 where the type's own cannot in float64."""
    if flat.dtype != np.float64 or not flat.size:
        return 1.0
    sizes = np.abs(flat)
    return float(np.max(sizes, where=np.isfinite(sizes), initial=0.0)) or 1.0


class _Sums:
    """Sums over the finite elements of blocks, each of which is gone through while it is in the processor's cache."""

    def __init__(self, unit: float) -> None:
        self._unit = unit
        self._finite = 0
        self._sum = self._squares = 0.0
        self._low, self._high = math.inf, -math.inf

    def add(self, block: Array) -> None:
        wide = block.astype(np.float64)
        low, high = float(wide.min()), float(wide.max())
        if not (math.isfinite(low) and math.isfinite(high)):  # NaN is the least and the greatest
            wide = wide[np.isfinite(wide)]
            if not wide.size:
                return
            low, high = float(wide.min()), float(wide.max())
        self._low, self._high = min(self._low, low), max(self._high, high)
        if self._unit != 1.0:
            wide /= self._unit
        self._finite += wide.size
        self._sum += float(wide.sum())
        self._squares += float(wide @ wide)

    def signature(self, count: int) -> Signature:
        if not self._finite:
            return Signature(count, 0, 0.0, 0.0, 0.0, 0.0)
        mean, rms = self._sum / self._finite, math.sqrt(self._squares / self._finite)
        return Signature(count, self._finite, mean * self._unit, rms * self._unit, self._low, self._high)
