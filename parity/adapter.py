"""The seam between the core and the frameworks.

The core knows frameworks only through the types in this module. An adapter is an object that satisfies
`Adapter`; it is found through the entry-point group ``parity.adapters`` and is only ever loaded inside a
worker process of its own (`parity.worker`), so that a framework that crashes, hangs or prints cannot take
the user's process with it.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from parity.discovery import discover
from parity.errors import EngineError, InputError
from parity.functions import Variant

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One operator call in a model.

    Attributes:
        name: Unique name within the session.
        op: The operator's name in its framework.
        scope: Module path or name scope, outermost first, joined by ``.``; empty for the whole model.
        inputs: Names of the tensors it reads.
        outputs: Names of the tensors it makes.
        source: ``file:line`` of the call where it is known.
    """

    name: str
    op: str
    scope: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    source: str | None = None


Sink = Callable[[str, Array], None]
"""Receives each traced tensor by name as it is made; it must not keep a reference after it returns."""


class Session(AbstractContextManager["Session"], Protocol):
    """One opened model in one adapter."""

    def inputs(self) -> Mapping[str, Any]:
        """Name to specification (shape, dtype) of each input, in call order."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Outputs by name of one plain production run."""
        ...

    def sites(self) -> Iterable[Site]:
        """Operator calls in execution order."""
        ...

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Mapping[str, Array]:
        """Like `run`, handing every intermediate tensor to ``sink`` as it is made, never all at once."""
        ...

    def evaluate(self, region: tuple[str, ...], inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Runs the sites named in ``region`` alone on ``inputs`` and returns the tensors they make."""
        ...

    def float64(self) -> "Session | None":
        """The same model evaluated in float64, or None where the framework cannot."""
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

    def open(self, model: str, options: Mapping[str, str]) -> Session:
        """Opens the model that a reference names: a file, a folder, or ``framework:FILE.py:NAME``.

        Raises:
            InputError: The reference is not one this adapter reads; `not_opened` makes that error.
        """
        ...


def not_opened(adapter: str, model: str) -> InputError:
    """The error of an adapter that opens no models, or not this one."""
    return InputError(
        f"The {adapter} adapter cannot open '{model}': opening models is not available in this version.",
        hint=f"Available now: its activations, through `parity suite --adapter {adapter}`.",
    )


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
