"""Known faults as data: what they make of numbers, and their way from one process to another."""

import json
from dataclasses import fields

import numpy as np
import pytest

from parity.functions import variant
from parity.graph import Site
from parity.measure.mutant import Mutant
from parity.measure.mutations import (
    Dropped,
    Mutation,
    OtherActivation,
    OtherEpsilon,
    OtherWeights,
    Unmasked,
    packed,
    unpacked,
)
from parity.testing.sessions import check_session, traced
from parity.trace.store import Trace, TraceWriter

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
SITE = Site(name="s", op="Op", kind="gelu", scope="m", inputs=("x", "", "w", "mask"), outputs=("y", ""))

NORM = OtherEpsilon(
    site="s",
    source="x",
    shape=(4, 6),
    axes=(1,),
    centred=True,
    before=1e-5,
    after=1e-4,
    bias=np.arange(6.0),
    variance=np.zeros(0),
)
MUTATIONS = [
    OtherActivation(site="s", source="x", variant="gelu_tanh", scale=0.5, hidden=("before",)),
    NORM,
    Dropped(site="s", kept="x"),
    Unmasked(site="s", mask="mask", shape=(4, 1, 6), boolean=True),
    OtherWeights(name="w", numbers=W),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: type(one).__name__)
def test_there_and_back(mutation: Mutation) -> None:
    values, arrays = packed(mutation)
    found = unpacked(json.loads(json.dumps(values)), arrays)
    assert type(found) is type(mutation)
    for field in fields(mutation):
        one, two = getattr(found, field.name), getattr(mutation, field.name)
        if isinstance(two, np.ndarray):
            np.testing.assert_array_equal(one, two, strict=True)
        else:
            assert one == two


def computed(mutation: Mutation, made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What it makes where the operators make ``made``, whatever they are asked on."""

    def evaluate(sites, wanted, instead=None):
        return {name: (instead or {}).get(name, made[name]) for name in wanted}

    return dict(mutation.computed(mutation.changed(SITE), evaluate))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_another_activation_is_rounded_once_to_its_type(dtype: str) -> None:
    found = computed(MUTATIONS[0], {"x": X.astype(dtype)})
    x = X.astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(found["y"], (variant("gelu_tanh").value(x) * 0.5).astype(dtype), strict=True)


def test_another_activation_keeps_what_is_not_finite() -> None:
    found = computed(MUTATIONS[0], {"x": np.array([np.nan, np.inf, -np.inf], np.float32)})["y"]
    assert np.isnan(found[0])
    assert found[1] == np.inf


def norm(x: np.ndarray, epsilon: float, axes=(1,), *, centred: bool = True) -> np.ndarray:
    middle = x - (x.mean(axes, keepdims=True) if centred else 0)
    return middle / np.sqrt(np.square(middle).mean(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 6), (1,)), ((4, 2, 3), (2,)), ((4, 6), (0,)), ((2, 2, 6), (1, 2))], ids=str
)
def test_another_epsilon_over_any_axes(shape, axes, centred: bool) -> None:
    x = X.astype(np.float64) * 0.01
    scale, bias = np.linspace(1, 2, 6), np.linspace(-1, 1, 6)
    mutation = OtherEpsilon(
        **{**vars(NORM), "shape": shape, "axes": axes, "centred": centred, "bias": bias, "before": 1e-3, "after": 1e-5}
    )
    made = {e: norm(x.reshape(shape), e, axes, centred=centred).reshape(4, 6) * scale + bias for e in (1e-3, 1e-5)}
    found = computed(mutation, {"x": x, "y": made[1e-3]})
    np.testing.assert_allclose(found["y"], made[1e-5], rtol=1e-12)
    assert np.abs(found["y"] - made[1e-3]).max() > 0.1


def test_another_epsilon_beside_a_stored_variance() -> None:
    variance = np.geomspace(1e-6, 1, 6)
    mutation = OtherEpsilon(**{**vars(NORM), "variance": variance})
    found = computed(mutation, {"x": X, "y": (X - 1) / np.sqrt(variance + 1e-5) + np.arange(6)})
    np.testing.assert_allclose(found["y"], (X - 1) / np.sqrt(variance + 1e-4) + np.arange(6), rtol=1e-6)


def test_other_outputs_of_the_operator_are_kept() -> None:
    site = Site(name="s", op="N", kind="layer_norm", scope="", inputs=("x",), outputs=("y", "mean", ""))
    made = {"x": X, "y": X, "mean": X[:, :1]}
    found = NORM.computed(site, lambda sites, wanted, instead=None: {name: made[name] for name in wanted})
    assert set(found) == {"y", "mean"}


def test_what_becomes_of_the_operator() -> None:
    assert MUTATIONS[0].changed(SITE).inputs == ("x",)
    assert NORM.changed(SITE).attributes == {"epsilon": 1e-4}
    dropped = MUTATIONS[2].changed(SITE)
    assert (dropped.kind, dropped.inputs, dropped.outputs) == ("identity", ("x",), SITE.outputs)
    assert MUTATIONS[3].changed(SITE).inputs == ("x", "", "w", "")
    assert MUTATIONS[4].changed(SITE) == SITE
    assert dict(MUTATIONS[4].weights) == {"w": W}
    assert not any(one.weights for one in MUTATIONS[:4])


@pytest.mark.parametrize(("boolean", "nothing"), [(True, True), (False, 0.0)])
def test_a_mask_of_nothing(boolean: bool, nothing: float) -> None:
    asked = {}

    def evaluate(sites, wanted, instead):
        asked.update(instead)
        return dict.fromkeys(wanted, X)

    mutation = Unmasked(site="s", mask="mask", shape=(4, 1, 6), boolean=boolean)
    assert set(mutation.computed(SITE, evaluate)) == {"y"}
    assert asked["mask"].shape == (4, 1, 6)
    assert (asked["mask"] == nothing).all()
    assert (asked["mask"].dtype == bool) == boolean


# ---- sessions


def network(toy, *, named: bool = True):
    made = toy(x=(None, 6))
    hidden = made("matmul", "x", made.weight("w", W), to="h")
    half = made("mul", hidden, 0.5, to="half")
    act = made("mul", half, made("add", made("erf", made("mul", hidden, float(np.sqrt(0.5)))), 1.0), to="act")
    normal = made(
        "layer_norm", act, made.weight("scale", np.ones(6)), made.weight("bias", np.zeros(6)), to="n", epsilon=1e-5
    )
    made.named = named
    return made.gives(made("matmul", normal, "w", to="y"), "act")


def mutated(session, made, mutation: Mutation, folder) -> tuple[Mutant, Trace]:
    opened = session(made)
    writer = TraceWriter(folder)
    ends = opened.trace({"x": X}, writer)
    writer.add("x", X)
    free = writer.finish(ends, opened.weights(), {})
    return Mutant(opened, free, mutation), free


FAULTS = {
    "activation": OtherActivation(
        site="site:act",
        source="h",
        variant="gelu_tanh",
        hidden=("site:half", "site:mul_2", "site:erf_3", "site:add_4"),
    ),
    "epsilon": OtherEpsilon(**{**vars(NORM), "site": "site:n", "source": "act", "bias": np.zeros(6)}),
    "dropped": Dropped(site="site:n", kept="act"),
    "weights": OtherWeights(name="w", numbers=W * 2),
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_mutant_is_a_session_like_any_other(toy, session, tmp_path, fault: str, named: bool) -> None:
    made = network(toy, named=named)
    mutant, _ = mutated(session, made, FAULTS[fault], tmp_path)
    check_session(mutant, {"x": X})
    plain = session(made).run({"x": X})
    assert any(not np.array_equal(one, plain[name]) for name, one in mutant.run({"x": X}).items())


def test_inputs_by_another_name(toy, session, tmp_path) -> None:
    mutant, _ = mutated(session, network(toy), FAULTS["dropped"], tmp_path)
    for one, two in zip(mutant.run({"other": X}).values(), mutant.run({"x": X}).values(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_what_is_hidden_is_no_operator_any_more(toy, session, tmp_path) -> None:
    mutant, free = mutated(session, network(toy), FAULTS["activation"], tmp_path)
    sites, tensors, _ = traced(mutant, {"x": X})
    assert {one.name for one in free.sites} - {one.name for one in sites} == set(FAULTS["activation"].hidden)
    np.testing.assert_array_equal(tensors["act"], variant("gelu_tanh").value(tensors["h"].astype(float)).astype("f"))


def test_a_weight_that_two_operators_read_is_another_one_for_both(toy, session, tmp_path) -> None:
    mutant, _ = mutated(session, network(toy), FAULTS["weights"], tmp_path)
    assert set(mutant.weights()) == set(network(toy).weights)
    np.testing.assert_array_equal(mutant.weights()["w"], W * 2)
    _, tensors, _ = traced(mutant, {"x": X})
    np.testing.assert_allclose(tensors["h"], X @ (W * 2), rtol=1e-5)
    np.testing.assert_allclose(tensors["y"], tensors["n"] @ (W * 2), rtol=1e-4, atol=1e-5)


def test_what_is_given_stands_in_the_place_of_the_fault_too(toy, session, tmp_path) -> None:
    mutant, _ = mutated(session, network(toy), FAULTS["epsilon"], tmp_path)
    mutant.trace({"x": X}, lambda _site, _made: None)
    given = mutant.evaluate(["site:n", "site:y"], {"n": X}, ["y"], "native")
    np.testing.assert_allclose(given["y"], X @ W, rtol=1e-4, atol=1e-5)
    own = mutant.evaluate(["site:y"], {"n": X, "w": np.eye(6, dtype=np.float32)}, ["y"], "native")
    np.testing.assert_allclose(own["y"], X, rtol=1e-6)


def test_closing_it_leaves_the_session_open(toy, session, tmp_path) -> None:
    opened = session(network(toy))
    with mutated(lambda _made: opened, network(toy), FAULTS["dropped"], tmp_path)[0]:
        pass
    assert opened.dtypes, "its latest run is known still"
