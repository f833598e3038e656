"""Pairs by value: equal numbers in whatever layout, the surest first, and nothing that tells too little."""

import numpy as np
import pytest

from parity.align.alignment import CONFIDENCE, Alignment
from parity.align.by_value import LIMIT, align_by_value

X = np.random.default_rng(0).standard_normal((2, 6, 5)).astype(np.float32)


def aligned(one, two, x: np.ndarray = X, **options) -> dict[str, str]:
    alignment = Alignment()
    count = align_by_value(one.view(x=x), two.view(x=x), alignment, **options)
    assert count == len(alignment)
    assert all(pair.reason == "value" for pair in alignment)
    return {pair.reference: pair.candidate for pair in alignment}


def test_equal_numbers_in_another_layout(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    one("exp", "x", to="a")
    two("exp", two("transpose", "x", axes=[0, 2, 1]), to="p")
    alignment = Alignment()
    views = one.view(x=X), two.view(x=X)
    assert align_by_value(*views, alignment) == 1
    (pair,) = alignment
    assert (pair.reference, pair.candidate, pair.confidence) == ("a", "p", 1.0)
    np.testing.assert_array_equal(pair.layout.apply(views[0].trace.array("a")), views[1].trace.array("p"))


@pytest.mark.parametrize(("error", "found"), [(0.0, 1.0), (1e-5, 1.0), (1e-3, CONFIDENCE["value"]), (0.1, None)])
def test_how_near_they_must_be(toy, error: float, found: float | None) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    noise = np.random.default_rng(1).standard_normal(X.shape) * error
    one("exp", "x", to="a", function=lambda x: x)
    two("exp", "x", to="p", function=lambda x: (x + noise).astype(x.dtype))
    alignment = Alignment()
    align_by_value(one.view(x=X), two.view(x=X), alignment)
    assert [pair.confidence for pair in alignment] == ([] if found is None else [found])


def test_a_limit_of_ones_own(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    one("exp", "x", to="a", function=lambda x: x)
    two("exp", "x", to="p", function=lambda x: x * np.float32(1.005))
    assert aligned(one, two) == {"a": "p"}
    assert aligned(one, two, limit=1e-4) == {}
    assert LIMIT > 0.005


def test_of_two_that_are_like_the_nearer_is_taken(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    one("exp", "x", to="far", function=lambda x: x * np.float32(1.01))
    one("exp", "x", to="near", function=lambda x: x)
    two("exp", "x", to="p", function=lambda x: x * np.float32(1.0005))
    assert aligned(one, two) == {"near": "p"}


def test_of_equals_that_of_the_same_kind_is_taken_then_the_earlier(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    one("exp", "x", to="a")
    one("relu", "a", to="b")
    one("relu", "b", to="c")
    two("relu", two("exp", "x", to="p", function=np.exp), to="q")
    assert aligned(one, two) == {"a": "p", "b": "q"}


def test_constant_and_single_numbers_tell_nothing(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    for model in (one, two):
        model("mul", "x", 0.0, to="zero")
        model("mean", "x", to="single", axes=[0, 1, 2])
    assert aligned(one, two) == {}


def test_whole_numbers_must_be_equal_and_are_no_floats(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    one("cast", "x", to="a", function=lambda x: np.round(x * 10).astype(np.int64))
    two("cast", "x", to="p", function=lambda x: np.round(x * 10).astype(np.int32))
    two("cast", "x", to="q", function=lambda x: np.round(x * 10))
    assert aligned(one, two) == {"a": "p"}
    other = toy(x=(None, 6, 5))
    other("cast", "x", to="p", function=lambda x: np.round(x * 10).astype(np.int64) + (np.arange(5) == 3))
    assert aligned(one, other) == {}


def test_weights_and_inputs_are_no_pairs(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    for model in (one, two):
        model("exp", model.weight("w", X[0]), to="of_weights")
    assert aligned(one, two) == {}


def test_what_depends_on_drawn_weights_is_no_pair(toy) -> None:
    one, two = toy(x=(None, 6, 5)), toy(x=(None, 6, 5))
    for model in (one, two):
        model("mul", model("exp", "x", to="a"), model.weight("w", X[0] + 5), to="b")
        model.drawn = ("w",)
    assert aligned(one, two) == {"a": "a"}


def test_a_residual_stream_that_hardly_changes_is_paired_sum_by_sum(toy) -> None:
    """One side adds a bias of zeros by itself, the other has it inside the product; each branch adds a millionth."""
    width = np.random.default_rng(1).standard_normal((5, 5))

    def model(*, bias: bool):
        made = toy(x=(None, 6, 5))
        at = made("matmul", "x", made.weight("w", width), to="fc")
        at = made("add", at, made.weight("b", np.zeros(5)), to="biased") if bias else at
        for k in range(3):
            branch = made("mul", made("tanh", at, to=f"act{k}"), 1e-6, to=f"branch{k}")
            at = made("add", at, branch, to=f"sum{k}")
        return made.gives(at)

    found = aligned(model(bias=True), model(bias=False))
    assert {name: found[name] for name in ("fc", "sum0", "sum1", "sum2")} == {
        name: name for name in ("fc", "sum0", "sum1", "sum2")
    }
    back = aligned(model(bias=False), model(bias=True))
    assert {name: back[name] for name in ("sum0", "sum1", "sum2")} == {name: name for name in ("sum0", "sum1", "sum2")}
