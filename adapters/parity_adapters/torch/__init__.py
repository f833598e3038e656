"""The adapter for PyTorch on the CPU.

Inside this package ``import torch`` is PyTorch itself: imports are absolute, and this package's own name is
``parity_adapters.torch``. Thread counts and global settings of PyTorch are left as they are; where a row needs another
setting, its call sets it and puts it back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from parity.adapter import Array, Calls, Implementation, Native, Session, Swap
from parity_adapters.torch import activations, calls, swapping
from parity_adapters.torch.arrays import from_numpy, to_numpy
from parity_adapters.torch.opening import open_model

__all__ = ["TorchAdapter", "adapter"]


class TorchAdapter:
    """Satisfies `parity.adapter.Adapter` and `parity.adapter.Swapper`."""

    name = "torch"

    def versions(self) -> Mapping[str, str]:
        """Version of PyTorch, with the local part that tells its build (``2.13.0+cpu``)."""
        return {"torch": torch.__version__}

    def activations(self) -> Iterable[Implementation]:
        """Every way in which PyTorch's users call an activation."""
        return tuple(activations.implementations())

    def enter(self, x: Array) -> Native:
        """See `arrays.from_numpy`."""
        return from_numpy(x)

    def leave(self, native: Native) -> Array:
        """See `arrays.to_numpy`."""
        return to_numpy(native)

    def open(self, model: Any, options: Mapping[str, str]) -> Session:
        """See `opening.open_model`."""
        return open_model(model, options)

    def watch(self, model: Any) -> AbstractContextManager[Calls]:
        """See `calls.watch`."""
        return calls.watch(model)

    def swap(self, model: Any, swaps: Sequence[Swap]) -> Callable[[], None]:
        """See `swapping.swap`."""
        return swapping.swap(model, swaps)


adapter = TorchAdapter()
