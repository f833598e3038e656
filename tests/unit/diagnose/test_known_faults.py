"""Where a recorded model has a place for a known fault, and where it has none."""

import numpy as np
import pytest

from parity.diagnose.chains import Prober
from parity.diagnose.known_faults import EPSILON, HEAD, LEAST_EPSILON, known_faults
from parity.measure.mutations import Dropped, OtherActivation, OtherEpsilon, OtherWeights

X = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((6, 6))


@pytest.fixture
def faults(side, tmp_path):
    """Known faults of a toy by kind."""

    def find(made):
        opened = side(made)
        view = opened.record(dict.fromkeys(made.inputs, X), tmp_path / f"t{len(list(tmp_path.iterdir()))}", {})
        return known_faults(view, opened, Prober(view, opened).activations())

    return find


def test_a_model_of_nothing_has_no_place(toy, faults) -> None:
    made = toy(x=None)
    assert [list(one) for one in faults(made.gives(made("neg", "x", to="y"))).values()] == [[]] * 5


def test_a_chain_of_operators_that_computes_one_activation(toy, faults) -> None:
    made = toy(x=None)
    hidden = made("matmul", "x", made.weight("w", W), to="h")
    half = made("mul", hidden, 0.5, to="half")
    made("mul", half, made("add", made("erf", made("mul", hidden, float(np.sqrt(0.5)))), 1.0), to="act", scope="mlp")
    made.gives(made("matmul", "act", "w", to="y"))
    (fault,) = faults(made)["another activation"]
    assert fault.kind == "gelu_tanh in the place of gelu_erf"
    assert fault.tensor == "act"
    mutation = fault.mutation()
    assert isinstance(mutation, OtherActivation)
    assert (mutation.site, mutation.source, mutation.scale) == ("site:act", "h", 1.0)
    assert set(mutation.hidden) == {"site:half", "site:mul_2", "site:erf_3", "site:add_4"}


def test_one_whose_inside_others_read_is_left_alone(toy, faults) -> None:
    made = toy(x=None)
    hidden = made("matmul", "x", made.weight("w", W), to="h")
    gate = made("sigmoid", hidden, to="gate")
    made("mul", hidden, gate, to="act")
    made.gives(made("matmul", "act", "w", to="y"), made("matmul", gate, "w", to="z"))
    kinds = [one.kind for one in faults(made)["another activation"]]
    assert not any("silu" in kind for kind in kinds)


@pytest.mark.parametrize(("before", "after"), [(1e-5, 1e-5 * EPSILON), (1e-12, LEAST_EPSILON), (1e-3, 1e-2)])
def test_an_epsilon_of_one_operator(toy, faults, before: float, after: float) -> None:
    made = toy(x=None)
    weights = made.weight("scale", np.ones(6)), made.weight("bias", np.arange(6))
    made.gives(made("layer_norm", made("tanh", "x"), *weights, to="y", epsilon=before))
    (fault,) = faults(made)["another epsilon"]
    assert fault.kind == f"epsilon {after:g} in the place of {before:g}"
    mutation = fault.mutation()
    assert isinstance(mutation, OtherEpsilon)
    assert (mutation.before, mutation.after) == (before, pytest.approx(after))
    np.testing.assert_array_equal(np.broadcast_to(mutation.bias, (6,)), np.arange(6))


def test_an_epsilon_that_stands_in_a_formula(toy, faults) -> None:
    made = toy(x=None)
    middle = made("sub", "x", made("mean", "x", axes=[-1]))
    spread = made("mean", made("mul", middle, middle), axes=[-1])
    made.gives(made("div", middle, made("sqrt", made("add", spread, 1e-5, to="guarded")), to="y"))
    (fault,) = faults(made)["another epsilon"]
    mutation = fault.mutation()
    assert isinstance(mutation, OtherWeights)
    assert mutation.name == "guarded.1"
    assert mutation.numbers == pytest.approx(1e-4)


def test_an_epsilon_that_several_share_is_one_fault_where_it_acts_first(toy, faults) -> None:
    made = toy(x=None)
    epsilon, at = made.weight("epsilon", 1e-5), "x"
    for k in (0, 1):
        middle = made("sub", at, made("mean", at, axes=[-1]))
        spread = made("mean", made("mul", middle, middle), axes=[-1])
        at = made("div", middle, made("sqrt", made("add", spread, epsilon, to=f"guarded{k}"), to=f"root{k}"))
    (fault,) = faults(made.gives(made("tanh", at)))["another epsilon"]
    assert fault.tensor == "root0"


def test_a_rounded_weight_keeps_eight_bits(toy, faults) -> None:
    made = toy(x=None)
    made.gives(made("matmul", "x", made.weight("w", W), to="y"))
    (fault,) = faults(made)["a weight rounded"]
    mutation = fault.mutation()
    fraction, _ = np.frexp(mutation.numbers.astype(np.float64))
    assert (fraction * 256 == np.round(fraction * 256)).all()
    np.testing.assert_allclose(mutation.numbers, W, rtol=2**-8)
    assert mutation.numbers.dtype == np.float32
    assert not np.array_equal(mutation.numbers, W.astype(np.float32))


def attention(toy, *, mask: bool):
    """Two heads of three numbers, and a product of their values with a square matrix."""
    made = toy(x=None, mask=None)
    heads = made("transpose", made("reshape", "x", shape=(3, 4, 2, 3)), axes=[0, 2, 1, 3])
    turned = made("transpose", heads, axes=[0, 1, 3, 2])
    scores = made("div", made("matmul", heads, turned), float(np.sqrt(3)), to="scores")
    if mask:
        one = made("slice", "mask", start=0, end=4)
        fill = made("mul", made("reshape", one, shape=(3, 1, 4, 4)), -1e9)
        scores = made("add", scores, fill, to="masked", scope="attention")
    mixed = made("matmul", made("softmax", scores, axis=-1), heads)
    joined = made("reshape", made("transpose", mixed, axes=[0, 2, 1, 3]), shape=(3, 4, 6))
    return made.gives(made("matmul", joined, made.weight("w", W), to="y", scope="out"))


def test_the_first_head_of_the_weight_that_joins_them(toy, faults) -> None:
    (fault,) = faults(attention(toy, mask=False))["a head scaled"]
    assert fault.place["scope"] == "out"
    meant = W.astype(np.float32)
    meant[:3] *= HEAD
    np.testing.assert_allclose(fault.mutation().numbers, meant, rtol=1e-6)


def test_a_mask_that_is_added(toy, faults) -> None:
    assert faults(attention(toy, mask=False))["a mask dropped"] == []
    (fault,) = faults(attention(toy, mask=True))["a mask dropped"]
    assert (fault.tensor, fault.place["scope"]) == ("masked", "attention")
    assert fault.mutation() == Dropped(site="site:masked", kept="scores")
