"""Alignment of two opened models, with teacher forcing where their numbers have parted."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.align.alignment import CONFIDENCE, Alignment, Pair
from parity.align.by_scope import align_by_name, align_by_scope
from parity.align.by_value import STRICT, align_by_value
from parity.align.by_weight import align_by_weight
from parity.align.layout import Layout, find_layout, sampled_distance
from parity.align.view import GraphView
from parity.errors import InputError
from parity.sides import Side

ROUNDS: Final = 4
"""Teacher-forced runs at most; each reaches past what the one before it aligned."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Which inputs and outputs are one another's.

    Attributes:
        inputs: Tensor names, reference and candidate.
        outputs: Likewise.
        permutations: Axes in which the candidate holds an input, by the reference's tensor name.
        readings: Axes in which the candidate's output is to be read, likewise.
    """

    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    permutations: Mapping[str, tuple[int, ...]]
    readings: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def align(
    reference: GraphView,
    candidate: GraphView,
    ends: Ends,
    *,
    mapped: Iterable[tuple[str, str]] = (),
    teacher: Side | None,
    folder: Path,
) -> Alignment:
    """Pairs of tensors that are one and the same in both.

    In this order: inputs, outputs, the user's map, equal numbers, weights, module paths, numbers that are alike, names;
    then again equal numbers of the candidate's run on the reference's numbers.

    Args:
        reference: The reference's free trace.
        candidate: The candidate's.
        ends: Their inputs and outputs.
        mapped: Tensor names by the user's map.
        teacher: The candidate, to be run again on the reference's numbers; None where it is only a trace.
        folder: For the traces of those runs.

    Raises:
        InputError: The map names tensors that there are not.
    """
    alignment = Alignment()
    views = reference, candidate
    for one, two in ends.inputs:
        alignment.add(_input_pair(views, one, two, ends.permutations.get(one)))
    for pair in output_pairs(views, ends):
        alignment.add(pair)
    for one, two in mapped:
        _check_mapped(views, one, two)
        alignment.add(_told_pair(views, one, two, "map"))
    align_by_value(reference, candidate, alignment, limit=STRICT)
    align_by_weight(reference, candidate, alignment)
    align_by_scope(reference, candidate, alignment)
    align_by_value(reference, candidate, alignment)
    align_by_name(reference, candidate, alignment)
    if teacher is not None:
        _force(views, alignment, teacher, folder)
    return alignment


def _force(views: tuple[GraphView, GraphView], alignment: Alignment, teacher: Side, folder: Path) -> None:
    reference, candidate = views
    for number in range(ROUNDS):
        unmatched = [name for name in candidate.computed() if name not in alignment.of_candidate]
        if not unmatched or not _parted(views, alignment):
            return
        forced = {pair.candidate: with_folder(pair.source(), reference) for pair in alignment}
        taught = teacher.teach(candidate.trace.folder, forced, folder / f"forced-{number}")
        if not align_by_value(reference, taught, alignment):
            return


def _parted(views: tuple[GraphView, GraphView], alignment: Alignment) -> bool:
    """Whether the two free runs differ anywhere by more than rounding; some elements of each tensor tell."""
    reference, candidate = views
    for pair in alignment:
        if pair.reference in reference.trace and pair.candidate in candidate.trace:
            ours, theirs = reference.trace.array(pair.reference), candidate.trace.array(pair.candidate)
            if sampled_distance(pair.layout, ours, theirs) > STRICT:
                return True
    return False


def with_folder(source: Mapping[str, Any], view: GraphView) -> dict[str, Any]:
    """A source with the folder of the trace that it is in."""
    return {**source, "folder": str(view.trace.folder)}


def _input_pair(views: tuple[GraphView, GraphView], one: str, two: str, axes: tuple[int, ...] | None) -> Pair:
    source = views[0].trace.tensors[one].shape
    shape = views[1].trace.tensors[two].shape
    layout = Layout.reshaped(source, shape) if axes is None else Layout(source, source, axes, shape)
    return Pair(one, two, layout, "input", CONFIDENCE["input"])


def _check_mapped(views: tuple[GraphView, GraphView], one: str, two: str) -> None:
    """Refuses what the user's map says of tensors that there are not, or that cannot be the same.

    Raises:
        InputError: With the nearest names.
    """
    for view, name, role in zip(views, (one, two), ("reference", "candidate"), strict=True):
        if name not in view.trace.tensors or name not in view.trace:
            raise InputError.unknown(f"tensor of the {role}", name, view.trace.tensors)
    sizes = [view.trace.tensors[name].signature.count for view, name in zip(views, (one, two), strict=True)]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"The map says that '{one}' is '{two}', but they have {sizes[0]} and {sizes[1]} elements.",
            hint="Name tensors that hold the same numbers.",
        )


def output_pairs(views: tuple[GraphView, GraphView], ends: Ends) -> Iterator[Pair]:
    """Outputs that can be held against each other, whatever their numbers, in no layout but the one that was told."""
    reference, candidate = views
    for one, two in ends.outputs:
        if one not in reference.trace or two not in candidate.trace:
            continue
        if one not in reference.dynamic or two not in candidate.dynamic:
            continue
        source, shape = reference.trace.tensors[one].shape, candidate.trace.tensors[two].shape
        axes = ends.readings.get(one)
        if axes is not None and len(axes) == len(source):
            layout = Layout(source, source, tuple(int(axis) for axis in np.argsort(axes)), shape)
            yield Pair(one, two, layout, "output", CONFIDENCE["output"])
        elif math.prod(source) == math.prod(shape):
            yield _told_pair(views, one, two, "output")


def _told_pair(views: tuple[GraphView, GraphView], one: str, two: str, reason: str) -> Pair:
    """A pair that needs no proof; where the shapes differ, the numbers tell its layout."""
    first, second = views[0].trace.array(one), views[1].trace.array(two)
    fit = None if first.shape == second.shape else find_layout(first, second, 0.5)
    return Pair(one, two, fit[0] if fit else Layout.reshaped(first.shape, second.shape), reason, CONFIDENCE[reason])
