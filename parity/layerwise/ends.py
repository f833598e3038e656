"""The ends of two models: which inputs and outputs belong together, and what is wrong with them at first sight."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import ml_dtypes
import numpy as np

from parity.adapter import Array
from parity.align.layout import distance, find_layout
from parity.align.view import GraphView
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.errors import InputError
from parity.findings import Finding, counted
from parity.graph import InputSpec
from parity.layerwise.alignment import Ends
from parity.layerwise.location import location

Permutations = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRow:
    """One output of the reference beside the candidate's.

    Attributes:
        name: Its name in the reference.
        candidate: Its name in the candidate; None where it lacks it.
        dtype: Of the candidate.
        shape: Of the candidate.
        max_abs: Greatest difference, 0 where both are NaN or the same infinity; NaN where one side alone is, None where
            they cannot be compared.
        relative: Root mean square of the difference over the spread of the reference.
        top1_changes: Share of rows whose greatest element is another one; None for outputs that are no scores.
        kl: Mean Kullback–Leibler divergence of the softmax of both, in nats; likewise.
    """

    name: str
    candidate: str | None
    dtype: str | None
    shape: tuple[int, ...] | None
    max_abs: float | None
    relative: float | None
    top1_changes: float | None = None
    kl: float | None = None


def taken_inputs(inputs: Mapping[str, Array], specs: Mapping[str, InputSpec]) -> tuple[dict[str, Array], list[str]]:
    """The inputs without those that a model lacks which takes all of the others by name, and what is to be said of it.

    An exporter leaves out an input that the model does not use, such as a mask: then this is what is wrong with it.
    """
    lacking = [name for name in inputs if name not in specs]
    if not lacking or not specs or not set(specs) <= set(inputs):
        return dict(inputs), []
    told = f"The candidate has no input {' and '.join(map(repr, lacking))}: it was run without."
    return {name: array for name, array in inputs.items() if name in specs}, [told]


def taken_by_order(inputs: Mapping[str, Array], *sides: Mapping[str, InputSpec]) -> list[str]:
    """What is to be said of inputs whose name no side has: they are taken by order, which may not be what was meant."""
    known = {name for specs in sides for name in specs}
    unknown = [name for name in inputs if name not in known]
    if not known or not unknown:
        return []
    return [f"No side has an input named {' or '.join(map(repr, unknown))}: the inputs were taken in their order."]


def not_finite(inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> list[str]:
    """What is to be said of numbers that are none, as what they reach cannot be compared by size.

    Infinite inputs are passed over: a mask is often made of them, and leaves nothing infinite behind.

    Args:
        inputs: What both sides were given.
        outputs: The reference's that were compared.
    """
    told = []
    for name, array in inputs.items():
        if nans := _count(np.isnan, array):
            told.append(f"Input '{name}' holds {nans:,} NaN: where they reach, no number could be compared.")
    for name, array in outputs.items():
        kinds = ("NaN", _count(np.isnan, array)), ("infinite", _count(np.isinf, array))
        if any(number for _, number in kinds):
            said = " and ".join(f"{number:,} {kind}" for kind, number in kinds if number)
            what = "there only whether the candidate's are the same was compared"
            told.append(f"Output '{name}' of the reference holds {said} of {array.size:,} numbers: {what}.")
    return told


def _count(test: Callable[[Array], Array], array: Array) -> int:
    """How many numbers of a floating-point array pass a test."""
    floating = array.dtype.kind in "fc" or array.dtype.name in FLOAT_DTYPES
    return int(np.count_nonzero(test(array))) if floating else 0


def candidate_inputs(
    inputs: Mapping[str, Array], specs: Mapping[str, InputSpec], permutations: Permutations
) -> tuple[dict[str, Array], dict[str, tuple[int, ...]]]:
    """The inputs as the candidate takes them, and the axes of those that were permuted.

    Where no permutation was asked for and the candidate's own specification does not admit the shape, but that of an
    image with its channels at the other end, this one is taken.

    Raises:
        InputError: A permutation does not fit its input.
    """
    for name in permutations:
        if name not in inputs:
            raise InputError.unknown("input", name, inputs)
    given, moved = {}, {}
    by_order = list(specs.values())
    for k, (name, array) in enumerate(inputs.items()):
        spec = specs.get(name) or (by_order[k] if len(by_order) == len(inputs) else None)
        axes = permutations.get(name, _channels_moved(array.shape, spec))
        if axes is not None:
            if sorted(axes) != list(range(array.ndim)):
                raise InputError(
                    f"--candidate-input-perm {name}:{','.join(map(str, axes))} does not fit its shape {array.shape}.",
                    hint="Name every axis once, as in 0,3,1,2.",
                )
            moved[name] = axes
            array = np.ascontiguousarray(array.transpose(axes))  # noqa: PLW2901 – the loop's own copy
        given[name] = array
    return given, moved


def _channels_moved(shape: tuple[int, ...], spec: InputSpec | None) -> tuple[int, ...] | None:
    if spec is None or spec.shape is None or len(spec.shape) != len(shape) or len(shape) < 3 or _admits(spec, shape):
        return None
    last = len(shape) - 1
    for axes in ((0, *range(2, last + 1), 1), (0, last, *range(1, last))):
        if _admits(spec, tuple(shape[axis] for axis in axes)):
            return axes
    return None


def _admits(spec: InputSpec, shape: tuple[int, ...]) -> bool:
    assert spec.shape is not None  # noqa: S101 – asked above
    return all(want is None or want == size for want, size in zip(spec.shape, shape, strict=True))


def find_ends(
    reference: GraphView,
    candidate: GraphView,
    moved: Permutations,
    read: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
) -> Ends:
    """Inputs by name or order, outputs by name where both name them and by order otherwise.

    Args:
        reference: The reference's trace.
        candidate: The candidate's.
        moved: Axes in which the candidate took an input, by name.
        read: Axes in which its output is to be read, by number.
    """
    ours, theirs = reference.trace.ends, candidate.trace.ends
    inputs = [(ours.inputs[one], theirs.inputs[two]) for one, two in _matched(ours.inputs, theirs.inputs, named=True)]
    named = ours.named_outputs and theirs.named_outputs
    outputs = [
        (ours.outputs[one], theirs.outputs[two])
        for one, two in _matched(ours.outputs, theirs.outputs, named=named)
        if two is not None
    ]
    tensors = list(ours.outputs.values())
    readings = {tensors[number]: order for number, order in read.items() if number < len(tensors)}
    axes = {ours.inputs[name]: moved[name] for name in moved if name in ours.inputs}
    if axes or not moved:
        return Ends(tuple(inputs), tuple(outputs), axes, readings)
    by_order = dict(zip(theirs.inputs, ours.inputs.values(), strict=False))
    return Ends(
        tuple(inputs), tuple(outputs), {by_order[name]: moved[name] for name in moved if name in by_order}, readings
    )


def _matched(ours: Mapping[str, str], theirs: Mapping[str, str], *, named: bool) -> list[tuple[str, str]]:
    if named and set(ours) & set(theirs):
        return [(name, name) for name in ours if name in theirs]
    return list(zip(ours, theirs, strict=False))


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """What the reference says of one of its outputs.

    Attributes:
        location: Where it is made.
        arbitrary: It depends on weights that were drawn at random.
        by_product: Exports leave it out by habit.
    """

    location: Mapping[str, Any]
    arbitrary: bool
    by_product: bool


def output_places(view: GraphView) -> dict[str, OutputPlace]:
    """Where each output is made, by its name."""
    found = {}
    for name, tensor in view.trace.ends.outputs.items():
        site = view.site_of(tensor)
        place = {**location([site] if site is not None else [], tensor), "output": name}
        found[name] = OutputPlace(place, tensor in view.arbitrary, name in view.trace.ends.by_products)
    return found


def compare_outputs(
    reference: Mapping[str, Array],
    candidate: Mapping[str, Array],
    *,
    named: bool,
    permutations: Mapping[int, tuple[int, ...]],
    places: Mapping[str, OutputPlace],
) -> tuple[list[OutputRow], list[Finding]]:
    """One row an output of the reference, and what is wrong with their number and shapes.

    An output that depends on weights drawn at random is passed over: the model's files do not say what it is.

    Args:
        reference: Its outputs.
        candidate: Its outputs.
        named: Whether both sides name their outputs.
        permutations: Axes by number of the output, in which the candidate's is to be read.
        places: Where the reference makes each output.

    Raises:
        InputError: A permutation does not fit.
    """
    partner = dict(_matched(dict.fromkeys(reference, ""), dict.fromkeys(candidate, ""), named=named))
    rows, findings = [], []
    for number, (name, ours) in enumerate(reference.items()):
        other = partner.get(name)
        if places[name].arbitrary:
            continue
        if other is None:
            findings.append(_missing(name, len(reference), len(candidate), places[name]))
            rows.append(OutputRow(name=name, candidate=None, dtype=None, shape=None, max_abs=None, relative=None))
            continue
        theirs = _permuted(candidate[other], permutations.get(number), number)
        if theirs.shape != ours.shape:
            findings.append(_shape((name, other), ours, theirs, places[name]))
        rows.append(_row(name, other, ours, theirs))
    return rows, findings


PRODUCTION: Final = 30.0
"""Factor by which the outputs of the production runs may be farther apart than those of the traced ones."""

STEPS: Final = 64.0
"""Units of the output's type, relative to its spread, up to which outputs are near in any case."""


def production_gap(rows: Iterable[OutputRow], traced: Mapping[str, tuple[Array, Array]]) -> Finding | None:
    """The finding where what the engines really give is apart, and their operators one by one are not.

    Args:
        rows: Outputs of the production runs.
        traced: By the reference's output name, that output of both traced runs, in one shape.
    """
    for row in rows:
        if row.name not in traced or row.relative is None or row.dtype not in FLOAT_DTYPES:
            continue
        alike = max(distance(*traced[row.name]), STEPS * float(ml_dtypes.finfo(float_dtype(row.dtype)).eps))
        if row.relative > PRODUCTION * alike:
            return Finding(
                rule="graph-optimizer",
                severity="error",
                message=f"Output '{row.name}' of the production runs is {row.relative:.2g} of its spread apart, and of "
                f"the operators one by one at most {alike:.2g}: an engine makes another model of it.",
                fix="Run the engine without its optimisations, and report the difference to its authors.",
                location={"reference": {"output": row.name}, "candidate": {"output": row.candidate}},
            )
    return None


def _permuted(array: Array, axes: tuple[int, ...] | None, number: int) -> Array:
    if axes is None:
        return array
    if sorted(axes) != list(range(array.ndim)):
        raise InputError(
            f"--candidate-output-perm {number}:{','.join(map(str, axes))} does not fit its shape {array.shape}.",
            hint="Name every axis once, as in 0,2,3,1.",
        )
    return array.transpose(axes)


def _missing(name: str, ours: int, theirs: int, place: OutputPlace) -> Finding:
    return Finding(
        rule="missing-output",
        severity="note" if place.by_product else "error",
        message=f"Output '{name}' of the reference has no counterpart: the candidate gives "
        f"{counted(theirs, 'output')} and not {ours}.",
        fix="Export the model with all of its outputs.",
        location={"reference": place.location},
        expected=counted(ours, "output"),
        observed=counted(theirs, "output"),
    )


def _shape(names: tuple[str, str], ours: Array, theirs: Array, place: OutputPlace) -> Finding:
    name, other = names
    fit = find_layout(ours, theirs, 0.05) if ours.size == theirs.size and ours.size else None
    how = f": the same numbers, {fit[0].words()}" if fit else ""
    return Finding(
        rule="shape",
        severity="error",
        message=f"Output '{name}' has shape {list(theirs.shape)} in the candidate and {list(ours.shape)} in the "
        f"reference{how}.",
        fix="If this layout is meant, say so with parity diff --candidate-output-perm NUMBER:AXES." if fit else "",
        location={"reference": place.location, "candidate": other},
        expected=str(list(ours.shape)),
        observed=str(list(theirs.shape)),
    )


def _row(name: str, other: str, ours: Array, theirs: Array) -> OutputRow:
    row = OutputRow(
        name=name, candidate=other, dtype=theirs.dtype.name, shape=theirs.shape, max_abs=None, relative=None
    )
    if ours.shape != theirs.shape or not ours.size:
        return row
    wide, other_wide = (_real(one).astype(np.float64) for one in (ours, theirs))
    with np.errstate(invalid="ignore"):
        gap = np.abs(wide - other_wide)
    gap = np.where((wide == other_wide) | (np.isnan(wide) & np.isnan(other_wide)), 0.0, gap)
    return OutputRow(
        name=name,
        candidate=other,
        dtype=theirs.dtype.name,
        shape=theirs.shape,
        max_abs=float(gap.max()) if np.isfinite(gap).all() else float("nan"),
        relative=distance(ours, theirs),
        **({} if ours.dtype.kind == "c" else _as_scores(wide, other_wide)),
    )


def _real(array: Array) -> Array:
    """Complex numbers as pairs of real ones."""
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], axis=-1)


def _as_scores(ours: Array, theirs: Array) -> dict[str, float]:
    """What a reader of class scores would notice, where the last axis may be one."""
    if (
        ours.dtype.kind == "c"
        or ours.ndim < 2
        or ours.shape[-1] < 2
        or not (np.isfinite(ours).all() and np.isfinite(theirs).all())
    ):
        return {}
    p, q = _log_softmax(ours), _log_softmax(theirs)
    return {
        "top1_changes": float(np.mean(ours.argmax(-1) != theirs.argmax(-1))),
        "kl": max(0.0, float(np.mean(np.sum(np.exp(p) * (p - q), axis=-1)))),
    }


def _log_softmax(x: Array) -> Array:
    shifted = x - x.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
