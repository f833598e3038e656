"""Activations however they are spelt: found by structure, named by probing."""

import math

import numpy as np
import pytest

from parity.diagnose.chains import Prober, chains
from parity.dtypes import FLOAT_DTYPES
from parity.functions import variant
from parity.functions.probing import sweep

X = (np.random.default_rng(0).standard_normal((4, 64)) * 3).astype(np.float32)
ROOT = math.sqrt(2 / math.pi)


def gelu_erf(m, x: str) -> str:
    return m("mul", m("mul", x, 0.5), m("add", m("erf", m("div", x, math.sqrt(2))), 1.0))


def gelu_erf_turned(m, x: str) -> str:
    """Other operands, another order, a reciprocal for the quotient."""
    return m("mul", m("mul", m("add", 1.0, m("erf", m("mul", 1 / math.sqrt(2), x))), x), 0.5)


def gelu_tanh(m, x: str) -> str:
    inner = m("mul", m("add", x, m("mul", m("pow", x, 3.0), 0.044715)), ROOT)
    return m("mul", m("mul", 0.5, x), m("add", 1.0, m("tanh", inner)))


def gelu_tanh_factored(m, x: str) -> str:
    inner = m("mul", m("mul", x, 0.7978845608), m("add", m("mul", m("mul", x, x), 0.044715), 1.0))
    return m("mul", x, m("mul", 0.5, m("add", m("tanh", inner), 1.0)))


def quick_gelu(m, x: str) -> str:
    return m("mul", x, m("sigmoid", m("mul", x, 1.702)))


def silu_by_exp(m, x: str) -> str:
    return m("div", x, m("add", 1.0, m("exp", m("neg", x))))


def relu_by_maximum(m, x: str) -> str:
    return m("maximum", x, 0.0)


def leaky_relu_by_where(m, x: str) -> str:
    return m("where", m("compare", x, 0.0), x, m("mul", 0.01, x))


SPELLINGS = {
    gelu_erf: "gelu_erf",
    gelu_erf_turned: "gelu_erf",
    gelu_tanh: "gelu_tanh",
    gelu_tanh_factored: "gelu_tanh",
    quick_gelu: "quick_gelu",
    silu_by_exp: "silu",
    relu_by_maximum: "relu",
    leaky_relu_by_where: "leaky_relu",
}


def activations(model, side, x: np.ndarray = X):
    opened = side(model)
    view = model.view(x=x)
    list_of = Prober(view, opened)
    opened.run({"x": x})  # evaluation is of the latest run
    return list_of.activations()


def network(toy, spell, *, dtype: str = "float32"):
    model = toy(dtype, x=(None, 64))
    hidden = model("matmul", "x", model.weight("w", np.eye(64)), to="h")
    made = spell(model, hidden)
    return model.gives(model("matmul", made, "w", to="y")), made


@pytest.mark.parametrize("spell", SPELLINGS, ids=lambda one: one.__name__)
def test_every_spelling_is_known(toy, side, spell) -> None:
    model, made = network(toy, spell)
    (found,) = activations(model, side)
    assert found.name == SPELLINGS[spell]
    assert (found.chain.source, found.chain.target, found.shape) == ("h", made, (4, 64))
    assert found.dtype == "float32"


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("spell", [gelu_erf, gelu_tanh], ids=lambda one: one.__name__)
def test_in_every_type(toy, side, spell, dtype: str) -> None:
    model, _ = network(toy, spell, dtype=dtype)
    (found,) = activations(model, side, X.astype(FLOAT_DTYPES[dtype]))
    assert (found.name, found.dtype) == (SPELLINGS[spell], dtype)


@pytest.mark.parametrize("name", ["relu", "silu", "sigmoid", "tanh", "mish", "quick_gelu"])
def test_operators_of_their_own(toy, side, name: str) -> None:
    model, _ = network(toy, lambda m, x: m(name, x))
    assert [one.name for one in activations(model, side)] == [name]


def test_a_wrong_constant_is_another_function_with_its_parameter_or_none(toy, side) -> None:
    model, _ = network(toy, lambda m, x: m("mul", x, m("sigmoid", m("mul", x, 1.9))))
    (found,) = activations(model, side)
    assert found.name != "quick_gelu"


def test_a_scale_and_shift_around_an_activation_is_seen_through(toy, side) -> None:
    model, _ = network(toy, lambda m, x: m("add", m("mul", gelu_erf(m, x), 3.0), 0.25))
    assert [one.name for one in activations(model, side)] == ["gelu_erf"]
    model, _ = network(toy, lambda m, x: gelu_tanh(m, m("mul", x, 2.0)))
    assert [one.name for one in activations(model, side)] == ["gelu_tanh"]


def test_arithmetic_alone_is_no_activation(toy, side) -> None:
    model, _ = network(toy, lambda m, x: m("mul", m("add", x, 1.0), x))
    assert activations(model, side) == []


def test_a_residual_is_no_part_of_an_activation(toy, side) -> None:
    """Everything is pointwise here, but x and h are not one tensor."""
    model, _ = network(toy, lambda m, x: m("add", gelu_erf(m, x), "x"))
    assert [one.name for one in activations(model, side)] == ["gelu_erf"]


def test_a_vector_of_weights_ends_a_chain(toy, side) -> None:
    model, _ = network(toy, lambda m, x: gelu_erf(m, m("add", x, m.weight("b", np.arange(64)), to="biased")))
    (found,) = activations(model, side)
    assert (found.name, found.chain.source) == ("gelu_erf", "biased")


def test_the_bias_of_a_fused_operator_is_taken_as_none(toy, side) -> None:
    def fused(m, x: str) -> str:
        return m("gelu", x, m.weight("b", np.arange(64)), function=lambda x, b: variant("gelu_erf").value(x + b))

    model, _ = network(toy, fused)
    (found,) = activations(model, side)
    assert (found.name, found.chain.biases) == ("gelu_erf", ("b",))


def test_several_in_execution_order(toy, side) -> None:
    model = toy(x=(None, 64))
    at = "x"
    for spell in (gelu_tanh, silu_by_exp, gelu_erf):
        at = model("matmul", spell(model, at), model.weight("w", np.eye(64)))
    assert [one.name for one in activations(model, side)] == ["gelu_tanh", "silu", "gelu_erf"]


def test_one_behind_the_other(toy, side) -> None:
    """Two activations with nothing between are one function that has no name, and are told apart."""
    model, _ = network(toy, lambda m, x: m("relu", m("tanh", x)))
    assert len(activations(model, side)) == 1


@pytest.mark.parametrize("shape", [(4, 64), (256,), (2, 2)])
def test_a_chain_that_insists_on_its_shape(toy, side, shape: tuple[int, ...]) -> None:
    """It is evaluated in that shape, unless this holds so few numbers that it would take too long."""

    def stubborn(x):
        if x.shape != shape:
            raise RuntimeError(x.shape)
        return variant("gelu_erf").value(x).astype(x.dtype)

    x = np.resize(X, shape)
    model = toy(x=None)
    model.gives(model("gelu", model("identity", "x", to="h", function=np.copy), function=stubborn))
    assert [one.name for one in activations(model, side, x)] == ([] if x.size == 4 else ["gelu_erf"])


def test_whole_numbers_have_no_activations(toy, side) -> None:
    model = toy("int64", x=(None, 64))
    model("relu", "x", function=lambda x: np.maximum(x, 0))
    assert activations(model, side, X.astype(np.int64)) == []


def test_a_recorded_trace_tells_by_its_numbers(toy) -> None:
    model, _ = network(toy, gelu_tanh)
    (found,) = Prober(model.view(x=X), None).activations()
    assert found.name == "gelu_tanh"
    assert found.values is None


def test_nested_chains_come_longest_first(toy) -> None:
    model, made = network(toy, gelu_tanh)
    (nested,) = list(chains(model.view(x=X)))
    assert nested[0].target == made
    lengths = [len(one.sites) for one in nested if one.target == made]
    assert lengths == sorted(lengths, reverse=True)
    assert all(one.sites[-1].outputs == (one.target,) for one in nested)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_the_sweep_reaches_the_tails_and_is_sorted(dtype: str) -> None:
    x = sweep(dtype)
    assert x.dtype == FLOAT_DTYPES[dtype]
    wide = x.astype(np.float64)
    assert (np.diff(wide) > 0).all()
    assert (wide[0], wide[-1]) == (-40, 40)
    assert 0 in wide
    assert np.diff(wide[np.abs(wide) < 3]).max() < 0.05


def test_what_others_read_too_is_no_part_of_a_longer_chain(toy, side) -> None:
    """Ones made of an activation's output, to divide a pooling by, do not hide the activation."""
    model = toy(x=(None, 64))
    y = model("relu", "x")
    model("mul", y, 3.0, to="y")
    model("add", model("mul", y, 0.0), 1.0, to="ones")
    found = activations(model, side)
    assert [one.variant.name for one in found if one.variant is not None] == ["relu"]


@pytest.mark.parametrize("spell", [gelu_erf, gelu_tanh, leaky_relu_by_where], ids=lambda one: one.__name__)
def test_a_bias_of_zeros_before_it_hides_no_activation(toy, side, spell) -> None:
    """Untrained models have such: all of its numbers are one, and it is a vector all the same."""
    model, _ = network(toy, lambda m, x: spell(m, m("add", x, m.weight("zeros", np.zeros(64)))))
    assert [one.name for one in activations(model, side, X[:1])] == [SPELLINGS[spell]]
