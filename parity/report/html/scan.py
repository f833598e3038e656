"""The page of a scan."""

from parity.jobs.scan import ScanReport
from parity.report.html.figures import explorer
from parity.report.html.page import render as render_page
from parity.report.html.parts import Cell, Page, Section, Table, cards_of
from parity.report.scan import computed
from parity.scanner.knowledge.targets import GATED
from parity.scanner.model import ActivationUse

STATUS_TONES = {"differs": "bad", "unknown": "warn", "same": "good"}
"""Tone by what a target does."""


def render(command: str, report: ScanReport) -> str:
    """The whole page."""
    return render_page(page(command, report))


def page(command: str, report: ScanReport) -> Page:
    """What is on it."""
    cards, others = cards_of(report.findings)
    names = [name or "" for one in report.findings for name in (one.expected, one.observed)]
    functions = explorer(GATED.get(name, name) for name in names)
    unreadable = report.coverage["unreadable"]
    sections = [
        *others,
        Section(title="The functions", explorer=functions) if functions else None,
        Section(title="Activations", tables=[_activations(report)]) if report.activations else None,
        Section(title="Targets", tables=[_targets(report)]) if report.targets else None,
        Section(title="Not readable", lines=[f"{one['message']} {one['hint']}" for one in unreadable])
        if unreadable
        else None,
    ]
    return Page(
        command=command,
        verdict=report.verdict,
        headline=report.summary,
        lines=[f"{count} × {name}" for name, count in report.coverage["files"].items()],
        cards=cards,
        sections=[one for one in sections if one is not None],
        environment=report.environment,
    )


def _activations(report: ScanReport) -> Table:
    columns = ("file", "where", "value", "computes", "basis", "because")
    bases = list(dict.fromkeys(use.basis for use in report.activations))
    return Table(title="", columns=columns, rows=[_activation(use) for use in report.activations], choices=bases)


def _activation(use: ActivationUse) -> list[Cell]:
    return [
        Cell(use.file),
        Cell(f"{use.path or use.scope}{f':{use.line}' if use.line else ''}"),
        Cell("–" if use.value is None else str(use.value)),
        Cell(computed(use), tone="" if use.variant else "warn"),
        Cell(use.basis),
        Cell(use.reason),
    ]


def _targets(report: ScanReport) -> Table:
    rows = [
        [
            Cell(row.answer.target),
            Cell(row.answer.status, tone=STATUS_TONES.get(row.answer.status, "")),
            Cell(row.file),
            Cell(row.path),
            Cell(row.model or "unknown"),
            Cell(row.answer.variant or "unknown"),
            Cell(row.answer.evidence),
            Cell(row.answer.note),
        ]
        for row in report.targets
    ]
    columns = ("target", "status", "file", "where", "model", "target computes", "evidence", "because")
    statuses = list(dict.fromkeys(row.answer.status for row in report.targets))
    return Table(title="", columns=columns, rows=rows, choices=statuses)
