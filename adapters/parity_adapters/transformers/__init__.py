"""The adapter for Hugging Face transformers: folders of models, and the activations that a configuration can name.

Inside this package ``import transformers`` is the library itself: imports are absolute, and this package's own name is
``parity_adapters.transformers``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import transformers

from parity.adapter import Array, Implementation, Native, Session
from parity_adapters.transformers import activations
from parity_adapters.transformers.arrays import from_numpy, to_numpy
from parity_adapters.transformers.opening import open_model

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

    def open(self, model: Any, options: Mapping[str, str]) -> Session:
        """See `opening.open_model`."""
        return open_model(model, options)


adapter = TransformersAdapter()
