"""The way into and out of JAX, and its 64-bit mode."""

from contextlib import AbstractContextManager

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

from parity.adapter import Array
from parity.errors import InputError


def x64() -> AbstractContextManager[None]:
    """A context in which JAX has float64; outside of it float64 arrays become float32."""
    # Before JAX 0.8 it was experimental.
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    context: AbstractContextManager[None] = enable(True)
    return context


def from_numpy(x: Array) -> jax.Array:
    """A JAX array of the same values and dtype, in memory of its own.

    Raises:
        InputError: JAX has no such dtype now; it has float64 within `x64` only.
    """
    native = jnp.array(x)
    if native.dtype != x.dtype:
        raise InputError(
            f"JAX makes {native.dtype} of a {x.dtype} array.", hint="float64 exists in the implementations named (x64)."
        )
    return native


def to_numpy(x: jax.Array) -> Array:
    """A NumPy array of the same values and dtype."""
    return np.asarray(x)
