"""The NumPy adapter: activation functions as people write them by hand.

This room is the example for the others and for adapters outside this repository. Each room has the same
files: this one holds the adapter object that the entry point names, ``arrays`` the way into and out of the
framework, ``activations`` the table of implementations.
"""

from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec

from parity.adapter import Array, Implementation, Native, Session, not_opened
from parity_adapters.numpy.activations import implementations
from parity_adapters.numpy.arrays import from_numpy, to_numpy

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
        """See `arrays.from_numpy`."""
        return from_numpy(x)

    def leave(self, native: Native) -> Array:
        """See `arrays.to_numpy`."""
        return to_numpy(native)

    def open(self, model: str, options: Mapping[str, str]) -> Session:  # noqa: ARG002 – the seam's signature
        """Opens no model in this version.

        Raises:
            InputError: Always.
        """
        raise not_opened(self.name, model)


adapter = NumpyAdapter()
