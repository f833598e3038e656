"""The session of a TensorFlow graph: a signature, a function or a Keras model, operator by operator."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from parity.adapter import Array, Exported, Session, Sink
from parity.errors import InputError, ParityError
from parity.graph import InputSpec, Traced
from parity_adapters.tensorflow import exporting
from parity_adapters.tensorflow.arrays import Tensor, from_numpy, to_numpy
from parity_adapters.tensorflow.calls import Call, cast
from parity_adapters.tensorflow.evaluation import Evaluation, Reader
from parity_adapters.tensorflow.fitting import distance, fitted
from parity_adapters.tensorflow.models import Model, output_names
from parity_adapters.tensorflow.naming import Naming
from parity_adapters.tensorflow.plan import Plan
from parity_adapters.tensorflow.runtime import tf
from parity_adapters.tensorflow.values import Held, Value
from parity_adapters.tensorflow.walk import Place, Walk, has_numbers, is_static


class Weights(Mapping[str, Array]):
    """Variables and constants by name, each read when it is asked for."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers

    def __getitem__(self, name: str) -> Array:
        return to_numpy(self._readers[name]())

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


class GraphSession(Session):
    """See `parity.adapter.Session`; production is the model's own call, the trace runs its graph operator by operator.

    Args:
        model: The opened model.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._plans: dict[int, Plan] = {}
        self._calls: dict[str, Call] = {}
        self._dtypes: dict[str, Any] = {}
        self._readers: dict[str, Reader] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._calls, self._plans, self._readers = {}, {}, {}

    def inputs(self) -> Mapping[str, InputSpec]:
        """Those of the signature or of the Keras model; empty for functions."""
        return self._model.specs

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See `Session`."""
        return self._produced(self._entered(inputs))

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """See `Session`; functions are entered, loops told of step by step."""
        tensors = self._entered(inputs)
        with _refusals("cannot be made a graph for these inputs"):
            concrete = self._model.concrete(list(tensors.values()))
        self._calls, self._readers = {}, {}
        self._dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
        handles = {id(variable.handle): variable.name.partition(":")[0] for variable in concrete.variables}
        handles.update(self._model.paths())
        naming = Naming(handles, self._model.layers, self._model.sources, list(tensors))

        def tell(call: Call, read: Sequence[Value], made: Sequence[Value]) -> None:
            self._calls[call.site.name] = call
            self._register([*read, *made])
            sink(call.site, {value.name: to_numpy(value.tensor) for value in made if value.name})

        walk = Walk(naming, tell, self._plans)
        with _refusals("does not run operator by operator"):
            ends = walk.run(concrete.graph, _arguments(concrete, tensors, naming), Place())
        self._readers.update({name: partial(_same, tensor) for name, tensor in walk.kept.items()})
        produced = self._produced(tensors)
        names, named = output_names(concrete.structured_outputs)
        outputs = {name: self._ended(name, end) for name, end in zip(names, ends, strict=True)}
        notes = walk.finish()
        if not any(call.site.kind == "random" for call in self._calls.values()):
            arrays = {name: to_numpy(value.tensor) for name, value in outputs.items()}
            notes += distance(produced, arrays, "TensorFlow optimises the graph and fuses operators; this")
        told = {name: value.name for name, value in outputs.items()}
        return Traced(inputs={name: name for name in tensors}, outputs=told, named_outputs=named, notes=notes)

    def weights(self) -> Mapping[str, Array]:
        """See `Session`."""
        return Weights(self._readers)

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        """See `Session`."""
        unknown = [name for name in sites if name not in self._calls]
        if unknown:
            raise InputError.unknown("site", unknown[0], self._calls)
        evaluation = Evaluation(self._readers, self._dtypes, precision)
        return evaluation.run([self._calls[name] for name in sites], given, wanted)

    def targets(self) -> Mapping[str, str]:
        """See `parity.adapter.Exporter.targets`."""
        return exporting.TARGETS

    def export(self, target: str, inputs: Mapping[str, Array], folder: Path, options: Mapping[str, str]) -> Exported:
        """See `parity.adapter.Exporter.export`."""
        del options  # nothing is asked of these forms
        return exporting.export(self._model, list(self._entered(inputs).values()), target, folder)

    def _produced(self, tensors: Mapping[str, Tensor]) -> dict[str, Array]:
        with _refusals("does not run on these inputs"):
            structure = self._model.call(list(tensors.values()))
            leaves = tf.nest.flatten(structure, expand_composites=True)
            arrays = [to_numpy(tf.convert_to_tensor(leaf)) for leaf in leaves]
        return dict(zip(output_names(structure)[0], arrays, strict=True))

    def _entered(self, inputs: Mapping[str, Array]) -> dict[str, Tensor]:
        """The inputs as tensors under the model's names, in call order, in the dtypes that it takes."""
        specs = self._model.specs
        if specs:
            inputs = fitted(inputs, specs)
        tensors = {name: from_numpy(array) for name, array in inputs.items()}
        if self._model.dtype is None:
            return tensors
        dtype = tf.as_dtype(self._model.dtype)
        return {name: cast(tensor, dtype) for name, tensor in tensors.items()}

    def _register(self, values: Sequence[Value]) -> None:
        for value in values:
            if value.name:
                self._dtypes[value.name] = value.tensor.dtype
                if value.read is not None:
                    self._readers[value.name] = value.read

    def _ended(self, name: str, end: Held) -> Value:
        if not isinstance(end, Value) or not end.name:
            raise InputError(f"The model's output '{name}' holds no numbers.", hint="Name a signature without it.")
        self._register([end])
        return end


def _arguments(concrete: Any, tensors: Mapping[str, Tensor], naming: Naming) -> list[Held]:
    """Values for the inputs of a function's graph: the given ones, then those that it captured."""
    values = [Value(tensor, name) for name, tensor in tensors.items()]
    for tensor, inside in zip(concrete.captured_inputs, concrete.graph.inputs[len(values) :], strict=True):
        values.append(_captured(tensor, inside.op.name, naming))
    return list(values)


def _captured(tensor: Tensor, name: str, naming: Naming) -> Value:
    """A tensor from outside of the function: a weight if it has numbers."""
    if not has_numbers(tensor):
        return Value(tensor)
    return Value(tensor, naming.weight(name), lambda: tensor, static=is_static(tensor))


def _same(tensor: Tensor) -> Tensor:
    return tensor


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Turns what TensorFlow or the user's code raises into an `InputError`: "The model `what`: …"."""
    try:
        yield
    except ParityError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        line = lines[-1] if lines[0] == "in user code:" else lines[0]
        raise InputError(
            f"The model {what}: {type(error).__name__}: {line}", hint="Check shapes and dtypes of the inputs."
        ) from error
