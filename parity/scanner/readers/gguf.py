"""GGUF: the metadata of a model for llama.cpp, whose code fixes the activation by architecture."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from parity.findings import Finding
from parity.scanner.json_text import cut
from parity.scanner.knowledge.files import data
from parity.scanner.knowledge.names import parsed
from parity.scanner.model import ActivationUse, Basis, Document, Unreadable
from parity.scanner.source import Source, released

FORMAT: Final = "gguf"

MAGIC: Final = b"GGUF"

LONGEST: Final = 65_535
"""Bytes of a key, by the format's own rule, and of a string that is kept."""

MOST_PAIRS: Final = 100_000
"""Pairs of key and value."""

MOST_STRINGS: Final = 2**23
"""Strings in arrays of one file, each of which is passed over; the largest vocabularies have a tenth of it."""

NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Layout of a value by its type."""

STRING: Final = 8

ARRAY: Final = 9


def recognises(path: Path, head: bytes) -> bool:  # noqa: ARG001 – every reader is asked alike
    """By the first four bytes."""
    return head.startswith(MAGIC)


def read(source: Source) -> Document:
    """The activation that llama.cpp runs for this file.

    Raises:
        Unreadable: It is cut off, or breaks the format.
    """
    buffer = source.mapped()
    try:
        values = dict(_Metadata(memoryview(buffer), source.file).pairs())
    finally:
        released(buffer)
    architecture = values.get("general.architecture")
    name = architecture if isinstance(architecture, str) else ""
    activations = tuple(_vision(source.file, values) if name == "clip" else _text(source.file, name))
    return Document(
        file=source.file,
        format=FORMAT,
        activations=activations,
        findings=() if activations else (_unknown(source.file, name),),
        facts={"model_type": cut(name), "library": "llama.cpp", "name": cut(str(values.get("general.name", "")))},
    )


def _unknown(file: str, architecture: str) -> Finding:
    """That nothing is known of an architecture: silence would look like a model without activations."""
    said = f"its architecture '{cut(architecture)}' is not known here" if architecture else "it names no architecture"
    return Finding(
        rule="config-unknown-activation",
        severity="note",
        message=f"llama.cpp fixes the activation of a GGUF file by its architecture, and {said}.",
        fix="Scan the config.json of the model that it was converted from.",
        location={"file": file, "path": "general.architecture", "line": None},
    )


def _vision(file: str, values: dict[str, Any]) -> Iterator[ActivationUse]:
    """Of a vision tower: two flags, and what neither of them means."""
    if values.get("clip.use_silu") is True:
        key, variant = "clip.use_silu", "silu"
    elif values.get("clip.use_gelu") is True:
        key, variant = "clip.use_gelu", "gelu_tanh"
    else:
        key, variant = "clip.use_gelu", "quick_gelu"
    reason = {
        "silu": "",
        "gelu_tanh": "FFN_GELU, the tanh form through a float16 table; some projectors take FFN_GELU_ERF",
        "quick_gelu": "neither use_gelu nor use_silu: FFN_GELU_QUICK",
    }[variant]
    basis: Basis = "config" if values.get(key) is True else "class-default"
    yield _use(file, key, values.get(key), variant, basis=basis, reason=reason)


def _text(file: str, architecture: str) -> Iterator[ActivationUse]:
    """Of a language model: by the name of its architecture alone."""
    known = data("gguf")
    found = known["read"].get(architecture) or known["assumed"].get(architecture)
    kind = "source read" if architecture in known["read"] else "assumed from what it computes elsewhere, unread here"
    reason = f"llama.cpp fixes it by architecture ({kind}); no key of the file names it"
    if found:
        yield _use(file, "general.architecture", architecture, found, basis="model-code", reason=reason)


def _use(file: str, key: str, value: Any, variant: str, *, basis: Basis, reason: str) -> ActivationUse:
    found = parsed(variant)
    return ActivationUse(
        file=file,
        path=key,
        field=key.rpartition(".")[2],
        value=value,
        variant=found.variant,
        basis=basis,
        reason=reason,
        parameters=found.parameters,
    )


class _Metadata:
    """The pairs of key and value at the head of a file."""

    def __init__(self, data: memoryview, file: str) -> None:
        self.data, self.file, self.offset = data, file, len(MAGIC)
        self.strings = 0

    def pairs(self) -> Iterator[tuple[str, Any]]:
        """Every key with its value; None for arrays, which are passed over.

        Raises:
            Unreadable: The file is cut off, or breaks the format.
        """
        (version,) = self.unpack("I")
        if version not in (2, 3):
            order = " (or it is big-endian)" if version > 0xFFFF else ""
            raise Unreadable(f"{self.file} is GGUF version {version}{order}; 2 and 3 can be read.")
        _, count = self.unpack("QQ")
        if count > MOST_PAIRS:
            raise Unreadable(f"{self.file} claims {count:,} pairs of metadata; at most {MOST_PAIRS:,} are read.")
        for _ in range(count):
            key = self.string(LONGEST)
            (kind,) = self.unpack("I")
            yield key, self.value(kind)

    def value(self, kind: int) -> Any:
        """A value of that type."""
        if kind == STRING:
            return self.string(None)
        if kind == ARRAY:
            return self.skip_array()
        if kind not in NUMBERS:
            raise Unreadable(f"{self.file} holds a value of unknown type {kind} at byte {self.offset:,}.")
        return self.unpack(NUMBERS[kind])[0]

    def skip_array(self) -> None:
        """Passes over an array; of arrays in arrays the format has none in use."""
        kind, count = self.unpack("IQ")
        if kind in NUMBERS:
            self.advance(count * struct.calcsize("<" + NUMBERS[kind]))
            return
        if kind != STRING:
            raise Unreadable(f"{self.file} holds an array of type {kind} at byte {self.offset:,}; it is not read.")
        if count > len(self.data) // 8:
            raise Unreadable(f"{self.file} is cut off: an array claims {count:,} strings.")
        self.strings += count
        if self.strings > MOST_STRINGS:
            raise Unreadable(f"{self.file} holds more than {MOST_STRINGS:,} strings; it is not read further.")
        for _ in range(count):
            self.advance(self.unpack("Q")[0])

    def string(self, longest: int | None) -> str:
        """A string, cut where it is longer than anyone would read."""
        (size,) = self.unpack("Q")
        if longest is not None and size > longest:
            raise Unreadable(f"{self.file} holds a key of {size:,} bytes; {longest:,} is the most.")
        start = self.offset
        self.advance(size)
        return bytes(self.data[start : start + min(size, LONGEST)]).decode("utf-8", errors="replace")

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """Numbers at the offset, little-endian."""
        start = self.offset
        self.advance(struct.calcsize("<" + layout))
        return struct.unpack_from("<" + layout, self.data, start)

    def advance(self, size: int) -> None:
        """Moves on.

        Raises:
            Unreadable: There the file is at its end.
        """
        if size > len(self.data) - self.offset:
            raise Unreadable(f"{self.file} is cut off: {size:,} bytes are missing from byte {self.offset:,} on.")
        self.offset += size
