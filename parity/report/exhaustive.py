"""The suite's table of what was tried on all float32 inputs, for a terminal."""

from collections.abc import Sequence

from rich.console import Console

from parity.measure.activation import Row
from parity.measure.exhaustive import DTYPE
from parity.report.terminal import COLOURS, new_table, number, plain


def write(out: Console, results: Sequence[Row]) -> None:
    """A line an implementation that was tried so, if any was."""
    rows = [row for row in results if row.dtype == DTYPE and row.regime == "all"]
    if not rows:
        return
    table = new_table("Every float32 input")
    table.add_column("implementation", overflow="fold", ratio=1)
    for title in ("inputs", "ulp of max(|x|, |y|)", "ulp of y", "mean", "absolute", "at x", "not finite"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        name = plain(f"{row.adapter}: {row.implementation}")
        if not row.count:
            table.add_row(name, plain(row.status, COLOURS[row.status]))
            continue
        numbers = (row.scaled_ulp, row.max_ulp, row.mean_ulp, row.max_abs)
        at = number(row.worst_x, 9)
        table.add_row(name, f"{row.count:,}", *map(number, numbers), at, f"{row.nonfinite:,}")
    out.print(table)
    for row in rows:
        if row.reason:
            out.print(plain(f"{row.adapter}: {row.implementation}: {row.reason}"))
