"""The seam between the core and the frameworks.

The core knows frameworks only through the types in this module. An adapter is an object that satisfies
`Adapter`; it is found through the entry-point group ``parity.adapters`` and is only ever loaded inside a
worker process of its own (`parity.worker`), so that a framework that crashes, hangs or prints cannot take
the user's process with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from parity.discovery import discover
from parity.edits import Edit, Outcome
from parity.errors import EngineError, InputError
from parity.functions import Variant
from parity.graph import InputSpec, Site, Traced

Array = NDArray[Any]
"""A NumPy array of one of `parity.dtypes.FLOAT_DTYPES`."""

Native = Any
"""A tensor of the framework itself; the core hands it on and never looks inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One framework's callable that computes a variant.

    The three callables are apart so that a timing can leave the conversions out. ``leave(function(enter(x)))``
    maps a NumPy array to a NumPy array of the same length.

    Attributes:
        name: The call as a user types it, explicit flags in brackets, how it was run in parentheses, as in
            ``torch.nn.functional.gelu[approximate=tanh] (compile)``. Unique within the adapter.
        variant: The variant that its documentation or its name declares.
        dtypes: Names from `parity.dtypes.FLOAT_DTYPES` that the framework accepts here.
        enter: NumPy array of shape (n,) – (n, 2) for gated variants, value then gate – to a native tensor of its dtype.
        function: The call under test, native tensor to native tensor; waits for asynchronous work.
        leave: Native tensor to NumPy array of shape (n,), in the dtype that the framework returned.
        gradient: Native input to the native derivative of the output by the input, one number an element;
            None where the framework has no gradients. For gated variants: of shape (n, 2).
        accuracy: How far the result may honestly be from the exact one; ``exact`` (rounded once), ``kernel`` (one
            fused kernel that computes in float32 or wider) or ``composed`` (a chain of operators that each round).
        default_of: Where this is the API's no-flag call: the bare name it goes by, lower case without
            underscores (``gelu``, ``hardsigmoid``), so that defaults of the same name can be set side by side.
    """

    name: str
    variant: Variant
    dtypes: tuple[str, ...]
    enter: Callable[[Array], Native]
    function: Callable[[Native], Native]
    leave: Callable[[Native], Array]
    gradient: Callable[[Native], Native] | None = None
    accuracy: str = "kernel"
    default_of: str | None = None

    def __call__(self, x: Array) -> Array:
        """Value of the implementation at ``x``: shape (n,) or (n, 2) in, (n,) out."""
        return self.leave(self.function(self.enter(x)))

    def derivative(self, x: Array) -> Array | None:
        """Gradient of the implementation at ``x``, or None where the framework has none."""
        return None if self.gradient is None else self.leave(self.gradient(self.enter(x)))


Sink = Callable[[Site, Mapping[str, Array]], None]
"""Receives each site with the tensors that it made, by name, as they are made; it keeps none after it returns."""


class Session(AbstractContextManager["Session"], Protocol):
    """One opened model in one adapter: a list of operator calls that can be run whole, or in part on given numbers.

    The methods that speak of sites and tensors are valid after `trace`, and speak of its latest run.
    """

    def inputs(self) -> Mapping[str, InputSpec]:
        """Specification of each input by name, in call order; empty where the model does not say."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Outputs by name, in order, of one plain production run.

        Args:
            inputs: By name, in call order. Where the names are not the model's own, the order decides.

        Raises:
            InputError: The model does not take these inputs.
        """
        ...

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """Like `run`, telling ``sink`` of every operator call as it is made, never all at once.

        Measuring changes nothing: the same kernels see the same numbers as in `run`, wherever the framework lets them.
        """
        ...

    def weights(self) -> Mapping[str, Array]:
        """Parameters, buffers and constants by tensor name; a mapping that reads each one when it is asked for."""
        ...

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        """Runs some of the traced sites alone, in order, and returns the tensors ``wanted``.

        Args:
            sites: Names in execution order. One whose outputs are all ``given`` is passed over.
            given: Numbers by tensor name, whatever tensor: a given one stands in the place of the one that a site
                would make, and of a weight.
            wanted: Names of tensors that the sites make, or that are given, or weights.
            precision: "native": the production kernels in the model's own dtypes; given floating-point numbers are
                cast to the dtype that the traced tensor had. "float64": every floating-point number is float64,
                weights are cast on the way and a cast to a narrower one is left out; quantisation still rounds.
                "float32", "float16" and "bfloat16": likewise in that dtype, whole numbers as they are.
                Floating-point results come in that dtype.

        Raises:
            UnsupportedPrecisionError: One of the sites cannot be computed in that precision.
        """
        ...


@runtime_checkable
class Adapter(Protocol):
    """The package that speaks to one framework. ``name`` equals its entry point's name."""

    name: str

    def versions(self) -> Mapping[str, str]:
        """Distribution name to version of everything whose version can change a result."""
        ...

    def activations(self) -> Iterable[Implementation]:
        """Every implementation of a registered variant that users of the framework meet."""
        ...

    def enter(self, x: Array) -> Native:
        """A native tensor of the same shape, dtype and bits."""
        ...

    def leave(self, native: Native) -> Array:
        """A NumPy array of the same shape, dtype and bits."""
        ...

    def open(self, model: Any, options: Mapping[str, str]) -> Session:
        """Opens the model that a reference names: a file, a folder, or ``framework:FILE.py:NAME``.

        Args:
            model: The reference, or in the user's own process the live object itself.
            options: ``dtype``: the floating-point type in which the model is to run, float inputs cast to it;
                ``optimization``: none, basic, extended or all; ``session_config.KEY``: an entry of the engine's
                session configuration; ``threads``: how many the engine may use. One that means nothing to this
                adapter is an `InputError`, except ``threads``.

        Raises:
            InputError: The reference is not one this adapter reads; `not_opened` makes that error.
        """
        ...


@runtime_checkable
class RegionSaver(Protocol):
    """A session that can also save some of its traced sites as a program that needs neither the model nor this tool."""

    def save(self, sites: Sequence[str], given: Mapping[str, Array], wanted: str, folder: Path) -> None:
        """Writes ``region.py`` and what it needs into a folder, weights as safetensors or in the framework's own form.

        Its function ``run`` takes NumPy arrays by name, as ``given`` are, and returns the tensor ``wanted`` as one,
        computed natively as in `Session.evaluate`.

        Raises:
            EngineError: No such program can be written of these sites.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A model in a form in which it is deployed.

    Attributes:
        file: The file, or the folder, that was written.
        how: The call that made it, with the versions and settings that matter, in words.
        notes: What a reader should know of it, as sentences.
    """

    file: Path
    how: str
    notes: tuple[str, ...] = ()


@runtime_checkable
class Exporter(Protocol):
    """A session that can also write its model in forms in which it is deployed."""

    def targets(self) -> Mapping[str, str]:
        """Deployment targets that it exports to, each with the form in which, in words."""
        ...

    def export(self, target: str, inputs: Mapping[str, Array], folder: Path, options: Mapping[str, str]) -> Exported:
        """Writes the model for one of `targets`, with the exporter that the framework's users call.

        Args:
            target: Which.
            inputs: Example inputs, as for `Session.run`.
            folder: Where to; it is empty.
            options: ``opset``: of ONNX, a number. One that means nothing to a target is passed over.

        Raises:
            InputError: An option cannot be used, or the model does not take these inputs.
            EngineError: The exporter refuses the model.
        """
        ...


@runtime_checkable
class Mender(Protocol):
    """An adapter that can also write a model anew with some of its parts changed."""

    def mend(self, model: Any, edits: Sequence[Edit], file: Path) -> Sequence[Outcome]:
        """Writes the model with these edits to a new file, which is checked; none where no edit can be made.

        Args:
            model: As for `Adapter.open`.
            edits: In the order in which they are to be made.
            file: It must not exist; large weights may be written beside it.

        Returns:
            What became of each edit.

        Raises:
            InputError: The model cannot be read, or the file cannot be written.
        """
        ...


Place = Any
"""Where in a live model's code an activation is, whatever its adapter calls that; can be compared and hashed."""


class Calls(Protocol):
    """The latest watched run of a live model: which code of it made each of the traced operators."""

    def place(self, source: str, target: str, sites: Sequence[str]) -> Place:
        """Where the activation is that makes ``target`` of ``source``.

        Args:
            source: Name of the tensor that enters it.
            target: Name of the tensor that leaves it.
            sites: Names of the operators between.

        Raises:
            InputError: It cannot be replaced there; the message is the reason, as a clause.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """An order to compute another function where a live model computes an activation.

    Attributes:
        name: Of the activation, for messages.
        place: Where it is.
        calls: Which of the calls in a run of the model, counted from 0; None for every one, however many there are.
        listed: How many calls there were when the activations were listed.
        variant: What to compute.
        scale: Factor on that.
    """

    name: str
    place: Place
    calls: frozenset[int] | None
    listed: int
    variant: Variant
    scale: float = 1.0


@runtime_checkable
class Swapper(Protocol):
    """An adapter that can replace activations in a live model."""

    def watch(self, model: Any) -> AbstractContextManager[Calls]:
        """A context in which traced runs of the model are watched and leave no trace in it."""
        ...

    def swap(self, model: Any, swaps: Sequence[Swap]) -> Callable[[], None]:
        """Carries out the orders in every run from now on; the latest counts where several speak of one place.

        Returns:
            What undoes them, in whatever order; a second call does nothing.

        Raises:
            InputError: The model is not one in which activations can be replaced, or has no such place.
        """
        ...


class UnsupportedPrecisionError(EngineError):
    """A site cannot be computed in the precision asked for; the message names the operator."""


def not_opened(adapter: str, model: str, reads: str = "") -> InputError:
    """The error of an adapter that opens no models, or not this one.

    Args:
        adapter: Its name.
        model: The reference.
        reads: What it opens, in words.
    """
    hint = f"It opens {reads}." if reads else "It offers activations alone, for `parity suite`."
    return InputError(f"The {adapter} adapter cannot open '{model}'.", hint=hint)


def bind(given: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """The given inputs under the model's own names: by name where these agree, by order otherwise.

    Args:
        given: Inputs by name, in call order.
        names: The model's own input names that may be filled, in call order.

    Raises:
        InputError: There are more inputs than the model takes, or only some of the names agree.
    """
    if set(given) <= set(names):
        return {name: given[name] for name in names if name in given}
    wrong = [name for name in given if name not in names]
    if len(wrong) < len(given) and len(given) != len(names):
        raise InputError(
            f"The model has no input called '{wrong[0]}'.", hint=f"It takes: {', '.join(names)}. Name the inputs so."
        )
    if len(given) > len(names):
        raise InputError(
            f"The model takes {len(names)} inputs and not {len(given)}.", hint=f"They are: {', '.join(names)}."
        )
    return dict(zip(names, given.values(), strict=False))


def load_adapter(name: str) -> Adapter:
    """Imports the adapter called ``name`` and with it its framework; for worker processes only.

    Raises:
        InputError: No installed distribution offers an adapter of that name.
        EngineError: It does not load, or what it offers is not an `Adapter`.
    """
    found = discover()
    if name not in found:
        raise InputError.unknown("adapter", name, found)
    try:
        adapter = found[name].load()
    except Exception as error:
        lines = str(error).splitlines() or [""]
        raise EngineError(
            f"Adapter '{name}' ({found[name].value}) does not load: {type(error).__name__}: {lines[0]}",
            hint="`parity doctor` shows what is installed.",
        ) from error
    if not isinstance(adapter, Adapter):
        raise EngineError(f"Adapter '{name}' ({found[name].value}) lacks methods of parity.adapter.Adapter.")
    return adapter
