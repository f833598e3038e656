"""A few numbers of a tensor that do not depend on the order of its elements, by which counterparts are looked for."""

import math
from dataclasses import dataclass

import numpy as np

from parity.adapter import Array


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


def signature(array: Array) -> Signature:
    """The signature of a tensor of any dtype and shape."""
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array).view(array.real.dtype)
    flat = np.asarray(array).reshape(-1)
    if flat.dtype.kind != "f" or flat.dtype.itemsize < 4:
        flat = flat.astype(np.float64 if flat.dtype.kind in "iu" else np.float32)
    with np.errstate(invalid="ignore"):  # infinities of both signs
        total = float(np.add.reduce(flat, dtype=np.float64)) if flat.size else 0.0
    finite = flat
    if not np.isfinite(total):
        finite = flat[np.isfinite(flat)]
        total = float(np.add.reduce(finite, dtype=np.float64))
    if not finite.size:
        return Signature(flat.size, 0, 0.0, 0.0, 0.0, 0.0)
    low, high = float(finite.min()), float(finite.max())
    scale = max(abs(low), abs(high)) or 1.0
    rms = float(np.sqrt(_mean_square(finite, scale))) * scale
    return Signature(flat.size, finite.size, total / finite.size, rms, low, high)


def _mean_square(flat: Array, scale: float) -> float:
    """Mean square in units of ``scale``; block by block in float64, so that neither overflow nor rounding shows."""
    total = 0.0
    for start in range(0, flat.size, 1 << 16):
        block = flat[start : start + (1 << 16)].astype(np.float64) / scale
        total += float(block @ block)
    return total / flat.size
