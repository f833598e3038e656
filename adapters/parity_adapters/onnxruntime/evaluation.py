"""Some of the traced calls made again on given numbers, natively or in a precision that no kernel has."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from parity.adapter import Array
from parity.dtypes import float_dtype
from parity.errors import InputError
from parity_adapters.onnxruntime import blocks
from parity_adapters.onnxruntime.arrays import from_numpy, to_numpy
from parity_adapters.onnxruntime.exact import LOOKUPS, compute, is_float
from parity_adapters.onnxruntime.interpreter import Step, execute
from parity_adapters.onnxruntime.kernels import Kernels
from parity_adapters.onnxruntime.weights import Weights


class Engine(Protocol):
    """What runs one call; its tensors are its own."""

    def enter(self, name: str, array: Array) -> Any:
        """A given array as what `run` takes."""

    def weight(self, name: str) -> Any:
        """A weight as what `run` takes."""

    def table(self, name: str) -> Any:
        """Likewise of one in which rows are looked up."""

    def run(self, step: Step, operands: Sequence[Any]) -> Sequence[Any]:
        """Outputs of one call."""

    def leave(self, name: str, value: Any) -> Array:
        """What `run` returned, or `enter`, as an array."""


def evaluate(
    steps: Sequence[Step], given: Mapping[str, Array], wanted: Sequence[str], weights: Weights, engine: Engine
) -> dict[str, Array]:
    """The tensors ``wanted``; see `parity.adapter.Session.evaluate`.

    Raises:
        InputError: A call reads a tensor that is neither given nor made before.
    """
    values = {name: engine.enter(name, array) for name, array in given.items()}
    steps = [step for step in steps if not all(name in given for name in step.site.outputs if name)]
    last = {name: i for i, step in enumerate(steps) for name in (*step.site.inputs, *step.site.outputs)}
    found: dict[str, Array] = {}
    for i, step in enumerate(steps):
        weight = engine.table if step.node.op_type in LOOKUPS else engine.weight
        operands = [_operand(step, name, values, weights, weight) for name in step.site.inputs]
        made = engine.run(step, operands)
        values.update({n: v for n, v in zip(step.site.outputs, made, strict=True) if n and n not in given})
        _release(values, (name for name in (*step.site.inputs, *step.site.outputs) if last[name] == i), wanted)
    for name in wanted:
        if name not in values and name not in weights:
            raise InputError(f"The tensor '{name}' is made by none of the sites.", hint="Name the site that makes it.")
        value = values[name] if name in values else engine.weight(name)
        found[name] = engine.leave(name, value)
    return found


def _operand(step: Step, name: str, values: Mapping[str, Any], weights: Weights, weight: Callable[[str], Any]) -> Any:
    if not name:
        return None
    if name in values:
        return values[name]
    if name in weights:
        return weight(name)
    raise InputError(
        f"The site '{step.site.name}' reads '{name}', which is neither given nor made before.",
        hint="Give that tensor, or the site that makes it.",
    )


def _release(values: dict[str, Any], names: Iterable[str], wanted: Sequence[str]) -> None:
    for name in names:
        if name not in wanted:
            values.pop(name, None)


class NativeEngine:
    """Production's kernels on the types that the traced tensors had.

    Args:
        kernels: What runs a node.
        weights: Of the model.
        dtypes: Of each traced tensor.
        blocked: The tensors in blocked layout, and how many channels each really has.
    """

    def __init__(
        self, kernels: Kernels, weights: Weights, dtypes: Mapping[str, np.dtype[Any]], blocked: Mapping[str, int]
    ) -> None:
        self._kernels = kernels
        self._weights = weights
        self._dtypes = dtypes
        self._blocked = blocked

    def enter(self, name: str, array: Array) -> Any:
        """An `OrtValue`, or a weight to stand in the place of one."""
        if self._weights.weight(name):
            return self._weights.replaced(name, array)
        dtype = self._dtypes.get(name)
        if dtype is not None and is_float(array.dtype) == is_float(dtype):  # the other side may count in other bits
            array = array.astype(dtype, copy=False)
        return from_numpy(blocks.blocked(array) if name in self._blocked else array)

    def weight(self, name: str) -> Any:
        """The initializer; an `OrtValue` for a number that the run made."""
        return self._weights.weight(name) or from_numpy(self._weights[name])

    table = weight

    def run(self, step: Step, operands: Sequence[Any]) -> Sequence[Any]:
        """Outputs as `OrtValue`."""
        return execute(self._kernels, step.node, step.opset, operands)

    def leave(self, name: str, value: Any) -> Array:
        """An array in the type that the kernel returned."""
        if not hasattr(value, "numpy"):
            return self._weights.shown(name, value)
        array = to_numpy(value)
        return blocks.unblocked(array, self._blocked[name]) if name in self._blocked else array


class ExactEngine:
    """NumPy in one floating-point type throughout.

    Args:
        weights: Of the model.
        precision: Its name.
    """

    def __init__(self, weights: Weights, precision: str) -> None:
        self._weights = weights
        self._dtype = float_dtype(precision)

    def enter(self, name: str, array: Array) -> Array:  # noqa: ARG002 – the protocol's signature
        """The array, in that type if it is of floating-point numbers."""
        return array.astype(self._dtype, copy=False) if is_float(array.dtype) else array

    def weight(self, name: str) -> Array:
        """The weight likewise."""
        return self.enter(name, self._weights[name])

    def table(self, name: str) -> Array:
        """The weight as it is, of which a few rows are to be taken."""
        return self._weights[name]

    def run(self, step: Step, operands: Sequence[Array | None]) -> Sequence[Array | None]:
        """Outputs as arrays.

        Raises:
            UnsupportedPrecisionError: There is no such operator in NumPy here.
        """
        return compute(step.node, step.opset, operands, self._dtype)

    def leave(self, name: str, value: Array) -> Array:  # noqa: ARG002 – the protocol's signature
        """The array itself."""
        return value
