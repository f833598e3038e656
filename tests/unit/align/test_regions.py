"""Regions: what lies between aligned tensors on both sides, from the same ones on."""

import numpy as np
import pytest

from parity.align.alignment import Alignment, Pair
from parity.align.layout import Layout
from parity.align.regions import FAR, find_region

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
PLAIN = Layout.reshaped((2, 3), (2, 3))


def chain(toy, *names: str, inputs: tuple[str, ...] = ("x",)):
    """Operators one after the other, from the first input on."""
    model = toy(**dict.fromkeys(inputs, (None, 3)))
    at = inputs[0]
    for name in names:
        at = model("tanh", at, to=name)
    return model


def region(one, two, pairs: dict[str, str], target: str, uncut=(), **inputs):
    given = inputs or {"x": X}
    alignment = Alignment()
    for ours, theirs in pairs.items():
        alignment.add(Pair(ours, theirs, PLAIN, "input" if ours in given else "value", 1.0))
    views = (
        one.view(**{name: given[name] for name in one.inputs}),
        two.view(**{name: given[name] for name in two.inputs}),
    )
    found = find_region(*views, alignment, alignment.of_reference[target], uncut=uncut)
    strip = [[name.removeprefix("site:") for name in sites] for sites in (found.reference_sites, found.candidate_sites)]
    return [pair.reference for pair in found.boundary], *strip


def test_between_two_pairs(toy) -> None:
    one, two = chain(toy, "a", "b", "c"), chain(toy, "p", "q", "r", "s")
    pairs = {"x": "x", "a": "q", "c": "s"}
    assert region(one, two, pairs, "c") == (["a"], ["b", "c"], ["r", "s"])
    assert region(one, two, pairs, "a") == (["x"], ["a"], ["p", "q"])


def test_of_an_input_there_is_nothing(toy) -> None:
    one = chain(toy, "a")
    assert region(one, one, {"x": "x"}, "x") == ([], [], [])


def test_a_pair_that_one_side_alone_meets_is_passed_through(toy) -> None:
    one, two = chain(toy, "a", "b"), toy(x=(None, 3))
    two("tanh", "x", to="p")
    two("tanh", "x", to="q")
    assert region(one, two, {"x": "x", "a": "p", "b": "q"}, "b") == (["x"], ["a", "b"], ["q"])


def test_passing_one_through_may_show_another_one_sided_one(toy) -> None:
    one = chain(toy, "a", "b", "c")
    two = chain(toy, "r", "s")
    two("tanh", two("tanh", "x", to="p"), to="q")
    pairs = {"x": "x", "a": "p", "b": "q", "c": "s"}
    assert region(one, two, pairs, "c") == (["x"], ["a", "b", "c"], ["r", "s"])


def test_an_input_that_one_side_ignores_stays_in_the_boundary(toy) -> None:
    one, two = chain(toy, "a", inputs=("x", "mask")), chain(toy, inputs=("x", "mask"))
    two("add", "x", "mask", to="p")
    pairs = {"x": "x", "mask": "mask", "a": "p"}
    assert region(one, two, pairs, "a", x=X, mask=X) == (["mask", "x"], ["a"], ["p"])


def test_uncut_pairs_do_not_stop_either_side(toy) -> None:
    one, two = chain(toy, "a", "b", "c"), chain(toy, "p", "q", "r")
    pairs = {"x": "x", "a": "p", "b": "q", "c": "r"}
    assert region(one, two, pairs, "c") == (["b"], ["c"], ["r"])
    assert region(one, two, pairs, "c", uncut=["b"]) == (["a"], ["b", "c"], ["q", "r"])
    assert region(one, two, pairs, "c", uncut=["a", "b"]) == (["x"], ["a", "b", "c"], ["p", "q", "r"])
    assert region(one, two, pairs, "c", uncut=["a"]) == (["b"], ["c"], ["r"]), "it is not met at all"


def test_what_makes_weights_is_in_the_region(toy) -> None:
    one, two = toy(x=(None, 3)), toy(x=(None, 3))
    one("add", "x", one("neg", one.weight("w", X), to="w2"), to="a")
    two("add", "x", two.weight("v", X), to="p")
    assert region(one, two, {"x": "x", "a": "p"}, "a") == (["x"], ["w2", "a"], ["p"])


def test_a_branching_graph_is_in_execution_order_and_once(toy) -> None:
    one = toy(x=(None, 3))
    a = one("tanh", "x", to="a")
    one("add", one("exp", a, to="b"), one("neg", a, to="c"), to="d")
    assert region(one, one, {"x": "x", "d": "d"}, "d") == (["x"], ["a", "b", "c", "d"], ["a", "b", "c", "d"])


@pytest.mark.parametrize("length", [2, 30])
def test_what_one_side_alone_reads_is_no_reason_to_go_far_back(toy, length) -> None:
    names = [f"a{k}" for k in range(length)]
    one, two = chain(toy, *names, "b"), chain(toy, *names, "b", "c")
    one("add", names[-1], "b", to="c")  # the candidate leaves this sum out
    pairs = {"x": "x", **{name: name for name in (*names, "b")}, "c": "c"}
    far = length > FAR
    expected = [names[-1], "b"] if far else ["x", "b"]
    assert region(one, two, pairs, "c") == (expected, ["c"] if far else [*names, "c"], ["c"])


def test_what_the_candidate_makes_later_is_no_start(toy) -> None:
    names = [f"a{k}" for k in range(FAR + 2)]
    one, two = chain(toy, *names, "b"), chain(toy, "b", "c", *names)  # the candidate's layers are in another order
    one("add", names[-1], "b", to="c")
    pairs = {"x": "x", **{name: name for name in (*names, "b")}, "c": "c"}
    assert region(one, two, pairs, "c") == (["x", "b"], [*names, "c"], ["c"])
