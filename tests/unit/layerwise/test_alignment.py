"""Two models aligned: every way that there is to know a tensor again, in its order."""

import numpy as np

from parity.align.alignment import Alignment
from parity.layerwise.acquittal import acquit
from parity.layerwise.alignment import Ends, align
from parity.layerwise.measuring import Measurer
from parity.layerwise.repetition import nondeterminism, same_outputs
from parity.layerwise.screening import measured_layers
from parity.stopwatch import Stopwatch

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((16, 8)).astype(np.float32)
W = [RANDOM.standard_normal((8, 8)) for _ in range(4)]
ENDS = Ends((("x", "x"),), (("y", "y"),), {})


def network(toy, *kinds: str, prefix: str = "", wrong: int | None = None):
    """Linear layers with functions between; of number ``wrong`` the function is another."""
    made = toy(x=(None, 8))
    at = "x"
    for k, kind in enumerate(kinds):
        at = made("matmul", at, made.weight(f"w{k}", W[k]), to=f"{prefix}m{k}")
        if k == wrong:
            at = made(kind, at, to=f"{prefix}a{k}", function=lambda x: np.cos(3 * x))
        else:
            at = made(kind, at, to=f"{prefix}a{k}")
    made("neg", at, to="y")
    return made.gives("y")


def aligned(side, tmp_path, one, two, *, taught: bool = True, **options) -> Alignment:
    sides = side(one), side(two, "candidate")
    views = [opened.record({"x": X}, tmp_path / opened.role, {}) for opened in sides]
    return align(*views, ENDS, teacher=sides[1] if taught else None, folder=tmp_path, **options)


def partners(alignment: Alignment) -> dict[str, str]:
    return {pair.reference: pair.candidate for pair in alignment}


def test_equal_models_are_aligned_by_value(toy, side, tmp_path) -> None:
    found = aligned(side, tmp_path, network(toy, "tanh", "exp"), network(toy, "tanh", "exp", prefix="c"))
    assert partners(found) == {"x": "x", "m0": "cm0", "a0": "ca0", "m1": "cm1", "a1": "ca1", "y": "y"}
    assert found.reasons() == {"input": 1, "output": 1, "value": 4}


def test_behind_a_fault_weights_and_teaching_tell(toy, side, tmp_path) -> None:
    """The function is wrong beyond recognition; what comes next is known by weights, the rest by the right numbers."""
    one, two = network(toy, *["tanh"] * 4), network(toy, *["tanh"] * 4, prefix="c", wrong=0)
    found = aligned(side, tmp_path, one, two)
    assert partners(found) == {
        "x": "x",
        "y": "y",
        **{f"m{k}": f"cm{k}" for k in range(4)},
        **{f"a{k}": f"ca{k}" for k in range(4)},
    }
    assert found.of_reference["m1"].reason == "weights"


def test_the_map_goes_first(toy, side, tmp_path) -> None:
    one, two = network(toy, "tanh", "tanh"), network(toy, "tanh", "tanh", prefix="c")
    found = aligned(side, tmp_path, one, two, mapped=[("a0", "cm1")])
    assert partners(found)["a0"] == "cm1"
    assert found.of_reference["a0"].reason == "map"


def measured(side, tmp_path, one, two):
    sides = side(one), side(two, "candidate")
    views = [opened.record({"x": X}, tmp_path / opened.role, {}) for opened in sides]
    found = align(*views, ENDS, teacher=sides[1], folder=tmp_path)
    measurer = Measurer.of(tuple(views), sides, (None, None))
    return measurer, found, measured_layers(measurer, found, lambda _done, _all: None, Stopwatch())


def test_what_both_sides_hold_in_another_form_is_let_go(toy, side, tmp_path) -> None:
    """The candidate has twice the numbers, and a weight half as large after them: the same function."""
    one, two = toy(x=(None, 8)), toy(x=(None, 8))
    for model, factor in ((one, 1.0), (two, 2.0)):
        hidden = model("matmul", "x", model.weight("w0", W[0]), to="m0")
        scaled = model("mul", hidden, factor, to="a0", scope="a0")
        model("matmul", scaled, model.weight("w1", W[1] / factor), to="y", scope="y")
        model.gives("y")
    measurer, alignment, layers = measured(side, tmp_path, one, two)
    assert {layer.region.pair.reference for layer in layers if layer.guilty} == {"a0", "y"}
    kept = acquit(measurer, alignment, layers)
    assert [layer.status for layer in kept] == ["ok"] * len(kept)
    assert "a0" not in alignment.of_reference


def test_a_true_fault_stays(toy, side, tmp_path) -> None:
    one, two = network(toy, "tanh", "tanh"), network(toy, "tanh", "tanh", prefix="c", wrong=0)
    measurer, alignment, layers = measured(side, tmp_path, one, two)
    kept = acquit(measurer, alignment, layers)
    assert [layer.region.pair.reference for layer in kept if layer.guilty] == ["a0"]


def test_the_same_outputs() -> None:
    nan = np.array([np.nan, 1.0])
    assert same_outputs({"y": nan}, {"y": nan.copy()})
    assert not same_outputs({"y": nan}, {"y": nan + 1})
    assert not same_outputs({"y": X}, {"y": X + np.float32(1e-6) * (np.arange(8) == 0)})
    assert same_outputs({"y": np.array([True])}, {"y": np.array([True])})


def test_where_a_model_first_does_not_repeat_itself(toy, side, tmp_path) -> None:
    random = np.random.default_rng(0)
    made = toy(x=(None, 8))
    steady = made("tanh", "x", to="a", scope="one")
    drawn = made("add", steady, 0.0, to="b", scope="two", function=lambda x, _: x + random.random())
    made.gives(made("neg", drawn, to="y", scope="three"))
    for role, severity in (("candidate", "error"), ("reference", "warning")):
        finding = nondeterminism(side(made, role), {"x": X}, tmp_path / role)
        assert (finding.rule, finding.severity) == ("nondeterminism", severity)
        assert finding.location[role]["scope"] == "two"
        assert "first at two" in finding.message
