"""The way into and out of NumPy: arrays that keep their dtype."""

from typing import Any

import numpy as np

from parity.adapter import Array
from parity.dtypes import FLOAT_DTYPES


class SameDtypeArray(np.ndarray[Any, np.dtype[Any]]):
    """An array whose arithmetic stays in its own dtype, as that of the ML frameworks does.

    NumPy promotes: ``0.5 * x`` of an ``ml_dtypes`` bfloat16 array is float32, and SciPy's special functions
    turn float16 and bfloat16 into float64. A formula would then be measured in a precision that its user did
    not choose. Here each universal function rounds its inputs and its result to the array's dtype, once each;
    comparisons stay boolean. For float32 and float64 this is what NumPy does anyway.
    """

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Calls ``ufunc`` with floats and lone numbers rounded to this array's dtype, and rounds its result."""
        dtype = next((x.dtype for x in inputs if isinstance(x, SameDtypeArray) and x.dtype.name in FLOAT_DTYPES), None)
        plain = [np.asarray(x) for x in inputs]
        if dtype is not None:
            plain = [x.astype(dtype, copy=False) if _is_number(x) else x for x in plain]
        if "out" in kwargs:
            kwargs["out"] = tuple(np.asarray(x) for x in kwargs["out"])
        result = getattr(ufunc, method)(*plain, **kwargs)
        if isinstance(result, tuple):
            return tuple(_rounded(x, dtype) for x in result)
        return _rounded(result, dtype)


def _is_number(x: Array) -> bool:
    """Whether ``x`` takes part in the rounding: an array of floats, or a single number of any type but bool."""
    return x.dtype.name in FLOAT_DTYPES or (x.ndim == 0 and x.dtype.kind in "iuf")


def _rounded(x: Any, dtype: np.dtype[Any] | None) -> Any:
    """``x`` in the dtype if it is floats, Python's own (``object``) too; masks and counts stay as they are."""
    if dtype is None or (x.dtype.name not in FLOAT_DTYPES and x.dtype != object):
        return x
    return np.asarray(x).astype(dtype, copy=False).view(SameDtypeArray)


def from_numpy(x: Array) -> SameDtypeArray:
    """``x`` itself, seen as a `SameDtypeArray`; nothing is copied."""
    return x.view(SameDtypeArray)


def to_numpy(x: Array) -> Array:
    """A plain array of the same values and dtype; nothing is copied."""
    return x.view(np.ndarray)
