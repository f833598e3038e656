"""The quick look says what the close one would, and leaves nothing behind."""

import numpy as np
import pytest

from parity.layerwise import screening
from parity.layerwise.alignment import Ends, align
from parity.layerwise.measuring import GAP, ROUNDING, SPARSE_GAP, Layer, Measurer
from parity.layerwise.screening import NEAR, NEAR_AT_MOST, measured_layers
from parity.stopwatch import Stopwatch

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((64, 8)).astype(np.float32)
W = RANDOM.standard_normal((8, 6))
NOISE = RANDOM.standard_normal((64, 6))
FLOOR = 2.0**-26
"""About half an ulp of what tanh gives."""


def model(toy, *, dtype: str = "float32", transposed: bool = False, **middle):
    made = toy(dtype, x=(None, 8))
    at = made("matmul", "x", made.weight("w", W), to="fc")
    at = made("transpose", at, to="moved", axes=[1, 0]) if transposed else at
    at = made("tanh", at, to="act", **middle)
    at = made("transpose", at, to="back", axes=[1, 0]) if transposed else at
    return made.gives(made("softmax", at, to="y"))


@pytest.fixture
def looked(side, tmp_path):
    """Both looks at two toys: layers by tensor as `measured_layers` has them, and as the close look alone has them."""

    def look(one, two) -> tuple[dict[str, Layer], dict[str, Layer]]:
        sides = side(one), side(two, "candidate")
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        views = [opened.record({"x": X}, folder / opened.role, {}) for opened in sides]
        alignment = align(*views, Ends((("x", "x"),), (("y", "y"),), {}), teacher=sides[1], folder=folder)
        measurer = Measurer.of(tuple(views), sides, (None, None))
        quick = measured_layers(measurer, alignment, lambda _done, _total: None, Stopwatch())
        close = list(measurer.measure([layer.region for layer in quick]))
        assert list((folder / "candidate").glob("forced-*")) == []
        return tuple({one.region.pair.reference: one for one in layers} for layers in (quick, close))

    return look


def assert_alike(looks: tuple[dict[str, Layer], dict[str, Layer]]) -> dict[str, str]:
    quick, close = looks
    statuses = {name: layer.status for name, layer in close.items()}
    assert {name: layer.status for name, layer in quick.items()} == statuses
    for name, layer in quick.items():
        other = close[name]
        assert (layer.dtype, layer.propagated, layer.unequal) == (other.dtype, other.propagated, other.unequal)
        if layer.measure is not None and layer.measure.gap is None:
            assert layer.measure.error == pytest.approx(other.measure.error, rel=1e-9)
            assert layer.measure.floor == pytest.approx(other.measure.floor, rel=1e-9)
            assert layer.measure.max_excess == pytest.approx(other.measure.max_excess, rel=1e-9)
    return statuses


def off_by(errors: np.ndarray):
    """tanh with an error of its function."""

    def function(x):
        wide = np.tanh(x.astype(np.float64)) + (errors if errors.shape == x.shape else errors.T)
        return wide.astype(x.dtype)

    return function


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("size", [0.0, 0.3, 1.0, 1.5, NEAR, 2.5, 0.9 * GAP, 1.1 * GAP, 5.0, 100.0])
def test_faults_of_every_size_spread_over_all_elements(toy, looked, size: float, transposed: bool) -> None:
    errors = size * FLOOR * NOISE
    candidate = model(toy, transposed=transposed, function=off_by(errors))
    statuses = assert_alike(looked(model(toy, function=off_by(0 * NOISE)), candidate))
    if size in {0.0, 100.0}:
        assert statuses["act"] == ("function" if size else "ok")


@pytest.mark.parametrize("size", [1.0, 0.9 * NEAR_AT_MOST, 1.5 * NEAR_AT_MOST, 0.9 * SPARSE_GAP, 2 * SPARSE_GAP, 1e3])
def test_a_fault_in_one_element_alone(toy, looked, size: float) -> None:
    errors = np.zeros((64, 6))
    errors[17, 3] = size * 2 * FLOOR
    statuses = assert_alike(looked(model(toy, function=off_by(0 * NOISE)), model(toy, function=off_by(errors))))
    assert statuses["act"] == ("function" if size >= 2 * SPARSE_GAP else statuses["act"])


def test_a_fault_in_one_of_very_many_elements_is_not_lost(toy, looked, monkeypatch) -> None:
    """Its mean square is nothing; its largest error is not."""
    errors = np.zeros((64, 6))
    errors[17, 3] = 60 * FLOOR
    monkeypatch.setattr(screening, "NEAR", 1e9)
    quick, _ = looked(model(toy, function=off_by(0 * NOISE)), model(toy, function=off_by(errors)))
    assert quick["act"].measure.gap is not None, "looked at closely"
    assert quick["act"].status == "function"


@pytest.mark.parametrize("size", [0.5, 0.5 * ROUNDING, 0.9 * ROUNDING, 1.1 * ROUNDING, 1.3 * ROUNDING, 4 * ROUNDING])
def test_rounding_of_every_size(toy, looked, size: float) -> None:
    native = off_by(size * FLOOR * NOISE)
    statuses = assert_alike(looked(model(toy), model(toy, native=native)))
    if not 0.5 * ROUNDING < size < 4 * ROUNDING:
        assert statuses["act"] == ("rounding" if size > ROUNDING else "ok")


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_leaves_the_range(toy, looked, bad: float) -> None:
    def native(x):
        made = np.tanh(x)
        made[5, 2] = bad
        return made

    assert assert_alike(looked(model(toy), model(toy, native=native)))["act"] == "overflow"


def test_infinities_and_nan_that_both_sides_have(toy, looked) -> None:
    def native(x):
        made = np.tanh(x)
        made[5, 2], made[6, 3], made[7] = np.inf, np.nan, -np.inf
        return made

    assert assert_alike(looked(model(toy, function=native), model(toy, function=native)))["act"] == "ok"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("fault", [False, True])
def test_a_narrow_candidate(toy, looked, dtype: str, fault: bool) -> None:
    wide = {"function": lambda x: (np.tanh(x.astype(np.float64)) * (1.1 if fault else 1.0)).astype(x.dtype)}
    statuses = assert_alike(looked(model(toy), model(toy, dtype=dtype, **wide)))
    assert statuses["act"] == ("function" if fault else "ok")


@pytest.mark.parametrize("wrong", [0, 1, 64])
def test_whole_numbers(toy, looked, wrong: int) -> None:
    def largest(rows: int):
        def function(x):
            found = x.argmax(-1)
            found[:rows] = (found[:rows] + 1) % 8
            return found

        return function

    def whole(rows: int):
        made = toy(x=(None, 8))
        picked = made("argmax", made("tanh", "x", to="t"), to="pick", function=largest(rows))
        return made.gives(made("cast", picked, to="y", function=lambda n: n.astype(np.float32)))

    statuses = assert_alike(looked(whole(0), whole(wrong)))
    assert statuses.get("pick", "ok") == ("function" if wrong else "ok")


def test_an_operator_without_float64_is_looked_at_closely(toy, looked) -> None:
    statuses = assert_alike(looked(model(toy, double=False), model(toy, double=False)))
    assert statuses["act"] == "untested"


def test_only_what_is_plainly_fine_is_spared_the_close_look(toy, side, tmp_path, monkeypatch) -> None:
    asked = []
    measure = Measurer.measure

    def spy(measurer, regions):
        asked.extend(region.pair.reference for region in regions)
        return measure(measurer, regions)

    monkeypatch.setattr(Measurer, "measure", spy)
    sides = side(model(toy)), side(model(toy, function=lambda x: np.tanh(x) * x.dtype.type(1.01)), "candidate")
    views = [opened.record({"x": X}, tmp_path / opened.role, {}) for opened in sides]
    alignment = align(*views, Ends((("x", "x"),), (("y", "y"),), {}), teacher=sides[1], folder=tmp_path)
    ticks = []
    watch = Stopwatch()
    layers = measured_layers(
        Measurer.of(tuple(views), sides, (None, None)), alignment, lambda *tick: ticks.append(tick), watch
    )
    assert asked == ["act"]
    assert [layer.region.pair.reference for layer in layers] == ["fc", "act", "y"]
    assert ticks == [(1, 3), (2, 3), (3, 3)]
    assert set(watch.seconds) == {"candidate, forced", "reference, exact", "closer look"}
    assert all(seconds >= 0 for seconds in watch.seconds.values())


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_batches_of_any_size(toy, looked, monkeypatch, batch: int) -> None:
    monkeypatch.setattr(screening, "BATCH", batch)
    native = off_by(1e3 * FLOOR * NOISE)
    assert assert_alike(looked(model(toy), model(toy, native=native))) == {"fc": "ok", "act": "rounding", "y": "ok"}


def test_the_candidate_is_never_far_ahead_and_leaves_few_files(toy, side, tmp_path, monkeypatch) -> None:
    """Its results wait in files that are written over: of many layers no more are kept than of few."""
    monkeypatch.setattr(screening, "BATCH", 1)
    monkeypatch.setattr(screening, "AHEAD", 1)

    def deep(native=None):
        made = toy("float32", x=(None, 8))
        at = "x"
        for k in range(12):
            at = made("tanh", at, to=f"act{k}", **({"native": native} if native and k == 7 else {}))
        return made.gives(at)

    sides = side(deep()), side(deep(lambda x: np.tanh(x) * np.float32(1.5)), "candidate")
    views = [opened.record({"x": X}, tmp_path / opened.role, {}) for opened in sides]
    alignment = align(*views, Ends((("x", "x"),), (), {}), teacher=sides[1], folder=tmp_path)
    files, force = set(), sides[1].force

    def watched(regions):
        files.update(region["file"] for region in regions)
        return force(regions)

    monkeypatch.setattr(sides[1], "force", watched)
    measurer = Measurer.of(tuple(views), sides, (None, None))
    layers = measured_layers(measurer, alignment, lambda _done, _total: None, Stopwatch())
    assert len(files) == 2
    assert [layer.region.pair.reference for layer in layers if layer.guilty] == ["act7"]
