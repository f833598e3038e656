"""The suite's report for a terminal."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parity.dtypes import FLOAT_DTYPES
from parity.findings import Finding
from parity.jobs.suite import SuiteReport
from parity.measure.activation import Row
from parity.report.terminal import COLOURS, console, number, plain, text_of, verdict_line

WORST_FIRST: Final = ("mismatch", "crashed", "hung", "failed", "warning", "pass", "unsupported", "not-installed")

NAMES_SHOWN: Final = 6
"""Implementations named with a warning that many share; ``--all`` and the JSON name every one."""


def render(report: SuiteReport, *, colour: bool, width: int, everything: bool) -> str:
    """One line an implementation, the findings with alike ones together, the table of defaults, the verdict last."""
    out = console(colour=colour, width=width)
    for adapter in sorted({row.adapter for row in report.results if row.implementation}):
        out.print(
            _implementations(adapter, [row for row in report.results if row.adapter == adapter and row.implementation])
        )
    for row in report.results:
        if not row.implementation:
            out.print(plain(f"{row.adapter}: {row.status} – {row.reason}", COLOURS[row.status]))
    for severity in ("error", "warning", "note"):
        _findings(
            out,
            severity,
            [finding for finding in report.findings if finding.severity == severity],
            everything=everything,
        )
    _defaults(out, report)
    coverage = report.coverage
    tried = f"{coverage['measurements']} measurements on {coverage['inputs']:,} inputs"
    whole = sorted({row.dtype for row in report.results if row.exhaustive and row.regime == "all"})
    every = f"; {' and '.join(whole)} over every number there is" if whole else ""
    refused = f"; {coverage['unsupported']} combinations unsupported" if coverage["unsupported"] else ""
    out.print(plain(f"{tried}{every}{refused}."))
    out.print(verdict_line(report.verdict, report.summary))
    return text_of(out)


def _implementations(adapter: str, rows: Sequence[Row]) -> Table:
    dtypes = [dtype for dtype in FLOAT_DTYPES if any(row.dtype == dtype for row in rows)]
    table = Table(
        title=f"{adapter}: largest error in ulp at max(|x|, |y|), |x| <= 20",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("implementation", overflow="fold", ratio=3)
    table.add_column("computes", overflow="fold", ratio=1)
    for dtype in dtypes:
        table.add_column(dtype, justify="right", no_wrap=True)
    table.add_column("gradient", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in dict.fromkeys(row.implementation for row in rows):
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
            plain(status if status != "pass" else "", COLOURS[status]),
        )
    return table


def _cell(rows: Sequence[Row]) -> Text:
    """The worst number of one implementation in one dtype."""
    if not rows:
        return plain("")
    status = min((row.status for row in rows), key=WORST_FIRST.index)
    numbers = [row.scaled_ulp for row in rows if row.regime in ("dense", "normal") and row.scaled_ulp is not None]
    if not numbers:
        return plain(status if not any(row.count for row in rows) else "–", COLOURS[status])
    colour = COLOURS["mismatch"] if status == "mismatch" else ""
    return plain(number(max(numbers)), colour)


def _findings(out: Console, severity: str, findings: Sequence[Finding], *, everything: bool) -> None:
    """What is said of several implementations in the same words is said once, with their names."""
    if not findings:
        return
    said: dict[str, list[Finding]] = {}
    for finding in findings:
        where = finding.location.get("candidate", "").partition(": ")[2]
        predicate = finding.message.removeprefix(where).strip()
        said.setdefault(predicate, []).append(finding)
    out.print(plain(f"{severity}s", COLOURS[severity]))
    shown = sorted(said.items(), key=lambda item: -len(item[1]))
    if severity == "note" and not everything:
        out.print(plain(f"  {len(findings)} notes on {len(said)} kinds of small loss; --all shows them."))
        out.print()
        return
    for predicate, group in shown:
        names = list(dict.fromkeys(finding.location.get("candidate", "") for finding in group))
        head = names if everything else names[:NAMES_SHOWN]
        rest = f" and {len(names) - len(head)} more" if len(names) > len(head) else ""
        out.print(Text.assemble("  ", (", ".join(head) + rest, "bold"), "\n      ", predicate))
        for fix in dict.fromkeys(finding.fix for finding in group if finding.fix):
            out.print(plain(f"      fix: {fix}"))
    out.print()


def _defaults(out: Console, report: SuiteReport) -> None:
    differing = {name: apis for name, apis in report.families.items() if len(set(apis.values())) > 1}
    if not report.families:
        return
    if differing:
        table = Table(
            title="The same name, called without flags, is not the same function",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
        )
        table.add_column("name", style="bold")
        table.add_column("computes", no_wrap=True)
        table.add_column("when called as", overflow="fold")
        for name, apis in sorted(differing.items(), key=lambda item: (item[0] != "gelu", item[0])):
            label = name
            for variant in _by_frequency(apis.values()):
                table.add_row(
                    label,
                    plain(variant or "unknown"),
                    plain(", ".join(api for api, found in apis.items() if found == variant)),
                )
                label = ""
        out.print(table)
    alike = sorted(set(report.families) - set(differing))
    if alike:
        out.print(plain(f"Names whose defaults agree in all that is installed: {', '.join(alike)}."))
    out.print()


def _by_frequency(variants: Iterable[str | None]) -> list[str | None]:
    found = list(variants)
    return sorted(set(found), key=lambda variant: (-found.count(variant), variant or ""))
