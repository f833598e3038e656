"""Which tensor of the recording a view of a storage is, while the model changes what lies there."""

from dataclasses import dataclass, field

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from parity_adapters.torch.layout import Layout, lay_out, layout
from parity_adapters.torch.recording import Call


@dataclass(slots=True)
class Memory:
    """What is known of one storage.

    Attributes:
        storage: Keeps the storage's address from being given to another; not its bytes.
        names: Tensors that have the present content, by where they lie.
        base: A tensor that spans the storage, in an older state where there are ``pending`` writes; None for memory
            that the run found, as long as it has not changed.
        pending: Newer parts, in the order in which they were written.
        late: The call and number of an output that nobody was told of.
        is_blank: It was made without a content, and nothing was seen to be written there yet.
    """

    storage: StorageWeakRef
    names: dict[Layout, str] = field(default_factory=dict)
    base: tuple[str, Layout] | None = None
    pending: dict[Layout, str] = field(default_factory=dict)
    late: tuple[Call, int] | None = None
    is_blank: bool = False

    def write(self, name: str, where: Layout) -> None:
        """Notes that ``name`` now lies at ``where``, and that whatever else reached there is no more."""
        self.is_blank = False
        if self.base is None or where.fills(self.base[1]):
            self.base = (name, where)
            self.pending = {}
            self.names = {}
        else:
            self.pending.pop(where, None)
            self.pending[where] = name
            self.names = {place: tensor for place, tensor in self.names.items() if place.misses(where)}
        self.names[where] = name

    def settle(self, tensor: torch.Tensor) -> None:
        """Looks, before a blank is read, whether PyTorch's own code filled it unseen: it is a constant then."""
        if self.is_blank and bool(tensor.any()):
            self.base = None
            self.names = {}
            self.is_blank = False

    def rebase(self, name: str) -> None:
        """Notes that ``name`` is the base with all pending writes done."""
        assert self.base is not None  # noqa: S101 – memory without a base has no pending writes
        self.base = (name, self.base[1])
        self.pending = {}
        self.names[self.base[1]] = name


class Memories:
    """All storages that a run has met."""

    def __init__(self) -> None:
        self._by_address: dict[int, Memory] = {}

    def find(self, tensor: torch.Tensor) -> Memory | None:
        """That of ``tensor``; None where it was not met before."""
        return self._by_address.get(tensor.untyped_storage()._cdata)  # noqa: SLF001 – the storage's identity

    def meet(self, tensor: torch.Tensor) -> Memory:
        """That of ``tensor``, met now if not before."""
        found = self.find(tensor)
        if found is None:
            storage = tensor.untyped_storage()
            found = self._by_address[storage._cdata] = Memory(StorageWeakRef(storage))  # noqa: SLF001
        return found


@dataclass(frozen=True, slots=True)
class Write:
    """Puts newer parts into a base: a pure function of the base and the parts.

    Attributes:
        base: Where the base lay.
        parts: Where the parts lay, in the order in which they are written.
    """

    base: Layout
    parts: tuple[Layout, ...]

    def __call__(self, base: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
        """The base with the parts in it, in memory of its own."""
        whole = lay_out(base, self.base, base.dtype)
        for part, place in zip(parts, self.parts, strict=True):
            _at(whole, place, self.base).copy_(part)
        return whole


@dataclass(frozen=True, slots=True)
class Read:
    """Takes a view of a base."""

    base: Layout
    place: Layout

    def __call__(self, base: torch.Tensor) -> torch.Tensor:
        """The view, which shares the memory of ``base`` where this lies as it lay in the trace."""
        if layout(base)._replace(offset=0, dtype=self.base.dtype) != self.base._replace(offset=0):
            base = lay_out(base, self.base, base.dtype)
        return _at(base, self.place, self.base)


def _at(tensor: torch.Tensor, place: Layout, base: Layout) -> torch.Tensor:
    """The part of ``tensor`` that lies at ``place`` if ``tensor`` lies at ``base``."""
    return tensor.as_strided(place.shape, place.stride, tensor.storage_offset() + place.offset - base.offset)
