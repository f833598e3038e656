"""How numbers are shown."""

from typing import Final

from rich.table import Table

from parity_benchmarks.processes import MB

TIMES: Final = 4.0
"""Limit of the time of a diff without start-up, in plain forward passes of both sides."""

TIMES_PLAIN: Final = 1.3
MORE: Final = 200 * MB
"""Limit of the peak memory of a process: what the plain run of its side takes times the first, plus the second."""


def table(title: str, first: str, *columns: str) -> Table:
    """An empty table: names to the left, numbers to the right."""
    made = Table(title=title, title_justify="left")
    made.add_column(first)
    for column in columns:
        made.add_column(column, justify="right")
    return made


def megabytes(size: float | None) -> str:
    """A size in units of 10⁶ bytes."""
    return "–" if size is None else f"{size / MB:,.0f} MB"


def seconds(value: float | None) -> str:
    """A time."""
    return "–" if value is None else f"{value:.2f} s"


def within(value: float, limit: float, text: str) -> str:
    """A text, in red where the value is over its limit."""
    return text if value <= limit else f"[bold red]{text}[/]"


def memory(peak: int, plain: int) -> str:
    """A peak beside what the plain run takes, in red where it is over the limit."""
    return within(peak, TIMES_PLAIN * plain + MORE, f"{megabytes(peak)} ({megabytes(peak - plain)} more)")
