"""The floating-point types that this package measures, by name.

bfloat16 has no NumPy type of its own; it comes from ``ml_dtypes``, whose arrays NumPy carries unchanged.
"""

from typing import Any, Final

import ml_dtypes
import numpy as np

from parity.errors import InputError

FLOAT_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
"""Name to NumPy dtype, widest first."""

FLOATS: Final = frozenset(FLOAT_DTYPES.values())
"""The same types without their names."""


def float_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype called ``name``.

    Raises:
        InputError: ``name`` is none of ``FLOAT_DTYPES``.
    """
    try:
        return FLOAT_DTYPES[name]
    except KeyError:
        raise InputError.unknown("dtype", name, FLOAT_DTYPES) from None


def any_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype called ``name``, be it NumPy's own or one of ``FLOAT_DTYPES``."""
    return FLOAT_DTYPES[name] if name in FLOAT_DTYPES else np.dtype(name)
