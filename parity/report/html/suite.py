"""The page of a suite."""

from collections.abc import Mapping, Sequence
from typing import Final

from parity.dtypes import FLOAT_DTYPES
from parity.findings import counted
from parity.jobs.suite import SuiteReport
from parity.measure.activation import Row
from parity.report.html.figures import GELU, explorer, ulp_histogram
from parity.report.html.page import render as render_page
from parity.report.html.parts import Cell, Page, Section, Table, cards_of, numeric
from parity.report.suite import TAGS, WORST_FIRST, by_frequency

NEAR: Final = ("dense", "normal")
"""Regimes of inputs by which an implementation is compared with others."""

STATUS_TONES: Final = {
    "pass": "",
    "warning": "warn",
    "mismatch": "bad",
    "crashed": "bad",
    "hung": "bad",
    "failed": "bad",
}
"""Tone by status; others are quiet."""

Worst = Mapping[tuple[str, str], Row]
"""By adapter and implementation as one name, and dtype: the row with the largest error."""


def render(command: str, report: SuiteReport) -> str:
    """The whole page."""
    return render_page(page(command, report))


def page(command: str, report: SuiteReport) -> Page:
    """What is on it."""
    cards, others = cards_of(report.findings)
    worst = worst_rows(report.results)
    coverage = report.coverage
    tried = f"{counted(coverage['measurements'], 'measurement')} on {coverage['inputs']:,} inputs."
    absent = [f"{row.adapter}: {row.status} – {row.reason}" for row in report.results if not row.implementation]
    sections = [
        Section(title="What a name computes without flags", tables=[_defaults(report)]) if report.families else None,
        Section(title="How exact", figures=[ulp_histogram(worst)]) if worst else None,
        Section(title="Three functions called GELU", explorer=explorer(GELU)),
        Section(title="Implementations", tables=[_implementations(report, worst)]),
        *others,
        _timing(report),
    ]
    return Page(
        command=command,
        verdict=report.verdict,
        headline=report.summary,
        lines=[tried, *absent],
        cards=cards,
        sections=[one for one in sections if one is not None],
        environment=report.environment,
    )


def worst_rows(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """By implementation and dtype, the row with the largest error among ordinary inputs."""
    worst: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = _name(row), row.dtype
        if row.regime in NEAR and row.scaled_ulp is not None and row.scaled_ulp >= _ulp(worst.get(key)):
            worst[key] = row
    return worst


def _ulp(row: Row | None) -> float:
    return -1.0 if row is None or row.scaled_ulp is None else row.scaled_ulp


def _name(row: Row) -> str:
    return f"{row.adapter}: {row.implementation}"


def _defaults(report: SuiteReport) -> Table:
    """The matrix of names and adapters: which function a call without flags computes in each."""
    adapter_of = {row.implementation.partition(" (")[0]: row.adapter for row in report.results if row.implementation}
    adapters = sorted({adapter_of.get(api, "") for apis in report.families.values() for api in apis})
    rows = []
    for name, apis in report.families.items():
        usual = by_frequency(apis.values())[0]
        cells = []
        for adapter in adapters:
            found: dict[str | None, list[str]] = {}
            for api, computed in apis.items():
                if adapter_of.get(api, "") == adapter:
                    found.setdefault(computed, []).append(api)
            said = "\n".join(f"{computed or 'unknown'}: {', '.join(names)}" for computed, names in found.items())
            cells.append(Cell(said or "–", tone="warn" if set(found) - {usual} else "" if found else "quiet"))
        agree = len(set(apis.values())) == 1
        rows.append([Cell(name), Cell("agree" if agree else "differ", tone="" if agree else "warn"), *cells])
    rows.sort(key=lambda row: (row[1].text == "agree", row[0].text != "gelu", row[0].text))
    return Table(
        title="",
        columns=("name", "defaults", *adapters),
        rows=rows,
        choices=("differ", "agree"),
        note="Coloured where it is not what most calls of that name compute.",
    )


def _implementations(report: SuiteReport, worst: Worst) -> Table:
    dtypes = [dtype for dtype in FLOAT_DTYPES if any(row.dtype == dtype for row in report.results)]
    tags: dict[str, list[str]] = {}
    for finding in report.findings:
        if (tag := TAGS.get(finding.evidence.get("kind", ""))) is not None:
            tags.setdefault(finding.location["candidate"], []).append(tag)
    by_name: dict[str, list[Row]] = {}
    for row in report.results:
        if row.implementation:
            by_name.setdefault(_name(row), []).append(row)
    rows = []
    for name, own in sorted(by_name.items(), key=lambda item: item[0].casefold()):
        status = min((row.status for row in own), key=WORST_FIRST.index)
        computed = dict.fromkeys(row.identified or "unknown" for row in own if row.count)
        numbers = (worst.get((name, dtype)) for dtype in dtypes)
        rows.append(
            [
                Cell(own[0].adapter),
                Cell(own[0].implementation),
                Cell(", ".join(computed) or "–"),
                *(numeric(None if one is None else one.scaled_ulp) for one in numbers),
                Cell(status, tone=STATUS_TONES.get(status, "quiet")),
                Cell(", ".join(tags.get(name, []))),
            ]
        )
    return Table(
        title="Largest error in ulp at max(|x|, |y|), |x| ≤ 20",
        columns=("adapter", "implementation", "computes", *dtypes, "status", "worth reading"),
        rows=rows,
        choices=[status for status in WORST_FIRST if any(status == row[-2].text for row in rows)],
    )


def _timing(report: SuiteReport) -> Section | None:
    rows = [
        [
            Cell(one.adapter),
            Cell(one.implementation),
            Cell(one.dtype),
            Cell(f"{one.size:,}", one.size),
            numeric(one.ns_per_element),
            numeric(one.ratio_to_gelu),
            numeric(one.ratio_to_relu),
        ]
        for one in report.timing
    ]
    columns = ("adapter", "implementation", "dtype", "elements", "ns an element", "over GELU", "over ReLU")
    return Section(title="Time", tables=[Table(title="", columns=columns, rows=rows)]) if rows else None
