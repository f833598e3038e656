"""The report of a diff for a terminal: the verdict, the causes and what to change, the layers, the coverage."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from parity.findings import Finding, counted
from parity.jobs.diff_prove import Proof
from parity.jobs.diff_report import DiffReport, Repair
from parity.jobs.diff_run import LayerRow
from parity.layerwise.ends import OutputRow
from parity.layerwise.location import words
from parity.report.terminal import COLOURS, console, new_table, number, plain, text_of, verdict_line

NEIGHBOURS: Final = 1
"""Layers shown before and after a guilty one."""

WORST: Final = 3
"""Layers shown for their excess, guilty or not."""

STATUS: Final = {
    "ok": ("ok", "green"),
    "function": ("another function", "bold red"),
    "rounding": ("imprecise", "bold red"),
    "overflow": ("overflow", "bold red"),
    "untested": ("not compared", "dim"),
    "excused": ("within its precision", "green"),
}
"""How a layer's status reads, and its colour."""


def render(report: DiffReport, *, colour: bool, width: int, all_layers: bool = False, timing: bool = False) -> str:
    """The whole report.

    Args:
        report: What was found.
        colour: Whether to colour it.
        width: Columns.
        all_layers: Every layer, not only the guilty, their neighbours and the worst others.
        timing: How long each part took, too.
    """
    out = console(colour=colour, width=width)
    out.print(verdict_line(report.verdict, report.summary), soft_wrap=True)
    for number_, finding in enumerate(report.findings, 1):
        _finding(out, number_, finding)
    _layers(out, report.layers, all_layers=all_layers)
    _outputs(out, report.outputs)
    if report.repair is not None:
        _repair(out, report.repair)
    _coverage(out, report)
    if report.proof is not None:
        _proof(out, report.proof)
    if timing:
        _timing(out, report.timing)
    return text_of(out)


def _finding(out: Console, place: int, finding: Finding) -> None:
    out.print()
    head = Text.assemble((f"{place}. {finding.rule}", COLOURS.get(finding.severity, "")), "  ", finding.message)
    out.print(head, soft_wrap=True)
    for side in ("reference", "candidate"):
        where = finding.location.get(side)
        if where:
            out.print(plain(f"   {side}: {_where(where)}"), soft_wrap=True)
    if finding.expected or finding.observed:
        out.print(plain(f"   expected: {finding.expected or '–'}; observed: {finding.observed or '–'}"), soft_wrap=True)
    evidence = _evidence(finding)
    if evidence:
        out.print(plain(f"   evidence: {evidence}", "dim"), soft_wrap=True)
    if reproduction := finding.evidence.get("reproduction"):
        out.print(plain(f"   reproduction: {reproduction}/run.py"), soft_wrap=True)
    for impact in finding.impact.get("outputs", ()):
        out.print(plain(f"   impact: {_impact(impact)}"), soft_wrap=True)
    if reason := finding.impact.get("reason"):
        out.print(plain(f"   impact: not computed. {reason}"), soft_wrap=True)
    if finding.fix:
        out.print(Text.assemble(("   fix: ", "bold"), finding.fix), soft_wrap=True)


def _where(place: Any) -> str:
    if isinstance(place, str):
        return place
    parts = [words(place), place.get("op", ""), f"tensor {place['tensor']}" if place.get("tensor") else ""]
    return ", ".join(dict.fromkeys(part for part in parts if part))


def _impact(one: Mapping[str, Any]) -> str:
    """What mending a cause alone does to one output."""
    error, mended, share = one["relative_error"], one["mended_relative_error"], one["share"]
    gone = f"{share:.1%} of it is this cause's" if share > 0 else "mending this alone does not make it smaller"
    said = f"output {one['output']} is {number(error)} of its spread off, {number(mended)} with this mended: {gone}"
    if one["top1_changes"]:
        changes, mended_changes = one["top1_changes"], one["mended_top1_changes"] or 0.0
        said += f"; rows with another first: {changes:.2%}, then {mended_changes:.2%}"
    return said


def _evidence(finding: Finding) -> str:
    found = finding.evidence
    said = []
    if (excess := found.get("excess")) is not None:
        said.append(f"local error {number(excess)} times the noise floor")
    if (relative := found.get("relative_error")) is not None and math.isfinite(relative):
        said.append(f"{number(relative)} of the tensor's size")
    if (coefficient := found.get("coefficient")) is not None and "standard_error" in found:
        said.append(f"coefficient {coefficient:.3f} ± {number(found['standard_error'], 2)}")
    if (bits := found.get("effective_bits")) is not None:
        said.append(f"{bits:.1f} significant bits")
    if shape := found.get("error_shape"):
        said.append(f"the error is {shape}")
    if places := found.get("places"):
        said.append(f"at {', '.join(places)}{' …' if found['count'] > len(places) else ''}")
    return "; ".join(said)


def shown(layers: Sequence[LayerRow]) -> list[int]:
    """Positions of the layers that tell most: the guilty, their neighbours, and the worst of the others."""
    keep: set[int] = set()
    for k, layer in enumerate(layers):
        if layer.status in {"function", "rounding", "overflow"}:
            keep.update(range(max(0, k - NEIGHBOURS), min(len(layers), k + NEIGHBOURS + 1)))
    by_excess = sorted(range(len(layers)), key=lambda k: -(layers[k].excess or 0.0))
    keep.update(by_excess[:WORST])
    return sorted(keep)


def _layers(out: Console, layers: Sequence[LayerRow], *, all_layers: bool) -> None:
    if not layers:
        return
    kept = list(range(len(layers))) if all_layers else shown(layers)
    hidden = len(layers) - len(kept)
    title = "Layers, each on the reference's own numbers" + (f" ({hidden} fine ones not shown)" if hidden else "")
    table = new_table(title)
    for name in ("reference", "candidate", "operator", "inherited", "own error", "excess", "functions apart", ""):
        table.add_column(name, justify="right" if name in {"inherited", "own error", "excess"} else "left")
    before = -1
    for k in kept:
        if k != before + 1:
            table.add_row("…")
        layer = layers[k]
        word, colour = STATUS[layer.status]
        table.add_row(
            plain(layer.reference),
            plain(layer.candidate),
            plain(layer.op),
            number(layer.propagated_error),
            number(layer.local_error),
            number(layer.excess),
            number(layer.gap),
            plain(word, colour),
        )
        before = k
    if before != len(layers) - 1:
        table.add_row("…")
    out.print()
    out.print(table)
    out.print(
        plain("inherited: difference of the free runs, in units of the tensor's spread; excess: own error over", "dim")
    )
    out.print(plain("the noise floor; functions apart: distance of the two in float64, over the noise floor.", "dim"))


def _repair(out: Console, repair: Repair) -> None:
    out.print()
    if repair.verdict is None:
        out.print(Text.assemble(("with the mended graph: ", "bold"), repair.summary), soft_wrap=True)
    else:
        out.print(Text.assemble(("with the mended graph: ", "bold"), str(repair.file)), soft_wrap=True)
        out.print(verdict_line(repair.verdict, repair.summary), soft_wrap=True)
    for edit in repair.edits:
        out.print(plain(f"   mended: {edit}"), soft_wrap=True)
    for left in repair.left:
        out.print(plain(f"   left: {left.rule}: {left.why}"), soft_wrap=True)
    if repair.outputs:
        _outputs(out, repair.outputs)


def _outputs(out: Console, rows: Sequence[OutputRow]) -> None:
    out.print()
    for row in rows:
        if row.relative is None:
            out.print(plain(f"output {row.name}: not compared"))
            continue
        scores = ""
        if row.top1_changes is not None and row.kl is not None:
            scores = f"; as scores: {row.top1_changes:.2%} of rows with another first, KL {number(row.kl)}"
        off = f"{number(row.max_abs)} at most, {number(row.relative)} of its spread"
        out.print(plain(f"output {row.name}: off by {off}{scores}"), soft_wrap=True)


def _coverage(out: Console, report: DiffReport) -> None:
    coverage = report.coverage
    reasons = ", ".join(f"{count} by {name}" for name, count in coverage["aligned"].items())
    left = coverage["candidate_tensors"] - coverage["compared"] - coverage["untested"]
    all_of = f"{coverage['reference_tensors']} in the reference and {coverage['candidate_tensors']} in the candidate"
    inside = f"{max(left, 0)} of the candidate's lie inside regions without a counterpart"
    out.print(
        plain(f"coverage: {counted(coverage['compared'], 'tensor')} compared ({reasons}) of {all_of}; {inside}"),
        soft_wrap=True,
    )
    swaps = report.power.get("activation_swaps") or []
    if swaps:
        weakest = min(swaps, key=lambda one: one.sigma)
        out.print(
            plain(
                f"power: {counted(len(swaps), 'activation')} looked at; a swap of {weakest.variant} for "
                f"{weakest.alternative} at {weakest.scope or weakest.reference} would have shown at "
                f"{number(weakest.sigma)} σ, at the others higher"
            ),
            soft_wrap=True,
        )
    visible = [layer.visible for layer in report.layers if layer.visible is not None]
    if visible:
        said = f"power: another function shows at a compared tensor from {number(max(visible))} of the tensor's size on"
        out.print(plain(f"{said}, at half of them from {number(statistics.median(visible))}"), soft_wrap=True)
    for note in report.notes:
        out.print(plain(f"note: {note}", "dim"), soft_wrap=True)


def _proof(out: Console, proof: Proof) -> None:
    out.print()
    if proof.catch_rate is None:
        out.print(plain("proof: this model has no place for any of the known faults"), soft_wrap=True)
        return
    caught = sum(one.caught for one in proof.injected)
    table = new_table(f"Known faults put into a copy of the reference: {caught} of {len(proof.injected)} caught")
    for name in ("fault", "at", "changes its tensor by", "caught", "told as", "place"):
        table.add_column(name, justify="right" if name == "changes its tensor by" else "left")
    for one in proof.injected:
        table.add_row(
            plain(one.kind),
            plain(one.place),
            number(one.change),
            plain("yes", "green") if one.caught else plain("no", "bold red"),
            plain(", ".join(one.found) or "–", "" if one.named or not one.caught else "yellow"),
            plain("right" if one.placed else "–" if not one.caught else "another", ""),
        )
    out.print(table)
    for one in proof.injected:
        if not one.caught:
            out.print(plain(f"not shown: {one.kind} at {one.place}; {one.advice} would show it"), soft_wrap=True)
    if proof.absent:
        out.print(
            plain(f"not tried, for the run has no place for it: {', '.join(proof.absent)}", "dim"), soft_wrap=True
        )


def _timing(out: Console, seconds: Mapping[str, float]) -> None:
    table = new_table("Time by part; those of the two sides run at the same time")
    table.add_column("part")
    table.add_column("seconds", justify="right")
    for part, spent in seconds.items():
        table.add_row(part, f"{spent:.2f}")
    out.print()
    out.print(table)
