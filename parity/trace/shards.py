"""Safetensors files, read by mapping or in part, written from wherever the numbers are."""

import json
import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.adapter import Array
from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError

_NAMES: Final[Mapping[str, np.dtype[Any]]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": FLOAT_DTYPES["bfloat16"],
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
    "C64": np.dtype(np.complex64),
    "C128": np.dtype(np.complex128),
}
CODES: Final = {dtype: code for code, dtype in _NAMES.items()}

METADATA: Final = "__metadata__"
"""The entry of a safetensors header that is no tensor."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where one array of a safetensors file lies in it, in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    size: int

    @classmethod
    def of(cls, entry: Mapping[str, Any], body: int) -> "_Stored":
        """As the header describes it; the arrays begin at ``body``."""
        dtype, shape = _NAMES[entry["dtype"]], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end or end - begin != dtype.itemsize * math.prod(shape) or min(shape, default=0) < 0:
            raise ValueError(f"{entry} does not fit")
        return cls(dtype, shape, body + begin, end - begin)


class Shard:
    """A safetensors file open for reading.

    Raises:
        InputError: The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._stored = _stored(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} is not a readable safetensors file.", hint="Write it again.") from error
        self._map: memoryview | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def array(self, name: str) -> Array:
        """An array, mapped and read-only.

        Raises:
            KeyError: There is none of that name.
        """
        one = self._stored[name]
        if self._map is None:
            with self._path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            mapped.madvise(mmap.MADV_RANDOM)  # who looks at a few numbers shall not have their neighbours in memory
            self._map = memoryview(mapped)
        found: Array = np.frombuffer(self._map[one.start : one.start + one.size], dtype=one.dtype)
        return found.reshape(one.shape)

    def read(self, name: str) -> Array:
        """An array in memory of its own.

        Raises:
            KeyError: There is none of that name.
        """
        one = self._stored[name]
        with self._path.open("rb") as file:
            file.seek(one.start)
            raw = np.fromfile(file, np.uint8, one.size)
        found: Array = raw.view(one.dtype).reshape(one.shape)
        return found


def write_shard(path: Path, arrays: Mapping[str, Array], *, over: bool = False) -> None:
    """Writes a safetensors file: the length of the header, the header in JSON, the bytes of each array.

    Args:
        path: Where to.
        arrays: By name.
        over: Whether to write over what the file holds, so that no other pages are taken; it never gets shorter, and
            what is behind the last array is of no meaning.
    """
    header, offset = {}, 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {"dtype": CODES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("r+b" if over and path.exists() else "wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _stored(path: Path) -> dict[str, _Stored]:
    """What the header of a file says of its arrays.

    Raises:
        ValueError: It is damaged; KeyError, TypeError and AttributeError likewise.
        OSError: It cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > size:
            raise ValueError("the header ends behind the file")
        header = json.loads(file.read(length))
    stored = {name: _Stored.of(entry, 8 + length) for name, entry in header.items() if name != METADATA}
    if any(one.start + one.size > size for one in stored.values()):
        raise ValueError("an array ends behind the file")
    return stored


def read_shard(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file, mapped and read-only.

    Raises:
        InputError: The file is damaged.
    """
    return dict(iterate_shard(path))


def iterate_shard(path: Path) -> Iterator[tuple[str, Array]]:
    """Name and array, one after the other, of a safetensors file.

    Raises:
        InputError: The file is damaged.
    """
    shard = Shard(path)
    for name in shard:
        yield name, shard.array(name)
