"""The page of a diff."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from parity.findings import Finding, counted
from parity.jobs.diff_prove import Proof
from parity.jobs.diff_report import DiffReport, Repair, is_allowed
from parity.jobs.diff_run import LayerRow
from parity.report.diff import GUILTY, STATUS, coverage_lines, headline, output_lines
from parity.report.html.figures import by_input, depth, explorer
from parity.report.html.page import render as render_page
from parity.report.html.parts import Cell, Page, Section, Table, cards_of, numeric

MOST_CAUSES: Final = 4
"""Findings whose error is shown over the input."""

ACTIVATIONS: Final = frozenset({"activation-variant", "activation-parameter"})
"""Rules of findings that name two functions."""


def render(command: str, report: DiffReport) -> str:
    """The whole page."""
    return render_page(page(command, report))


def page(command: str, report: DiffReport) -> Page:
    """What is on it."""
    cards, others = cards_of(report.findings)
    swaps = [(one.variant, one.alternative) for one in report.power.get("activation_swaps") or []]
    sections = [
        *others,
        *pictures(report.layers, report.findings, swaps),
        *_repair(report.repair),
        *proof_of(report.proof),
        Section(title="What was compared", lines=[*coverage_lines(report), *(f"note: {one}" for one in report.notes)]),
        Section(title="Time", tables=[_timing(report)]) if report.timing else None,
    ]
    return Page(
        command=command,
        verdict=report.verdict,
        headline=headline(report),
        lines=list(output_lines(report.outputs, report.verdict, allowed=any(map(is_allowed, report.findings)))),
        cards=cards,
        sections=[one for one in sections if one is not None],
        environment=report.environment,
    )


def pictures(
    layers: Sequence[LayerRow],
    findings: Sequence[Finding],
    swaps: Sequence[tuple[str, str]],
    *,
    name: str = "",
    of: str = "",
) -> Iterator[Section]:
    """Errors by depth, errors of activations over their input, the functions themselves, and the table of layers.

    Args:
        layers: Of the comparison.
        findings: Likewise.
        swaps: Pairs of functions that the run would have told apart, for the case that no finding names any.
        name: Before the names of figures, where a page has several comparisons.
        of: What was compared; likewise.
    """
    named = f": {of}" if of else ""
    if layers:
        guilty = sum(one.status in GUILTY for one in layers)
        said = f"{counted(guilty, 'guilty layer')} of {len(layers)}." if guilty else "No layer is guilty."
        yield Section(
            title=f"Where{named}",
            lines=[said],
            figures=[depth(layers, f"{name}depth")],
        )
    causes = [one for one in findings if one.rule in ACTIVATIONS]
    plots = [by_input(one, f"{name}cause-{k}") for k, one in enumerate(causes[:MOST_CAUSES])]
    names = [one for cause in causes for one in (cause.expected, cause.observed)] or [
        one for pair in swaps for one in pair
    ]
    functions = explorer(names, f"{name}functions")
    if functions is not None or any(plots):
        yield Section(
            title=f"The functions{named}", figures=[one for one in plots if one is not None], explorer=functions
        )
    if layers:
        yield Section(title=f"Layers{named}", tables=[layer_table(layers)])


def layer_table(layers: Sequence[LayerRow]) -> Table:
    """A row a layer."""
    rows = []
    for k, one in enumerate(layers, 1):
        word = STATUS[one.status][0]
        tone = "bad" if one.status in GUILTY else "quiet" if one.status == "untested" else ""
        inherited = one.propagated_error
        rows.append(
            [
                Cell(str(k), k),
                Cell(one.reference),
                Cell(one.candidate),
                Cell(one.op),
                numeric(inherited) if math.isfinite(inherited) else Cell("not finite", math.inf),
                numeric(one.local_error),
                numeric(one.excess, tone),
                Cell(word, tone=tone),
            ]
        )
    columns = ("#", "reference", "candidate", "operator", "inherited", "own error", "excess", "status")
    return Table(
        title="Each on the reference's own numbers",
        columns=columns,
        rows=rows,
        note="inherited: how far the two runs are apart, in units of the tensor's spread; own error: what the "
        "candidate adds on the reference's numbers; excess: that over what rounding makes.",
        choices=list(dict.fromkeys(STATUS[one.status][0] for one in layers)),
    )


def _repair(repair: Repair | None) -> Iterator[Section]:
    if repair is None:
        return
    lines = [repair.summary if repair.verdict is None else f"{repair.file}: {repair.verdict}. {repair.summary}"]
    lines += [f"mended: {one}" for one in repair.edits]
    lines += [f"left: {one.rule}: {one.why}" for one in repair.left]
    if repair.verdict is not None:
        lines += output_lines(repair.outputs, repair.verdict)
    yield Section(title="With the mended graph", lines=lines)


def proof_of(proof: Proof | None, of: str = "") -> Iterator[Section]:
    """Which known faults were put in, and what became of each.

    Args:
        proof: None where that was not asked for.
        of: What was compared, where a page has several comparisons.
    """
    if proof is None:
        return
    caught = sum(one.caught for one in proof.injected)
    lines = [f"{caught} of {counted(len(proof.injected), 'known fault')} put into a copy of the reference caught."]
    lines += [f"not tried: {one}" for one in proof.failed]
    lines += [
        f"not shown: {one.kind} at {one.place}; {one.advice} would show it" for one in proof.injected if not one.caught
    ]
    rows = [
        [
            Cell(one.kind),
            Cell(one.place),
            numeric(one.change),
            Cell("yes", tone="good") if one.caught else Cell("no", tone="bad"),
            Cell(", ".join(one.found) or "–", tone="" if one.named or not one.caught else "warn"),
            Cell("right" if one.placed else "another" if one.caught else "–"),
        ]
        for one in proof.injected
    ]
    columns = ("fault", "at", "changes its tensor by", "caught", "told as", "place")
    yield Section(
        title=f"Would these inputs show a fault?{f' ({of})' if of else ''}",
        lines=lines,
        tables=[Table(title="", columns=columns, rows=rows)] if rows else [],
    )


def _timing(report: DiffReport) -> Table:
    rows = [[Cell(part), Cell(f"{spent:.2f}", spent)] for part, spent in report.timing.items()]
    return Table(title="", columns=("part", "seconds"), rows=rows)
