"""Tensors whose arrangement was guessed wrong are put right by what is made of them."""

from dataclasses import replace

import numpy as np
import pytest

from parity.align.layout import Layout, arrangements
from parity.align.regions import find_region
from parity.diagnose.rearranging import rearranged
from parity.layerwise.alignment import Ends, align
from parity.layerwise.measuring import Measurer

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((6, 6)).astype(np.float32)
W = RANDOM.standard_normal((6, 6))

PLAIN = Layout.reshaped((6, 6), (6, 6))
TURNED = Layout((6, 6), (6, 6), (1, 0), (6, 6))


def model(toy, *, wrong: bool, turned: bool):
    """tanh, or something else in its place, and a product of it; held with its axes exchanged if asked for."""
    made = toy(x=(6, 6))
    at = made("transpose", "x", to="moved", axes=[1, 0]) if turned else "x"
    at = made("tanh", at, to="act", **({"function": lambda x: np.cos(3 * x)} if wrong else {}))
    at = made("transpose", at, to="back", axes=[1, 0]) if turned else at
    return made.gives(made("matmul", at, made.weight("w", W), to="y"))


@pytest.fixture
def looked(toy, side, tmp_path):
    """Measurer, alignment and layers of two such models, with the arrangement of the tanh taken as said."""

    def look(*, wrong: bool, turned: bool, taken: Layout, reason: str = "weights"):
        sides = side(model(toy, wrong=False, turned=False)), side(model(toy, wrong=wrong, turned=turned), "candidate")
        views = tuple(opened.record({"x": X}, tmp_path / opened.role, {}) for opened in sides)
        alignment = align(*views, Ends((("x", "x"),), (("y", "y"),), {}), teacher=None, folder=tmp_path)
        pair = alignment.of_reference["act"]
        alignment.drop(pair)
        alignment.add(replace(pair, layout=taken, reason=reason))
        measurer = Measurer.of(views, sides, (None, None))
        pairs = [alignment.of_reference[name] for name in ("act", "y")]
        layers = list(measurer.measure([find_region(*views, alignment, pair) for pair in pairs]))
        return measurer, alignment, layers

    return look


@pytest.mark.parametrize(("turned", "taken", "right"), [(True, PLAIN, TURNED), (False, TURNED, PLAIN)])
def test_what_is_made_of_a_tensor_tells_how_it_lies(looked, turned: bool, taken: Layout, right: Layout) -> None:
    measurer, alignment, layers = looked(wrong=True, turned=turned, taken=taken)
    assert [layer.status for layer in layers] == ["function", "function"]
    act, y = rearranged(measurer, alignment, layers, layers)
    assert (act.status, y.status) == ("function", "ok"), "one fault, where it is"
    assert act.region.pair.layout == alignment.of_reference["act"].layout == right


def test_a_right_tensor_in_a_wrong_arrangement_is_no_fault(looked) -> None:
    measurer, alignment, layers = looked(wrong=False, turned=True, taken=PLAIN)
    found = rearranged(measurer, alignment, layers, [layer for layer in layers if layer.guilty])
    assert [layer.status for layer in found] == ["ok", "ok"]


def test_one_in_its_right_arrangement_is_left(looked) -> None:
    measurer, alignment, layers = looked(wrong=True, turned=True, taken=TURNED)
    assert [layer.status for layer in layers] == ["function", "ok"]
    assert rearranged(measurer, alignment, layers, layers[:1]) is None
    assert alignment.of_reference["act"].layout == TURNED


@pytest.mark.parametrize("reason", ["map", "input", "output"])
def test_what_was_told_is_not_doubted(looked, reason: str) -> None:
    measurer, alignment, layers = looked(wrong=True, turned=True, taken=PLAIN, reason=reason)
    assert rearranged(measurer, alignment, layers, layers) is None
    assert alignment.of_reference["act"].layout == PLAIN


def test_where_no_arrangement_fits_all_stays(looked, monkeypatch) -> None:
    measurer, alignment, layers = looked(wrong=True, turned=True, taken=PLAIN)
    assert TURNED in arrangements((6, 6), (6, 6))
    monkeypatch.setattr("parity.diagnose.rearranging.MOST", 0)
    assert rearranged(measurer, alignment, layers, layers) is None
    assert alignment.of_reference["act"].layout == PLAIN
