"""The suite's report for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from parity.dtypes import FLOAT_DTYPES
from parity.findings import counted
from parity.jobs.suite import SuiteReport
from parity.measure.activation import Row
from parity.report import exhaustive, suite_findings, timing
from parity.report.terminal import COLOURS, console, new_table, number, plain, text_of, verdict_line

WORST_FIRST: Final = ("mismatch", "crashed", "hung", "failed", "warning", "pass", "unsupported", "not-installed")

TAGS: Final = {
    "another_variant": "another function",
    "not_finite_at_core": "not finite",
    "gradient_not_finite_at_core": "gradient not finite",
    "wrong_at_special": "inf, NaN",
    "overflows_beyond": "overflow",
    "gradient_overflows_beyond": "gradient overflow",
    "less_accurate_than_its_class": "precision",
    "gradient_less_accurate": "gradient precision",
}
"""How a kind of finding is named in an implementation's line."""


def render(report: SuiteReport, *, colour: bool, width: int, everything: bool) -> str:
    """One line an implementation, the findings with alike ones together, the table of defaults, the verdict last."""
    out = console(colour=colour, width=width)
    tags: dict[str, list[str]] = {}
    for finding in report.findings:
        if (tag := TAGS.get(finding.evidence.get("kind", ""))) is not None:
            tags.setdefault(finding.location["candidate"], []).append(tag)
    for adapter in sorted({row.adapter for row in report.results if row.implementation}):
        rows = [row for row in report.results if row.adapter == adapter and row.implementation]
        out.print(_implementations(adapter, rows, tags))
    for row in report.results:
        if row.reason:
            name = f"{row.adapter}: {row.implementation} {row.dtype}" if row.implementation else row.adapter
            out.print(plain(f"{name}: {row.status} – {row.reason}", COLOURS[row.status]))
    exhaustive.write(out, report.results)
    timing.write(out, report.timing)
    suite_findings.write(out, report.findings, everything=everything)
    _defaults(out, report)
    coverage = report.coverage
    tried = f"{counted(coverage['measurements'], 'measurement')} on {coverage['inputs']:,} inputs"
    whole = sorted({row.dtype for row in report.results if row.exhaustive and row.regime == "all"})
    every = f"; {' and '.join(whole)} over every number there is" if whole else ""
    refused = f"; {coverage['unsupported']} combinations unsupported" if coverage["unsupported"] else ""
    out.print(plain(f"{tried}{every}{refused}."))
    out.print(verdict_line(report.verdict, report.summary), soft_wrap=True)
    return text_of(out)


def _implementations(adapter: str, rows: Sequence[Row], tags: Mapping[str, Sequence[str]]) -> Table:
    dtypes = [dtype for dtype in FLOAT_DTYPES if any(row.dtype == dtype for row in rows)]
    table = new_table(f"{adapter}: largest error in ulp at max(|x|, |y|), |x| <= 20")
    table.add_column("implementation", overflow="fold", ratio=3)
    table.add_column("computes", overflow="fold", ratio=1)
    for dtype in dtypes:
        table.add_column(dtype, justify="right", no_wrap=True)
    table.add_column("gradient, absolute", justify="right", no_wrap=True)
    table.add_column("worth reading", overflow="fold", ratio=1)
    for name in sorted({row.implementation for row in rows}, key=str.casefold):
        own = [row for row in rows if row.implementation == name]
        status = min((row.status for row in own), key=WORST_FIRST.index)
        computed = dict.fromkeys(row.identified or "unknown" for row in own if row.count)
        gradients = [
            row.gradient_max_abs
            for row in own
            if row.regime == "dense" and row.dtype == "float32" and row.gradient_max_abs is not None
        ]
        table.add_row(
            plain(name),
            plain(", ".join(computed) or "–"),
            *(_cell([row for row in own if row.dtype == dtype]) for dtype in dtypes),
            number(max(gradients, default=None), 2),
            plain(
                ", ".join(tags.get(f"{adapter}: {name}", [])) or ("" if status == "pass" else status), COLOURS[status]
            ),
        )
    return table


def _cell(rows: Sequence[Row]) -> Text:
    """The worst number of one implementation in one dtype."""
    if not rows:
        return plain("")
    status = min((row.status for row in rows), key=WORST_FIRST.index)
    near = [row for row in rows if row.regime in ("dense", "normal")] or rows
    numbers = [row.scaled_ulp for row in near if row.scaled_ulp is not None]
    if not numbers:
        return plain(status if not any(row.count for row in rows) else "–", COLOURS[status])
    colour = COLOURS["mismatch"] if status == "mismatch" else ""
    return plain(number(max(numbers)), colour)


def _defaults(out: Console, report: SuiteReport) -> None:
    differing = {name: apis for name, apis in report.families.items() if len(set(apis.values())) > 1}
    if not report.families:
        return
    if differing:
        table = new_table("The same name, called without flags, is not the same function")
        table.add_column("name", style="bold")
        table.add_column("computes", no_wrap=True)
        table.add_column("when called as", overflow="fold")
        for name, apis in sorted(differing.items(), key=lambda item: (item[0] != "gelu", item[0])):
            label = name
            for variant in by_frequency(apis.values()):
                table.add_row(
                    plain(label, "bold"),
                    plain(variant or "unknown"),
                    plain(", ".join(api for api, found in apis.items() if found == variant)),
                )
                label = ""
        out.print(table)
    alike = sorted(name for name, apis in report.families.items() if len(apis) > 1 and name not in differing)
    if alike:
        out.print(plain(f"Names whose defaults agree in all that was measured: {', '.join(alike)}."))
    out.print()


def by_frequency(variants: Iterable[str | None]) -> list[str | None]:
    """Each of them once, the most frequent first."""
    found = list(variants)
    return sorted(set(found), key=lambda variant: (-found.count(variant), variant or ""))
