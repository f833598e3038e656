"""Recurrent layers in float64: read from a fused operator, and run in whatever form is asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.diagnose.case import Part
from parity.graph import Site

Float64 = NDArray[np.float64]

GATES: Final[Mapping[str, str]] = {"lstm": "ifgo", "gru": "rzn", "rnn": "n"}
"""Gates of a cell in the order in which a `Direction` holds them: input, forget, new, output; reset, update, new."""

STACKED: Final[Mapping[str, str]] = {"lstm": "iofg", "gru": "zrn", "rnn": "n"}
"""The order in operators whose weights have an axis for the direction in front."""


def _sigmoid(x: Float64) -> Float64:
    found: Float64 = 0.5 * (1.0 + np.tanh(0.5 * x))
    return found


ACTIVATIONS: Final[Mapping[str, Callable[[Float64], Float64]]] = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "hard sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0.0, 1.0),
    "hard sigmoid with slope 1/6": lambda x: np.clip(x / 6 + 0.5, 0.0, 1.0),
    "identity": lambda x: x,
}
"""Activations of gates and states, by name."""

_NAMES: Final = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu", "hardsigmoid": "hard sigmoid"}


@dataclass(frozen=True, slots=True)
class Direction:
    """The weights of one layer in one direction, a block for each gate in the order of `GATES`.

    Attributes:
        w: Of the input, shape (gates, hidden, input).
        r: Of the state, shape (gates, hidden, hidden).
        wb: Bias beside the input's, shape (gates, hidden).
        rb: Bias beside the state's.
        backward: It runs from the last step to the first.
    """

    w: Float64
    r: Float64
    wb: Float64
    rb: Float64
    backward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A recurrent operator.

    Attributes:
        cell: ``lstm``, ``gru`` or ``rnn``.
        layers: Its layers, each with one direction or two.
        states: First hidden state of shape (layers × directions, batch, hidden), and cell state; None for zeros.
        reset_after: A GRU's reset gate multiplies the state after the product with its weights.
        gate: Activation of the gates.
        new: Of what is new in the state.
        out: Of an LSTM's state where the output gate meets it.
        batch_first: The input is (batch, time, …) and so is the output.
        stacked: The output has an axis for the directions.
    """

    cell: str
    layers: tuple[tuple[Direction, ...], ...]
    states: tuple[Float64 | None, ...]
    reset_after: bool = False
    gate: str = "sigmoid"
    new: str = "tanh"
    out: str = "tanh"
    batch_first: bool = False
    stacked: bool = False

    def each(self, change: Callable[[Direction], Direction]) -> "Network":
        """It with every direction of every layer changed."""
        return replace(self, layers=tuple(tuple(change(one) for one in layer) for layer in self.layers))

    def run(self, x: Float64) -> list[Float64]:
        """The outputs of the operator: all states, the last one, and an LSTM's last cell state."""
        x = np.swapaxes(x, 0, 1) if self.batch_first else x
        last: list[tuple[Float64, ...]] = []
        directions: list[Float64] = []
        for layer in self.layers:
            directions = []
            for one in layer:
                sequence, state = self._run_direction(one, x, self._start(len(last), x.shape[1], one.r.shape[-1]))
                directions.append(sequence)
                last.append(state)
            x = np.concatenate(directions, -1)
        return [self._arranged(x, directions), *(self._last(numbers) for numbers in zip(*last, strict=True))]

    def _start(self, number: int, batch: int, hidden: int) -> tuple[Float64, ...]:
        zeros = np.zeros((batch, hidden))
        return tuple(zeros if state is None else state[number] for state in self.states)

    def _arranged(self, x: Float64, directions: Sequence[Float64]) -> Float64:
        if not self.stacked:
            return np.swapaxes(x, 0, 1) if self.batch_first else x
        y = np.stack(directions, 1)
        return np.transpose(y, (2, 0, 1, 3)) if self.batch_first else y

    def _last(self, states: Sequence[Float64]) -> Float64:
        y = np.stack(states)
        return np.swapaxes(y, 0, 1) if self.batch_first and self.stacked else y

    def _run_direction(
        self, one: Direction, x: Float64, state: tuple[Float64, ...]
    ) -> tuple[Float64, tuple[Float64, ...]]:
        step = {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[self.cell]
        y = np.zeros((*x.shape[:2], one.r.shape[-1]))
        entering = np.matmul(x, one.w.transpose(0, 2, 1)[:, None]) + one.wb[:, None, None]
        for t in reversed(range(len(x))) if one.backward else range(len(x)):
            state = step(one, entering[:, t], state)
            y[t] = state[0]
        return y, state

    def _lstm(self, one: Direction, entering: Float64, state: tuple[Float64, ...]) -> tuple[Float64, ...]:
        gate, new, out = (ACTIVATIONS[name] for name in (self.gate, self.new, self.out))
        i, f, g, o = entering + np.matmul(state[0], one.r.transpose(0, 2, 1)) + one.rb[:, None]
        cell = gate(f) * state[1] + gate(i) * new(g)
        return gate(o) * out(cell), cell

    def _gru(self, one: Direction, entering: Float64, state: tuple[Float64, ...]) -> tuple[Float64, ...]:
        gate, new, hidden = ACTIVATIONS[self.gate], ACTIVATIONS[self.new], state[0]
        reset, update = gate(entering[:2] + np.matmul(hidden, one.r[:2].transpose(0, 2, 1)) + one.rb[:2, None])
        back = reset * (hidden @ one.r[2].T + one.rb[2]) if self.reset_after else (reset * hidden) @ one.r[2].T
        fresh = new(entering[2] + back + (0.0 if self.reset_after else one.rb[2]))
        return ((1 - update) * fresh + update * hidden,)

    def _rnn(self, one: Direction, entering: Float64, state: tuple[Float64, ...]) -> tuple[Float64, ...]:
        return (ACTIVATIONS[self.new](entering[0] + state[0] @ one.r[0].T + one.rb[0]),)


@dataclass(frozen=True, slots=True)
class Fused:
    """A recurrent operator of a part.

    Attributes:
        site: The operator.
        network: What it says it computes.
        order: The order in which it takes the gates' blocks.
    """

    site: Site
    network: Network
    order: str


def fused(part: Part) -> list[Fused]:
    """The recurrent operators of a part, those alone whose numbers are understood."""
    found = []
    for site in part.sites:
        if site.kind != "recurrent" or site.attributes.get("cell") not in GATES:
            continue
        one = _stacked(part, site) if _is_stacked(part, site) else _listed(part, site)
        if one is not None and _reproduced(part, one):
            found.append(one)
    return found


def overrides(part: Part, one: Fused, network: Network, changed: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors that the operator would make as another network, on what it reads with some tensors changed."""
    x = np.asarray(part.value(one.site.inputs[0], changed), np.float64)
    made = {name: y for name, y in zip(one.site.outputs, network.run(x), strict=False) if name}
    return {name: y[0] if y.shape[:1] == (1,) and _shape(part, name) == y.shape[1:] else y for name, y in made.items()}


def _reproduced(part: Part, one: Fused) -> bool:
    for name, made in overrides(part, one, one.network, {}).items():
        own = np.asarray(part.value(name), np.float64)
        if own.shape != made.shape or not np.allclose(own, made, rtol=1e-6, atol=1e-8):
            return False
    return True


def _shape(part: Part, name: str) -> tuple[int, ...]:
    entry = part.view.entry(name)
    return () if entry is None else entry.shape


def _is_stacked(part: Part, site: Site) -> bool:
    """Whether one tensor holds the weights of all directions; the state's is (directions, gates × hidden, hidden)."""
    w, r = (_shape(part, name) for name in site.inputs[1:3])
    gates = len(GATES[site.attributes["cell"]])
    return len(w) == 3 and len(r) == 3 and r[1] == gates * r[2] == w[1]


def _numbers(part: Part, site: Site, place: int) -> Float64 | None:
    """An input of an operator, a weight or not; None for an absent one."""
    if place >= len(site.inputs) or not site.inputs[place]:
        return None
    return np.asarray(part.value(site.inputs[place]), np.float64)


def _direction(blocks: Mapping[str, Float64 | None], cell: str, order: str, *, backward: bool) -> Direction:
    """A direction whose weights hold the gates in some order."""
    gates, places = len(order), [order.index(gate) for gate in GATES[cell]]
    w, r = blocks["w"], blocks["r"]
    assert w is not None  # noqa: S101 – weights are there, biases need not be
    assert r is not None  # noqa: S101
    hidden = r.shape[-1]

    def split(numbers: Float64 | None, *rest: int) -> Float64:
        whole = np.zeros((gates * hidden, *rest)) if numbers is None else numbers
        return whole.reshape(gates, hidden, *rest)[places]

    return Direction(split(w, w.shape[-1]), split(r, hidden), split(blocks["wb"]), split(blocks["rb"]), backward)


def _stacked(part: Part, site: Site) -> Fused | None:
    """An operator whose weights have an axis for the direction in front, and both biases in one."""
    told, cell = site.attributes, str(site.attributes["cell"])
    w, r, b = (_numbers(part, site, place) for place in (1, 2, 3))
    if w is None or r is None or any(_numbers(part, site, place) is not None for place in (4, 7)):
        return None
    direction = str(told.get("direction", "forward"))
    layer = []
    for k in range(len(w)):
        wb, rb = (None, None) if b is None else np.split(b[k], 2)
        blocks = {"w": w[k], "r": r[k], "wb": wb, "rb": rb}
        layer.append(_direction(blocks, cell, STACKED[cell], backward=k == 1 or direction == "reverse"))
    batch_first = bool(told.get("layout"))
    states = [_numbers(part, site, place) for place in ((5, 6) if cell == "lstm" else (5,))]
    network = Network(
        cell=cell,
        layers=(tuple(layer),),
        states=tuple(s if s is None or not batch_first else np.swapaxes(s, 0, 1) for s in states),
        reset_after=bool(told.get("linear_before_reset")),
        batch_first=batch_first,
        stacked=True,
        **_activations(cell, told.get("activations") or []),
    )
    return Fused(site, network, STACKED[cell])


def _activations(cell: str, names: Sequence[str]) -> dict[str, Any]:
    """Activations by the names that an operator has for those of one direction."""
    known = [_NAMES.get(name.lower().replace("_", ""), name) for name in names]
    roles = {"lstm": ("gate", "new", "out"), "gru": ("gate", "new"), "rnn": ("new",)}[cell]
    return {role: name for role, name in zip(roles, known, strict=False) if name in ACTIVATIONS}


def _listed(part: Part, site: Site) -> Fused | None:
    """An operator that takes the weights of each layer and direction one after the other, behind the states.

    That of oneDNN has the states behind the weights, and the steps in front whatever it is told.
    """
    told, cell = site.attributes, str(site.attributes["cell"])
    states = 2 if cell == "lstm" else 1
    onednn = "mkldnn" in site.op
    first = 5 if onednn else 1
    names = [
        name for name in (*site.inputs[1:first], *site.inputs[first + states :]) if name in part.view.trace.weights
    ]
    both = 2 if told.get("bidirectional") else 1
    places = int(told.get("layers", 1)) * both
    each = len(names) // places if places else 0
    if each not in {2, 4} or each * places != len(names) or len(_shape(part, site.inputs[0])) != 3:
        return None
    directions = []
    for k in range(places):
        some = names[k * each : (k + 1) * each]
        if not _is_listed(part, some, len(GATES[cell])):
            return None
        arrays = [np.asarray(part.value(name), np.float64) for name in some]
        blocks = dict(zip(("w", "r", "wb", "rb"), [*arrays, None, None][:4], strict=True))
        directions.append(_direction(blocks, cell, GATES[cell], backward=bool(k % both)))
    given = [_numbers(part, site, first + k) for k in range(states)]
    network = Network(
        cell=cell,
        layers=tuple(tuple(directions[k : k + both]) for k in range(0, places, both)),
        states=tuple(None if state is None else state.reshape(places, -1, state.shape[-1]) for state in given),
        reset_after=bool(told.get("linear_before_reset")),
        batch_first=bool(told.get("batch_first")) and not onednn,
        **_activations(cell, [str(told["activation"])] if "activation" in told else []),
    )
    return Fused(site, network, GATES[cell])


def _is_listed(part: Part, names: Sequence[str], gates: int) -> bool:
    """Whether weights are of the shapes (gates × hidden, input) and (gates × hidden, hidden), with their biases."""
    w, r, *biases = (_shape(part, name) for name in names)
    if len(w) != 2 or len(r) != 2:
        return False
    return w[0] == r[0] == gates * r[1] and all(bias == (w[0],) for bias in biases)
