"""Initializers of a captured graph: as tensors for ONNX Runtime, and as arrays for everybody else."""

import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

from parity.adapter import Array
from parity_adapters.onnxruntime import blocks

READ: Final = 64 * 2**20
"""Bytes of mapped weights after which what was read of them is let go: it counts as memory of the process."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A number of the model as one node reads it.

    Attributes:
        tensor: Its name, type and shape, and its numbers, unless they are in a file.
        mapped: Its numbers as the file has them, not read before they are used.
        key: Its name within the model; None for one that was put in its place.
    """

    tensor: onnx.TensorProto
    mapped: Array | None
    key: str | None

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        if self.mapped is not None:
            return int(self.mapped.nbytes)
        return int(helper.tensor_dtype_to_np_dtype(self.tensor.data_type).itemsize * prod(self.tensor.dims))

    def array(self) -> Array:
        """Its numbers as ONNX Runtime stores them."""
        found: Array = self.mapped if self.mapped is not None else numpy_helper.to_array(self.tensor)
        return found


class Weights(Mapping[str, Array]):
    """Arrays by tensor name; each is read when it is asked for.

    Args:
        folder: Where the files are that hold the large ones.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, mmap.mmap] = {}
        self._read = 0
        self._stored: dict[str, Weight] = {}
        self._made: dict[str, Array] = {}
        self._views: dict[str, blocks.View] = {}

    def add(self, name: str, tensor: onnx.TensorProto, view: blocks.View | None) -> Weight:
        """Takes in an initializer under the name that it has in the whole model, to be seen by ``view``."""
        mapped = self._map(tensor) if external_data_helper.uses_external_data(tensor) else None
        self._stored[name] = weight = Weight(tensor, mapped, name)
        if view:
            self._views[name] = view
        return weight

    def make(self, name: str, array: Array) -> None:
        """Takes in a number that the run itself makes of nothing: the count of a loop."""
        self._made[name] = array

    def forget_made(self) -> None:
        """Drops what `make` took in."""
        self._made.clear()

    def weight(self, name: str) -> Weight | None:
        """The initializer of that name, or None."""
        self.count([name])
        return self._stored.get(name)

    def count(self, names: Iterable[str]) -> None:
        """Notes which tensors are read; once that is much, lets go of what is in memory of the files of weights."""
        found = [self._stored[name] for name in names if name in self._stored]
        size = sum(weight.nbytes for weight in found if weight.mapped is not None)
        self._read += size
        if self._read <= READ or not hasattr(mmap, "MADV_DONTNEED"):
            return
        self._read = size
        for file in self._files.values():
            file.madvise(mmap.MADV_DONTNEED)

    def replaced(self, name: str, array: Array) -> Weight:
        """An initializer to stand in the place of the one called ``name``, with other numbers."""
        dtype = helper.tensor_dtype_to_np_dtype(self._stored[name].tensor.data_type)
        array = array.astype(dtype, copy=False)
        stored = self._views[name].kept(array) if name in self._views else array
        return Weight(numpy_helper.from_array(np.ascontiguousarray(stored), name), None, None)

    def shown(self, name: str, weight: Weight) -> Array:
        """The numbers of a weight called ``name`` in the order of its shape."""
        return self._views[name].shown(weight.array()) if name in self._views else weight.array()

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an initializer as it is seen."""
        return self._views[name].shape if name in self._views else tuple(self._stored[name].tensor.dims)

    def _map(self, tensor: onnx.TensorProto) -> Array:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location, offset = entries["location"], int(entries.get("offset", "0"))
        if location not in self._files:
            with (self._folder / location).open("rb") as file:
                self._files[location] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        length = int(entries.get("length", prod(tensor.dims) * dtype.itemsize))
        mapped: Array = np.frombuffer(self._files[location], np.uint8, length, offset)
        shaped: Array = mapped.view(dtype).reshape(tuple(tensor.dims))
        return shaped

    def __getitem__(self, name: str) -> Array:
        if name in self._made:
            return self._made[name]
        weight = self.weight(name)
        if weight is None:
            raise KeyError(name)
        return self.shown(name, weight)

    def __contains__(self, name: object) -> bool:
        return name in self._stored or name in self._made

    def __iter__(self) -> Iterator[str]:
        yield from self._stored
        yield from self._made

    def __len__(self) -> int:
        return len(self._stored) + len(self._made)
