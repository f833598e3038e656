"""Runs calls of a trace again, in any precision, on given numbers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parity.adapter import Array
from parity.errors import InputError
from parity_adapters.tensorflow.arrays import Tensor, from_numpy, to_numpy
from parity_adapters.tensorflow.calls import NATIVE, Call, cast
from parity_adapters.tensorflow.runtime import tf

Reader = Callable[[], Tensor]


class Evaluation:
    """One evaluation; tensors are let go of after they were read for the last time.

    Args:
        readers: Makes each weight.
        dtypes: The ``tf.DType`` of each tensor in the trace.
        precision: As `parity.adapter.Session.evaluate` says.
    """

    def __init__(self, readers: Mapping[str, Reader], dtypes: Mapping[str, Any], precision: str) -> None:
        self._readers = readers
        self._dtypes = dtypes
        self._precision = precision

    def run(self, calls: Sequence[Call], given: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """The tensors ``wanted`` after all the ``calls`` whose outputs are not all ``given``.

        Raises:
            InputError: A tensor is read that is neither given nor made nor a weight.
            UnsupportedPrecisionError: See `Call.run`.
        """
        calls = [call for call in calls if not all(name in given for name in call.site.outputs if name)]
        uses = Counter(name for call in calls for name in {*call.site.inputs} if name)
        uses.update(wanted)
        held: dict[str, Tensor] = {}
        for call in calls:
            inputs = [self._read(name, held, given) if name else None for name in call.site.inputs]
            for name in {*call.site.inputs}:
                uses[name] -= 1
                if not uses[name]:
                    held.pop(name, None)
            made = call.run(inputs, self._precision)
            held.update({n: t for n, t in zip(call.site.outputs, made, strict=False) if uses[n] and n not in given})
        return {name: to_numpy(self._read(name, held, given)) for name in wanted}

    def _read(self, name: str, held: Mapping[str, Tensor], given: Mapping[str, Array]) -> Tensor:
        if name in held:
            return held[name]
        if name in given:
            return self._entered(name, from_numpy(given[name]))
        if name not in self._readers:
            raise InputError(f"The tensor '{name}' is needed and neither given nor made by these sites.")
        return self._in_precision(self._readers[name]())

    def _entered(self, name: str, tensor: Tensor) -> Tensor:
        own = self._dtypes.get(name, tensor.dtype)
        if own.is_floating and tensor.dtype.is_floating and self._precision != NATIVE:
            return self._in_precision(tensor)
        return self._in_precision(tensor if tensor.dtype == own else tf.cast(tensor, own))

    def _in_precision(self, tensor: Tensor) -> Tensor:
        return tensor if self._precision == NATIVE else cast(tensor, tf.as_dtype(self._precision))
