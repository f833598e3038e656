"""One operator call of a TFLite model, run alone: by the interpreter, or in another precision by TensorFlow."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity.adapter import Array, UnsupportedPrecisionError
from parity.graph import Site
from parity_adapters.tensorflow.arrays import from_numpy, to_numpy
from parity_adapters.tensorflow.calls import NATIVE, cast
from parity_adapters.tensorflow.lite_exact import EXACT, MOVING
from parity_adapters.tensorflow.lite_file import Graph, Operator, single
from parity_adapters.tensorflow.runtime import tf


def interpreter(content: bytes, threads: int | None, *, delegates: bool = True) -> Any:
    """An interpreter.

    Args:
        content: A TFLite file.
        threads: How many it may use; None for its own default.
        delegates: With the delegates that it has as deployed.
    """
    resolvers = tf.lite.experimental.OpResolverType
    resolver = resolvers.AUTO if delegates else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with warnings.catch_warnings():
        # TensorFlow announces since 2.19 that the interpreter moves to the package ai_edge_litert.
        warnings.filterwarnings("ignore", message=r"\s*Warning: tf\.lite\.Interpreter is deprecated")
        return tf.lite.Interpreter(model_content=content, num_threads=threads, experimental_op_resolver_type=resolver)


@dataclass(frozen=True, slots=True)
class LiteCall:
    """What it takes to run a site again.

    Attributes:
        site: The site; its inputs name the tensors, "" for an absent one.
        graph: The graph that the operator is in.
        operator: The operator.
        threads: See `interpreter`.
    """

    site: Site
    graph: Graph
    operator: Operator
    threads: int | None

    def run(self, inputs: Sequence[Array | None], changed: Sequence[int], precision: str) -> list[Array]:
        """Runs the operator.

        Args:
            inputs: One for each of the operator's; None for an absent one.
            changed: Places of inputs that are constants in the file, but other numbers here.
            precision: As `parity.adapter.Session.evaluate` says.

        Raises:
            UnsupportedPrecisionError: It cannot be computed in ``precision``.
        """
        if precision == NATIVE or self.site.kind == "random":
            return [_in_precision(array, precision) for array in alone(self, inputs, changed)]
        dtype = tf.as_dtype(precision)
        op = self.operator.op
        if op == "DEQUANTIZE":
            return [self._dequantized(inputs[0], self.operator.inputs[0], dtype)]
        if op == "QUANTIZE" and self.graph.quantization(self.operator.inputs[0]) is None:
            return [self._quantized(inputs[0], self.graph.quantization(self.operator.outputs[0]))]
        if op == "CAST":
            return [self._cast(inputs[0], dtype)]
        if op not in EXACT or (op not in MOVING and self._on_integers()):
            raise UnsupportedPrecisionError(
                f"TFLite's {op} cannot be computed in {precision} (at {self.site.name})"
                f"{': it works on quantised numbers' if op in EXACT else ''}."
            )
        tensors = [self._entered(array, place, dtype) for place, array in enumerate(inputs)]
        try:
            return [to_numpy(cast(tensor, dtype)) for tensor in EXACT[op](tensors, self.operator.options)]
        except (tf.errors.OpError, ValueError) as error:
            line = (str(error).splitlines() or [""])[0]
            raise UnsupportedPrecisionError(
                f"TFLite's {op} cannot be computed in {precision} (at {self.site.name}): {line}"
            ) from error

    def _on_integers(self) -> bool:
        """Whether it makes quantised numbers, or works on such that are no constants."""
        computed = [number for number in self.operator.inputs if number >= 0 and not self.graph.stored(number)]
        return any(self.graph.quantization(number) is not None for number in (*computed, *self.operator.outputs))

    def _entered(self, array: Array | None, place: int, dtype: Any) -> Any:
        if array is None:
            return None
        number = self.operator.inputs[place]
        if self.operator.op not in MOVING and self.graph.quantization(number) is not None:
            return from_numpy(self._dequantized(array, number, dtype))
        return cast(from_numpy(array), dtype)

    def _dequantized(self, array: Any, number: int, dtype: Any) -> Array:
        wide = array.astype(np.float64)
        found = self.graph.quantization(number)
        if found is not None and array.dtype.kind in "iu":
            scales, zeros = _along(found, array.ndim)
            wide = (wide - zeros) * scales
        return to_numpy(tf.cast(from_numpy(wide), dtype))

    def _quantized(self, array: Any, found: Any) -> Array:
        scales, zeros = _along(found, array.ndim)
        limits = np.iinfo(self.graph.dtype(self.operator.outputs[0]))
        rounded = np.round(array.astype(np.float64) / scales) + zeros
        quantized: Array = np.clip(rounded, limits.min, limits.max).astype(limits.dtype)
        return quantized

    def _cast(self, array: Any, dtype: Any) -> Array:
        wanted = tf.as_dtype(self.graph.dtype(self.operator.outputs[0]))
        return to_numpy(cast(tf.cast(cast(from_numpy(array), dtype), dtype if wanted.is_floating else wanted), dtype))


def _along(found: tuple[Array, Array, int], rank: int) -> tuple[Array, Array]:
    """Scales and zero points in a shape that broadcasts over the quantised axis."""
    scales, zeros, axis = found
    if len(scales) == 1:
        return scales[0], zeros[0]
    shape = [-1 if place == axis else 1 for place in range(rank)]
    return scales.reshape(shape), zeros.reshape(shape)


def _in_precision(array: Array, precision: str) -> Array:
    return array if precision == NATIVE else to_numpy(cast(from_numpy(array), tf.as_dtype(precision)))


def alone(call: LiteCall, inputs: Sequence[Array | None], changed: Sequence[int]) -> list[Array]:
    """The outputs of an operator run by an interpreter of its own. Arguments as those of `LiteCall.run`."""
    graph, operator = call.graph, call.operator
    fed: dict[int, Array] = {}
    constants: dict[int, Array] = {}
    for place, (number, array) in enumerate(zip(operator.inputs, inputs, strict=True)):
        if array is None:
            continue
        if not graph.stored(number):
            fed[number] = array
        elif place in changed:
            constants[number] = array
    content = single(graph, operator, {number: array.shape for number, array in fed.items()}, constants)
    try:
        return _invoked(interpreter(content, call.threads), list(fed.values()))
    except RuntimeError:  # XNNPACK refuses some operators by themselves, such as one that reads constants alone
        return _invoked(interpreter(content, call.threads, delegates=False), list(fed.values()))


def _invoked(engine: Any, inputs: Sequence[Array]) -> list[Array]:
    engine.allocate_tensors()
    for detail, array in zip(engine.get_input_details(), inputs, strict=True):
        engine.set_tensor(detail["index"], array)
    engine.invoke()
    return [_read(engine, detail) for detail in engine.get_output_details()]


def _read(engine: Any, detail: Mapping[str, Any]) -> Array:
    """A copy of an output; the interpreter gives none that is empty."""
    if 0 in detail["shape"]:
        return np.zeros(detail["shape"], detail["dtype"])
    return np.array(engine.get_tensor(detail["index"]))
