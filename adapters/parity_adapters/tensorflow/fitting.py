"""Makes the given inputs those that a model takes, or says why it cannot."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from parity.adapter import Array, bind
from parity.dtypes import any_dtype
from parity.errors import InputError
from parity.graph import InputSpec


def fitted(inputs: Mapping[str, Array], specs: Mapping[str, InputSpec]) -> dict[str, Array]:
    """All inputs under the names of ``specs`` and in their order, in their dtypes.

    Raises:
        InputError: One is missing, or of another kind of number or another shape.
    """
    bound = bind(inputs, list(specs))
    missing = [name for name in specs if name not in bound]
    if missing:
        raise InputError(f"The model's input '{missing[0]}' is not given.", hint=f"It takes: {', '.join(specs)}.")
    return {name: _fitting(name, np.asarray(bound[name]), spec) for name, spec in specs.items()}


def _fitting(name: str, array: Array, spec: InputSpec) -> Array:
    dtype = any_dtype(spec.dtype)
    shape = spec.shape
    if shape is not None and (
        len(shape) != array.ndim or any(size not in {None, n} for size, n in zip(shape, array.shape, strict=True))
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise InputError(
            f"The model's input '{name}' has shape {array.shape}.", hint=f"The model takes shape ({wanted})."
        )
    if array.dtype == dtype:
        return array
    if _RANK.get(array.dtype.kind, 3) > _RANK.get(dtype.kind, 2):
        raise InputError(f"The model's input '{name}' is {array.dtype}.", hint=f"The model takes {spec.dtype}.")
    return array.astype(dtype)


_RANK: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
"""What kinds of numbers may stand for which others, by NumPy's letters, V being bfloat16: one of lower rank does."""


def distance(produced: Mapping[str, Array], traced: Mapping[str, Array], how: str) -> tuple[str, ...]:
    """A note on how far the traced outputs are from those of production, if they are not the same bits.

    Args:
        produced: Outputs of production by name.
        traced: Outputs of the trace by name.
        how: What production does, as the beginning of a sentence that goes on with "was traced".
    """
    away = 0.0
    for name, array in produced.items():
        if array.tobytes() != traced[name].tobytes():
            with np.errstate(all="ignore"):
                gaps = np.abs(array.astype(np.float64) - traced[name].astype(np.float64))
            away = max(away, float(np.nanmax(gaps, initial=0.0)), np.finfo(np.float64).tiny)
    if not away:
        return ()
    gap = f"gives outputs up to {away:.2g} away from those of production"
    return (f"In production {how} was traced operator by operator, which {gap}.",)
