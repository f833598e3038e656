"""One reader a file format, each imported when a file looks like its own.

A reader is a module with ``FORMAT`` (its name), ``recognises(path, head)`` (by the file's name and first bytes, cheap)
and ``read(source)``, which takes a `parity.scanner.source.Source` and gives a `parity.scanner.model.Document`.
"""

from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from parity.scanner.model import Document
from parity.scanner.source import Source

SUFFIXES: Final = {
    ".json": "config",
    ".onnx": "onnx",
    ".ort": "onnx",
    ".tflite": "tflite",
    ".lite": "tflite",
    ".pb": "saved_model",
    ".pt2": "exported_program",
    ".gguf": "gguf",
    ".keras": "keras",
}
"""How a file's name ends, and the reader that it is offered to first."""

READERS: Final = ("config", "onnx", "tflite", "saved_model", "exported_program", "gguf", "keras")
"""All readers, in the order in which a file of unknown name is offered to them."""


class Reader(Protocol):
    """What every module of this package offers."""

    FORMAT: str

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether a file of that name and those first bytes is of this format."""
        ...

    def read(self, source: Source) -> Document:
        """What is in the file.

        Raises:
            Unreadable: It is broken or beyond a limit.
        """
        ...


def reader_of(path: Path, head: bytes) -> Reader | None:
    """The reader that recognises a file; None where no one does."""
    first = SUFFIXES.get(path.suffix.lower())
    names = dict.fromkeys([first, *READERS] if first else READERS)
    for name in names:
        reader: Reader = cast("Reader", import_module(f"parity.scanner.readers.{name}"))
        if reader.recognises(path, head):
            return reader
    return None
