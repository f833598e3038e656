"""NumPy arrays to PyTorch tensors and back, every bit kept."""

import ml_dtypes
import numpy as np
import torch

from parity.adapter import Array


def from_numpy(array: Array) -> torch.Tensor:
    """A contiguous tensor of the same shape, dtype and bits, in memory of its own."""
    if array.dtype == ml_dtypes.bfloat16:
        # torch.from_numpy knows NumPy's own types only: the bits travel as int16.
        return torch.from_numpy(array.view(np.int16).copy(order="C")).view(torch.bfloat16)
    return torch.from_numpy(array.copy(order="C"))


def borrowed(array: Array) -> torch.Tensor:
    """A tensor of the same shape, dtype and bits that is only to be read, in the array's own memory where that can be.

    It cannot where the array may not be written to or has negative strides: PyTorch knows neither.
    """
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        return from_numpy(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_numpy(tensor: torch.Tensor) -> Array:
    """A NumPy array of the same shape, dtype and bits; the tensor may be strided or part of an autograd graph."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    bits = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    array: Array = bits.numpy()
    return array.view(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else array


def look_at(tensor: torch.Tensor) -> Array:
    """The tensor's own memory as a NumPy array, strides and all; a copy only where NumPy cannot say how it is read."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        bits: Array = tensor.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: Array = tensor.numpy()
    return array
