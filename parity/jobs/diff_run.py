"""One set of inputs through both models: recorded, aligned, measured, explained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

from parity.adapter import Array
from parity.align.alignment import Alignment
from parity.align.regions import find_region
from parity.align.view import GraphView
from parity.diagnose import power
from parity.diagnose.chains import Activation
from parity.diagnose.diagnosis import Doctor, Fault
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.findings import Finding, counted
from parity.jobs.diff_impact import with_impact
from parity.jobs.diff_options import DiffOptions, Progress
from parity.jobs.diff_sides import Both, Observed, Opened, at_once, observe, traced_outputs
from parity.jobs.reproduction import with_reproductions
from parity.layerwise.acquittal import acquit
from parity.layerwise.alignment import Ends, align, output_pairs
from parity.layerwise.ends import (
    OutputRow,
    candidate_inputs,
    compare_outputs,
    find_ends,
    not_finite,
    output_places,
    production_gap,
    taken_by_order,
    taken_inputs,
)
from parity.layerwise.location import location, words
from parity.layerwise.measuring import GAP, Layer, Measurer
from parity.layerwise.screening import measured_layers
from parity.stopwatch import Stopwatch


@dataclass(frozen=True, slots=True)
class Task:
    """One set of inputs to compare on, where to write meanwhile, and whom to tell how far it is.

    Attributes:
        given: Inputs by name, as the reference takes them.
        folder: For traces; removed afterwards.
        progress: As in `diff`.
        watch: Told of the time that each part takes.
        impact: Whether to compute how much each cause matters.
    """

    given: Mapping[str, Array]
    folder: Path
    progress: Progress
    watch: Stopwatch = field(default_factory=Stopwatch)
    impact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One aligned tensor as the report shows it.

    Attributes:
        reference: Its name in the reference.
        candidate: Its name in the candidate.
        aligned_by: Why the two are believed to be one: see `parity.align.alignment.Pair`.
        confidence: Between 0 and 1.
        op: The operator that makes it in the reference.
        dtype: The type in which it is meant to be computed.
        propagated_error: Distance of the free runs, in units of the reference's spread.
        local_error: The candidate's own error, root mean square; None where it could not be compared.
        excess: That over the noise floor; likewise.
        gap: How far the two functions are apart, in noise floors; likewise, and where the quick look was enough.
        visible: The least distance of the two functions that would be a finding, in units of the tensor's size; None
            where it could not be compared.
        status: As in `parity.layerwise.measuring.Layer`.
        scope: Module path in the reference.
    """

    reference: str
    candidate: str
    aligned_by: str
    confidence: float
    op: str
    dtype: str
    propagated_error: float
    local_error: float | None
    excess: float | None
    gap: float | None
    visible: float | None
    status: str
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What one set of inputs showed.

    ``faults`` are those behind the findings that were diagnosed; ``plain`` is what the candidate showed without its
    graph optimiser, where that was tried.
    """

    inputs: Mapping[str, tuple[int, ...]]
    findings: Sequence[Finding]
    layers: Sequence[Layer]
    rows: Sequence[LayerRow]
    outputs: Sequence[OutputRow]
    power: Mapping[str, Any]
    coverage: Mapping[str, Any]
    inconclusive: str
    notes: Sequence[str]
    faults: Sequence[tuple[Finding, Sequence[Fault]]] = ()
    plain: "RunResult | None" = None

    @property
    def differs(self) -> bool:
        """Whether a fault was found."""
        return any(finding.severity == "error" for finding in self.findings)


def run_once(ours: Opened, theirs: Opened, task: Task, options: DiffOptions) -> RunResult:
    """Compares two opened sides on one set of inputs."""
    return compare(watch_both(ours, theirs, task, options), task, options)


def watch_both(ours: Opened, theirs: Opened, task: Task, options: DiffOptions) -> Both:
    """Runs and records both sides on one set of inputs."""
    signed = theirs.side is not None and theirs.side.adapter in SIGNED
    taken, lacking = taken_inputs(task.given, theirs.specs if signed else {})
    moved_inputs, moved = candidate_inputs(taken, theirs.specs, options.candidate_input_perm)
    task.progress("runs", 0, 2)
    mine, yours = at_once(
        (ours.side, theirs.side),
        lambda: observe(ours, task.given, task.folder / "reference", task.watch),
        lambda: observe(theirs, moved_inputs, task.folder / "candidate", task.watch),
    )
    task.progress("runs", 2, 2)
    by_order = taken_by_order(task.given, ours.specs, theirs.specs)
    return Both(ours, theirs, mine, yours, moved, [*_of_traces(ours, theirs), *lacking, *by_order])


def compare(both: Both, task: Task, options: DiffOptions) -> RunResult:
    """Compares what two sides did on the same inputs."""
    ours, theirs, mine, yours = both.ours, both.theirs, both.mine, both.yours
    reference, candidate = mine.view, yours.view
    of_outputs = partial(
        compare_outputs,
        mine.outputs,
        named=reference.trace.ends.named_outputs and candidate.trace.ends.named_outputs,
        permutations=options.candidate_output_perm,
        places=output_places(reference),
    )
    outputs, findings = of_outputs(yours.outputs)
    ends = find_ends(reference, candidate, both.moved, options.candidate_output_perm)
    gap = production_gap(outputs, _traced_pairs(reference, candidate, outputs))
    with task.watch("alignment"):
        alignment = align(reference, candidate, ends, mapped=options.mapped, teacher=theirs.side, folder=task.folder)
    measurer = Measurer.of((reference, candidate), (ours.side, theirs.side), (ours.dtype, theirs.dtype))
    layers = measured_layers(measurer, alignment, lambda k, n: task.progress("layers", k, n), task.watch)
    with task.watch("diagnosis"):
        layers = [layer for layer in acquit(measurer, alignment, layers) if not _random(layer, measurer)]
        doctor = Doctor(measurer, alignment)
        diagnosis = doctor.diagnose(layers, lambda k, n: task.progress("causes", k, n))
        if not (diagnosis.faults or diagnosis.excused):
            whole = [layer for layer in _whole(measurer, ends, alignment, outputs) if not _random(layer, measurer)]
            layers = [*layers, *whole]
            diagnosis = doctor.diagnose(layers, lambda k, n: task.progress("causes", k, n)) if whole else diagnosis
        layers = list(diagnosis.layers)
    diagnosed: Sequence[Finding] = diagnosis.findings
    if options.repro is not None:
        diagnosed = with_reproductions(diagnosis, doctor, options.repro)
    if task.impact:
        with task.watch("impact"):
            found = list(zip(diagnosed, diagnosis.groups, strict=True))
            diagnosed = with_impact(measurer, found, outputs, lambda made: of_outputs(made)[0])
    excused = diagnosis.excused
    layers = [replace(one, status="excused") if one.region.pair.reference in excused else one for one in layers]
    stray = [gap] if gap and not yours.unsteady else []
    return RunResult(
        inputs={name: array.shape for name, array in task.given.items()},
        findings=[*mine.unsteady, *yours.unsteady, *findings, *diagnosed, *stray],
        layers=layers,
        rows=[_row(layer, reference) for layer in layers],
        outputs=outputs,
        power=power.told(power.swaps(reference, layers, [one for one, _ in diagnosis.activations])),
        coverage=_coverage(reference, candidate, layers, alignment.reasons()),
        inconclusive=_inconclusive(task.given, mine, layers),
        notes=[
            *both.notes,
            *not_finite(task.given, {row.name: mine.outputs[row.name] for row in outputs if row.candidate is not None}),
            *_of_sides(reference.trace.ends.notes, candidate.trace.ends.notes),
            *_alone(diagnosis.alone, measurer.candidate_dtype),
        ],
        faults=list(zip(diagnosed, diagnosis.groups, strict=True)),
    )


def empty_result(given: Mapping[str, Array]) -> RunResult | None:
    """The result of inputs that hold no numbers, as an empty batch: nothing is run on them; None of others.

    Some engines refuse them, others give empty outputs, and neither says anything of the model.
    """
    if not given or any(array.size for array in given.values()):
        return None
    return RunResult(
        inputs={name: array.shape for name, array in given.items()},
        findings=[],
        layers=[],
        rows=[],
        outputs=[],
        power=power.told([]),
        coverage={"compared": 0, "untested": 0, "reference_tensors": 0, "candidate_tensors": 0, "aligned": {}},
        inconclusive="the inputs hold no numbers",
        notes=[],
    )


def _of_traces(ours: Opened, theirs: Opened) -> list[str]:
    """What cannot be said because a side is only a recorded trace."""
    if ours.side is None and theirs.side is None:
        said = "no operator's own error could be computed; only what stands out of the inherited error was seen"
        return [f"Both sides are recorded traces: {said}."]
    for one, role, other in ((ours, "reference", "candidate"), (theirs, "candidate", "reference")):
        if one.side is None:
            said = f"its numbers were held against the {other}'s function; only activations could be tried as causes"
            return [f"The {role} is a recorded trace: {said}."]
    return []


def _of_sides(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """What the engines say of their runs, each with its side: the two may say it with other numbers."""
    return [
        *(f"Both sides: {note}" for note in ours if note in theirs),
        *(f"Reference: {note}" for note in ours if note not in theirs),
        *(f"Candidate: {note}" for note in theirs if note not in ours),
    ]


def _alone(activations: Sequence[Activation], dtype: str) -> list[str]:
    """What cannot be said of activations that were compared with what is around them alone, in a 16-bit type."""
    if not activations or FLOAT_DTYPES[dtype].itemsize > NARROW:
        return []
    first = activations[0]
    place = words(location(first.chain.sites, first.chain.target))
    more = f" and at {counted(len(activations) - 1, 'further place')}" if len(activations) > 1 else ""
    said = f"no activation of the candidate stands by itself beside the reference's {first.name}"
    return [f"At {place}{more}, {said}: another one that differs by less than {dtype} rounds would not be seen there."]


NARROW: Final = 2
"""Bytes of a type in which activations differ by less than rounding."""


def _random(layer: Layer, measurer: Measurer) -> bool:
    """Whether a region draws random numbers, so that its two results say nothing."""
    sides = (measurer.reference, layer.region.reference_sites), (measurer.candidate, layer.region.candidate_sites)
    return any(view.trace.sites[view.by_name[name]].kind == "random" for view, names in sides for name in names)


def _inconclusive(given: Mapping[str, Array], mine: Observed, layers: Sequence[Layer]) -> str:
    """Why this run cannot tell that the two are the same; empty where it can."""
    if mine.unsteady:
        return "the reference does not repeat itself"
    if not any(layer.status != "untested" for layer in layers):
        return "nothing could be compared"
    floating = [array for array in given.values() if array.dtype.kind in "fV"]
    if floating and len(floating) == len(given) and not any(np.any(array) for array in floating):
        return "every input is zero, which most weights and operators leave no trace on"
    outputs = [array for array in mine.outputs.values() if array.size and array.dtype.kind in "fcV"]
    if outputs and not any(np.isfinite(array).any() for array in outputs):
        return "no number of the reference's outputs is finite"
    return ""


SIGNED: Final = frozenset({"onnxruntime", "tensorflow"})
"""Adapters whose models say every input that they take; what others say may be an example of some."""

APART: Final = 256.0
"""Units of the output's type, relative to its spread, from which outputs are looked at as a whole."""


def _whole(measurer: Measurer, ends: Ends, alignment: Alignment, outputs: Sequence[OutputRow]) -> list[Layer]:
    """Outputs that are far apart although no layer is guilty: each as one region from the inputs, if that is guilty.

    Nothing that an alignment may hide is hidden from this: only inputs and outputs are held to be the same.
    """
    if measurer.teacher is None or measurer.pupil is None:
        return []
    views = measurer.reference, measurer.candidate
    of_output = {views[0].trace.ends.outputs[row.name]: row for row in outputs}
    regions = []
    for pair in output_pairs(views, ends):
        only = Alignment()
        for one in (*(one for one in alignment if one.reason == "input"), pair):
            only.add(one)
        row = of_output.get(pair.reference)
        if row is not None and _far(row) and pair.reference in views[0].producer:
            regions.append(find_region(*views, only, pair))
    return [layer for layer in measurer.measure(regions) if layer.guilty]


def _far(row: OutputRow) -> bool:
    if row.relative is None or row.dtype is None:
        return False
    eps = float(ml_dtypes.finfo(float_dtype(row.dtype)).eps) if row.dtype in FLOAT_DTYPES else 0.0
    return row.relative > APART * eps


def _traced_pairs(
    reference: GraphView, candidate: GraphView, outputs: Sequence[OutputRow]
) -> dict[str, tuple[Array, Array]]:
    """Outputs of both traced runs that can be held against each other as they are."""
    ours, theirs = traced_outputs(reference), traced_outputs(candidate)
    return {
        row.name: (ours[row.name], theirs[row.candidate])
        for row in outputs
        if row.candidate in theirs and row.name in ours and ours[row.name].shape == theirs[row.candidate].shape
    }


def _row(layer: Layer, reference: GraphView) -> LayerRow:
    pair, measure = layer.region.pair, layer.measure
    site = reference.site_of(pair.reference)
    return LayerRow(
        reference=pair.reference,
        candidate=pair.candidate,
        aligned_by=pair.reason,
        confidence=pair.confidence,
        op=site.op if site is not None else "",
        dtype=layer.dtype,
        propagated_error=layer.propagated,
        local_error=None if measure is None else measure.error,
        excess=None if measure is None else measure.excess,
        gap=None if measure is None else measure.gap_excess,
        visible=None if measure is None or not measure.scale else GAP * measure.floor / measure.scale,
        status=layer.status,
        scope=site.scope if site is not None else "",
    )


def _coverage(
    reference: GraphView, candidate: GraphView, layers: Sequence[Layer], reasons: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "compared": sum(layer.status != "untested" for layer in layers),
        "untested": sum(layer.status == "untested" for layer in layers),
        "reference_tensors": len(reference.computed()),
        "candidate_tensors": len(candidate.computed()),
        "aligned": dict(reasons),
    }
