"""The page of a check: its steps, what was found, and the pictures of each comparison."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from parity.findings import counted
from parity.jobs.check_report import CheckReport, Step
from parity.jobs.diff_run import LayerRow
from parity.report.html.diff import pictures
from parity.report.html.page import render as render_page
from parity.report.html.parts import Cell, Page, Section, Table, cards_of

TONES: Final = {"pass": "good", "mismatch": "bad", "error": "bad", "inconclusive": "warn"}
"""By verdict."""

NUMBERS: Final = ("propagated_error", "local_error", "excess", "gap", "visible")
"""Fields of a layer that JSON holds as words where they are not finite."""


def render(command: str, report: CheckReport) -> str:
    """The whole page."""
    return render_page(page(command, report))


def page(command: str, report: CheckReport) -> Page:
    """What is on it."""
    cards, others = cards_of(report.findings)
    comparisons = [(k, step) for k, step in enumerate(report.steps) if step.name == "diff"]
    return Page(
        command=command,
        verdict=report.verdict,
        headline=_headline(report),
        lines=list(_lines(report)),
        cards=cards,
        sections=[
            Section(title="Steps", tables=[_steps(report)]),
            *others,
            *(section for k, step in comparisons for section in _comparison(k, step)),
        ],
        environment=report.environment,
    )


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


def _comparison(number: int, step: Step) -> Iterator[Section]:
    """The pictures of one diff, whose report is there as JSON values."""
    body = step.report or {}
    swaps = [(one["variant"], one["alternative"]) for one in body.get("power", {}).get("activation_swaps") or []]
    layers = [_layer(one) for one in body.get("layers", [])]
    yield from pictures(layers, step.findings, swaps, name=f"{number}-", of=step.target or "candidate")


def _layer(body: Mapping[str, Any]) -> LayerRow:
    numbers: dict[str, Any] = {name: None if body[name] is None else float(body[name]) for name in NUMBERS}
    return LayerRow(**{**body, **numbers})
