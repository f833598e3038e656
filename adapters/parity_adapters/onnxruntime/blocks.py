"""ONNX Runtime's blocked layout NCHWc, in which 8 or 16 channels of one pixel lie side by side.

A blocked tensor says that its shape is (N, C, H, W), but its memory is that of (N, C / block, H, W, block), C rounded
up to whole blocks. Sites show such a tensor unblocked, and take it so: nobody outside this module sees the blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper

from parity.adapter import Array
from parity_adapters.onnxruntime.sessions import run_model

DOMAIN: Final = "com.microsoft.nchwc"
"""Domain of the operators that make blocked tensors; only ``ReorderOutput`` among them does not."""


class View(Protocol):
    """A weight as the model has it, of one that ONNX Runtime has stored in another way."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape in the model."""

    def shown(self, stored: Array, /) -> Array:
        """The numbers of the stored one in the model's order."""

    def kept(self, shown: Array, /) -> Array:
        """The inverse of `shown`."""


@cache
def block_size() -> int:
    """Channels of a block on this processor, read off what the operator that makes blocks does to 16 numbers."""
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 1, 2])
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=DOMAIN)
    graph = helper.make_graph([node], "blocks", [image], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    channels = np.repeat(np.arange(16, dtype=np.float32), 2)
    (blocked,) = run_model(model, [channels.reshape(1, 16, 1, 2)], level="none")
    return int(np.argmin(np.diff(blocked.reshape(-1)) >= 0)) + 1


def unblocked(x: Array, channels: int) -> Array:
    """The numbers of a blocked tensor, in the order of its shape, without the channels that only fill up a block.

    Args:
        x: Of shape (N, C, space…).
        channels: How many of C are real ones.
    """
    n, c, *space = x.shape
    block = block_size()
    return np.moveaxis(x.reshape(n, c // block, *space, block), -1, 2).reshape(x.shape)[:, :channels]


def blocked(x: Array) -> Array:
    """The inverse of `unblocked`; the channels that fill up a block are zeros."""
    x = _filled(x, (x.shape[0], -(-x.shape[1] // block_size()) * block_size()))
    n, c, *space = x.shape
    return np.moveaxis(x.reshape(n, c // block_size(), block_size(), *space), 2, -1).reshape(x.shape)


def _filled(x: Array, sizes: tuple[int, ...]) -> Array:
    """``x`` with zeros behind, up to these sizes of its first axes."""
    return np.pad(x, [(0, size - old) for size, old in zip((*sizes, *x.shape[len(sizes) :]), x.shape, strict=True)])


@dataclass(frozen=True, slots=True)
class BlockedFilter:
    """The filter of a blocked convolution.

    Attributes:
        stored: Its shape (O, I, kernel…) as ONNX Runtime has it, filled up to whole blocks.
        shape: As the model has it.
    """

    stored: tuple[int, ...]
    shape: tuple[int, ...]

    def shown(self, w: Array) -> Array:
        """Its numbers in the order of ``shape``."""
        o, i, *space = w.shape
        block = block_size()
        if i < block:
            plain = np.moveaxis(w.reshape(o // block, i, *space, block), -1, 1)
        else:
            plain = np.moveaxis(w.reshape(o // block, i // block, *space, block, block), (-1, -2), (1, 3))
        return plain.reshape(w.shape)[: self.shape[0], : self.shape[1]]

    def kept(self, w: Array) -> Array:
        """The inverse of `shown`."""
        w = _filled(w, self.stored[:2])
        o, i, *space = w.shape
        block = block_size()
        if i < block:
            return np.moveaxis(w.reshape(o // block, block, i, *space), 1, -1).reshape(w.shape)
        parts = w.reshape(o // block, block, i // block, block, *space)
        return np.moveaxis(parts, (1, 3), (-1, -2)).reshape(w.shape)


@dataclass(frozen=True, slots=True)
class BlockedBias:
    """The bias of a blocked convolution.

    Attributes:
        stored: Its shape as ONNX Runtime has it, filled up to whole blocks.
        shape: As the model has it.
    """

    stored: tuple[int, ...]
    shape: tuple[int, ...]

    def shown(self, bias: Array) -> Array:
        """The real ones."""
        return bias[: self.shape[0]]

    def kept(self, bias: Array) -> Array:
        """The inverse of `shown`."""
        return _filled(bias, self.stored)


def views(node: onnx.NodeProto, sizes: Mapping[str, tuple[int, ...]], shape: tuple[int, ...] | None) -> dict[str, View]:
    """How the weights of a blocked convolution are seen, by name; nothing for any other node.

    Args:
        node: Any node.
        sizes: Shape of each initializer as ONNX Runtime has it.
        shape: Of the filter in the model, where known.
    """
    if node.domain != DOMAIN or node.op_type != "Conv" or node.input[1] not in sizes:
        return {}
    stored = sizes[node.input[1]]
    real = shape if shape and len(shape) == len(stored) else stored
    found: dict[str, View] = {node.input[1]: BlockedFilter(stored, real)}
    if len(node.input) > 2 and node.input[2] in sizes:
        found[node.input[2]] = BlockedBias(sizes[node.input[2]], real[:1])
    return found
