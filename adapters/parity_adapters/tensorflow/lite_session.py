"""The session of a TFLite file: production is the interpreter as deployed, the trace one interpreter an operator."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from parity.adapter import Array, Session, Sink
from parity.dtypes import any_dtype
from parity.errors import InputError
from parity.graph import InputSpec, Traced
from parity_adapters.tensorflow.calls import NATIVE
from parity_adapters.tensorflow.fitting import distance, fitted
from parity_adapters.tensorflow.lite_calls import LiteCall, interpreter
from parity_adapters.tensorflow.lite_file import LiteFile
from parity_adapters.tensorflow.lite_walk import LiteValue, LiteWalk


class LiteSession(Session):
    """See `parity.adapter.Session`.

    Args:
        path: Of the file.
        threads: How many threads interpreters may use; None for their own default.

    Raises:
        InputError: It is no TFLite file, or one that the interpreter refuses.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        self._file = LiteFile(path)
        self._threads = threads
        self._calls: dict[str, LiteCall] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._weights: dict[str, Array] = {}
        try:
            self._engine = interpreter(self._file.content, threads)
        except (ValueError, RuntimeError) as error:
            raise _refused(f"The interpreter refuses '{path}'", error) from error
        main = self._file.graphs[0]
        entries, ends = self._file.signature()
        self._entries = {entries.get(number, main.name(number)): number for number in main.inputs}
        self._named = bool(ends) and not all(name.startswith("output_") for name in ends.values())
        self._ends = {
            ends[number] if self._named and number in ends else str(place): number
            for place, number in enumerate(main.outputs)
        }

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._calls, self._weights = {}, {}

    def inputs(self) -> Mapping[str, InputSpec]:
        """Under the names of the signature where there is one, of the tensors otherwise."""
        main = self._file.graphs[0]
        return {
            name: InputSpec(dtype=main.dtype(number), shape=main.shape(number))
            for name, number in self._entries.items()
        }

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See `Session`; the interpreter with its default delegates, as deployed."""
        arrays = fitted(inputs, self.inputs())
        try:
            return self._produced(arrays)
        except (ValueError, RuntimeError) as error:
            raise _refused("The TFLite model does not run on these inputs", error) from error

    def _produced(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        engine = self._engine
        shapes = {detail["index"]: tuple(detail["shape"]) for detail in engine.get_input_details()}
        for name, number in self._entries.items():
            if shapes[number] != arrays[name].shape:
                engine.resize_tensor_input(number, arrays[name].shape)
        engine.allocate_tensors()
        engine.reset_all_variables()
        for name, number in self._entries.items():
            engine.set_tensor(number, arrays[name])
        engine.invoke()
        return {name: np.array(engine.get_tensor(number)) for name, number in self._ends.items()}

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """See `Session`; each operator in an interpreter of its own, with the delegates of production."""
        produced = self.run(inputs)
        arrays = fitted(inputs, self.inputs())
        self._calls, self._weights = {}, {}
        self._dtypes = {name: array.dtype for name, array in arrays.items()}

        def tell(call: LiteCall, read: Sequence[LiteValue], made: Sequence[LiteValue]) -> None:
            self._calls[call.site.name] = call
            self._register([*read, *made])
            sink(call.site, {value.name: value.array for value in made if value.name and value.array is not None})

        walk = LiteWalk(self._file, self._threads, list(arrays), tell)
        values = [LiteValue(array, name) for name, array in arrays.items()]
        try:
            ends = walk.run(self._file.graphs[0], values)
        except (ValueError, RuntimeError) as error:
            raise _refused("The TFLite model does not run operator by operator", error) from error
        self._register(ends)
        notes = walk.notes()
        if not any(call.site.kind == "random" for call in self._calls.values()):
            reached = {name: end.array for name, end in zip(self._ends, ends, strict=True) if end.array is not None}
            notes += distance(produced, reached, "TFLite runs the model as a whole; it")
        return Traced(
            inputs={name: name for name in arrays},
            outputs={name: end.name for name, end in zip(self._ends, ends, strict=True)},
            named_outputs=self._named,
            notes=notes,
        )

    def _register(self, values: Sequence[LiteValue]) -> None:
        for value in values:
            if value.name and value.array is not None:
                self._dtypes[value.name] = value.array.dtype
                if value.weight:
                    self._weights[value.name] = value.array

    def weights(self) -> Mapping[str, Array]:
        """See `Session`; the constants of the file."""
        return self._weights

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        """See `Session`."""
        unknown = [name for name in sites if name not in self._calls]
        if unknown:
            raise InputError.unknown("site", unknown[0], self._calls)
        calls = [self._calls[name] for name in sites]
        calls = [call for call in calls if not all(name in given for name in call.site.outputs if name)]
        uses = Counter(name for call in calls for name in {*call.site.inputs})
        uses.update(wanted)
        held: dict[str, Array] = {}
        for call in calls:
            inputs = [self._read(name, held, given, precision) if name else None for name in call.site.inputs]
            changed = [place for place, name in enumerate(call.site.inputs) if name in given]
            for name in {*call.site.inputs}:
                uses[name] -= 1
                if not uses[name]:
                    held.pop(name, None)
            made = call.run(inputs, changed, precision)
            held.update({n: a for n, a in zip(call.site.outputs, made, strict=True) if uses[n] and n not in given})
        return {name: self._read(name, held, given, precision) for name in wanted}

    def _read(self, name: str, held: Mapping[str, Array], given: Mapping[str, Array], precision: str) -> Array:
        if name in held:
            return held[name]
        if name not in given and name not in self._weights:
            raise InputError(f"The tensor '{name}' is needed and neither given nor made by these sites.")
        array = np.asarray(given[name]) if name in given else self._weights[name]
        own = self._dtypes.get(name, array.dtype)
        if precision != NATIVE and own.kind in "fV":
            return array.astype(any_dtype(precision))
        return array.astype(own, copy=False)


def _refused(what: str, error: Exception) -> InputError:
    line = (str(error).splitlines() or [""])[0]
    return InputError(
        f"{what}: {line}", hint="Check shapes and dtypes of the inputs, and that TensorFlow runs the file."
    )
