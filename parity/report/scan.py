"""The report of a scan for a terminal: a table a file, or one for all files that say the same.

Written without rich, whose import takes as long as all the rest of the scan of a config.
"""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parity.findings import Finding
from parity.jobs.scan import ScanReport
from parity.scanner.json_text import cut
from parity.scanner.knowledge.targets import ASSUMED
from parity.scanner.model import ActivationUse

MOST_FINDINGS: Final = 40
"""Findings that are shown; JSON has all."""

MOST_TABLES: Final = 30
"""Tables that are shown."""

MOST_ROWS: Final = 40
"""Rows of a table that are shown."""

NARROWEST: Final = 24
"""Columns that the last one of a table is given at least."""

STYLES: Final = {
    "error": "1;31",
    "mismatch": "1;31",
    "differs": "1;31",
    "warning": "33",
    "unknown": "33",
    "inconclusive": "33",
    "note": "2",
    "pass": "32",
    "same": "32",
}
"""Colour by severity, verdict or status, as the terminal's own code."""


def render(report: ScanReport, *, colour: bool, width: int) -> str:
    """Tables of activations and targets, findings, the verdict."""
    page = _Page(colour, width)
    lines = [*_activations(page, report), *_targets(page, report)]
    for finding in report.findings[:MOST_FINDINGS]:
        lines += _finding(page, finding)
    if len(report.findings) > MOST_FINDINGS:
        lines.append(_more(len(report.findings) - MOST_FINDINGS, "findings"))
    if report.findings:
        lines.append("")
    lines.append(f"{page.styled(report.verdict.upper(), report.verdict)}  {report.summary}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Page:
    """What is written on: with colours or not, and how wide."""

    colour: bool
    width: int

    def styled(self, text: str, style: str) -> str:
        """The text in the colour of ``style``."""
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.colour and style in STYLES else text

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """A table whose last column is wrapped, and whose cells are coloured where they are words of `STYLES`."""
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        left = sum(widths[:-1]) + 2 * len(widths)
        widths[-1] = min(widths[-1], max(NARROWEST, self.width - left))
        yield f" {title}"
        yield " " + "  ".join(name.ljust(size) for name, size in zip(head, widths, strict=True)).rstrip()
        yield " " + "─" * (sum(widths) + 2 * (len(widths) - 1))
        for row in rows:
            wrapped = textwrap.wrap(row[-1], widths[-1]) or [""]
            cells = [
                self.styled(cell.ljust(size), cell.partition(" ")[0]) for cell, size in zip(row, widths, strict=True)
            ]
            yield " " + "  ".join([*cells[:-1], wrapped[0]]).rstrip()
            yield from (" " * (left - 1) + line for line in wrapped[1:])
        yield ""


def _more(count: int, what: str) -> str:
    return f" … and {count} more {what}; --format json has them all."


def _finding(page: _Page, finding: Finding) -> Iterator[str]:
    """A finding at its place, and what to do about it."""
    line = finding.location.get("line")
    place = f"{finding.location.get('file', '')}{f':{line}' if line else ''}"
    yield f"{page.styled(f'{finding.severity}: {finding.rule}', finding.severity)}  {place}".rstrip()
    yield f"  {finding.message}"
    if finding.fix:
        yield f"  → {finding.fix}"


def _activations(page: _Page, report: ScanReport) -> Iterator[str]:
    """One table for all files with the same activations."""
    by_file: dict[str, list[ActivationUse]] = defaultdict(list)
    for use in report.activations:
        by_file[use.file].append(use)
    alike: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for file, uses in by_file.items():
        alike[tuple((use.path, repr(use.value), computed(use), use.basis, use.reason) for use in uses)].append(file)
    groups = sorted(alike.values(), key=len, reverse=True)
    for files in groups[:MOST_TABLES]:
        yield from _table(page, files, by_file[files[0]])
    if len(groups) > MOST_TABLES:
        yield _more(sum(map(len, groups[MOST_TABLES:])), "files with other activations")
        yield ""


def _table(page: _Page, files: Sequence[str], uses: Sequence[ActivationUse]) -> Iterator[str]:
    more = " …" if len(files) > 3 else ""
    title = files[0] if len(files) == 1 else f"{len(files)} files: {', '.join(files[:3])}{more}"
    rows = [_row(use, with_line=len(files) == 1) for use in uses[:MOST_ROWS]]
    yield from page.table(cut(title, page.width), ("where", "value", "computes", "basis", "because"), rows)
    if len(uses) > MOST_ROWS:
        yield _more(len(uses) - MOST_ROWS, "activations")
        yield ""


def _row(use: ActivationUse, *, with_line: bool) -> tuple[str, ...]:
    where = cut(use.path or use.scope, 64)
    line = f":{use.line}" if use.line and with_line else ""
    value = "–" if use.value is None else cut(str(use.value), 40)
    return f"{where}{line}", value, computed(use), use.basis, use.reason


def computed(use: ActivationUse) -> str:
    """The function that an activation computes, with its parameters."""
    variant = use.variant or "unknown"
    if use.parameters:
        variant += "[" + ",".join(f"{name}={value:.6g}" for name, value in use.parameters.items()) + "]"
    return variant


def _targets(page: _Page, report: ScanReport) -> Iterator[str]:
    """What each target computes, once for all activations for which it is the same."""
    rows: Counter[tuple[str, ...]] = Counter()
    for row in report.targets:
        one = row.answer
        note = one.note if one.status != "same" or one.evidence == ASSUMED else ""
        rows[one.target, one.status, row.model or "unknown", one.variant or "unknown", one.evidence, note] += 1
    if rows:
        cells = [
            (target, f"{status} ×{count}" if count > 1 else status, *rest)
            for (target, status, *rest), count in rows.items()
        ]
        head = ("target", "status", "model", "target computes", "evidence", "because")
        yield from page.table("Targets", head, sorted(cells)[: 4 * MOST_ROWS])
