"""The NumPy adapter: activation functions as people write them by hand.

This room is the example for the others and for adapters outside this repository. Each room has the same
files: this one holds the adapter object that the entry point names, ``arrays`` the way into and out of the
framework, ``activations`` the table of implementations.
"""

from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from parity.adapter import Array, Implementation, Native, Session, not_opened
from parity_adapters.numpy.activations import implementations

__all__ = ["NumpyAdapter", "adapter"]


class NumpyAdapter:
    """Satisfies `parity.adapter.Adapter`."""

    name = "numpy"

    def versions(self) -> dict[str, str]:
        """Versions of NumPy, of ml_dtypes (its bfloat16) and of SciPy where it is installed."""
        scipy = ("scipy",) if find_spec("scipy") else ()
        return {name: version(name) for name in ("numpy", "ml_dtypes", *scipy)}

    def activations(self) -> tuple[Implementation, ...]:
        """The formulas of `parity_adapters.numpy.activations`."""
        return implementations()

    def enter(self, x: Array) -> Native:
        """A copy: other people's functions get the array that NumPy users have, and may write into it."""
        return x.copy()

    def leave(self, native: Native) -> Array:
        """What came back, which must be an array.

        Raises:
            TypeError: It is none.
        """
        if not isinstance(native, np.ndarray | np.generic):
            raise TypeError(f"returned a {type(native).__name__}, not an array")
        return np.asarray(native)

    def open(self, model: str, options: Mapping[str, str]) -> Session:  # noqa: ARG002 – the seam's signature
        """Opens no model in this version.

        Raises:
            InputError: Always.
        """
        raise not_opened(self.name, model)


adapter = NumpyAdapter()
