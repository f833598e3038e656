"""What a page is made of. All strings are plain text: the template escapes them, and `figures` those of plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parity.errors import CONTROLS
from parity.findings import Finding
from parity.report.diff import facts_of
from parity.report.terminal import number

MOST_CARDS: Final = 12
"""Findings that are shown with all that is known of them; the others stand in a table."""


_SPELT: Final = CONTROLS | {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""Characters that are orders to a terminal, or turn round the text after them, and how they are shown."""


def visible(text: str) -> str:
    """The text with what would be an order and no sign spelt out."""
    return text.translate(_SPELT)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: What it shows.
        value: What its column is sorted by; None for the text.
        tone: ``bad``, ``warn``, ``good`` or ``quiet``; empty for none.
    """

    text: str
    value: float | None = None
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that can be sorted and filtered.

    Attributes:
        title: Its caption.
        columns: Name of each.
        rows: Of as many cells.
        note: How to read it.
        choices: Words that are offered as filters, beside free text.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot, as Plotly's JSON; colours are custom properties of the style sheet, as ``var(--own)``.

    Attributes:
        name: Its own on the page, of letters, digits and dashes.
        title: What it shows.
        data: Traces.
        layout: Beside what all plots share.
        note: How to read it.
    """

    name: str
    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explorer:
    """Functions to compare at an input that is chosen with a slider.

    Attributes:
        x: Inputs that can be chosen.
        start: Which of them is chosen at first.
        names: Of the functions; the others are compared with the first.
        curves: The functions over ``x``, one trace each.
        differences: What they are apart from the first, one trace for each but that.
    """

    x: Sequence[float]
    start: int
    names: Sequence[str]
    curves: Figure
    differences: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page under a title of its own."""

    title: str
    lines: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    explorer: Explorer | None = None
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One finding with all that is known of it.

    Attributes:
        rule: Its kind.
        severity: How bad it is.
        message: What is wrong.
        facts: Further ones, each with its name.
        fix: What to change, to be copied.
    """

    rule: str
    severity: str
    message: str
    facts: Sequence[tuple[str, str]]
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole report.

    Attributes:
        command: That made it.
        verdict: The word.
        headline: The sentence after it.
        lines: Further sentences for a reader who stops there.
        cards: Findings, the first one first.
        sections: In order.
        environment: Versions and threads, as `parity.findings.environment` makes them.
    """

    command: str
    verdict: str
    headline: str
    lines: Sequence[str]
    cards: Sequence[Card]
    sections: Sequence[Section]
    environment: Mapping[str, Any]


def numeric(value: float | None, tone: str = "") -> Cell:
    """A cell with a number in it; a dash, sorted below all others, for none."""
    return Cell(number(value), float("-inf") if value is None else float(value), tone)


def cards_of(findings: Sequence[Finding]) -> tuple[list[Card], list[Section]]:
    """The findings that are shown in full, errors first, and a section with a table of the others."""
    shown = sorted(findings, key=lambda one: list(TONES).index(one.severity))
    if len(shown) > MOST_CARDS:
        shown = [one for one in shown if one.severity == "error"][:MOST_CARDS]
    told = {id(one) for one in shown}
    others = [one for one in findings if id(one) not in told]
    sections = [Section(title="Further findings", tables=[_findings(others)])] if others else []
    return [_card(one) for one in shown], sections


def _card(finding: Finding) -> Card:
    return Card(
        rule=finding.rule,
        severity=finding.severity,
        message=finding.message,
        facts=list(facts_of(finding)),
        fix=finding.fix,
    )


TONES: Final = {"error": "bad", "warning": "warn", "note": "quiet"}
"""By severity."""


def _findings(findings: Sequence[Finding]) -> Table:
    rows = [
        [Cell(one.severity, tone=TONES[one.severity]), Cell(one.rule), Cell(one.message), Cell(one.fix)]
        for one in findings
    ]
    severities = [one for one in TONES if any(one == finding.severity for finding in findings)]
    return Table(title="", columns=("severity", "rule", "what", "fix"), rows=rows, choices=severities)
