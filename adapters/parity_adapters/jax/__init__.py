"""The JAX adapter: `jax.nn`, `flax.linen` and `flax.nnx` on the CPU.

JAX reads its platform once, when it is first imported, so this package sets it before anything else does. It is
only ever imported in a worker process of its own.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from parity.adapter import Array, Implementation, Native, Session
from parity_adapters.jax.activations import implementations
from parity_adapters.jax.arrays import from_numpy, to_numpy
from parity_adapters.jax.session import open_session

__all__ = ["JaxAdapter", "adapter"]


class JaxAdapter:
    """Satisfies `parity.adapter.Adapter`."""

    name = "jax"

    def versions(self) -> dict[str, str]:
        """Versions of JAX, of jaxlib (its compiler and kernels) and of Flax where it is installed."""
        flax = ("flax",) if find_spec("flax") else ()
        return {name: version(name) for name in ("jax", "jaxlib", *flax)}

    def activations(self) -> tuple[Implementation, ...]:
        """The functions of `parity_adapters.jax.activations`."""
        return implementations()

    def enter(self, x: Array) -> Native:
        """See `arrays.from_numpy`."""
        return from_numpy(x)

    def leave(self, native: Native) -> Array:
        """See `arrays.to_numpy`."""
        return to_numpy(native)

    def open(self, model: Any, options: Mapping[str, str]) -> Session:
        """See `session.open_session`."""
        return open_session(model, options)


adapter = JaxAdapter()
