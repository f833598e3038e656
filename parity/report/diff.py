"""The report of a diff for a terminal: the verdict, the causes and what to change, the layers, the coverage."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from parity.diagnose.power import SEEN
from parity.findings import Finding, Verdict, counted
from parity.jobs.diff_prove import Proof
from parity.jobs.diff_report import DiffReport, Repair, is_allowed
from parity.jobs.diff_run import LayerRow
from parity.layerwise.ends import OutputRow
from parity.layerwise.location import module, words
from parity.report.terminal import COLOURS, console, new_table, number, one_line, plain, text_of, verdict_line

NEIGHBOURS: Final = 1
"""Layers shown before and after a guilty one."""

WORST: Final = 3
"""Layers shown for their excess, guilty or not."""

MOST_GUILTY: Final = 6
"""Guilty layers shown with their neighbours at most."""

MIN_NAME: Final = 18
"""Characters of a name in the table of layers that are always shown."""

LONG: Final = 100
"""Characters of a name beside a finding from which it is cut."""

NUMBERS_WIDTH: Final = 76
"""Columns of the table of layers beside those of the two names."""

TOLERANCES: Final = (1e-5, 1e-4, 1e-3, 1e-2)
"""Absolute tolerances that tests use."""

NONE: Final = 0.005
"""Share of an output's error that is none of it."""

HIDES: Final = 0.1
"""Share of a tensor's size from which what the rounding hides is worth a word."""

STATUS: Final = {
    "ok": ("ok", "green"),
    "function": ("another function", "bold red"),
    "rounding": ("imprecise", "bold red"),
    "overflow": ("overflow", "bold red"),
    "untested": ("not compared", "dim"),
    "excused": ("within its precision", "green"),
}
"""How a layer's status reads, and its colour."""

GUILTY: Final = frozenset({"function", "rounding", "overflow"})
"""Statuses of layers that differ by their own fault."""


LEGEND: Final = (
    "inherited: how far the two runs are apart, in units of the tensor's spread; own error: what the",
    "candidate adds on the reference's numbers, root mean square, absolute: in the tensor's own units;",
    "excess: that over what rounding makes.",
)
"""What the columns of the table of layers mean."""


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
    out.print(verdict_line(report.verdict, headline(report)), soft_wrap=True)
    allowed = any(map(is_allowed, report.findings))
    _outputs(out, report.outputs, report.verdict, allowed=allowed)
    for number_, finding in enumerate(report.findings, 1):
        print_finding(out, number_, finding)
    _layers(out, report.layers, all_layers=all_layers)
    out.print()
    _coverage(out, report)
    if report.repair is not None:
        _repair(out, report.repair, allowed=allowed)
    if report.proof is not None:
        _proof(out, report.proof)
    if timing:
        _timing(out, report.timing)
    return text_of(out)


def headline(report: DiffReport) -> str:
    """The summary; of a mismatch only what kinds there are, as the findings come next."""
    errors = [one for one in report.findings if one.severity == "error"]
    if report.verdict != "mismatch" or not errors:
        return report.summary
    places = {one.rule: 0 for one in errors}
    for one in errors:
        places[one.rule] += one.evidence.get("count", 1)
    kinds = ", ".join(f"{rule} at {counted(count, 'place')}" for rule, count in places.items())
    return f"The candidate does not compute what the reference computes: {kinds}."


def print_finding(out: Console, place: int, finding: Finding) -> None:
    """A finding with its number: what, where, how it is known, what it does to the outputs, what to change."""
    out.print()
    kind = finding.rule if finding.severity == "error" else f"{finding.rule} ({finding.severity})"
    colour = COLOURS.get(finding.severity, "")
    head = Text.assemble((f"{place}. {kind}", colour), "  ", plain(one_line(finding.message)))
    out.print(head, soft_wrap=True)
    for name, said in facts_of(finding):
        out.print(plain(f"   {name}: {one_line(said)}"), soft_wrap=True)
    if finding.fix:
        out.print(Text.assemble(("   fix: ", "bold"), plain(one_line(finding.fix))), soft_wrap=True)


def facts_of(finding: Finding) -> Iterator[tuple[str, str]]:
    """What is known of a finding beside its message and its fix, each with a name."""
    if "file" in finding.location:
        yield "at", one_line(_where(finding.location))
    for side in ("reference", "candidate"):
        if where := finding.location.get(side):
            yield side, one_line(_where(where))
    both = [one for one in (finding.expected, finding.observed) if one]
    if both and not any(one in finding.message for one in both):
        yield "expected", f"{finding.expected or '–'}; observed: {finding.observed or '–'}"
    places = finding.evidence.get("places")
    if isinstance(places, Sequence):
        count = finding.evidence["count"]
        more = f" ({count} in all)" if count > len(places) else ""
        yield "places", f"{', '.join(places)}{more}"
    if evidence := _evidence(finding):
        yield "evidence", evidence
    if reproduction := finding.evidence.get("reproduction"):
        yield "reproduction", f"{reproduction}/run.py"
    for impact in _impacts(finding):
        yield "impact", impact


def _impacts(finding: Finding) -> Iterator[str]:
    """What the cause does to the outputs, or why that is not known."""
    yield from map(_impact, finding.impact.get("outputs", ()))
    if reason := finding.impact.get("reason"):
        yield f"not computed. {reason}"
    if finding.evidence.get("seen_by") == "probe":
        yield "with these inputs no more than rounding makes; others may show it"


def _where(place: Any) -> str:
    if isinstance(place, str):
        return place
    if file := place.get("file"):
        line = f":{place['line']}" if place.get("line") else ""
        return f"{file}{line}" + (f", {place['path']}" if place.get("path") else "")
    tensor, site = place.get("tensor", ""), place.get("site", "")
    op = place.get("op", "")
    known = {op, module(place), f"{module(place)}/{op.rpartition('.')[2]}"}
    node = "" if site in known or tensor.startswith(site) else f" {_brief(site)}"
    parts = [words(place), f"{op}{node}", f"tensor {_brief(tensor)}" if tensor else ""]
    return ", ".join(dict.fromkeys(part for part in parts if part))


def _brief(name: str) -> str:
    """A name of bearable length; TFLite joins those of all operators that it has made one of, the last one first."""
    if len(name) <= LONG:
        return name
    first, more, _ = name.partition(";")
    return f"{shortened(first, LONG)}{more and ';…'}"


def _impact(one: Mapping[str, Any]) -> str:
    """What mending a cause alone does to one output."""
    error, mended, share = one["relative_error"], one["mended_relative_error"], one["share"]
    said = f"output {one['output']} is {_off(error)}"
    if abs(share) < NONE:
        return f"{said}, and as much with this alone mended: none of it comes from here"
    now = f"by {number(mended)}" if math.isfinite(error) and math.isfinite(mended) else _off(mended)
    said += f", and {now} with this alone mended"
    if math.isfinite(error) and math.isfinite(mended):
        said += f": {share:.1%} of it comes from here" if share > 0 else ": the causes partly cancel"
    if one["top1_changes"]:
        changes, mended_changes = one["top1_changes"], one["mended_top1_changes"] or 0.0
        said += f"; rows with another first: {changes:.2%}, then {mended_changes:.2%}"
    return said


def _off(relative: float) -> str:
    return f"off by {number(relative)} of its spread" if math.isfinite(relative) else "not finite"


def _evidence(finding: Finding) -> str:
    found = finding.evidence
    said = []
    excess, gap = found.get("excess"), found.get("function_gap")
    if count := found.get("not_finite"):
        said.append(f"{counted(count, 'number')} there {'is' if count == 1 else 'are'} infinite or NaN")
    elif excess is not None and math.isfinite(excess):
        said.append(f"its own error is {_grouped(excess)} times what rounding makes")
        if gap is not None and gap > excess / 2:
            said.append("as large in float64, so it is no matter of precision")
        if math.isfinite(relative := found.get("relative_error", math.nan)):
            said.append(f"{number(relative)} of the tensor's size")
    if (unequal := found.get("unequal")) is not None:
        said.append(f"{unequal:.1%} of the numbers there are others")
    if (share := found.get("share")) is not None:
        said.append(f"{share:.1%} of it goes away with this mended")
    coefficient = found.get("coefficient")
    if share is None and coefficient is not None and found.get("standard_error", math.inf) < math.inf:
        error = number(found["standard_error"], 2)
        said.append(f"the error is {coefficient:.3f} ± {error} times the difference of the two functions")
    if shape := found.get("error_shape"):
        said.append(f"the error is {shape}")
    return "; ".join(said)


def _grouped(value: float) -> str:
    """A large number with its digits in groups, three of them significant."""
    return f"{float(f'{value:.3g}'):,.0f}" if 100 <= value < 1e9 else number(value)


def shown(layers: Sequence[LayerRow]) -> list[int]:
    """Positions of the layers that tell most: the guilty, their neighbours, and the worst of the others."""
    keep: set[int] = set()
    for k in _guilty(layers)[:MOST_GUILTY]:
        keep.update(range(max(0, k - NEIGHBOURS), min(len(layers), k + NEIGHBOURS + 1)))
    by_excess = sorted(range(len(layers)), key=lambda k: -(layers[k].excess or 0.0))
    keep.update(by_excess[:WORST])
    return sorted(keep)


def _guilty(layers: Sequence[LayerRow]) -> list[int]:
    return [k for k, layer in enumerate(layers) if layer.status in GUILTY]


def _layers(out: Console, layers: Sequence[LayerRow], *, all_layers: bool) -> None:
    if not layers:
        return
    kept = list(range(len(layers))) if all_layers else shown(layers)
    hidden = len(layers) - len(kept)
    title = "Layers, each on the reference's own numbers"
    if hidden:
        title += f" ({hidden} of {len(layers)} not shown; --all-layers shows them)"
    table = new_table(title)
    for name in ("reference", "candidate", "operator", "inherited", "own error", "excess", ""):
        table.add_column(
            name, justify="right" if name in {"inherited", "own error", "excess"} else "left", no_wrap=not name
        )
    length = max(MIN_NAME, (out.width - NUMBERS_WIDTH) // 2)
    before = -1
    for k in kept:
        if k != before + 1:
            table.add_row("…")
        layer = layers[k]
        word, colour = STATUS[layer.status]
        table.add_row(
            plain(shortened(one_line(layer.reference), length)),
            plain(shortened(one_line(layer.candidate), length)),
            plain(shortened(layer.op, MIN_NAME)),
            number(layer.propagated_error) if math.isfinite(layer.propagated_error) else "not finite",
            number(layer.local_error),
            number(layer.excess),
            plain(word, colour),
        )
        before = k
    if before != len(layers) - 1:
        table.add_row("…")
    out.print()
    out.print(table)
    for line in LEGEND:
        out.print(plain(line))
    if guilty := _guilty(layers):
        fine = sum(layer.status == "ok" for layer in layers[: guilty[0]])
        agree = f"{counted(fine, 'tensor')} {'agrees' if fine == 1 else 'agree'}"
        out.print(plain(f"Before the first of these {agree}; those marked ok after it only inherit their error."))


def shortened(name: str, length: int) -> str:
    """A name of at most so many characters, cut in its middle: its end tells most, then its beginning."""
    if len(name) <= length:
        return name
    head = (length - 1) // 3
    return f"{name[:head]}…{name[len(name) - (length - 1 - head) :]}"


def _repair(out: Console, repair: Repair, *, allowed: bool) -> None:
    out.print()
    if repair.verdict is None:
        out.print(Text.assemble(("with the mended graph: ", "bold"), plain(repair.summary)), soft_wrap=True)
    else:
        out.print(Text.assemble(("with the mended graph: ", "bold"), plain(str(repair.file))), soft_wrap=True)
        out.print(verdict_line(repair.verdict, repair.summary), soft_wrap=True)
    for edit in repair.edits:
        out.print(plain(f"   mended: {edit}"), soft_wrap=True)
    for left in repair.left:
        out.print(plain(f"   left: {left.rule}: {left.why}"), soft_wrap=True)
    if repair.outputs and repair.verdict is not None:
        _outputs(out, repair.outputs, repair.verdict, allowed=allowed)


def _outputs(out: Console, rows: Sequence[OutputRow], verdict: Verdict, *, allowed: bool) -> None:
    for said in output_lines(rows, verdict, allowed=allowed):
        out.print(plain(said), soft_wrap=True)


def output_lines(rows: Sequence[OutputRow], verdict: Verdict, *, allowed: bool = False) -> Iterator[str]:
    """How far each output is off, and what a fixed tolerance would say of that."""
    honest = verdict == "pass" and not allowed
    for row in rows:
        name = one_line(row.name)
        if row.relative is None or row.max_abs is None:
            yield f"output {name}: not compared"
        elif not math.isfinite(row.relative) or not math.isfinite(row.max_abs):
            yield f"output {name}: NaN or infinite on one side and not on the other"
        else:
            off = f"{number(row.max_abs)} at most, {number(row.relative)} of its spread{_as_scores(row, honest=honest)}"
            yield f"output {name}: off by {off}"
    if said := _tolerance(rows, verdict, honest=honest):
        yield said


def _as_scores(row: OutputRow, *, honest: bool) -> str:
    if row.top1_changes is None or row.kl is None:
        return ""
    changed = f"{row.top1_changes:.2%} of rows have another first" if row.top1_changes else "no row has another first"
    ties = " (rounding decides near ties)" if row.top1_changes and honest else ""
    return f"; as scores, {changed}{ties}, KL {number(row.kl)}"


def _tolerance(rows: Sequence[OutputRow], verdict: Verdict, *, honest: bool) -> str:
    """What a test with a fixed tolerance says of these outputs, where that is the contrary; empty otherwise.

    Args:
        rows: The outputs.
        verdict: What was found of them.
        honest: Whether nothing but rounding sets them apart.
    """
    largest = max((math.inf if row.max_abs is None else row.max_abs for row in rows), default=math.inf)
    if verdict == "mismatch" and 0 < largest <= TOLERANCES[-1]:
        limit = next(one for one in TOLERANCES if largest <= one)
        return f"A test with an absolute tolerance of {limit:g} would pass these outputs."
    if verdict == "pass" and TOLERANCES[0] < largest < math.inf:
        limit = max(one for one in TOLERANCES if one < largest)
        cause = "by rounding alone" if honest else "by what --allow lets pass or by rounding"
        return f"A test with an absolute tolerance of {limit:g} would fail them, {cause}."
    return ""


def _coverage(out: Console, report: DiffReport) -> None:
    for said in coverage_lines(report):
        out.print(plain(said), soft_wrap=True)
    for note in report.notes:
        out.print(plain(f"note: {note}", "dim"), soft_wrap=True)


def coverage_lines(report: DiffReport) -> Iterator[str]:
    """How much of both models was compared, and the least that would have been seen."""
    coverage = report.coverage
    reasons = ", ".join(f"{count} by {name}" for name, count in coverage["aligned"].items() if name != "input")
    left = max(coverage["candidate_tensors"] - coverage["compared"] - coverage["untested"], 0)
    all_of = f"{coverage['reference_tensors']} in the reference and {coverage['candidate_tensors']} in the candidate"
    inside = f"; {counted(left, 'step')} of the candidate seen only through what comes of them" if left else ""
    untested = f"; {coverage['untested']} aligned but not compared" if coverage["untested"] else ""
    said = f"coverage: {counted(coverage['compared'], 'tensor')} compared of {all_of} (aligned {reasons or 'none'})"
    yield f"{said}{inside}{untested}"
    swaps = report.power.get("activation_swaps") or []
    if swaps:
        weakest = min(swaps, key=lambda one: one.sigma)
        swap = f"a swap of {weakest.variant} for {weakest.alternative} at {weakest.scope or weakest.reference}"
        seen = f"would have stood out by {_grouped(weakest.sigma)} standard deviations"
        if weakest.sigma < SEEN:
            seen = "could not have been seen by these inputs alone: there the two are the same"
        elif len(swaps) > 1:
            seen += ", at the others by more"
        yield f"power: {counted(len(swaps), 'activation')} looked at; {swap} {seen}"
    visible = [(layer.visible, layer.reference) for layer in report.layers if layer.visible is not None]
    if visible:
        middle, (most, place) = statistics.median(value for value, _ in visible), max(visible)
        hidden = "; what is smaller is lost in the rounding there" if most > HIDES else ""
        said = f"power: another function shows from {number(middle)} of a tensor's size on at half of the tensors"
        yield f"{said}, from {number(most)} on at the least telling one, {_brief(place)}{hidden}"


def _proof(out: Console, proof: Proof) -> None:
    out.print()
    for failure in proof.failed:
        out.print(plain(f"not tried: {failure}", "yellow"), soft_wrap=True)
    if proof.catch_rate is None:
        said = (
            "none of the known faults could be put in"
            if proof.failed
            else "this model has no place for any known fault"
        )
        out.print(plain(f"proof: {said}"), soft_wrap=True)
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
