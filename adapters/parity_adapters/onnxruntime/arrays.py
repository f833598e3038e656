"""NumPy arrays to `OrtValue` and back, bit for bit."""

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort

from parity.adapter import Array

OrtValue = Any
"""An ``onnxruntime.OrtValue`` in host memory; ONNX Runtime ships no types."""


def from_numpy(x: Array) -> OrtValue:
    """OrtValue of the shape and dtype of ``x``, with memory of its own; bfloat16 comes as an ``ml_dtypes`` array."""
    x = np.asarray(x, order="C")
    # ortvalue_from_numpy and its sister that takes bfloat16 bits would borrow the memory of the array.
    element_type = onnx.TensorProto.BFLOAT16 if x.dtype == ml_dtypes.bfloat16 else x.dtype.type
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(x.shape), element_type)
    ctypes.memmove(value.data_ptr(), x.ctypes.data, x.nbytes)
    return value


def to_numpy(value: OrtValue) -> Array:
    """Array of the shape and dtype of ``value``, which it may share memory with."""
    if value.element_type() != onnx.TensorProto.BFLOAT16:
        array: Array = value.numpy()
        return array
    # ONNX Runtime exports bfloat16 neither to NumPy nor through DLPack; its bits are copied as they lie.
    bits = bytearray(ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()))
    return np.frombuffer(bits, dtype=ml_dtypes.bfloat16).reshape(value.shape())
