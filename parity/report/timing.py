"""The suite's table of times: for a terminal, one table an adapter."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from parity.dtypes import FLOAT_DTYPES
from parity.measure.timing import REPEATS, TimingRow
from parity.report.terminal import new_table, number, plain


def write(out: Console, rows: Sequence[TimingRow]) -> None:
    """A line an implementation and dtype: for each size, the time and its ratios to the exact GELU and to ReLU."""
    for adapter in dict.fromkeys(row.adapter for row in rows):
        own = [row for row in rows if row.adapter == adapter]
        out.print(_table(adapter, own))
        short = [row for row in own if 0 < row.repeats < REPEATS]
        left_out = sum(not row.repeats for row in own)
        if short:
            least = min(row.repeats for row in short)
            out.print(
                plain(f"{len(short)} of {len(own)} times are medians of {least} to {REPEATS - 1} repeats, being long.")
            )
        if left_out:
            out.print(
                plain(f"{left_out} of {len(own)} were not taken: the call is not supported, or too slow for the size.")
            )
        out.print()


def _table(adapter: str, rows: Sequence[TimingRow]) -> Table:
    sizes = sorted({row.size for row in rows})
    table = new_table(f"{adapter}: ns an element on one thread (times the exact GELU, times ReLU)")
    table.add_column("implementation", overflow="fold", ratio=1)
    table.add_column("dtype", no_wrap=True)
    for size in sizes:
        table.add_column(f"{size:,}", justify="right", no_wrap=True)
    order = list(FLOAT_DTYPES)
    found = {(row.implementation, row.dtype, row.size): row for row in rows}
    names = sorted({row.implementation for row in rows}, key=str.casefold)
    for name in names:
        label = name
        for dtype in sorted({row.dtype for row in rows if row.implementation == name}, key=order.index):
            cells = (found.get((name, dtype, size)) for size in sizes)
            table.add_row(plain(label), dtype, *(plain(_cell(row)) for row in cells))
            label = ""
    return table


def _cell(row: TimingRow | None) -> str:
    if row is None or row.ns_per_element is None:
        return "–"
    return f"{_short(row.ns_per_element)} ({_short(row.ratio_to_gelu)}, {_short(row.ratio_to_relu)})"


def _short(value: float | None) -> str:
    """Two digits, never as a power of ten."""
    return number(value, 2) if value is None or value < 10 else f"{value:,.0f}"
