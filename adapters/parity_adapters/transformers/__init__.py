"""The adapter for Hugging Face transformers: the activations that a model's configuration can name.

Inside this package ``import transformers`` is the library itself: imports are absolute, and this package's own name is
``parity_adapters.transformers``.
"""

from collections.abc import Iterable, Mapping

import torch
import transformers

from parity.adapter import Array, Implementation, Native, Session, not_opened
from parity_adapters.transformers import activations
from parity_adapters.transformers.arrays import from_numpy, to_numpy

__all__ = ["TransformersAdapter", "adapter"]


class TransformersAdapter:
    """Satisfies `parity.adapter.Adapter`."""

    name = "transformers"

    def versions(self) -> Mapping[str, str]:
        """Versions of transformers, which chooses the formula, and of PyTorch, which computes it."""
        return {"transformers": transformers.__version__, "torch": torch.__version__}

    def activations(self) -> Iterable[Implementation]:
        """Every key of ``ACT2FN`` whose variant is known; a warning names each other key."""
        return tuple(activations.implementations())

    def enter(self, x: Array) -> Native:
        """See `arrays.from_numpy`."""
        return from_numpy(x)

    def leave(self, native: Native) -> Array:
        """See `arrays.to_numpy`."""
        return to_numpy(native)

    def open(self, model: str, options: Mapping[str, str]) -> Session:  # noqa: ARG002 – the seam's signature
        """Opens no model in this version.

        Raises:
            InputError: Always.
        """
        raise not_opened(self.name, model)


adapter = TransformersAdapter()
