"""What an operator in NumPy is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity.adapter import Array

Result = Any
"""One output, an array, or a tuple of all of them, None for one that is not made; NumPy's own types say less."""


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of that type are rounded: NumPy's floats, and bfloat16 and smaller ones of ``ml_dtypes``."""
    return dtype.kind == "f" or (dtype.kind == "V" and "int" not in dtype.name)


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call.

    Attributes:
        op: The operator.
        inputs: None for an absent one; floating-point ones are of type ``dtype``.
        attributes: All of them, defaults filled in.
        opset: Version of its operator set.
        outputs: How many it names.
        dtype: float32 or float64.
    """

    op: str
    inputs: tuple[Array | None, ...]
    attributes: Mapping[str, Any]
    opset: int
    outputs: int
    dtype: np.dtype[Any]

    def __getitem__(self, position: int) -> Array:
        """An input that is there.

        Raises:
            ValueError: It is not.
        """
        found = self.get(position)
        if found is None:
            raise ValueError(f"{self.op} lacks its input {position}.")
        return found

    def get(self, position: int) -> Array | None:
        """An input, or None."""
        return self.inputs[position] if position < len(self.inputs) else None

    def present(self) -> list[Array]:
        """The inputs that are there."""
        return [x for x in self.inputs if x is not None]

    def ints(self, position: int, attribute: str) -> list[int] | None:
        """Whole numbers that are an input in newer operator sets and an attribute in older ones; None for neither."""
        given = self.get(position)
        if given is not None:
            return [int(i) for i in given.reshape(-1)]
        found = self.attributes.get(attribute)
        return None if found is None else [int(i) for i in found]
