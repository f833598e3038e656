"""ONNX Runtime on its CPU provider: ONNX's activation operators, ``com.microsoft``'s, and what exporters write instead.

What runs is decided by the graph optimiser, so GELU in all its spellings is measured at each optimisation level, and
once more with ``optimization.enable_gelu_approximation``, which replaces erf by tanh without a word. A model is opened
as it is deployed, and followed through the graph that the optimiser makes of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from parity.adapter import Array, Implementation, Native, Session
from parity.edits import Edit, Outcome
from parity_adapters.onnxruntime.arrays import from_numpy, to_numpy

_DISTRIBUTIONS = ("onnx", "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "numpy")
"""Distributions that the import packages ``onnx`` and ``onnxruntime`` may come from, and NumPy."""


class OnnxRuntimeAdapter:
    """The adapter object; satisfies `parity.adapter.Adapter`."""

    name = "onnxruntime"

    def versions(self) -> Mapping[str, str]:
        """Versions by distribution name; ONNX Runtime under the name of each of its distributions that is installed."""
        return _versions()

    def activations(self) -> Iterable[Implementation]:
        """Every implementation; no session is made before one is called."""
        from parity_adapters.onnxruntime.activations import implementations

        return implementations()

    def enter(self, x: Array) -> Native:
        """See `arrays.from_numpy`."""
        return from_numpy(x)

    def leave(self, native: Native) -> Array:
        """See `arrays.to_numpy`."""
        return to_numpy(native)

    def open(self, model: Any, options: Mapping[str, str]) -> Session:
        """Opens a path that ends in ``.onnx``, or an ``onnx.ModelProto``; see `session.OnnxRuntimeSession`.

        Raises:
            InputError: The model or an option is not one that ONNX Runtime takes.
        """
        from parity_adapters.onnxruntime.session import OnnxRuntimeSession

        return OnnxRuntimeSession(model, options)

    def mend(self, model: Any, edits: Sequence[Edit], file: Path) -> Sequence[Outcome]:
        """See `parity.adapter.Mender.mend`; large weights stay in files, beside the new one."""
        from parity_adapters.onnxruntime.mending import mend

        return mend(model, edits, file)


@cache
def _versions() -> Mapping[str, str]:
    names = {distribution.name.lower().replace("_", "-") for distribution in metadata.distributions()}
    return {name: metadata.version(name) for name in _DISTRIBUTIONS if name in names}


adapter = OnnxRuntimeAdapter()
