"""Models as sessions: the production run is jitted, the traced one runs the same jaxpr primitive by primitive."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity.adapter import Array, Exported, Session, Sink, UnsupportedPrecisionError, bind, not_opened
from parity.dtypes import float_dtype
from parity.errors import InputError
from parity.graph import InputSpec, Site, Traced
from parity_adapters.jax import exporting
from parity_adapters.jax.arrays import NATIVE, cast, in_precision, is_float, room_for, to_numpy
from parity_adapters.jax.interpreter import apply, interpret
from parity_adapters.jax.opening import READS, Model, opened, told
from parity_adapters.jax.places import Place
from parity_adapters.jax.recorder import Recorder, Step, Tensor
from parity_adapters.jax.regions import save

_NAME: Final = "jax"


def open_session(model: Any, options: Mapping[str, str]) -> Session:
    """The session of a reference or a live object.

    Raises:
        InputError: It is none of this adapter's, or an option means nothing here.
    """
    found = opened(model)
    if found is None:
        raise not_opened(_NAME, str(model), READS)
    for option in options:
        if option not in ("dtype", "threads"):
            raise InputError(f"The jax adapter has no option '{option}'.", hint="It has: dtype.")
    dtype = options.get("dtype")
    if dtype and not (found.is_function or found.names):
        raise InputError(f"'{model}' is compiled for its own types.", hint="Export it in the other type.")
    return JaxSession(found, float_dtype(dtype).name if dtype else None)


@dataclass(frozen=True, slots=True)
class _Program:
    """A model made ready for inputs of certain names, shapes and dtypes.

    Attributes:
        closed: Weights and inputs to outputs.
        production: Weights and inputs to outputs and the weights that the run leaves.
        outputs: Names of the outputs.
        named: The model itself names them.
    """

    closed: core.ClosedJaxpr
    production: Callable[..., Any]
    outputs: tuple[str, ...]
    named: bool


class JaxSession(AbstractContextManager["JaxSession"]):
    """Satisfies `parity.adapter.Session`."""

    def __init__(self, model: Model, dtype: str | None) -> None:
        self._model = model
        self._dtype = dtype
        self._weights: Sequence[Any] = [
            self._cast(np.asarray(one) if not hasattr(one, "dtype") else one) for one in model.weights
        ]
        self._programs: dict[Any, _Program] = {}
        self._recorded = Recorder(_ignored, {})

    def __exit__(self, *_: object) -> None:
        self._programs.clear()

    def inputs(self) -> Mapping[str, InputSpec]:
        """What the model declares, as ``example_inputs`` of a function; nothing for most."""
        return self._model.inputs

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See `Session.run`: one call of the jitted model. What it changes of its state stays changed."""
        arrays = self._entered(inputs)
        program = self._program(arrays)
        made, left = program.production(self._weights, *arrays.values())
        self._weights = left if self._weights else self._weights
        return {name: to_numpy(one) for name, one in zip(program.outputs, jax.tree.leaves(made), strict=True)}

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """See `Session.trace`: primitive by primitive, each compiled by itself."""
        arrays = self._entered(inputs)
        program = self._program(arrays)
        recorder = Recorder(sink, self._model.named)
        weights = [recorder.weight(name, one) for name, one in zip(self._model.names, self._weights, strict=True)]
        names = {name: recorder.free(name) for name in arrays}
        tensors = [recorder.tensor(names[name], one) for name, one in arrays.items()]
        operands = recorder.run(program.closed, [*weights, *tensors], Place("", None, (), self._model.scope))
        made = [recorder.lifted(one, f"output:{name}") for name, one in zip(program.outputs, operands, strict=True)]
        recorder.read.update(one.name for one in made)
        self._recorded = recorder
        expected = jax.tree.leaves(program.production(self._weights, *arrays.values())[0])
        notes = (*_untested(recorder.branches), *_fused(program.outputs, made, expected))
        outputs = dict(zip(program.outputs, (one.name for one in made), strict=True))
        return Traced(inputs=names, outputs=outputs, named_outputs=program.named, notes=notes)

    def weights(self) -> Mapping[str, Array]:
        """See `Session.weights`: those that the latest traced run read, or made its outputs of."""
        recorded = self._recorded
        return _Weights({name: one for name, one in recorded.weights.items() if name in recorded.read})

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        """See `Session.evaluate`."""
        with room_for(precision):
            return self._evaluated([self._recorded.steps[name] for name in sites], given, wanted, precision)

    def save(self, sites: Sequence[str], given: Mapping[str, Array], wanted: str, folder: Path) -> None:
        """See `parity.adapter.RegionSaver.save`: a compiled function, with its jaxpr to be read.

        Raises:
            EngineError: JAX cannot export a site, or it reads random keys.
        """
        save([self._recorded.steps[name] for name in sites], given, wanted, self._recorded, folder)

    def targets(self) -> Mapping[str, str]:
        """See `parity.adapter.Exporter.targets`."""
        return exporting.TARGETS

    def export(self, target: str, inputs: Mapping[str, Array], folder: Path, options: Mapping[str, str]) -> Exported:
        """See `parity.adapter.Exporter.export`."""
        del target, options  # there is one, and nothing is asked of it
        arrays = self._entered(inputs)
        production, weights = self._program(arrays).production, self._weights
        return exporting.export(lambda *given: production(weights, *given)[0], list(arrays.values()), folder)

    def _evaluated(
        self, steps: Sequence[Step], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        recorded, known = self._recorded, dict[str, jax.Array]()

        def read(name: str) -> jax.Array:
            if name in known:
                return known[name]
            if name not in given and name not in recorded.weights:
                raise InputError(
                    f"Tensor '{name}' is neither given nor made by the sites.", hint="Give it, or its site."
                )
            value = given[name] if name in given else recorded.weights[name]
            return cast(value, in_precision(recorded.dtypes[name], precision))

        uses = Counter(name for step in steps for name in step.reads)
        for step in steps:
            made = [name for name in step.site.outputs if name]
            if all(name in given for name in made):
                values = {}
            else:
                values = dict(zip(step.site.outputs, _computed(step, read, precision), strict=True))
            uses.subtract(step.reads)
            known.update({name: value for name, value in values.items() if name not in given})
            for name in {*step.reads, *made}:
                if not uses[name] and name not in wanted:
                    known.pop(name, None)
        return {name: to_numpy(read(name)) for name in wanted}

    def _entered(self, inputs: Mapping[str, Array]) -> dict[str, jax.Array]:
        """Inputs under the model's own names, as arrays of JAX."""
        bound = inputs if self._model.parameters is None else bind(inputs, self._model.parameters)
        for name, one in bound.items():
            if np.asarray(one).dtype.kind in "OUSM":
                raise InputError(f"Input '{name}' is of type {np.asarray(one).dtype}.", hint="JAX takes numbers.")
        return {name: self._cast(one) for name, one in bound.items()}

    def _cast(self, x: Any) -> jax.Array:
        if self._dtype and is_float(jnp.result_type(x)):
            return cast(x, float_dtype(self._dtype))
        return x if isinstance(x, jax.Array) else jnp.asarray(x)

    def _program(self, inputs: Mapping[str, jax.Array]) -> _Program:
        key = tuple((name, one.shape, one.dtype) for name, one in inputs.items())
        if key not in self._programs:
            self._programs[key] = self._prepared(inputs)
        return self._programs[key]

    def _prepared(self, inputs: Mapping[str, jax.Array]) -> _Program:
        names, call = tuple(inputs), self._model.call

        def full(weights: Sequence[Any], *arrays: Any) -> tuple[Any, Sequence[Any]]:
            return call(weights, dict(zip(names, arrays, strict=True)))

        if self._dtype and self._model.is_function:
            full = _in_dtype(full, self._dtype)
        try:
            closed, shape = jax.make_jaxpr(lambda *args: full(*args)[0], return_shape=True)(
                self._weights, *inputs.values()
            )
        except Exception as error:
            shapes = ", ".join(f"{name}: {one.dtype}{list(one.shape)}" for name, one in inputs.items())
            raise InputError(
                f"The JAX model does not take these inputs ({shapes}): {told(error)}",
                hint="The inputs go to the function in their order.",
            ) from error
        outputs, named = _output_names(shape)
        return _Program(closed, jax.jit(full), outputs, named)


def _ignored(_: Site, __: Mapping[str, Array]) -> None:
    """A sink for nobody."""


def _computed(step: Step, read: Callable[[str], jax.Array], precision: str) -> list[Any]:
    """Outputs of one site.

    Raises:
        UnsupportedPrecisionError: JAX has no such kernel in that precision.
    """
    inputs = [read(name) for name in step.reads]
    if precision == NATIVE:
        return apply(step.equation, inputs, precision)
    try:
        return apply(step.equation, inputs, precision)
    except Exception as error:
        raise UnsupportedPrecisionError(
            f"{step.site.name}: JAX's {step.site.op} has no kernel in {precision} ({told(error)}).",
            hint="Its region is compared in the model's own precision alone.",
        ) from error


def _in_dtype(full: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    """``full`` with every float32 in it, constants and casts included, turned to ``dtype``."""

    def turned(weights: Sequence[Any], *arrays: Any) -> Any:
        wide = [jax.ShapeDtypeStruct(one.shape, np.float32 if is_float(one.dtype) else one.dtype) for one in arrays]
        closed, shape = jax.make_jaxpr(full, return_shape=True)(weights, *wide)
        return jax.tree.unflatten(jax.tree.structure(shape), interpret(closed, arrays, dtype))

    return turned


def _output_names(shape: Any) -> tuple[tuple[str, ...], bool]:
    """Names of a model's outputs: the keys of a dictionary or the fields of a class, numbers otherwise."""
    paths = [path for path, _ in jax.tree.flatten_with_path(shape)[0]]
    if not paths or not all(path and not isinstance(path[0], jax.tree_util.SequenceKey) for path in paths):
        return tuple(str(number) for number in range(len(paths))), False
    return tuple(jax.tree_util.keystr(path, simple=True, separator=".") for path in paths), True


def _untested(branches: Mapping[tuple[str, int], set[int]]) -> Iterator[str]:
    """What to say of branches that these inputs did not take."""
    for (where, count), taken in branches.items():
        if left := sorted(set(range(count)) - taken):
            numbers = ", ".join(map(str, left))
            yield f"Of the {count} branches at {where} these inputs never took number {numbers}: untested."


def _fused(names: Sequence[str], traced: Sequence[Tensor], expected: Sequence[Any]) -> Iterator[str]:
    """What to say where the compiled whole gives other bits than its primitives one by one."""
    pairs = [(to_numpy(one.value), to_numpy(other)) for one, other in zip(traced, expected, strict=True)]
    apart = {
        name: _apart(*pair) for name, pair in zip(names, pairs, strict=True) if pair[0].tobytes() != pair[1].tobytes()
    }
    if apart:
        name = max(apart, key=lambda one: apart[one])
        yield (
            "The production run compiles the whole and fuses operators; it was traced operator by operator. Output"
            f" '{name}' is {apart[name]:.1e} of its largest value apart in the two."
        )


def _apart(a: Array, b: Array) -> float:
    """Largest difference of two arrays over their largest value, as far as they are finite."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    size = float(np.max(np.abs(b[both]), initial=0.0))
    return float(np.max(np.abs(a - b)[both], initial=0.0)) / (size or 1.0)


class _Weights(Mapping[str, Array]):
    """Weights by name, each one read when it is asked for."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return to_numpy(self._arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
