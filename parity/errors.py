"""The one family of exceptions this package raises on purpose.

A mismatch is data and never an exception; an exception means that a comparison could not be made. Every
message says what happened, where, and what to do next, because it is shown to the user as it stands.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

MOST_NAMES: Final = 24
"""Known names that a message lists."""


CONTROLS: Final = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160)) if chr(code) != "\n"}
"""Characters that would be orders to a terminal, as they are written in Python."""


class ParityError(Exception):
    """Base class. ``exit_code`` is what the command line ends with when nobody caught it.

    Args:
        message: What happened and where, in one sentence.
        hint: What to do next, in one sentence; shown on a line of its own.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class InputError(ParityError):
    """The user named or gave something that cannot be used (exit code 2)."""

    @classmethod
    def unknown(cls, kind: str, name: str, known: Iterable[str]) -> "InputError":
        """An unknown ``kind`` called ``name``, with the nearest of the ``known`` names as the hint."""
        names = sorted(known)
        near = [one for one in names if name and name in one][:4] or get_close_matches(name, names, n=3, cutoff=0.5)
        rest = f" … ({len(names)} in all)" if len(names) > MOST_NAMES else "."
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(names[:MOST_NAMES])}{rest}"
        return cls(f"There is no {kind} called '{name}'.", hint=hint)


class EngineError(ParityError):
    """A framework or its worker crashed, hung or refused to load (exit code 4); a result row has ``status``."""

    exit_code = 4
    status = "failed"
