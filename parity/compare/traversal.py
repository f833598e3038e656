"""How a pair of arrays is walked: in the order of memory, in contiguous blocks of bounded size, without full copies."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Traversal:
    """Two arrays of one shape, cut into blocks along the axis ``depth``, each of ``step`` of its slices at most.

    Attributes:
        reference: The reference, its axes permuted by ``axes``; flat where both sides are contiguous.
        candidate: The candidate, likewise.
        shape: Shape of the arrays as they were given.
        axes: The permutation, or None where the walk is in C order.
        depth: Axis that is cut; axes before it are walked one index at a time, axes behind it are taken whole.
        step: Slices of that axis in a block.
    """

    reference: Array
    candidate: Array
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None
    depth: int
    step: int

    def __len__(self) -> int:
        """Number of blocks."""
        shape = self.reference.shape
        return math.prod(shape[: self.depth]) * self._chunks

    @property
    def _chunks(self) -> int:
        return math.ceil(int(self.reference.shape[self.depth]) / self.step)

    def block(self, number: int) -> tuple[Array, Array, int]:
        """Views of both sides of one block, and its first position in the walk."""
        shape = self.reference.shape
        outer, chunk = divmod(number, self._chunks)
        low = chunk * self.step
        prefix = map(int, np.unravel_index(outer, shape[: self.depth])) if self.depth else ()
        where: tuple[int | slice, ...] = (*prefix, slice(low, low + self.step))
        first = (outer * shape[self.depth] + low) * math.prod(shape[self.depth + 1 :])
        return self.reference[where], self.candidate[where], first

    def c_order(self, positions: NDArray[np.intp]) -> int:
        """The least of ``positions`` (in the walk, ascending), as a position in C order of the arrays as given."""
        if self.axes is None:
            return int(positions[0])
        walked = tuple(self.shape[axis] for axis in self.axes)
        index = np.unravel_index(positions, walked)
        restored = tuple(index[self.axes.index(axis)] for axis in range(len(self.shape)))
        return int(np.ravel_multi_index(restored, self.shape).min())


def traverse(reference: Array, candidate: Array, block: int) -> Traversal:
    """Plans the walk over non-empty arrays in blocks of at most ``block`` elements."""
    shape, axes = reference.shape, None
    if not reference.flags.c_contiguous:
        # Longest stride outermost: neighbours in memory stay neighbours in the walk.
        order = tuple(int(axis) for axis in np.argsort([-abs(s) for s in reference.strides], kind="stable"))
        if order != tuple(range(len(order))):
            axes, reference, candidate = order, reference.transpose(order), candidate.transpose(order)
    if not shape or (reference.flags.c_contiguous and candidate.flags.c_contiguous):
        return Traversal(reference.reshape(-1), candidate.reshape(-1), shape, axes, depth=0, step=block)
    walked = reference.shape
    depth = 0
    while math.prod(walked[depth + 1 :]) > block:
        depth += 1
    step = max(1, block // math.prod(walked[depth + 1 :]))
    return Traversal(reference, candidate, shape, axes, depth, step)
