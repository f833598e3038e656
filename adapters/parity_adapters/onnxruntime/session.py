"""An ONNX model opened in ONNX Runtime, as the core sees it."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import onnx

from parity.adapter import Array, Sink, bind
from parity.dtypes import any_dtype, float_dtype
from parity.errors import InputError
from parity.graph import InputSpec, Traced
from parity_adapters.onnxruntime import blocks, regions
from parity_adapters.onnxruntime.arrays import OrtValue, from_numpy, to_numpy
from parity_adapters.onnxruntime.capture import capture
from parity_adapters.onnxruntime.evaluation import ExactEngine, NativeEngine, evaluate
from parity_adapters.onnxruntime.exact import is_float
from parity_adapters.onnxruntime.interpreter import Interpreter, Step, Value, prepare
from parity_adapters.onnxruntime.kernels import Kernels
from parity_adapters.onnxruntime.opening import Options, input_specs, own_dtype, read, without_weights
from parity_adapters.onnxruntime.origins import Origins
from parity_adapters.onnxruntime.sessions import reason, run_session
from parity_adapters.onnxruntime.weights import Weight, Weights


class OnnxRuntimeSession:
    """Satisfies `parity.adapter.Session`.

    Args:
        reference: A path that ends in ``.onnx``, or an ``onnx.ModelProto``.
        options: Of `parity.adapter.Adapter.open`.

    Raises:
        InputError: The model or an option is not one that ONNX Runtime takes.
    """

    def __init__(self, reference: Any, options: Mapping[str, str]) -> None:
        chosen = Options.parse(options)
        source = without_weights(read(reference))
        graph = source.model.graph
        _check_dtype(chosen.dtype, own_dtype(graph), source.name)
        self._specs = input_specs(graph)
        for value in graph.output:
            _check_tensor(value)
        self._production = capture(source, chosen)
        optimised = self._production.optimised
        self._opsets = {entry.domain: entry.version for entry in optimised.opset_import}
        self._weights = Weights(Path(self._production.folder.name))
        self._origins = Origins(graph, optimised.graph)
        self._body = prepare(optimised.graph, self._weights, self._origins)
        if os.name == "posix":
            # What is mapped stays readable without its name, and vanishes with the process even if that is killed.
            self._production.folder.cleanup()
        self._kernels = Kernels(
            self._opsets, ir_version=optimised.ir_version, threads=chosen.threads, config=chosen.config
        )
        self._steps: dict[str, Step] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._blocked: dict[str, int] = {}
        self._latest: tuple[bytes, dict[str, Array]] = b"", {}

    def inputs(self) -> Mapping[str, InputSpec]:
        """Specification of each input of the graph that is no initializer, in its order."""
        return self._specs

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Outputs of the production session by name.

        Raises:
            InputError: The model does not take these inputs.
        """
        feeds = self._feeds(inputs)
        outputs = self._run(feeds)
        self._latest = _digest(feeds), outputs
        return outputs

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """Runs the optimised graph node by node; notes say where its outputs are not those of production.

        Raises:
            InputError: The model does not take these inputs.
            EngineError: A node does not run alone.
        """
        feeds = self._feeds(inputs)
        digest, produced = self._latest
        self._latest = b"", {}
        if digest != _digest(feeds):
            produced = self._run(feeds)
        self._steps.clear()
        self._dtypes = {name: any_dtype(self._specs[name].dtype) for name in feeds}
        self._weights.forget_made()
        self._blocked = {}

        def emit(step: Step, made: Mapping[str, OrtValue]) -> None:
            self._steps[step.site.name] = step
            self._weights.count(step.site.inputs)
            self._blocked |= step.blocked
            arrays = {name: to_numpy(value) for name, value in made.items()}
            self._dtypes.update({name: array.dtype for name, array in arrays.items()})
            sink(step.site, {name: self._seen(name, array) for name, array in arrays.items()})

        interpreter = Interpreter(self._kernels, self._weights, self._origins, self._opsets, emit)
        made = interpreter.run(self._body, feeds)
        names = [value.name for value in self._body.graph.output]
        outputs = {name: value for name, value in zip(names, made, strict=True) if name in produced}
        return Traced(
            inputs={name: name for name in feeds},
            outputs={name: value.name for name, value in outputs.items()},
            named_outputs=True,
            notes=(*interpreter.notes(), *self._differences(produced, outputs)),
        )

    def weights(self) -> Mapping[str, Array]:
        """Initializers and constants of the optimised graph by name; each is read from its file when asked for."""
        return self._weights

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        """See `parity.adapter.Session.evaluate`.

        Raises:
            InputError: A site is unknown, or reads a tensor that is neither given nor made before.
            UnsupportedPrecisionError: A site has no exact form.
        """
        unknown = [name for name in sites if name not in self._steps]
        if unknown:
            raise InputError.unknown("site", unknown[0], self._steps)
        steps = [self._steps[name] for name in sites]
        if precision == "native":
            engine = NativeEngine(self._kernels, self._weights, self._dtypes, self._blocked)
            return evaluate(steps, given, wanted, self._weights, engine)
        self._kernels.clear()  # what they keep of weights takes as much as what is computed here
        return evaluate(steps, given, wanted, self._weights, ExactEngine(self._weights, precision))

    def save(self, sites: Sequence[str], given: Mapping[str, Array], wanted: str, folder: Path) -> None:
        """See `parity.adapter.RegionSaver.save`: an ONNX model.

        Raises:
            EngineError: A site is none of an ONNX operator.
        """
        typed = {
            name: array.astype(self._dtypes[name], copy=False)
            if name in self._dtypes and is_float(array.dtype)
            else array
            for name, array in given.items()
        }
        steps = [self._steps[name] for name in sites]
        regions.save(steps, typed, wanted, weights=self._weights, opsets=self._opsets, folder=folder)

    def close(self) -> None:
        """Frees the sessions and the files of the optimised graph."""
        self._kernels.clear()
        self._production.folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, feeds: Mapping[str, OrtValue]) -> dict[str, Array]:
        session = self._production.session
        try:
            values = run_session(session, feeds)
        except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
            raise InputError(
                f"The model does not run on these inputs: {reason(error)}", hint=f"It takes {self._signature()}."
            ) from error
        return {output.name: to_numpy(value) for output, value in zip(session.get_outputs(), values, strict=True)}

    def _differences(self, produced: Mapping[str, Array], outputs: Mapping[str, Value]) -> list[str]:
        """A sentence for each output that is not bit for bit what production made, or one on what draws numbers."""
        random = [name for name, step in self._steps.items() if step.site.kind == "random"]
        if random:
            return [f"'{random[0]}' draws random numbers: every run of this model is another."]
        notes = []
        for name, value in outputs.items():
            array = value.data.array() if isinstance(value.data, Weight) else to_numpy(value.data)
            if array.tobytes() == produced[name].tobytes():
                continue
            gap = np.abs(array.astype(np.float64) - produced[name].astype(np.float64))
            notes.append(
                f"Run node by node, the output '{name}' is not bit-equal to that of the production session: "
                f"it is up to {np.nanmax(gap, initial=0.0):.3g} away."
            )
        return notes

    def _seen(self, name: str, array: Array) -> Array:
        return blocks.unblocked(array, self._blocked[name]) if name in self._blocked else array

    def _signature(self) -> str:
        return ", ".join(f"{name}: {_shape_text(spec)} of {spec.dtype}" for name, spec in self._specs.items())

    def _feeds(self, inputs: Mapping[str, Array]) -> dict[str, OrtValue]:
        bound = bind(inputs, list(self._specs))
        missing = [name for name in self._specs if name not in bound]
        if missing:
            raise InputError(f"The input '{missing[0]}' is missing.", hint=f"The model takes {self._signature()}.")
        return {name: from_numpy(self._fitted(name, np.asarray(array))) for name, array in bound.items()}

    def _fitted(self, name: str, array: Array) -> Array:
        """The input in the type that the model takes, if that is of the same sort.

        Raises:
            InputError: It is of another sort, or shape, or its numbers do not fit.
        """
        spec = self._specs[name]
        hint = f"It takes {_shape_text(spec)} of {spec.dtype}."
        dtype = any_dtype(spec.dtype)
        if spec.shape is not None and not _fits(array.shape, spec.shape):
            raise InputError(f"The input '{name}' cannot be of shape {array.shape}.", hint=hint)
        whole = array.dtype.kind in "iu" and dtype.kind in "iu"
        if array.dtype == dtype or (is_float(array.dtype) and is_float(dtype)):
            return array.astype(dtype, copy=False)
        if not whole or not np.array_equal(array.astype(dtype), array):
            raise InputError(f"The input '{name}' cannot be of {array.dtype}.", hint=hint)
        return array.astype(dtype)


def _digest(feeds: Mapping[str, OrtValue]) -> bytes:
    """Of all that is fed, so that a production run is known to be of the same inputs as the one that is traced."""
    total = hashlib.sha256()
    for name, value in feeds.items():
        array = to_numpy(value)
        total.update(f"{name} {array.dtype.name} {array.shape} ".encode())
        total.update(array.tobytes())
    return total.digest()


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(w in (None, s) for s, w in zip(shape, wanted, strict=True))


def _shape_text(spec: InputSpec) -> str:
    return "any shape" if spec.shape is None else f"({', '.join('?' if d is None else str(d) for d in spec.shape)})"


def _check_tensor(value: onnx.ValueInfoProto) -> None:
    if not value.type.HasField("tensor_type") and value.type.WhichOneof("value"):
        raise InputError(
            f"The output '{value.name}' is a {value.type.WhichOneof('value')} and no tensor.",
            hint="Only models whose inputs and outputs are tensors can be compared.",
        )


def _check_dtype(wanted: str, own: str, name: str) -> None:
    if wanted and float_dtype(wanted).name != own:
        raise InputError(
            f"{name} cannot run in {wanted}: its graph is in {own or 'whole numbers'}.",
            hint=f"Leave that option out, or convert the model to {wanted} and name the result.",
        )
