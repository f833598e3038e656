"""Protocol buffers at the level of the wire: fields of a message in a buffer, none of which is copied unasked.

What is not read is skipped by its length, so that gigabytes of weights cost nothing. Every length is checked against
the message that holds it, and every message is inside another, so a hostile file can neither read beyond its end nor
recurse without end: only what a reader itself descends into has depth.
"""

import mmap
import struct
from collections.abc import Iterator
from typing import Any, Final

from parity.scanner.model import Unreadable

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

MOST_FIELDS: Final = 2**23
"""Fields that are looked at in one file, so that time is bounded."""

LARGEST_LIST: Final = 2**20
"""Bytes of a packed list of numbers that is read; longer ones are no numbers of a formula."""

LONGEST_VARINT: Final = 10
LONGEST_TEXT: Final = 2**16
"""Bytes of a string that are looked at; names are shorter."""

_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64


class MalformedError(ValueError):
    """The bytes are no message of this kind; a reader says so with its file's name."""


class Message:
    """One message in a buffer.

    Args:
        buffer: All of the file.
        start: Where the message begins.
        end: Where it ends.
        left: How many fields of the file may still be looked at, in a list of one; shared by all its messages.
    """

    __slots__ = ("buffer", "end", "left", "start")

    def __init__(
        self, buffer: "mmap.mmap | bytes", start: int = 0, end: int | None = None, left: list[int] | None = None
    ) -> None:
        self.buffer = buffer
        self.left = [MOST_FIELDS] if left is None else left
        self.start = start
        self.end = len(buffer) if end is None else end

    def __len__(self) -> int:
        return self.end - self.start

    def fields(self) -> Iterator[tuple[int, int, Any]]:
        """Number, wire type and value of each field in order.

        A value is a whole number, or a `Message` for bytes, which may just as well be a string; see `text`.

        Raises:
            MalformedError: A tag, a length or a wire type cannot be.
        """
        buffer, at, end, left = self.buffer, self.start, self.end, self.left
        while at < end:
            left[0] -= 1
            if left[0] < 0:
                raise MalformedError(f"it has more than {MOST_FIELDS:,} parts")
            tag, at = _varint(buffer, at, end)
            number, wire = tag >> 3, tag & 7
            if wire == VARINT:
                value, at = _varint(buffer, at, end)
                yield number, wire, value
            elif wire == BYTES:
                length, at = _varint(buffer, at, end)
                if length > end - at:
                    raise MalformedError(f"a field of {length:,} bytes at byte {at:,} runs over the end")
                yield number, wire, Message(buffer, at, at + length, left)
                at += length
            elif wire in {FIXED32, FIXED64}:
                size = 4 if wire == FIXED32 else 8
                if size > end - at:
                    raise MalformedError(f"a number at byte {at:,} runs over the end")
                yield number, wire, int.from_bytes(buffer[at : at + size], "little")
                at += size
            else:
                raise MalformedError(f"byte {at:,} has a wire type that does not exist ({wire})")
            if number == 0:
                raise MalformedError(f"byte {at:,} has a field of number 0")

    def bytes(self) -> bytes:
        """All of it."""
        return bytes(self.buffer[self.start : self.end])

    def text(self) -> str:
        """All of it as text, cut at `LONGEST_TEXT` bytes; what is no UTF-8 is replaced."""
        return self.buffer[self.start : min(self.end, self.start + LONGEST_TEXT)].decode("utf-8", "replace")

    def varints(self) -> Iterator[int]:
        """All of it as packed whole numbers."""
        at = self.start
        while at < self.end:
            value, at = _varint(self.buffer, at, self.end)
            yield value


def signed(value: int) -> int:
    """A whole number of the wire as int64."""
    return value - _WRAP if value & _SIGN else value


def float32(wire: int, value: Any) -> float:
    """The value of a field that must be a float of four bytes.

    Raises:
        MalformedError: It is something else.
    """
    if wire != FIXED32:
        raise MalformedError("something else stands where a float belongs")
    return float(struct.unpack("<f", value.to_bytes(4, "little"))[0])


def message(wire: int, value: Any) -> Message:
    """The value of a field that must be bytes.

    Raises:
        MalformedError: It is a number.
    """
    if wire != BYTES:
        raise MalformedError("a number stands where a message belongs")
    return value  # type: ignore[no-any-return]


def integer(wire: int, value: Any) -> int:
    """The value of a field that must be a whole number.

    Raises:
        MalformedError: It is something else.
    """
    if wire != VARINT:
        raise MalformedError("something else stands where a whole number belongs")
    return signed(value)


def floats(wire: int, value: Any) -> list[float]:
    """The value of a repeated float32 field: packed, or one of many; nothing where it is too long."""
    if wire == FIXED32:
        return [float32(wire, value)]
    packed = message(wire, value)
    if len(packed) > LARGEST_LIST:
        return []
    if len(packed) % 4:
        raise MalformedError("packed floats do not fill their field")
    return list(struct.unpack(f"<{len(packed) // 4}f", packed.bytes()))


def doubles(wire: int, value: Any) -> list[float]:
    """The value of a repeated float64 field: packed, or one of many."""
    if wire == FIXED64:
        return [float(struct.unpack("<d", value.to_bytes(8, "little"))[0])]
    packed = message(wire, value)
    if len(packed) > LARGEST_LIST:
        return []
    if len(packed) % 8:
        raise MalformedError("packed doubles do not fill their field")
    return list(struct.unpack(f"<{len(packed) // 8}d", packed.bytes()))


def integers(wire: int, value: Any) -> list[int]:
    """The value of a repeated whole-number field: packed, or one of many."""
    if wire == VARINT:
        return [signed(value)]
    packed = message(wire, value)
    return [signed(one) for one in packed.varints()] if len(packed) <= LARGEST_LIST else []


def unreadable(file: str, what: str, error: Exception) -> Unreadable:
    """The message for a file whose bytes are not what they should be."""
    return Unreadable(
        f"{file} is no readable {what}: {error}.", hint="Check that the file is complete; download or export it again."
    )


def _varint(buffer: "mmap.mmap | bytes", at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise MalformedError(f"the message ends at byte {at:,} within a number")
    byte = buffer[at]
    if byte < 128:
        return byte, at + 1
    value = byte & 0x7F
    shift = 7
    for place in range(at + 1, min(end, at + LONGEST_VARINT)):
        byte = buffer[place]
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value & (_WRAP - 1), place + 1
        shift += 7
    raise MalformedError(f"a number at byte {at:,} has no end")
