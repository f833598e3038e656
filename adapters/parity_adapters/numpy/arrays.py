"""The way into and out of NumPy: arrays that keep their dtype."""

from typing import Any

import numpy as np

from parity.adapter import Array


class SameDtypeArray(np.ndarray[Any, np.dtype[Any]]):
    """An array whose arithmetic stays in its own dtype, as that of the ML frameworks does.

    NumPy promotes: ``0.5 * x`` of an ``ml_dtypes`` bfloat16 array is float32, and SciPy's special functions
    turn float16 and bfloat16 into float64. A formula would then be measured in a precision that its user did
    not choose. Here each universal function rounds its inputs and its result to the array's dtype, once each;
    comparisons stay boolean. For float32 and float64 this is what NumPy does anyway.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Calls ``ufunc`` on plain arrays of this array's dtype and rounds what it returns."""
        plain = [np.asarray(x) for x in inputs]
        operands = [x if x.dtype == bool else x.astype(self.dtype, copy=False) for x in plain]
        result = getattr(ufunc, method)(*operands, **kwargs)
        if result.dtype != bool:
            result = result.astype(self.dtype, copy=False)
        return np.asarray(result).view(SameDtypeArray)


def from_numpy(x: Array) -> SameDtypeArray:
    """``x`` itself, seen as a `SameDtypeArray`; nothing is copied."""
    return x.view(SameDtypeArray)


def to_numpy(x: Array) -> Array:
    """A plain array of the same values and dtype; nothing is copied."""
    return x.view(np.ndarray)
