"""Naming a function by its values on a sweep: what graphs and their activations are told by."""

from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions.identify import Identification, Identifier
from parity.functions.variants import FORMULAS, variant

KEPT: Final = 512
"""Functions whose identification is remembered."""


@cache
def sweep(dtype: str) -> NDArray[Any]:
    """The numbers on which activations of a dtype are tried: a grid, tails, and where the family of GELU parts."""
    grid = np.concatenate([np.linspace(-12.0, 12.0, 1201), np.linspace(-3.0, 3.0, 301), [-40.0, -20.0, 20.0, 40.0]])
    return np.unique(grid.astype(FLOAT_DTYPES[dtype]))


@cache
def _identifier(dtype: str) -> Identifier:
    return Identifier(sweep(dtype))


@lru_cache(maxsize=KEPT)
def _identified(dtype: str, bits: bytes) -> Identification | None:
    carried = FLOAT_DTYPES["float32" if dtype == "float64" else dtype]
    try:
        return _identifier(dtype).identify(np.frombuffer(bits, carried))
    except InputError:
        return None


def identified(values: NDArray[np.float64], dtype: str) -> Identification | None:
    """What gives these values on the sweep of a dtype, as far as it carries them; None where nothing is finite.

    Layers repeat themselves, and fitting what is no activation is slow: the same values are identified once.
    """
    carried = FLOAT_DTYPES["float32"] if dtype == "float64" else FLOAT_DTYPES[dtype]
    with np.errstate(over="ignore"):
        rounded = values.astype(carried)
    return _identified(dtype, rounded.tobytes())


@cache
def usual(dtype: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Names of the ungated variants, and each with its usual numbers on the sweep of a dtype, of shape (m, n)."""
    names = tuple(name for name, formula in FORMULAS.items() if formula.arity == 1)
    return names, np.stack([variant(name).value(sweep(dtype)) for name in names])
