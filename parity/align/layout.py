"""Layouts: how the numbers of one side's tensor lie in the other side's.

Two frameworks keep the same numbers as NHWC or NCHW, with heads split or merged, or with the batch folded into another
axis. All of these are one form: split axes, permute them, merge axes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

import numpy as np

from parity.adapter import Array

SAMPLES: Final = 512
"""Elements by which an arrangement is tried."""

MOST_AXES: Final = 5
"""Axes of more than one element up to which every order is tried."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Maps a reference tensor to the candidate's: reshaped to ``split``, axes in the order ``axes``, then to ``shape``.

    Attributes:
        source: Shape of the reference's tensor.
        split: Shape in which the axes are apart.
        axes: Their order in the candidate.
        shape: Shape of the candidate's tensor.
    """

    source: tuple[int, ...]
    split: tuple[int, ...]
    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Layout":
        """The layout that `entry` describes, as `as_json` made it."""
        return cls(*(tuple(entry[key]) for key in ("source", "split", "axes", "shape")))

    def as_json(self) -> dict[str, list[int]]:
        """JSON values from which `of` makes the layout again."""
        return {key: list(getattr(self, key)) for key in ("source", "split", "axes", "shape")}

    @classmethod
    def reshaped(cls, source: tuple[int, ...], shape: tuple[int, ...]) -> "Layout":
        """The numbers in the same order in another shape."""
        return cls(source, source, tuple(range(len(source))), shape)

    @property
    def trivial(self) -> bool:
        """Whether nothing moves and the shape is the same."""
        return self.source == self.shape and self.axes == tuple(range(len(self.split)))

    @property
    def inverse(self) -> "Layout":
        """Maps the candidate's tensor to the reference's."""
        middle = tuple(self.split[axis] for axis in self.axes)
        return Layout(self.shape, middle, tuple(int(axis) for axis in np.argsort(self.axes)), self.source)

    def apply(self, array: Array) -> Array:
        """The reference's numbers as the candidate keeps them."""
        return array.reshape(self.split).transpose(self.axes).reshape(self.shape)

    def words(self) -> str:
        """What is done to the reference's tensor, as one would say it; empty where nothing is."""
        if self.axes == tuple(range(len(self.axes))):
            return "" if self.source == self.shape else "reshaped"
        return f"axes {', '.join(map(str, self.axes))}"


def arrangements(source: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Layout]:
    """Layouts that could map a tensor of shape ``source`` to one of ``shape``, plain ones first."""
    if math.prod(source) != math.prod(shape):
        return
    yield Layout.reshaped(source, shape)
    for split in _splits(source, shape):
        long = [axis for axis, size in enumerate(split) if size > 1]
        if len(long) > MOST_AXES:
            continue
        short = [axis for axis, size in enumerate(split) if size == 1]
        for order in permutations(long):
            axes = (*order, *short)
            if list(order) != long and _fits([split[axis] for axis in order], shape):
                yield Layout(source, split, axes, shape)


def _splits(source: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The shape as it is, and with one axis cut in two at a size that the other shape has."""
    yield source
    sizes = sorted({size for size in shape if size > 1})
    for axis, length in enumerate(source):
        for size in sizes:
            if size < length and length % size == 0:
                yield (*source[:axis], size, length // size, *source[axis + 1 :])
                if size != length // size:
                    yield (*source[:axis], length // size, size, *source[axis + 1 :])


def _fits(order: list[int], shape: tuple[int, ...]) -> bool:
    """Whether each axis of ``shape`` is one or several of the axes in this order, or the other way about."""
    ends = set(np.cumprod(order).tolist())
    others = set(np.cumprod([size for size in shape if size > 1]).tolist())
    return others <= ends or ends <= others


def find_layout(reference: Array, candidate: Array, limit: float) -> tuple[Layout, float] | None:
    """The layout in which the two come nearest, with their distance; None where none comes within ``limit``.

    The distance is that of `SAMPLES` elements: the root mean square of the difference over the spread of the reference.
    """
    best: tuple[Layout, float] | None = None
    flat = candidate.reshape(-1)
    places = np.random.default_rng(0).integers(0, flat.size, SAMPLES) if flat.size > SAMPLES else np.arange(flat.size)
    sample = flat[places]
    for layout in arrangements(reference.shape, candidate.shape):
        gap = distance(_pick(layout, reference, places), sample)
        if gap <= limit and (best is None or gap < best[1]):
            best = layout, gap
        if best is not None and best[1] < limit / 100:
            break
    return best


def _pick(layout: Layout, reference: Array, places: Array) -> Array:
    """Elements of the arranged tensor at flat ``places``, without arranging all of it."""
    middle = tuple(layout.split[axis] for axis in layout.axes)
    at = np.unravel_index(places, middle)
    back = np.argsort(layout.axes)
    picked: Array = reference.reshape(layout.split)[tuple(at[axis] for axis in back)]
    return picked


def distance(a: Array, b: Array) -> float:
    """Root mean square of the difference of two arrays of one shape, in units of the spread of the first.

    Equal infinities and NaN in the same places count as equal; in different places the distance is infinite.
    """
    wide, other = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = wide - other
    odd = ~np.isfinite(gap)
    if odd.any():
        same = (wide == other) | (np.isnan(wide) & np.isnan(other))
        if (odd & ~same).any():
            return math.inf
        gap = gap[~odd]
    return _rms(gap) / _unit(wide)


def _unit(array: Array) -> float:
    finite = array[np.isfinite(array)]
    if not finite.size:
        return 1.0
    spread = float(finite.std())
    size = _rms(finite)
    return spread if spread > 1e-6 * size else size or 1.0


def _rms(array: Array) -> float:
    return math.sqrt(float(np.mean(np.square(array)))) if array.size else 0.0
