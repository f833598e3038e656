"""Forms of recurrent layers."""

import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn

from parity.jobs.diff import diff

FRAMES = np.random.default_rng(0).standard_normal((7, 2, 6)).astype(np.float32)
HIDDEN = 5
ORDERS = {"GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}
"""Where the gates of ONNX's order are in torch's."""


def told(findings):
    return [(one.rule, one.expected, one.observed) for one in findings]


def layer(module, kind, layers=1):
    return module(lambda m, x: m.recurrent(x)[0].tanh(), recurrent=lambda: getattr(nn, kind)(6, HIDDEN, layers))


def exported(graph, reference, kind, *, order=None, scale=1.0, drop=False, layers=1, **attributes):
    order = ORDERS[kind] if order is None else order
    nodes, weights, x = [], {"squeezed": np.array([1])}, "x"
    for k in range(layers):
        blocks = {}
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            numbers = getattr(reference.recurrent, f"{name}_l{k}").detach().numpy()
            blocks[name] = numbers.reshape(len(order), HIDDEN, -1)[order].reshape(len(order) * HIDDEN, -1)
        both = np.concatenate([blocks["bias_ih"][:, 0], blocks["bias_hh"][:, 0] * (not drop)])
        weights |= {f"w{k}": blocks["weight_ih"][None] * np.float32(scale), f"r{k}": blocks["weight_hh"][None]}
        weights[f"b{k}"] = both[None]
        names = [x, f"w{k}", f"r{k}", f"b{k}"]
        nodes += [
            helper.make_node(kind, names, [f"all{k}"], f"layer{k}", hidden_size=HIDDEN, **attributes),
            helper.make_node("Squeeze", [f"all{k}", "squeezed"], [f"h{k}"]),
        ]
        x = f"h{k}"
    return graph([*nodes, helper.make_node("Tanh", [x], ["y"])], {"x": FRAMES}, weights)


@pytest.mark.parametrize("layers", [1, 2])
def test_reset_gate(module, graph, diagnosed, layers):
    reference = layer(module, "GRU", layers)
    (finding,) = diagnosed(reference, exported(graph, reference, "GRU", layers=layers), x=FRAMES)
    assert told([finding]) == [("recurrent-form", "reset after the matmul", "reset before the matmul")]
    assert finding.location["reference"]["scope"] == "recurrent"
    assert "layer0" in finding.location["candidate"]["names"]


def test_the_same_form(module, graph, diagnosed):
    reference = layer(module, "GRU")
    assert not diagnosed(reference, exported(graph, reference, "GRU", linear_before_reset=1), x=FRAMES)


def test_order_of_the_gates(module, graph, diagnosed):
    reference = layer(module, "LSTM")
    candidate = exported(graph, reference, "LSTM", order=[0, 1, 2, 3])
    assert told(diagnosed(reference, candidate, x=FRAMES)) == [
        ("recurrent-form", "gates in the order i, f, g, o", "gates in the order i, o, f, g")
    ]


@pytest.mark.parametrize(
    ("changed", "observed"),
    [
        ({"drop": True}, "no bias of the state"),
        ({"direction": "reverse"}, "from the last step to the first"),
        ({"activations": ["HardSigmoid", "Tanh", "Tanh"]}, "hard sigmoid for the gates"),
    ],
)
def test_other_forms(module, graph, diagnosed, changed, observed):
    reference = layer(module, "LSTM")
    (finding,) = diagnosed(reference, exported(graph, reference, "LSTM", **changed), x=FRAMES)
    assert (finding.rule, finding.observed) == ("recurrent-form", observed)


def test_other_weights_are_not_another_form(module, graph, diagnosed):
    reference = layer(module, "LSTM")
    findings = diagnosed(reference, exported(graph, reference, "LSTM", scale=1.25), x=FRAMES)
    assert findings
    assert "recurrent-form" not in {one.rule for one in findings}


@pytest.mark.parametrize("swapped", [True, False])
def test_a_loop_in_jax(module, swapped):
    jax = pytest.importorskip("jax")
    reference = layer(module, "GRU")
    wi, wh, bi, bh = (
        getattr(reference.recurrent, f"{name}_l0").detach().numpy()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )

    def step(h, x):
        a, b = x @ wi.T + bi, h @ wh.T + bh
        gates = jax.nn.sigmoid(a[:, : 2 * HIDDEN] + b[:, : 2 * HIDDEN])
        reset, update = (gates[:, HIDDEN:], gates[:, :HIDDEN]) if swapped else (gates[:, :HIDDEN], gates[:, HIDDEN:])
        new = jax.numpy.tanh(a[:, 2 * HIDDEN :] + reset * b[:, 2 * HIDDEN :])
        h = (1 - update) * new + update * h
        return h, h

    def candidate(x):
        return jax.numpy.tanh(jax.lax.scan(step, jax.numpy.zeros((2, HIDDEN)), x)[1])

    wrong = [("recurrent-form", "gates in the order r, z, n", "gates in the order z, r, n")]
    assert told(diff(reference, candidate, [{"x": FRAMES}]).findings) == (wrong if swapped else [])


@pytest.mark.parametrize("order", ["ifgo", "iofg"])
def test_the_operator_of_onednn_has_its_states_last(module, order):
    jax = pytest.importorskip("jax")
    reference = layer(module, "LSTM")
    weights = [getattr(reference.recurrent, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    wi, wh, bi, bh = (weight.detach().numpy() for weight in weights)

    def functional(_, x):
        state = x.new_zeros(1, x.shape[1], HIDDEN)
        whole = torch.lstm(x.transpose(0, 1), [state, state], weights, True, 1, 0.0, False, False, True)
        return whole[0].transpose(0, 1).tanh()

    def step(state, x):
        h, cell = state
        gates = np.split(np.arange(4 * HIDDEN), 4)
        given = dict(zip(order, gates, strict=True))
        i, f, g, o = ((x @ wi.T + bi + h @ wh.T + bh)[:, given[gate]] for gate in "ifgo")
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
        h = jax.nn.sigmoid(o) * jax.numpy.tanh(cell)
        return (h, cell), h

    def candidate(x):
        zeros = jax.numpy.zeros((2, HIDDEN))
        return jax.numpy.tanh(jax.lax.scan(step, (zeros, zeros), x)[1])

    wrong = [("recurrent-form", "gates in the order i, f, g, o", "gates in the order i, o, f, g")]
    assert told(diff(module(functional), candidate, [{"x": FRAMES}]).findings) == (wrong if order == "iofg" else [])
