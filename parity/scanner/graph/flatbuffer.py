"""Flatbuffers: tables in a buffer, each field of which is found by its number. Every offset is checked."""

import mmap
import struct
from typing import Final

from parity.scanner.graph.protobuf import LONGEST_TEXT, MalformedError

LONGEST: Final = 2**20
"""Entries of a vector that are looked at."""


class Table:
    """One table.

    Args:
        buffer: All of the file.
        at: Where the table begins.
    """

    __slots__ = ("_at", "_buffer", "_fields", "_size")

    def __init__(self, buffer: "mmap.mmap | bytes", at: int) -> None:
        self._buffer = buffer
        self._at = at
        start = at - self._unpack("<i", at)
        self._size = self._unpack("<H", start)
        count = max(0, (self._size - 4) // 2)
        self._fields = [self._unpack("<H", start + 4 + 2 * number) for number in range(min(count, 64))]

    @classmethod
    def root(cls, buffer: "mmap.mmap | bytes") -> "Table":
        """The table that the file is."""
        if len(buffer) < 8:
            raise MalformedError("it is too short")
        return cls(buffer, struct.unpack_from("<I", buffer, 0)[0])

    def number(self, field: int, form: str, default: float = 0) -> float:
        """A number, by its format of `struct`; the default where it is not there."""
        place = self._place(field)
        return default if place is None else self._unpack(f"<{form}", place)

    def whole(self, field: int, form: str, default: int = 0) -> int:
        """A whole number; see `number`."""
        return int(self.number(field, form, default))

    def table(self, field: int) -> "Table | None":
        """A table; None where it is not there."""
        place = self._place(field)
        return None if place is None else Table(self._buffer, place + self._unpack("<I", place))

    def tables(self, field: int) -> list["Table"]:
        """The tables of a vector."""
        start, count = self._vector(field, 4)
        places = [start + 4 * at for at in range(count)]
        return [Table(self._buffer, place + self._unpack("<I", place)) for place in places]

    def numbers(self, field: int, form: str) -> list[float]:
        """The numbers of a vector."""
        start, count = self._vector(field, struct.calcsize(form))
        return list(struct.unpack_from(f"<{count}{form}", self._buffer, start)) if count else []

    def text(self, field: int) -> str:
        """A string; empty where it is not there."""
        start, length = self._vector(field, 1)
        return bytes(self._buffer[start : start + min(length, LONGEST_TEXT)]).decode("utf-8", "replace")

    def span(self, field: int) -> tuple[int, int]:
        """Start and length in bytes of a vector of bytes, none of which is read."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + self._unpack("<I", place)
        return start + 4, self._unpack("<I", start)

    def _place(self, field: int) -> int | None:
        if field >= len(self._fields) or not self._fields[field]:
            return None
        return self._at + self._fields[field]

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        start, count = self.span(field)
        if count > LONGEST or start + count * size > len(self._buffer):
            raise MalformedError(f"a list of {count:,} entries at byte {start:,} runs over the end")
        return start, count

    def _unpack(self, form: str, at: int) -> int:
        try:
            return struct.unpack_from(form, self._buffer, at)[0]  # type: ignore[no-any-return]
        except struct.error:
            raise MalformedError(f"byte {at:,} lies outside the file") from None
