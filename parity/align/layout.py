"""Layouts: how the numbers of one side's tensor lie in the other side's.

Two frameworks keep the same numbers as NHWC or NCHW, with heads split or merged, or with the batch folded into another
axis. All of these are one form: split axes, permute them, merge axes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.compare import native
from parity.compare.local import bulk_limit, dot
from parity.dtypes import FLOATS

SAMPLES: Final = 512
"""Elements by which an arrangement is tried."""

BLOCK: Final = 1 << 15
"""Elements at a time: a block's arrays stay in the processor's cache."""

FEW: Final = 32
"""Elements by which it is told that an arrangement does not come near."""

OFF: Final = 16.0
"""Distances, in units of the greatest that is allowed, from which an element is off: far more than where one fits."""

MOST_AXES: Final = 5
"""Axes of more than one element up to which every order is tried."""


CLEARLY: Final = 0.6
"""Factor by which an order of axes must fit better than a plainer one to be taken in its place."""


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


@cache
def arrangements(source: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Layout, ...]:
    """Layouts that could map a tensor of shape ``source`` to one of ``shape``, plain ones first."""
    return tuple(_arrangements(source, shape))


def _arrangements(source: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Layout]:
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
    glance = _Glance.of(reference, candidate, limit)
    for layout in arrangements(reference.shape, candidate.shape):
        if glance is not None and glance.is_far(layout):
            continue
        gap = sampled_distance(layout, reference, candidate)
        if gap <= limit and (best is None or gap < best[1]):
            best = layout, gap
        if best is not None and best[1] < limit / 100:
            break
    return best


def moved_axis(source: tuple[int, ...], shape: tuple[int, ...], one: int | None, two: int | None) -> Layout | None:
    """The layout that puts axis ``one`` at place ``two`` and keeps the others in order; None where it does not fit."""
    if one is None or two is None or len(source) != len(shape):
        return None
    axes = list(range(len(source)))
    axis = axes.pop(one)
    axes.insert(two % len(source), axis)
    fits = tuple(source[axis] for axis in axes) == shape
    return Layout(source, source, tuple(axes), shape) if fits else None


def likely_layout(reference: Array, candidate: Array) -> Layout | None:
    """The layout that two tensors of other numbers most likely have; None where only a reshaping fits the shapes.

    Where their axes are the same but for one that is elsewhere, as channels are, the place of that one is told by what
    lies along each axis: its mean and spread stay much the same where single numbers do not.
    """
    best: tuple[float, Layout] | None = None
    ours, theirs = ([_profile(array, axis) for axis in range(array.ndim)] for array in (reference, candidate))
    for axes in _moves(reference.ndim):
        shape = tuple(reference.shape[axis] for axis in axes)
        if shape == candidate.shape:
            gap = math.prod(distance(ours[axis], theirs[k]) for k, axis in enumerate(axes) if shape[k] > 1)
            if best is None or gap < CLEARLY * best[0]:
                best = gap, Layout(reference.shape, reference.shape, axes, shape)
    if best is not None:
        return best[1]
    found = list(arrangements(reference.shape, candidate.shape))
    if len(found) < 2:
        return None
    if not _fits([size for size in reference.shape if size > 1], candidate.shape):
        del found[0]  # the mere reshaping
    likely, least = found[0], sampled_distance(found[0], reference, candidate)
    for layout in found[1:]:
        gap = sampled_distance(layout, reference, candidate)
        if gap < CLEARLY * least:
            likely, least = layout, gap
    return likely


def _moves(rank: int) -> list[tuple[int, ...]]:
    """Orders of axes in which at most one is not in its place among the others, the plain one first."""
    plain = tuple(range(rank))
    found = [plain]
    for axis in reversed(plain):
        rest = [one for one in plain if one != axis]
        found += [(*rest[:place], axis, *rest[place:]) for place in plain]
    return list(dict.fromkeys(found))


def _profile(array: Array, axis: int) -> NDArray[np.float64]:
    """Mean and spread of what lies at each place of an axis, in units of how they vary; shape (2, length)."""
    rows = np.moveaxis(array.astype(np.float64), axis, 0).reshape(array.shape[axis], -1)
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.stack([rows.mean(1), rows.std(1)])
        found = found - found.mean(1, keepdims=True)
        scaled: NDArray[np.float64] = found / np.maximum(found.std(1, keepdims=True), np.finfo(np.float64).tiny)
    return scaled


def sampled_distance(layout: Layout, reference: Array, candidate: Array) -> float:
    """The distance of `SAMPLES` elements of the arranged reference and the candidate; see `distance`."""
    places = _places(candidate.size)
    return distance(_pick(layout, reference, places), candidate.reshape(-1)[places])


@dataclass(frozen=True, slots=True)
class _Glance:
    """A look at a few elements, which is enough to tell most arrangements that do not fit: most elements are off.

    Attributes:
        reference: The tensor that is arranged.
        places: Flat places in the candidate.
        numbers: What it has there, float64.
        near: Difference from which an element is off.
    """

    reference: Array
    places: NDArray[np.intp]
    numbers: NDArray[np.float64]
    near: float

    @classmethod
    def of(cls, reference: Array, candidate: Array, limit: float) -> "_Glance | None":
        """None for what is not of floating-point numbers."""
        if not all(array.dtype in FLOATS and array.size for array in (reference, candidate)):
            return None
        places = _places(candidate.size)
        some = reference.reshape(-1)[_places(reference.size)].astype(np.float64)
        spread = float(np.std(some[np.isfinite(some)])) if np.isfinite(some).any() else 0.0
        few = places[:FEW]
        return cls(reference, few, candidate.reshape(-1)[few].astype(np.float64), OFF * limit * spread)

    def is_far(self, layout: Layout) -> bool:
        """Whether most of the elements are off in this arrangement."""
        ours = _pick(layout, self.reference, self.places).astype(np.float64)
        with np.errstate(invalid="ignore"):
            off = np.abs(ours - self.numbers) > self.near
        return bool(2 * np.count_nonzero(off) > off.size)


@cache
def _places(size: int) -> NDArray[np.intp]:
    if size <= SAMPLES:
        return np.random.default_rng(0).permutation(size)
    return np.random.default_rng(0).integers(0, size, SAMPLES)


def _pick(layout: Layout, reference: Array, places: Array) -> Array:
    """Elements of the arranged tensor at flat ``places``, without arranging all of it."""
    if not layout.split:
        return reference.reshape(-1)[places]
    middle = tuple(layout.split[axis] for axis in layout.axes)
    at = np.unravel_index(places, middle)
    back = np.argsort(layout.axes)
    picked: Array = reference.reshape(layout.split)[tuple(at[axis] for axis in back)]
    return picked


def distance(a: Array, b: Array) -> float:
    """Root mean square of the difference of two arrays of one size, in units of the spread of the first.

    Equal infinities and NaN in the same places count as equal; in different places the distance is infinite. What masks
    fill in on both sides does not count. Where the first one does not vary, the unit is its size.
    """
    if "c" in (a.dtype.kind, b.dtype.kind):
        a, b = (np.ascontiguousarray(one, np.complex128).view(np.float64) for one in (a, b))
    first, second = a.reshape(-1), b.reshape(-1)
    bulk = bulk_limit(first)
    if first.size and not np.isfinite(bulk) and native.available():
        found = native.Moments()
        if native.add_moments(first, second, found):
            return _in_spreads(first.size, found.sum, found.squares, found.gaps)
    count, total, squares, gaps = 0, 0.0, 0.0, 0.0
    for start in range(0, first.size, BLOCK):
        x = first[start : start + BLOCK].astype(np.float64)
        y = second[start : start + BLOCK].astype(np.float64)
        if not np.isfinite(dot(x, y)):
            odd = ~(np.isfinite(x) & np.isfinite(y))
            if not ((x == y) | (np.isnan(x) & np.isnan(y)))[odd].all():
                return math.inf
            x, y = x[~odd], y[~odd]
        if np.isfinite(bulk):
            scores = (np.abs(x) <= bulk) | (np.abs(y) <= bulk)
            x, y = x[scores], y[scores]
        count, total, squares = count + x.size, total + float(x.sum()), squares + dot(x, x)
        gap = x - y
        gaps += dot(gap, gap)
    return _in_spreads(count, total, squares, gaps) if count else 0.0


def _in_spreads(count: int, total: float, squares: float, gaps: float) -> float:
    """The root of the mean of squared gaps in units of the spread of what they are of, or of its size."""
    size, mean = math.sqrt(squares / count), total / count
    spread = math.sqrt(max(squares / count - mean * mean, 0.0))
    return math.sqrt(gaps / count) / (spread if spread > 1e-6 * size else size or 1.0)
