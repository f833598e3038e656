"""The ways TensorFlow runs a call: eagerly, as a graph, compiled by XLA, or loaded from a SavedModel."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryDirectory
from typing import Final

from parity.dtypes import FLOAT_DTYPES
from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.runtime import tf

Call = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Run:
    """One call made ready to run one way: its value, and its derivative in the same way."""

    function: Call
    gradient: Call


def gradient_of(call: Call) -> Call:
    """Derivative of an elementwise (or, for gated variants, rowwise) ``call``, of the shape of its input."""

    def gradient(x: Tensor) -> Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
        return tape.gradient(y, x)

    return gradient


def eager(call: Call) -> Run:
    """Operator by operator, as typed."""
    return Run(call, gradient_of(call))


def graph(call: Call) -> Run:
    """Inside ``tf.function``: one graph a shape and dtype, rewritten by Grappler."""
    return _traced(call, jit_compile=False)


def xla(call: Call) -> Run:
    """Inside ``tf.function(jit_compile=True)``: fused by XLA, the derivative too."""
    return _traced(call, jit_compile=True)


def _traced(call: Call, *, jit_compile: bool) -> Run:
    # Without autograph: the calls hold no Python control flow, and it logs a warning when it cannot find a source.
    def trace(python_function: Call) -> Call:
        traced: Call = tf.function(python_function, jit_compile=jit_compile, autograph=False)
        return traced

    return Run(trace(call), trace(gradient_of(call)))


def saved_model(call: Call) -> Run:
    """Saved as a SavedModel of dynamic input length and loaded again, on first use."""

    @cache
    def loaded() -> Call:
        module = tf.Module()
        module.function = tf.function(call, autograph=False)
        for dtype in FLOAT_DTYPES:
            module.function.get_concrete_function(tf.TensorSpec([None], tf.as_dtype(dtype)))
        with TemporaryDirectory(prefix="parity-saved-model-") as folder:
            tf.saved_model.save(module, folder)
            restored: Call = tf.saved_model.load(folder).function
        return restored

    def function(x: Tensor) -> Tensor:
        return loaded()(x)

    return Run(function, gradient_of(function))


MODES: Final[dict[str, Callable[[Call], Run]]] = {
    "": eager,
    "tf.function": graph,
    "xla": xla,
    "saved_model": saved_model,
}
"""How it was run, as it stands in an implementation's name, to the way to run it."""
