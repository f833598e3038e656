"""What is asked of a trace's graph."""

import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)


@pytest.fixture
def view(toy):
    model = toy(x=(None, 6))
    model("exp", model.weight("w", X), to="static")
    model("cast", "w", to="w16", function=lambda x: x.astype(np.float16))
    model("expand", model("reshape", "w16", to="w12", shape=(12,)), to="wide", function=lambda x: np.tile(x, (3, 1)))
    model("mul", "x", "static", to="a")
    model("reshape", "a", to="b", shape=(3, 4))
    model("transpose", "b", to="c", axes=[1, 0])
    model("cast", "c", to="d", function=lambda x: x.astype(np.float16))
    model("reshape", "d", to="e", shape=(12,))
    model("add", "d", "d", to="f")
    model("add", "a", "x", to="g")
    model("mul", "g", model.weight("random", X), to="h")
    model("tanh", "h", to="i")
    model.drawn = ("random",)
    return model.gives("f", "i").view(x=X)


def test_who_makes_and_who_reads(view) -> None:
    site = view.site_of("b")
    assert site.name == "site:b"
    assert view.trace.sites[view.by_name["site:b"]] is site
    assert view.order("b") == view.producer["b"]
    for outside in ("x", "w", "nowhere"):
        assert view.site_of(outside) is None
        assert view.order(outside) == -1
    readers = [view.trace.sites[k].name for k in view.consumers["d"]]
    assert readers == ["site:e", "site:f"], "once, though f reads it twice"
    assert view.consumers.get("f") is None


def test_what_depends_on_the_inputs(view) -> None:
    assert view.dynamic == {"x", *"abcdefghi"}
    assert view.arbitrary == {"random", "h", "i"}


def test_entries(view) -> None:
    assert view.entry("b").shape == (3, 4)
    assert view.entry("w").dtype == "float32"
    assert view.entry("nowhere") is None


def test_the_origin_is_before_whatever_moves_the_numbers(view) -> None:
    for name in "abcde":
        assert view.origin(name) == "a"
    assert view.origin("f") == "f"
    assert view.origin("x") == "x"
    assert view.origin("w12") == "w"
    assert view.origin("wide") == "wide", "it has more numbers"


def test_the_origin_is_not_beyond_a_cut(toy) -> None:
    model = toy(x=(None, 6))
    model("identity", "x", to="part", function=lambda x: x[:1])
    assert model.view(x=X).origin("part") == "part"


def test_the_root_of_a_weight(view) -> None:
    assert view.root("wide") == "w"
    assert view.root("static") == "static"


def test_what_was_computed(view) -> None:
    assert view.computed() == ["a", "d", "f", "g"], "not moved, not static, not of drawn weights"
