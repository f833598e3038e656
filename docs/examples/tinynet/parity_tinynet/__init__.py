"""The adapter: what the entry point names."""

from collections.abc import Mapping

import numpy as np

import tinynet
from parity.adapter import Array, Implementation, not_opened
from parity_tinynet.activations import implementations
from parity_tinynet.session import TinynetSession

__all__ = ["TinynetAdapter", "adapter"]


class TinynetAdapter:
    """Satisfies `parity.adapter.Adapter`."""

    name = "tinynet"

    def versions(self) -> dict[str, str]:
        """Everything whose version can change a result."""
        return {"tinynet": tinynet.VERSION, "numpy": np.__version__}

    def activations(self) -> tuple[Implementation, ...]:
        """The activations that users of tinynet meet."""
        return implementations()

    def enter(self, x: Array) -> Array:
        """A NumPy array, with which tinynet computes: a copy, so that nobody writes into the caller's."""
        return x.copy()

    def leave(self, native: Array) -> Array:
        """What came back."""
        return np.asarray(native)

    def open(self, model: str, options: Mapping[str, str]) -> TinynetSession:  # noqa: ARG002 – there is nothing to choose
        """Opens a model, ``tinynet:FILE.json``.

        Raises:
            InputError: It cannot be read.
        """
        try:
            return TinynetSession(tinynet.load(model.removeprefix("tinynet:")))
        except (OSError, ValueError) as error:
            raise not_opened(self.name, model, "a list of layers in JSON") from error


adapter = TinynetAdapter()
