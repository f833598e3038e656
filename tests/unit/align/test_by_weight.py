"""Pairs by weights: operators that read the same parameter are one another's, however wrong their inputs are."""

import numpy as np
import pytest

from parity.align.alignment import Alignment
from parity.align.by_weight import add_if_like, align_by_weight

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 6)).astype(np.float32)
W = RANDOM.standard_normal((6, 5)).astype(np.float32)
B = RANDOM.standard_normal(5).astype(np.float32)


def garbled(x: np.ndarray) -> np.ndarray:
    """Numbers by which nothing can be known again."""
    return np.random.default_rng(9).standard_normal(x.shape).astype(x.dtype)


def aligned(one, two, x: np.ndarray = X) -> dict[str, str]:
    alignment = Alignment()
    count = align_by_weight(one.view(x=x), two.view(x=x), alignment)
    assert count == len(alignment)
    assert all(pair.reason == "weights" for pair in alignment)
    return {pair.reference: pair.candidate for pair in alignment}


def linear(toy, to: str, *, weight: np.ndarray = W, bias: str = "", wrong: bool = False, transposed: bool = False):
    """A linear layer: its bias inside, in an addition of its own, or none; on what another operator made."""
    model = toy(x=(None, 6))
    data = model("exp", "x", to=f"{to}.in", function=garbled if wrong else None)
    w = model.weight(f"{to}.w", weight)
    if transposed:
        w = model("transpose", model.weight(f"{to}.w", weight.T), to=f"{to}.t", axes=[1, 0])
    if bias == "inside":
        model("matmul", data, w, model.weight(f"{to}.b", B), to=f"{to}.out")
    else:
        made = model("matmul", data, w, to=f"{to}.out")
        if bias:
            model("add", made, model.weight(f"{to}.b", B), to=f"{to}.sum")
    return model


def test_results_and_operands_of_the_same_weight(toy) -> None:
    assert aligned(linear(toy, "a"), linear(toy, "p", wrong=True)) == {"a.out": "p.out", "a.in": "p.in"}


def test_a_transposed_weight_is_the_same_weight(toy) -> None:
    assert aligned(linear(toy, "a"), linear(toy, "p", wrong=True, transposed=True)) == {
        "a.out": "p.out",
        "a.in": "p.in",
    }


def test_a_rounded_weight_is_the_same_weight(toy) -> None:
    rounded = W.astype(np.float16).astype(np.float32)
    assert aligned(linear(toy, "a"), linear(toy, "p", weight=rounded)) == {"a.out": "p.out", "a.in": "p.in"}


def test_another_weight_is_another(toy) -> None:
    assert aligned(linear(toy, "a"), linear(toy, "p", weight=garbled(W))) == {}
    assert aligned(linear(toy, "a"), linear(toy, "p", weight=W * 1.1)) == {}


@pytest.mark.parametrize(
    ("one", "two", "result"),
    [
        ("", "", ("a.out", "p.out")),
        ("inside", "inside", ("a.out", "p.out")),
        ("inside", "added", ("a.out", "p.sum")),
        ("added", "inside", ("a.sum", "p.out")),
        ("added", "added", ("a.sum", "p.sum")),
        ("", "inside", None),
        ("added", "", ("a.out", "p.out")),
    ],
)
def test_a_bias_inside_the_operator_or_behind_it(toy, one: str, two: str, result: tuple[str, str] | None) -> None:
    found = aligned(linear(toy, "a", bias=one), linear(toy, "p", bias=two))
    assert found.pop("a.in") == "p.in"
    assert found == ({} if result is None else dict([result]))


def test_weights_that_cannot_be_told_apart_are_passed_over(toy) -> None:
    models = []
    for name in "ap":
        model = toy(x=(None, 6))
        data = model("exp", "x", to=f"{name}.in")
        for k in range(2):
            model("matmul", data, model.weight(f"{name}.w{k}", W), to=f"{name}.out{k}")
        models.append(model)
    assert aligned(*models) == {}


@pytest.mark.parametrize("weight", [np.ones((6, 5)), np.ones((6, 5)) * 0.3])
def test_a_constant_weight_tells_nothing(toy, weight: np.ndarray) -> None:
    assert aligned(linear(toy, "a", weight=weight), linear(toy, "p", weight=weight)) == {}


def test_a_weight_that_is_read_several_times_pairs_its_readers_in_order(toy) -> None:
    models = []
    for name in "ap":
        model = toy(x=(None, 6))
        square = model.weight(f"{name}.w", np.random.default_rng(2).standard_normal((6, 6)))
        first = model("matmul", "x", square, to=f"{name}.1")
        model("matmul", first, square, to=f"{name}.2")
        models.append(model)
    assert aligned(*models) == {"a.1": "p.1", "a.2": "p.2", "x": "x"}


def test_readers_of_other_numbers_are_passed_over(toy) -> None:
    one, two = linear(toy, "a"), linear(toy, "p")
    two("matmul", "p.in", "p.w", to="again")
    assert aligned(one, two) == {}


def test_normalisations_by_their_scale(toy) -> None:
    models = []
    for name, epsilon in (("a", 1e-5), ("p", 1e-1)):
        model = toy(x=(None, 5))
        scale, shift = model.weight(f"{name}.w", B), model.weight(f"{name}.b", B[::-1])
        model("layer_norm", "x", scale, shift, to=f"{name}.out", epsilon=epsilon)
        models.append(model)
    x = X[:, :5]
    assert aligned(*models, x) == {"a.out": "p.out", "x": "x"}


def test_a_stack_of_layers_in_one_operator_is_passed_over(toy) -> None:
    models = []
    for name in "ap":
        model = toy(x=(None, 6))
        weight = model.weight(f"{name}.w", W)
        model("recurrent", "x", weight, to=f"{name}.out", function=lambda x, w, layers: x @ w, layers=2)
        models.append(model)
    assert aligned(*models) == {}


def test_what_a_pair_must_be(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    for model in (one, two):
        model("exp", "x", to="a")
        model("exp", model.weight("w", W), to="static")
        model("transpose", "x", to="moved", axes=[1, 0])
    two("slice", "x", to="part", start=0, end=3)
    views = one.view(x=X), two.view(x=X)
    alignment = Alignment()
    assert not add_if_like(views, alignment, ("static", "static"), "name"), "it does not depend on the inputs"
    assert not add_if_like(views, alignment, ("a", "part"), "name"), "another size"
    assert not add_if_like(views, alignment, ("nowhere", "a"), "name")
    assert add_if_like(views, alignment, ("a", "a"), "name")
    assert not add_if_like(views, alignment, ("a", "moved"), "name"), "it has a pair"
    assert add_if_like(views, alignment, ("x", "moved"), "name")
    assert alignment.of_reference["x"].layout.axes == (1, 0)


def test_empty_tensors_are_no_pair(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    for model in (one, two):
        model("slice", "x", to="none", start=0, end=0)
    assert not add_if_like((one.view(x=X), two.view(x=X)), Alignment(), ("none", "none"), "name")


@pytest.mark.parametrize("numbers", [np.exp, lambda x: x.sum()])
def test_single_numbers_can_be_a_pair(toy, numbers) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    for model in (one, two):
        model("sum", "x", to="a", function=numbers)
    assert add_if_like((one.view(x=X), two.view(x=X)), Alignment(), ("a", "a"), "name")
