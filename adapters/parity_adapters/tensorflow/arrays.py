"""NumPy arrays to tensors and back, bit for bit."""

from typing import Any

from parity.adapter import Array
from parity_adapters.tensorflow.runtime import tf

Tensor = Any
"""A ``tf.Tensor``; TensorFlow ships no types."""


def from_numpy(x: Array) -> Tensor:
    """Eager tensor of the shape and dtype of ``x``; bfloat16 comes as an ``ml_dtypes`` array."""
    return tf.convert_to_tensor(x)


def to_numpy(tensor: Tensor) -> Array:
    """Array of the shape and dtype of an eager tensor, which it may share memory with."""
    array: Array = tensor.numpy()
    return array
