"""The page of a check, or of all checks of a project: the steps, what was found, the pictures of each comparison."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from parity.findings import counted
from parity.jobs.check_project import ProjectReport
from parity.jobs.check_report import CheckReport, Step
from parity.jobs.diff_prove import Injected, Proof
from parity.jobs.diff_run import LayerRow
from parity.report.html.diff import pictures, proof_of
from parity.report.html.page import render as render_page
from parity.report.html.parts import Cell, Page, Section, Table, cards_of

TONES: Final = {"pass": "good", "mismatch": "bad", "error": "bad", "inconclusive": "warn"}
"""By verdict."""

NUMBERS: Final = ("propagated_error", "local_error", "excess", "gap", "visible")
"""Fields of a layer that JSON holds as words where they are not finite."""


def render(command: str, report: CheckReport | ProjectReport) -> str:
    """The whole page."""
    made = project_page(command, report) if isinstance(report, ProjectReport) else page(command, report)
    return render_page(made)


def page(command: str, report: CheckReport) -> Page:
    """What is on it."""
    cards, others = cards_of(report.findings)
    return Page(
        command=command,
        verdict=report.verdict,
        headline=_headline(report),
        lines=list(_lines(report)),
        cards=cards,
        sections=[
            Section(title="Steps", tables=[_steps(report)]),
            *others,
            *_comparisons(report),
        ],
        environment=report.environment,
    )


def project_page(command: str, report: ProjectReport) -> Page:
    """What is on that of a project: a row for each check, then the steps and the pictures of each."""
    cards, others = cards_of(
        [replace(one, message=f"{one.evidence['model']}: {one.message}") for one in report.findings]
    )
    sections = [Section(title="Checks", tables=[_checks(report)]), *others]
    for number, one in enumerate(report.checks, 1):
        sections.append(Section(title=f"Check {number}: {one.model}", lines=list(_lines(one)), tables=[_steps(one)]))
        sections += _comparisons(one, f"{number}-", f"check {number}, ")
    passed = f"{report.coverage['passed']} of {counted(len(report.checks), 'check')} passed."
    return Page(
        command=command,
        verdict=report.verdict,
        headline=passed,
        lines=[],
        cards=cards,
        sections=sections,
        environment=report.environment,
    )


def _checks(report: ProjectReport) -> Table:
    rows = [
        [
            Cell(str(number), number),
            Cell(one.model),
            Cell(one.verdict, tone=TONES[one.verdict]),
            Cell(f"{(spent := sum(step.seconds for step in one.steps)):.1f}", spent),
            Cell(_headline(one)),
        ]
        for number, one in enumerate(report.checks, 1)
    ]
    return Table(title="", columns=("#", "model", "verdict", "seconds", "what was found"), rows=rows)


def _headline(report: CheckReport) -> str:
    """The summary; of a mismatch only how many errors there are, as they come next."""
    if report.verdict != "mismatch":
        return report.summary
    errors = counted(sum(one.severity == "error" for one in report.findings), "error")
    return f"{report.model} is not ready to go out: {errors}."


def _lines(report: CheckReport) -> Iterator[str]:
    rates = {target: told.get("catch_rate") for target, told in report.coverage.get("targets", {}).items()}
    for target, rate in rates.items():
        if rate is not None and (len(rates) > 1 or report.verdict == "mismatch"):  # else the headline says it
            yield f"{target}: {rate:.0%} of the known faults that were injected would have been caught."
    if report.cached:
        yield "This is the result of an earlier check of the same files, options and versions."


def _steps(report: CheckReport) -> Table:
    rows = [
        [
            Cell(step.name),
            Cell(step.target or "–"),
            Cell(step.verdict, tone=TONES[step.verdict]),
            Cell(f"{step.seconds:.1f}", step.seconds),
            Cell(step.summary),
        ]
        for step in report.steps
    ]
    return Table(title="", columns=("step", "target", "verdict", "seconds", "what was found"), rows=rows)


def _comparisons(report: CheckReport, name: str = "", of: str = "") -> Iterator[Section]:
    """The pictures of each diff; ``name`` begins the names of their figures, ``of`` what their titles say."""
    for number, step in enumerate(report.steps):
        if step.name == "diff":
            yield from _comparison(step, f"{name}{number}-", f"{of}{step.target or 'candidate'}")


def _comparison(step: Step, name: str, of: str) -> Iterator[Section]:
    """The pictures of one diff, whose report is there as JSON values."""
    body = step.report or {}
    swaps = [(one["variant"], one["alternative"]) for one in body.get("power", {}).get("activation_swaps") or []]
    layers = [_layer(one) for one in body.get("layers", [])]
    yield from pictures(layers, step.findings, swaps, name=name, of=of)
    yield from proof_of(_proof(body.get("proof")), of)


def _proof(body: Mapping[str, Any] | None) -> Proof | None:
    if body is None:
        return None
    injected = [Injected(**{**one, "change": float(one["change"])}) for one in body["injected"]]
    return Proof(**{**body, "injected": injected})


def _layer(body: Mapping[str, Any]) -> LayerRow:
    numbers: dict[str, Any] = {name: None if body[name] is None else float(body[name]) for name in NUMBERS}
    return LayerRow(**{**body, **numbers})
