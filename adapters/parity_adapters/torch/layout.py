"""Where the elements of a tensor lie in its storage.

A kernel may choose another path, and so another rounding, for other strides or another alignment: whoever computes a
traced call again must lay its inputs out as they were.
"""

from typing import NamedTuple

import torch

from parity.errors import EngineError

_ALIGNMENT = 64
"""Bytes to which PyTorch aligns a storage."""


class Layout(NamedTuple):
    """Shape, strides and offset in elements, with what else tells two views of one place apart.

    Attributes:
        shape: Size of each dimension.
        stride: Elements from one to the next of each dimension.
        offset: Elements before the first.
        dtype: How the bytes are read.
        conjugated: The numbers are to be read as their conjugates.
        negated: Likewise negated.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    conjugated: bool = False
    negated: bool = False

    @property
    def reading(self) -> tuple[torch.dtype, bool, bool]:
        """How the bytes become numbers."""
        return self.dtype, self.conjugated, self.negated

    @property
    def size(self) -> int:
        """Number of elements."""
        product = 1
        for length in self.shape:
            product *= length
        return product

    @property
    def span(self) -> int:
        """Elements from the first to the last in the storage, both included."""
        if not self.size:
            return 0
        return 1 + sum((length - 1) * stride for length, stride in zip(self.shape, self.stride, strict=True))

    def is_contiguous(self) -> bool:
        """Whether the elements follow one another in order, without gaps."""
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if length != 1 and stride != expected:
                return False
            expected *= length
        return True

    def is_apart(self) -> bool:
        """Whether no two elements lie at one place."""
        reach = 0
        for stride, length in sorted(zip(self.stride, self.shape, strict=True)):
            if length == 1:
                continue
            if stride <= reach:
                return False
            reach += (length - 1) * stride
        return True

    def fills(self, other: "Layout") -> bool:
        """Whether writing here leaves nothing of the dense ``other`` as it was."""
        same_place = self.offset == other.offset and self.dtype == other.dtype
        return same_place and self.size == other.size == other.span == self.span and self.is_apart()

    def misses(self, other: "Layout") -> bool:
        """Whether the two surely have no element in common, as two slices of one tensor; False where unsure."""
        if self.dtype != other.dtype:
            return False
        if self.offset + self.span <= other.offset or other.offset + other.span <= self.offset:
            return True
        if self.stride != other.stride or not self.is_apart() or not other.is_apart():
            return False
        mine, theirs = self.offset, other.offset
        for stride, length, width in sorted(zip(self.stride, self.shape, other.shape, strict=True), reverse=True):
            start, begin = mine // stride if stride else 0, theirs // stride if stride else 0
            if start + length <= begin or begin + width <= start:
                return _within(self) and _within(other)
            mine, theirs = mine - start * stride, theirs - begin * stride
        return False


def layout(tensor: torch.Tensor) -> Layout:
    """That of ``tensor``.

    Raises:
        EngineError: It is sparse, nested or otherwise not made of elements in a row.
    """
    if tensor.is_nested or tensor.layout != torch.strided:
        form = "nested tensor" if tensor.is_nested else f"tensor in the layout {tensor.layout}"
        raise EngineError(
            f"The model computes with a {form}.",
            hint="Only models of plain tensors can be compared operator by operator; nn.TransformerEncoder makes no"
            " nested ones with enable_nested_tensor=False.",
        )
    return Layout(
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.dtype,
        tensor.is_conj(),
        tensor.is_neg(),
    )


def blank(wanted: Layout, dtype: torch.dtype) -> torch.Tensor:
    """Zeros of ``dtype`` laid out so, aligned alike.

    Contiguous where elements share a place without being equal, and where there are none.
    """
    widths = tuple(1 if stride == 0 else length for length, stride in zip(wanted.shape, wanted.stride, strict=True))
    single = wanted._replace(shape=widths)
    if 0 in wanted.shape or not single.is_apart():
        return torch.zeros(wanted.shape, dtype=dtype)
    lead = wanted.offset % (_ALIGNMENT // dtype.itemsize)
    memory = torch.zeros(lead + single.span, dtype=dtype)
    return memory.as_strided(widths, wanted.stride, lead)


def lay_out(tensor: torch.Tensor, wanted: Layout, dtype: torch.dtype) -> torch.Tensor:
    """A copy of ``tensor``, of the shape of ``wanted``, as ``dtype`` and laid out so."""
    memory = blank(wanted, dtype)
    source = tensor.resolve_conj().resolve_neg()
    for axis, length in enumerate(memory.shape):
        source = source.narrow(axis, 0, length)
    return memory.copy_(source).expand(wanted.shape)


def view_of_storage(tensor: torch.Tensor, wanted: Layout) -> torch.Tensor:
    """The elements of ``tensor``'s storage that lie at ``wanted``, which is of the same dtype."""
    return tensor.detach().as_strided(wanted.shape, wanted.stride, wanted.offset)


def _within(one: Layout) -> bool:
    """Whether the slice stays inside the rows of a tensor of these strides, so that its places are its indices."""
    rest, reach = one.offset, None
    for stride, length in sorted(zip(one.stride, one.shape, strict=True), reverse=True):
        if stride == 0:
            return False
        start, rest = divmod(rest, stride)
        if reach is not None and (start + length) * stride > reach:
            return False
        reach = stride
    return True
