"""TensorFlow Lite: a call converted in memory and run by the interpreter."""

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from parity.adapter import Array
from parity_adapters.tensorflow.modes import Call
from parity_adapters.tensorflow.runtime import tf


def tflite(call: Call, *, delegate: bool) -> Callable[[Array], Array]:
    """Float32 arrays of shape (n,) through ``call`` as a TFLite model.

    A model has a fixed input length, because XNNPACK takes no part of a graph with dynamic shapes. It is
    converted when a length first comes. Only float32: the converter has no float16 or float64 kernels for the
    operators of GELU ("op is neither a custom op nor a flex op", TensorFlow 2.21).

    Args:
        call: Elementwise function of one tensor.
        delegate: True for the interpreter as deployed, which hands the graph to XNNPACK; False for its own kernels.
    """
    model = tf.Module()
    model.function = tf.function(call, autograph=False)

    @lru_cache(maxsize=1)
    def interpreter(length: int) -> Any:
        concrete = model.function.get_concrete_function(tf.TensorSpec([length], tf.float32))
        converted = tf.lite.TFLiteConverter.from_concrete_functions([concrete], model).convert()
        resolver = tf.lite.experimental.OpResolverType
        with warnings.catch_warnings():
            # TensorFlow announces since 2.19 that the interpreter moves to the package ai_edge_litert; until it has
            # gone, it is the one that comes with TensorFlow.
            warnings.filterwarnings("ignore", message=r"\s*Warning: tf\.lite\.Interpreter is deprecated")
            made = tf.lite.Interpreter(
                model_content=converted,
                experimental_op_resolver_type=resolver.AUTO if delegate else resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
        made.allocate_tensors()
        return made

    def run(x: Array) -> Array:
        ready = interpreter(len(x))
        ready.set_tensor(ready.get_input_details()[0]["index"], x)
        ready.invoke()
        y: Array = ready.get_tensor(ready.get_output_details()[0]["index"])
        return y

    return run
