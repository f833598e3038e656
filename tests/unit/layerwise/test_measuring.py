"""Regions measured on the reference's numbers: who is guilty, of what, and what is untested."""

import math

import numpy as np
import pytest

from parity.align.alignment import Alignment, Pair
from parity.align.layout import Layout
from parity.align.regions import Region
from parity.compare.local import LocalError
from parity.layerwise.alignment import Ends, align
from parity.layerwise.measuring import (
    EXCESS,
    GAP,
    JUMP,
    ROUNDING,
    SPARSE_GAP,
    Layer,
    Measurer,
    Results,
    by_jumps,
    judge,
    judged,
)
from parity.layerwise.screening import measured_layers
from parity.stopwatch import Stopwatch

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((16, 8)).astype(np.float32)
PLAIN = Layout.reshaped((2, 3), (2, 3))


def error(**changed) -> LocalError:
    """A faultless region, with some numbers changed; the floor is 1."""
    fine = {
        "count": 9,
        "scale": 1e6,
        "floor": 1.0,
        "error": 1.0,
        "gap": 0.0,
        "rounding": 1.0,
        "max_abs": 2.0,
        "max_excess": 1.0,
    }
    return LocalError(**{**fine, "max_gap": 0.0, "finite_lost": 0, "finite_gained": 0, **changed})


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, "ok"),
        ({"gap": 0.99 * GAP}, "ok"),
        ({"gap": 1.01 * GAP}, "function"),
        ({"max_gap": 0.99 * SPARSE_GAP}, "ok"),
        ({"max_gap": 1.01 * SPARSE_GAP}, "function"),
        ({"rounding": 0.99 * ROUNDING}, "ok"),
        ({"rounding": 1.01 * ROUNDING}, "rounding"),
        ({"rounding": 1e9, "gap": 1e9}, "function"),
        ({"finite_lost": 1}, "overflow"),
        ({"finite_gained": 1}, "overflow"),
        ({"finite_lost": 1, "gap": 1e9}, "overflow"),
        ({"error": 1e9}, "ok"),  # by what, gap and rounding say
        ({"gap": None, "rounding": None, "max_gap": None, "error": 0.99 * EXCESS}, "ok"),
        ({"gap": None, "rounding": None, "max_gap": None, "error": 1.01 * EXCESS}, "function"),
        ({"floor": 0.0, "error": 0.0, "rounding": 0.0}, "ok"),
        ({"floor": 0.0, "error": 1.0, "rounding": 1.0, "gap": 1.0}, "function"),
    ],
)
def test_judge(changed, status: str) -> None:
    assert judge(error(**changed)) == status


def layer(name: str, *boundary: str, propagated: float = 0.0, status: str = "untested", dtype: str = "float32"):
    pairs = [Pair(one, one, PLAIN, "value", 1.0) for one in (name, *boundary)]
    region = Region(pairs[0], tuple(pairs[1:]), (), ())
    return Layer(region=region, dtype=dtype, propagated=propagated, measure=None, status=status)


LEAST = 4 * float(np.finfo(np.float32).eps)


@pytest.mark.parametrize(
    ("errors", "statuses"),
    [
        ([0.0, 0.0, 0.0], ["ok", "ok", "ok"]),
        ([1e-7, 2e-7, 1e-6], ["ok", "ok", "ok"]),
        ([1e-7, 1e-3, 5e-3], ["ok", "function", "ok"]),
        ([1e-3, 5e-3, 0.5], ["function", "ok", "function"]),
        ([0.99 * JUMP * LEAST, 0.0, 0.0], ["ok", "ok", "ok"]),
        ([1.01 * JUMP * LEAST, 0.0, 0.0], ["function", "ok", "ok"]),
        ([1e-7, math.inf, math.inf], ["ok", "function", "ok"]),
    ],
)
def test_of_two_traces_jumps_are_guilty(errors: list[float], statuses: list[str]) -> None:
    layers = [layer("a", propagated=errors[0]), layer("b", "a", propagated=errors[1])]
    layers.append(layer("c", "b", propagated=errors[2]))
    assert [one.status for one in by_jumps(layers)] == statuses


def test_a_jump_is_over_the_largest_inherited_error() -> None:
    layers = [layer("a", propagated=0.0), layer("b", propagated=0.1), layer("c", "a", "b", propagated=0.5)]
    assert by_jumps(layers)[-1].status == "ok"


def test_a_jump_is_measured_in_the_types_own_rounding() -> None:
    assert [by_jumps([layer("a", propagated=0.01, dtype=name)])[0].status for name in ("float32", "bfloat16")] == [
        "function",
        "ok",
    ]


def test_what_was_judged_by_its_numbers_is_left() -> None:
    layers = [layer("a", propagated=1.0, status="ok"), layer("b", status="function")]
    assert [one.status for one in by_jumps(layers)] == ["ok", "function"]


Z = np.array([[1.0, 2.0, 3.0]])


def results(exact=Z, twin=None, candidate=None, own=Z) -> Results:
    given = [Z.astype(np.float32) if one is None else np.asarray(one) for one in (twin, candidate)]
    return Results(exact, *given, own)


def test_whole_numbers_are_the_same_or_not() -> None:
    ours, theirs = np.array([[1, 2, 3, 4]]), np.array([1, 2, 3, 5])
    found = judged(layer("a", status="ok"), results(twin=ours, candidate=theirs))
    assert (found.status, found.unequal, found.measure) == ("function", 0.25, None)
    found = judged(layer("a", status="ok"), results(twin=ours, candidate=ours.astype(np.int32)))
    assert (found.status, found.unequal) == ("ok", 0.0)
    assert judged(layer("a", status="ok"), results(twin=ours[:, :0], candidate=theirs[:0])).status == "ok"
    assert judged(layer("a", status="ok"), results(twin=ours > 2, candidate=ours > 3)).unequal == 0.25


def test_where_only_the_candidate_has_float64_the_roles_change() -> None:
    found = judged(layer("a", status="ok"), results(exact=None, twin=Z + 1, candidate=Z.astype(np.float32)))
    assert found.status == "function"
    assert found.measure.gap is None
    assert found.measure.error == pytest.approx(1.0)


def test_where_neither_has_float64_it_is_untested() -> None:
    found = judged(layer("a", status="ok"), results(exact=None, own=None))
    assert (found.status, found.measure) == ("untested", None)
    assert "float64" in found.reason
    assert not found.guilty


# ---- two models


def model(toy, fault: str = "", *, transposed: bool = False):
    """A little network with a fault in its middle."""
    made = toy(x=(None, 8))
    at = made("matmul", "x", made.weight("w", np.random.default_rng(1).standard_normal((8, 6))), to="fc")
    if transposed:
        at = made("transpose", at, to="moved", axes=[1, 0])
    faults = {
        "function": {"function": lambda x: np.tanh(x) * x.dtype.type(1.001)},
        "rounding": {"native": lambda x: np.tanh(x).astype(np.float16).astype(x.dtype)},
        "overflow": {"native": lambda x: np.where(x > 1, np.inf, np.tanh(x)).astype(x.dtype)},
        "untested": {"double": False},
    }
    at = made("tanh", at, to="act", **faults.get(fault, {}))
    if transposed:
        at = made("transpose", at, to="back", axes=[1, 0])
    return made.gives(made("softmax", at, to="y"))


def layers_of(side, tmp_path, one, two, *, traces: str = "") -> dict[str, Layer]:
    """Layers of two models by the reference's tensor; ``traces`` names the sides of which there is only a trace."""
    sides = side(one), side(two, "candidate")
    views = [opened.record({"x": X}, tmp_path / opened.role, {}) for opened in sides]
    kept = [None if opened.role in traces else opened for opened in sides]
    ends = Ends((("x", "x"),), (("y", "y"),), {})
    alignment = align(*views, ends, teacher=kept[1], folder=tmp_path)
    measurer = Measurer.of(tuple(views), tuple(kept), (None, None))
    ticks = []
    found = measured_layers(measurer, alignment, lambda done, total: ticks.append((done, total)), Stopwatch())
    assert ticks == [(k + 1, len(found)) for k in range(len(found))]
    assert [views[0].order(one.region.pair.reference) for one in found] == sorted(
        views[0].order(one.region.pair.reference) for one in found
    )
    return {one.region.pair.reference: one for one in found}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("fault", ["", "function", "rounding", "overflow"])
def test_the_guilty_layer_alone_is_guilty(toy, side, tmp_path, fault: str, transposed: bool) -> None:
    found = layers_of(side, tmp_path, model(toy), model(toy, fault, transposed=transposed))
    assert {name: one.status for name, one in found.items()} == {"fc": "ok", "act": fault or "ok", "y": "ok"}
    assert found["fc"].propagated == 0
    if fault:
        assert found["y"].propagated > 0 or fault == "overflow", "it inherits the fault"
        assert found["act"].guilty


def test_a_layer_of_the_candidate_without_float64(toy, side, tmp_path) -> None:
    found = layers_of(side, tmp_path, model(toy), model(toy, "untested"))
    assert {one.status for one in found.values()} == {"ok"}
    assert found["act"].measure.gap is None


def test_a_layer_without_float64_on_either_side(toy, side, tmp_path) -> None:
    found = layers_of(side, tmp_path, model(toy, "untested"), model(toy, "untested"))
    assert {name: one.status for name, one in found.items()} == {"fc": "ok", "act": "untested", "y": "ok"}


@pytest.mark.parametrize("traces", ["reference", "candidate"])
@pytest.mark.parametrize("fault", ["", "function"])
def test_a_trace_in_place_of_one_side(toy, side, tmp_path, traces: str, fault: str) -> None:
    found = layers_of(side, tmp_path, model(toy), model(toy, fault), traces=traces)
    assert {name: one.status for name, one in found.items()} == {"fc": "ok", "act": fault or "ok", "y": "ok"}


@pytest.mark.parametrize("fault", ["", "function"])
def test_traces_in_place_of_both_sides(toy, side, tmp_path, fault: str) -> None:
    found = layers_of(side, tmp_path, model(toy), model(toy, fault), traces="reference candidate")
    assert {name: one.status for name, one in found.items()} == {"fc": "ok", "act": fault or "ok", "y": "ok"}


def test_declared_types(toy, side, tmp_path) -> None:
    view = model(toy).view(x=X)
    assert Measurer.of((view, view), (None, None), ("float16", None)).reference_dtype == "float16"
    assert Measurer.of((view, view), (None, None), ("float16", None)).candidate_dtype == "float32"


def test_what_a_worker_is_told_of_a_region(toy) -> None:
    view = model(toy).view(x=X)
    alignment = Alignment()
    moved = Layout((16, 6), (16, 6), (1, 0), (6, 16))
    for pair in (Pair("fc", "fc", moved, "value", 1.0), Pair("act", "act", moved, "value", 1.0)):
        alignment.add(pair)
    region = Region(alignment.of_reference["act"], (alignment.of_reference["fc"],), ("site:act",), ("site:act",))
    told = Measurer.of((view, view), (None, None), (None, None)).request(region, candidate=True)
    folder = str(view.trace.folder)
    assert told == {
        "sites": ["site:act"],
        "given": {
            "fc": {"tensor": "fc", "layout": moved.as_json(), "folder": folder},
            "x": {"tensor": "x", "layout": None, "folder": folder},
        },
        "wanted": "act",
    }
