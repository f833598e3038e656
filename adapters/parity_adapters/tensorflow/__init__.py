"""TensorFlow: ``tf.nn``, Keras 3 on TensorFlow, and TFLite, on the CPU.

Each call is measured eagerly; GELU, the function that most often differs, also inside ``tf.function``, compiled by
XLA, after a SavedModel round trip, through TFLite and under Keras' mixed-precision policies.
"""

from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from parity.adapter import Array, Implementation, Native, Session
from parity_adapters.tensorflow.activations import implementations
from parity_adapters.tensorflow.arrays import from_numpy, to_numpy
from parity_adapters.tensorflow.opening import opened

_TENSORFLOW_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-intel")
"""Distributions whose import package is ``tensorflow``."""


class TensorFlowAdapter:
    """The adapter object; satisfies `parity.adapter.Adapter`."""

    name = "tensorflow"

    def versions(self) -> Mapping[str, str]:
        """Versions by distribution name; TensorFlow under the name of the distribution that is installed."""
        names = {distribution.name.lower().replace("_", "-") for distribution in metadata.distributions()}
        tensorflow = [name for name in _TENSORFLOW_DISTRIBUTIONS if name in names]
        return {name: metadata.version(name) for name in (*tensorflow, "keras", "ml-dtypes", "numpy")}

    def activations(self) -> Iterable[Implementation]:
        """Every implementation that the installed TensorFlow and Keras have."""
        return implementations()

    def enter(self, x: Array) -> Native:
        """See `arrays.from_numpy`."""
        return from_numpy(x)

    def leave(self, native: Native) -> Array:
        """See `arrays.to_numpy`."""
        return to_numpy(native)

    def open(self, model: Any, options: Mapping[str, str]) -> Session:
        """See `opening.opened`."""
        return opened(self.name, model, options)


adapter = TensorFlowAdapter()
