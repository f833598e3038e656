"""Recurrent layers: every cell, direction, activation and length that ONNX knows."""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.call import Call, Result
from parity_adapters.onnxruntime.exact.pointwise import ACTIVATIONS

Function = Callable[[Array], Array]
State = tuple[Array, ...]
Cell = Callable[[Array, State], State]

_ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent(call: Call) -> Result:
    """All hidden states, the last one, and of an LSTM the last cell state."""
    attributes, batch_first = call.attributes, call.attributes.get("layout")
    x, w, r = call[0], call[1], call[2]
    states = [call.get(i) for i in ((5, 6) if call.op == "LSTM" else (5,))]
    if batch_first:
        x = np.swapaxes(x, 0, 1)
        states = [None if s is None else np.swapaxes(s, 0, 1) for s in states]
    time, batch, hidden = x.shape[0], x.shape[1], r.shape[-1]
    lengths = np.full(batch, time) if call.get(4) is None else call[4]
    direction, found = attributes["direction"], []
    for d in range(w.shape[0]):
        start = tuple(np.zeros((batch, hidden), x.dtype) if s is None else s[d] for s in states)
        backward = direction == "reverse" or d == 1
        found.append(_run(_cell(call, d), x, start, lengths, backward=backward))
    y = np.stack([sequence for sequence, _ in found], 1)
    last = [np.stack([state[i] for _, state in found]) for i in range(len(states))]
    if batch_first:
        y, last = np.transpose(y, (2, 0, 1, 3)), [np.swapaxes(s, 0, 1) for s in last]
    return y, *last


def _run(cell: Cell, x: Array, state: State, lengths: Array, *, backward: bool) -> tuple[Array, State]:
    """Hidden states of shape (time, batch, hidden) and the last state; behind a sequence's end they are 0."""
    time = x.shape[0]
    y = np.zeros((time, *state[0].shape), x.dtype)
    for t in range(time - 1, -1, -1) if backward else range(time):
        alive = (t < lengths)[:, None]
        state = tuple(np.where(alive, new, old) for new, old in zip(cell(x[t], state), state, strict=True))
        y[t] = np.where(alive, state[0], 0)
    return y, state


def _functions(call: Call, direction: int) -> list[Function]:
    """The activations of one direction, each with its own parameters where it takes any."""
    names = call.attributes.get("activations") or _ACTIVATIONS[call.op] * 2
    alphas, betas = (list(call.attributes.get(f"activation_{name}") or []) for name in ("alpha", "beta"))
    numbers = (count(), count())
    found: list[Function] = []
    for name in names:
        proper = next(known for known in ACTIVATIONS if known.lower() == name.lower())
        a, b = (
            _next(values, index) if proper in takers else None
            for values, index, takers in zip((alphas, betas), numbers, (_TAKES_ALPHA, _TAKES_BETA), strict=True)
        )
        found.append(_bound(proper, a, b))
    each = len(_ACTIVATIONS[call.op])
    return found[direction * each : (direction + 1) * each]


_TAKES_ALPHA = frozenset({"LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu", "Affine"})
_TAKES_BETA = frozenset({"ScaledTanh", "HardSigmoid", "Affine"})


def _next(values: list[float], index: Any) -> float | None:
    i = next(index)
    return values[i] if i < len(values) else None


def _bound(name: str, a: float | None, b: float | None) -> Function:
    return lambda x: ACTIVATIONS[name](x, a, b)


def _cell(call: Call, d: int) -> Cell:
    w, r = call[1][d], call[2][d]
    given = call.get(3)
    bias = np.zeros(2 * w.shape[0], w.dtype) if given is None else given[d]
    functions = _functions(call, d)
    limit = call.attributes.get("clip") or np.inf
    bounded = [_clipped(function, limit) for function in functions]
    wb, rb = np.split(bias, 2)
    if call.op == "LSTM":
        peephole = call.get(7)
        p = np.zeros((3, r.shape[-1]), w.dtype) if peephole is None else peephole[d].reshape(3, -1)
        return _lstm(w, r, wb + rb, p, bounded, coupled=bool(call.attributes.get("input_forget")))
    if call.op == "GRU":
        return _gru(w, r, (wb, rb), bounded, after=bool(call.attributes.get("linear_before_reset")))
    return lambda x, s: (bounded[0](x @ w.T + s[0] @ r.T + wb + rb),)


def _clipped(function: Function, limit: float) -> Function:
    return lambda x: function(np.clip(x, -limit, limit))


def _lstm(w: Array, r: Array, b: Array, p: Array, functions: list[Function], *, coupled: bool) -> Cell:
    f, g, h = functions

    def step(x: Array, state: State) -> State:
        hidden, cell = state
        i, o, forget, new = np.split(x @ w.T + hidden @ r.T + b, 4, -1)
        i = f(i + p[0] * cell)
        forget = 1 - i if coupled else f(forget + p[2] * cell)
        cell = forget * cell + i * g(new)
        return f(o + p[1] * cell) * h(cell), cell

    return step


def _gru(w: Array, r: Array, b: tuple[Array, Array], functions: list[Function], *, after: bool) -> Cell:
    (wb, rb), (f, g) = b, functions
    hidden_size = r.shape[-1]
    gates, rest = slice(0, 2 * hidden_size), slice(2 * hidden_size, None)

    def step(x: Array, state: State) -> State:
        (hidden,) = state
        update, reset = np.split(f(x @ w[gates].T + hidden @ r[gates].T + wb[gates] + rb[gates]), 2, -1)
        back = reset * (hidden @ r[rest].T + rb[rest]) if after else (reset * hidden) @ r[rest].T + rb[rest]
        new = g(x @ w[rest].T + wb[rest] + back)
        return ((1 - update) * new + update * hidden,)

    return step
