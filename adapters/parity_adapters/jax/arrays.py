"""The way into and out of JAX, and its 64-bit mode."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

from parity.adapter import Array
from parity.dtypes import float_dtype
from parity.errors import InputError

NATIVE = "native"
"""The precision that leaves every dtype as the model has it."""


def x64() -> AbstractContextManager[None]:
    """A context in which JAX has float64; outside of it float64 arrays become float32."""
    # Before JAX 0.8 it was experimental.
    enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    context: AbstractContextManager[None] = enable(True)
    return context


def room_for(precision: str) -> AbstractContextManager[None]:
    """The context in which numbers of ``precision`` exist."""
    return x64() if precision == "float64" else nullcontext()


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
    """A NumPy array of the same values and dtype; of a random key, the whole numbers that it consists of."""
    return np.asarray(jax.random.key_data(x) if is_key(x.dtype) else x)


def is_key(dtype: Any) -> bool:
    """Whether this is the dtype of random keys, which are no numbers to NumPy."""
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def is_float(dtype: Any) -> bool:
    """Whether this is a floating-point dtype, narrow ones included."""
    return bool(jnp.issubdtype(dtype, jnp.floating))


def in_precision(dtype: Any, precision: str) -> Any:
    """What becomes of ``dtype`` where every floating-point number is to be in ``precision``."""
    if precision == NATIVE:
        return dtype
    if is_float(dtype):
        return float_dtype(precision)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.dtype(np.complex128 if precision == "float64" else np.complex64)
    return dtype


def cast(x: Any, dtype: Any) -> jax.Array:
    """``x``, a NumPy or JAX array or the numbers of random keys, as a JAX array of ``dtype``."""
    if is_key(dtype):
        return x if is_key(x.dtype) else jax.random.wrap_key_data(jnp.asarray(x))
    return x if isinstance(x, jax.Array) and x.dtype == dtype else jnp.asarray(numbers(x, dtype))


def numbers(x: Any, dtype: Any) -> Array:
    """``x``, a NumPy or JAX array, as a NumPy array of ``dtype``.

    Constants are cast so: in a trace, a cast of JAX's own would become an operator call of the model.
    """
    return np.asarray(x).astype(dtype, copy=False)
