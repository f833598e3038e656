"""Models in a few lines, run in NumPy: their traces, their graphs, and sides that evaluate them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity import sides
from parity.adapter import Array, Sink, UnsupportedPrecisionError, bind
from parity.align.view import GraphView
from parity.dtypes import FLOAT_DTYPES, any_dtype
from parity.functions import variant
from parity.graph import InputSpec, Site, Traced
from parity.sides import Side, SideOptions
from parity.testing.sessions import traced
from parity.trace.signature import signature
from parity.trace.store import TensorEntry, Trace


def act(name: str) -> Callable[..., Array]:
    """A variant rounded once to the type of its input."""
    return lambda x: variant(name).value(x).astype(x.dtype)


def mean(x: Array, *, axes: Sequence[int], keepdims: bool = True) -> Array:
    return x.mean(axis=tuple(axes), keepdims=keepdims, dtype=x.dtype)


def softmax(x: Array, *, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def layer_norm(x: Array, scale: Array, bias: Array, *, epsilon: float, axis: int = -1) -> Array:
    wide = x.astype(np.float64)
    middle = wide - wide.mean(axis=axis, keepdims=True)
    normal = middle / np.sqrt(np.square(middle).mean(axis=axis, keepdims=True) + epsilon)
    return (normal * scale + bias).astype(x.dtype)


def matmul(a: Array, b: Array, *bias: Array) -> Array:
    product = (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)
    return product + bias[0] if bias else product


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "neg": np.negative,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "maximum": np.maximum,
    "compare": np.greater_equal,
    "where": np.where,
    **{name: act(name) for name in ("relu", "silu", "sigmoid", "quick_gelu", "mish")},
    "erf": lambda x: np.vectorize(math.erf)(x).astype(x.dtype),
    "gelu": lambda x, approximate="none": act("gelu_erf" if approximate == "none" else "gelu_tanh")(x),
    "identity": lambda x: x,
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, axes: np.ascontiguousarray(x.transpose(axes)),
    "concat": lambda *x, axis=-1: np.concatenate(x, axis),
    "slice": lambda x, start, end: np.ascontiguousarray(x[..., start:end]),
    "matmul": matmul,
    "mean": mean,
    "softmax": softmax,
    "layer_norm": layer_norm,
}


@dataclass
class Call:
    """An operator call: its site, what it computes, and how production computes it where that is another thing."""

    site: Site
    function: Callable[..., Array]
    native: Callable[..., Array]
    double: bool


@dataclass
class Toy:
    """A model as a list of operator calls; `toy("add", "x", 1.0)` adds one and says the name of the tensor it makes."""

    inputs: Mapping[str, tuple[int | None, ...] | None]
    dtype: str = "float32"
    calls: list[Call] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    named: bool = True
    notes: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    by_products: tuple[str, ...] = ()

    def weight(self, name: str, numbers: Any) -> str:
        self.weights[name] = np.asarray(numbers).astype(any_dtype(self.dtype))
        return name

    def __call__(
        self,
        kind: str,
        *inputs: str | float,
        to: str = "",
        scope: str = "",
        function: Callable[..., Array] | None = None,
        native: Callable[..., Array] | None = None,
        double: bool = True,
        source: str | None = None,
        **attributes: Any,
    ) -> str:
        name = to or f"{kind}_{len(self.calls)}"
        names = [one if isinstance(one, str) else self.weight(f"{name}.{k}", one) for k, one in enumerate(inputs)]
        exact = function or FUNCTIONS[kind]
        site = Site(
            name=f"site:{name}",
            op=kind.title(),
            kind=kind,
            scope=scope,
            inputs=tuple(names),
            outputs=(name,),
            attributes=attributes,
            source=source,
        )
        self.calls.append(Call(site, exact, native or exact, double))
        return name

    def gives(self, *outputs: str) -> "Toy":
        self.outputs.extend(outputs)
        return self

    def view(self, **inputs: Array) -> GraphView:
        """The graph of a run, whose numbers are held in memory."""
        sites, tensors, ends = traced(ToySession(self), inputs)
        arrays = {**tensors, **self.weights}
        entries = {
            name: TensorEntry(array.dtype.name, array.shape, signature(array), 0, name)
            for name, array in arrays.items()
        }
        return GraphView(
            Trace(
                Path("nowhere"),
                tuple(sites),
                ends,
                {name: entries[name] for name in tensors},
                {name: entries[name] for name in self.weights},
                {},
                {0: Held(arrays)},
            )
        )


class Held(dict[str, Array]):
    """Arrays in memory in the place of a `parity.trace.shards.Shard`."""

    def array(self, name: str) -> Array:
        return self[name]

    read = array


class ToySession:
    """`parity.adapter.Session` of a toy."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.dtypes: dict[str, np.dtype[Any]] = {}

    def __exit__(self, *error: object) -> None:
        self.dtypes.clear()

    def inputs(self) -> Mapping[str, InputSpec]:
        return {name: InputSpec(dtype=self.toy.dtype, shape=shape) for name, shape in self.toy.inputs.items()}

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        values: dict[str, Array] = {}
        ends = self.trace(inputs, lambda _, made: values.update(made))
        return {name: values[tensor] for name, tensor in ends.outputs.items()}

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        toy = self.toy
        kind = any_dtype(toy.dtype)
        given = bind(inputs, list(toy.inputs))
        values = {name: one.astype(kind) if one.dtype.name in FLOAT_DTYPES else one for name, one in given.items()}
        for call in toy.calls:
            (name,) = call.site.outputs
            values[name] = self._computed(call, values, "native")
            sink(call.site, {name: values[name]})
        self.dtypes = {name: array.dtype for name, array in values.items()}
        return Traced(
            inputs={name: name for name in toy.inputs},
            outputs={name if toy.named else str(k): name for k, name in enumerate(toy.outputs)},
            named_outputs=toy.named,
            notes=toy.notes,
            drawn=toy.drawn,
            by_products=toy.by_products,
        )

    def weights(self) -> Mapping[str, Array]:
        return self.toy.weights

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        values = {name: self._cast(name, array, precision) for name, array in given.items()}
        known = {call.site.name: call for call in self.toy.calls}
        for call in (known[name] for name in sites):
            (name,) = call.site.outputs
            if name in values:
                continue
            if precision != "native" and not call.double:
                raise UnsupportedPrecisionError(f"{call.site.op} has no kernel in {precision}.")
            values[name] = self._computed(call, values, precision)
        return {
            name: values[name] if name in values else self._cast(name, self.toy.weights[name], precision)
            for name in wanted
        }

    def _computed(self, call: Call, values: Mapping[str, Array], precision: str) -> Array:
        inputs = [
            values[name] if name in values else self._cast(name, self.toy.weights[name], precision)
            for name in call.site.inputs
        ]
        function = call.native if precision == "native" else call.function
        with np.errstate(all="ignore"):
            return np.asarray(function(*inputs, **call.site.attributes))

    def _cast(self, name: str, array: Array, precision: str) -> Array:
        if array.dtype.name not in FLOAT_DTYPES:
            return array
        weight = self.toy.weights.get(name, array).dtype
        return array.astype(self.dtypes.get(name, weight) if precision == "native" else FLOAT_DTYPES[precision])


class ToyAdapter:
    """`parity.adapter.Adapter` that opens toys."""

    name = "toy"

    def versions(self) -> Mapping[str, str]:
        return {"toy": "1.0"}

    def open(self, model: Toy, options: Mapping[str, str]) -> ToySession:
        return ToySession(model)


@pytest.fixture
def toy() -> Callable[..., Toy]:
    """Makes models: ``toy(x=(None, 8))`` has one input."""
    return lambda dtype="float32", **inputs: Toy(inputs, dtype)


@pytest.fixture
def session() -> Callable[[Toy], ToySession]:
    """Opens a toy as adapters do."""
    return ToySession


@pytest.fixture
def toys_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets jobs open toys as live objects."""
    monkeypatch.setattr(sides, "load_adapter", lambda name: ToyAdapter())
    monkeypatch.setitem(sides.LIVE, Toy.__module__.partition(".")[0], "toy")


@pytest.fixture
def side(toys_open: None) -> Iterator[Callable[..., Side]]:
    """Opens a toy as a side: ``side(model, "candidate")``."""
    with ExitStack() as stack:
        yield lambda model, role="reference": stack.enter_context(Side(role, (model, "toy"), SideOptions()))
