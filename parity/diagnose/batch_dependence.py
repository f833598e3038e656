"""Cause: a result that depends on what else is in the batch.

Each sample alone is put through both parts. Where one side alone makes of every sample what the other makes of it in
the batch, and in the batch makes something else, it mixes the samples.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.layout import Layout
from parity.diagnose.case import Case, Hypothesis, Part, Repair

Float64 = NDArray[np.float64]

MOST_SAMPLES: Final = 64
"""Samples of a batch up to which each is tried alone."""

EXPLAINS: Final = 0.9
"""Share of the difference that must go away when the samples are taken alone."""

SAME: Final = 1e-9
"""Difference up to which a sample alone gives what it gives in the batch, relative to the greatest number."""

APART: Final = "per sample"
TOGETHER: Final = "over the whole batch"


def examine(case: Case) -> Iterator[Hypothesis]:
    """The candidate's part on each sample alone, and where that changes nothing the reference's."""
    batch = _batch(case)
    if batch is None:
        return
    theirs = _one_by_one(case.candidate, batch.candidate, batch.candidate_target, batch.size)
    if theirs is not None:
        if case.share({case.candidate.target: theirs}) >= EXPLAINS:
            yield _hypothesis(APART, TOGETHER, _set(theirs))
        return
    ours = _one_by_one(case.reference, batch.reference, 0, batch.size)
    if ours is None:
        return
    moved = np.asarray(case.region.pair.layout.apply(ours), np.float64)
    own = np.asarray(case.candidate.value(case.candidate.target), np.float64).reshape(moved.shape)
    if case.size(own - moved) <= (1 - EXPLAINS) * case.size(case.gap):
        yield _hypothesis(TOGETHER, APART, _set(np.asarray(case.exact)))


class _Batch:
    """Along which axis of each given tensor the samples lie; those that hold none of them are not told."""

    def __init__(self, size: int, reference: Mapping[str, int], candidate: Mapping[str, int], target: int) -> None:
        self.size = size
        self.reference = reference
        self.candidate = candidate
        self.candidate_target = target


def _batch(case: Case) -> _Batch | None:
    """The batch of a region whose tensors all begin with it in the reference; None where there is no such."""
    pairs = case.region.boundary
    target = _shape(case.reference, case.region.pair.reference)
    shapes = [np.shape(case.reference.given[pair.reference]) for pair in pairs]
    if not shapes or not target or any(shape[:1] != target[:1] for shape in shapes):
        return None
    size = target[0]
    if not 1 < size <= MOST_SAMPLES:
        return None
    axes = {pair.candidate: _axis(pair.layout, size) for pair in pairs}
    end = _axis(case.region.pair.layout, size)
    if end is None or any(axis is None for axis in axes.values()):
        return None
    known = {name: axis for name, axis in axes.items() if axis is not None}
    return _Batch(size, dict.fromkeys((pair.reference for pair in pairs), 0), known, end)


def _shape(part: Part, name: str) -> tuple[int, ...]:
    entry = part.view.entry(name)
    return entry.shape if entry is not None else ()


def _axis(layout: Layout, size: int) -> int | None:
    """The axis on which a layout puts the reference's first one; None where it is merged with another."""
    numbers = np.arange(size).reshape(size, *[1] * (len(layout.source) - 1))
    moved = layout.apply(np.broadcast_to(numbers, layout.source).copy())
    for axis, length in enumerate(moved.shape):
        if length == size and (np.moveaxis(moved, axis, -1) == np.arange(size)).all():
            return axis
    return None


def _one_by_one(part: Part, axes: Mapping[str, int], target: int, size: int) -> Float64 | None:
    """What a part makes of each sample alone, put together again; None where it is what it makes of the batch."""

    def alone(k: int) -> Float64:
        given: dict[str, Array] = {
            name: np.take(part.given[name], [k], axis) for name, axis in axes.items() if name in part.given
        }
        return np.asarray(part.value(part.target, given), np.float64)

    own = np.asarray(part.value(part.target), np.float64)
    ends = {k: alone(k) for k in (0, size - 1)}
    if any(made.shape != np.take(own, [k], target).shape for k, made in ends.items()):
        return None
    if all(_alike(made, np.take(own, [k], target)) for k, made in ends.items()):
        return None
    return np.concatenate([ends[k] if k in ends else alone(k) for k in range(size)], target)


def _alike(a: Float64, b: Float64) -> bool:
    largest = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    return np.allclose(a, b, rtol=SAME, atol=SAME * largest, equal_nan=True)


def _set(numbers: Float64) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:
        overrides[part.target] = numbers

    return repair


def _hypothesis(expected: str, observed: str, repair: Repair) -> Hypothesis:
    mixing = "the candidate" if observed == TOGETHER else "the reference"
    return Hypothesis(
        rule="batch-dependence",
        message=f"{mixing} gives another result for a sample alone than for the same sample in the batch",
        expected=expected,
        observed=observed,
        fix="Take statistics and other sums over each sample alone."
        if observed == TOGETHER
        else "Take the sums over the whole batch as the reference does.",
        repair=repair,
    )
