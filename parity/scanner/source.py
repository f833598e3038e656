"""One file to be read: where it is, its first bytes, and as much of the rest as a reader asks for."""

import mmap
import os
import stat
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from parity.scanner.model import Unreadable

STANDARD_INPUT: Final = "-"

LARGEST_INPUT: Final = 1 << 30
"""Bytes that are read from standard input or a pipe."""

LARGEST_HELD: Final = 64 << 20
"""Bytes up to which a file is read whole. A larger one is mapped: should it shrink meanwhile, the system would end the
process, but graphs with that many weights inside are seldom written anew while they are scanned."""

LFS: Final = b"version https://git-lfs.github.com/spec/"
"""How the text begins that Git keeps in the place of a large file."""

HEAD: Final = 4096
"""Bytes by which a reader tells whether a file is of its format."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or what stood on standard input.

    Attributes:
        file: Path as the user would type it; ``-`` for standard input.
        path: The same as a path; its name alone tells a format, so standard input has one too.
        size: Bytes.
        head: The first `HEAD` bytes.
        inline: All of it where it does not come from a file.
        versions: By library, the version that is going to run the model, where the user said so.
    """

    file: str
    path: Path
    size: int
    head: bytes
    inline: bytes | None = field(default=None, repr=False)
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_file(cls, file: str, versions: Mapping[str, str] | None = None) -> Self:
        """The file at that path, of which the first bytes are read.

        Raises:
            Unreadable: It is missing, is no file, may not be read, is empty or only stands for one.
        """
        path = Path(file)
        try:
            mode = path.stat().st_mode
            if stat.S_ISFIFO(mode):
                return cls.of_bytes(_piped(file), file, versions)
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise Unreadable(f"{file} is a device or a socket and no file.", hint="Check the path.")
            with path.open("rb") as stream:
                head = stream.read(HEAD)
                size = len(head) if len(head) < HEAD else path.stat().st_size
        except OSError as error:
            raise Unreadable(f"{file} cannot be read: {error.strerror or error}.", hint="Check the path.") from error
        if not head:
            raise Unreadable(f"{file} is empty.", hint="Download or export it again.")
        if head.startswith(LFS):
            raise Unreadable(
                f"{file} is a pointer of Git LFS and not the file itself.", hint="Fetch the file with 'git lfs pull'."
            )
        return cls(file, path, size, head, versions=versions or {})

    @classmethod
    def of_bytes(cls, data: bytes, file: str = STANDARD_INPUT, versions: Mapping[str, str] | None = None) -> Self:
        """Bytes that are in memory."""
        return cls(file, Path(file), len(data), data[:HEAD], data, versions or {})

    def read(self, limit: int) -> bytes:
        """All of it.

        Raises:
            Unreadable: It has more than ``limit`` bytes, or cannot be read.
        """
        if self.size > limit:
            raise Unreadable(f"{self.file} has {self.size:,} bytes; at most {limit:,} are read of a file of this kind.")
        if self.inline is not None:
            return self.inline
        if self.size < HEAD:
            return self.head
        try:
            with self.path.open("rb") as stream:
                return stream.read(limit + 1)[:limit]
        except OSError as error:
            raise Unreadable(f"{self.file} cannot be read: {error.strerror or error}.") from error

    def mapped(self) -> "mmap.mmap | bytes":
        """All of it as a read-only buffer, of a large file loaded page by page; the caller closes it with `released`.

        Raises:
            Unreadable: It cannot be read.
        """
        if self.inline is not None or not self.size:
            return self.inline or b""
        if self.size <= LARGEST_HELD:
            return self.read(LARGEST_HELD)
        try:
            with self.path.open("rb") as stream:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise Unreadable(f"{self.file} cannot be read: {error}.") from error


def _piped(file: str) -> bytes:
    """What is written to a pipe, such as ``<(command)`` of a shell; one to which nobody writes is not waited for.

    Raises:
        Unreadable: There is nothing, or too much of it.
    """
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        os.set_blocking(stream.fileno(), True)
        data = stream.read(LARGEST_INPUT + 1)
    if not data:
        raise Unreadable(f"{file} is a pipe to which nobody writes.", hint="Give a file, or - for standard input.")
    if len(data) > LARGEST_INPUT:
        raise Unreadable(f"{file} gives more than {LARGEST_INPUT >> 30} GB.")
    return data


def released(buffer: "mmap.mmap | bytes") -> None:
    """Closes a buffer of `Source.mapped`."""
    if isinstance(buffer, mmap.mmap):
        with suppress(BufferError), closing(buffer):
            pass
