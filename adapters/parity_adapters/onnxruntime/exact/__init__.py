"""ONNX's and ONNX Runtime's operators in NumPy, in one floating-point type throughout.

In float64 this is the exact result that a kernel's rounding is measured against. In a 16-bit type an operator computes
in float32 and rounds its results once, as kernels do.
"""

from parity_adapters.onnxruntime.exact.call import is_float
from parity_adapters.onnxruntime.exact.table import LOOKUPS, compute

__all__ = ["LOOKUPS", "compute", "is_float"]
