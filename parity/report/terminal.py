"""What the text reports share: a console to render into, colours, and how numbers are written."""

from io import StringIO
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parity.errors import CONTROLS

COLOURS: Final = {
    "pass": "green",
    "warning": "yellow",
    "mismatch": "bold red",
    "error": "bold red",
    "note": "dim",
    "inconclusive": "yellow",
    "unsupported": "dim",
    "not-installed": "dim",
    "crashed": "bold red",
    "hung": "bold red",
    "failed": "bold red",
}
"""Colour by verdict, severity or status."""


def console(*, colour: bool, width: int) -> Console:
    """A console that writes into memory; its text is ``console.file.getvalue()``."""
    return Console(
        file=StringIO(), force_terminal=colour, no_color=not colour, width=width, highlight=False, soft_wrap=False
    )


def text_of(target: Console) -> str:
    """What was written to a console of `console`."""
    assert isinstance(target.file, StringIO)  # noqa: S101 – made so above
    return "\n".join(line.rstrip() for line in target.file.getvalue().splitlines()) + "\n"


def new_table(title: str = "") -> Table:
    """An empty table under a title, which stays on one line."""
    return Table(
        title=plain(title, "italic") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        min_width=len(title) or None,
    )


def plain(text: str, colour: str = "") -> Text:
    """Text in which nothing is markup or an order: names from files may hold square brackets and escape sequences."""
    return Text(text.translate(CONTROLS), style=colour)


def one_line(name: str) -> str:
    """A name from a file with its line breaks written out."""
    return name.replace("\n", "\\n")


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash for none."""
    if value is None:
        return "–"
    return f"{value:.{digits}g}"


def verdict_line(verdict: str, summary: str) -> Text:
    """The sentence of verdict, with the word before it."""
    return Text.assemble((verdict.upper(), COLOURS.get(verdict, "")), "  ", summary.translate(CONTROLS))
