"""The tally of an exhaustive measurement: what it counts, how it merges, how it is kept."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parity.adapter import Implementation
from parity.errors import InputError
from parity.functions import variant
from parity.inputs import Probe
from parity.jobs import exhaustive_state
from parity.measure import activation
from parity.measure.exhaustive import BLOCK, Tally, exhaust, floats, measured

ONE = 0x3F80_0000  # the bit pattern of 1.0


def same(x: Any) -> Any:
    return x


def relu(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0))


def implementation(function: Any, name: str = "relu", **changes: Any) -> Implementation:
    return Implementation(
        name=name, variant=variant(name), dtypes=("float32",), enter=same, function=function, leave=same, **changes
    )


def silu(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return x / (1 + np.exp(-x))


SILU = implementation(silu, "silu", accuracy="composed")


class Toy:
    """An adapter with these implementations."""

    name = "toy"

    def __init__(self, *rows: Implementation) -> None:
        self.rows = rows

    def activations(self):
        return self.rows


def run(one: Implementation, start: int, stop: int, chunk: int, tally: Any = None) -> list[Tally]:
    arguments = {"implementation": one.name, "start": start, "stop": stop, "chunk": chunk, "tally": tally}
    return [Tally.from_json(message.data["tally"]) for message in exhaust(Toy(one), **arguments)]


def test_every_pattern_is_tried_once_and_in_order():
    seen = []

    def spy(x):
        seen.append(x.view(np.uint32).copy())
        return relu(x)

    tallies = run(implementation(spy), 2**31 - 1000, 2**31 + 1000, chunk=300)
    assert np.array_equal(np.concatenate(seen), np.arange(2**31 - 1000, 2**31 + 1000, dtype=np.uint32))
    assert [tally.count for tally in tallies] == [300, 600, 900, 1200, 1500, 1800, 2000]


def test_the_last_pattern_is_a_negative_nan():
    assert floats(2**32 - 1, 2**32).view(np.uint32).tolist() == [2**32 - 1]


@pytest.mark.parametrize(
    "start", [0, 0x0080_0000, ONE, 0x41A0_0000 - 5000, 0x42B0_0000, 0x7F7F_F000, 0xBF80_0000, 0xFF7F_F000]
)
@pytest.mark.parametrize(
    "one", [SILU, implementation(relu), implementation(lambda x: np.where(x < 1e-30, np.float32(0), relu(x)))]
)
def test_agrees_with_the_measurement_of_a_bench_on_the_same_inputs(monkeypatch, one, start):
    x = floats(start, start + 10_000)
    inputs = Probe(x, {"all": np.arange(len(x))}, frozenset())
    monkeypatch.setattr(activation, "probe", lambda *_: inputs)
    (expected,), profile = activation.Bench("float32", 1).measure("toy", one, ())
    assert profile is not None
    tally = measured(one, start, start + len(x))
    row = tally.row_of(profile, start)
    assert row.mean_ulp == pytest.approx(expected.mean_ulp, rel=1e-12, nan_ok=True)
    assert row == replace(expected, mean_ulp=row.mean_ulp)
    for worst, in_profile in ((tally.core_scaled_ulp, profile.scaled_ulp), (tally.core_max_ulp, profile.max_ulp)):
        assert worst[0] == in_profile[0]
        assert not worst[0] or worst == in_profile
    for name in ("lost_below", "flushes", "nonfinite_core", "nonfinite_beyond"):
        assert getattr(tally, name) == getattr(profile, name), name


def test_chunks_of_whole_blocks_merge_to_the_same_numbers():
    whole = run(SILU, ONE, ONE + 4 * BLOCK, chunk=4 * BLOCK)[-1]
    parts = run(SILU, ONE, ONE + 4 * BLOCK, chunk=BLOCK)[-1]
    assert parts == whole


def test_goes_on_from_a_tally_that_went_through_json():
    tallies = run(SILU, ONE, ONE + 10_000, chunk=1000)
    kept = json.loads(json.dumps(tallies[3].to_json()))
    assert run(SILU, ONE, ONE + 10_000, chunk=1000, tally=kept) == tallies[4:]


def test_one_wrong_value_among_all_is_found():
    bad = ONE + 54_321

    def function(x):
        return np.where(x.view(np.uint32) == bad, np.float32(np.nan), relu(x))

    tally = run(implementation(function), ONE, ONE + 2**17, chunk=2**16)[-1]
    x = float(floats(bad, bad + 1)[0])
    assert (tally.nonfinite, tally.nonfinite_core, tally.nonfinite_beyond) == (1, x, None)
    _, profile = activation.Bench("float32", 1).measure("toy", implementation(relu), ())
    assert profile is not None
    assert tally.row_of(profile, ONE).worst_x == x
    assert tally.widen(profile) == replace(profile, nonfinite_core=x)


@pytest.mark.parametrize(
    ("function", "start", "field", "value"),
    [
        (
            lambda x: np.where(x > 500, np.float32(np.inf), relu(x)),
            0x43F0_0000,
            "nonfinite_beyond",
            500.000030517578125,
        ),
        (lambda x: np.where(x < 1e-37, np.float32(0), relu(x)), 0x0100_0000, "flushes", True),
        (
            lambda x: np.where(x > 1.05, np.float32(0), relu(x)),
            ONE,
            "lost_below",
            float(np.nextafter(np.float32(1.05), 2)),
        ),
    ],
)
def test_a_fault_is_named_by_its_first_input(function, start, field, value):
    tally = run(implementation(function), start, start + 2**20, chunk=2**18)[-1]
    assert getattr(tally, field) == value


def test_a_nan_input_agrees_and_counts_as_no_number():
    tally = run(implementation(relu), 0x7F80_0001, 0x7F80_0001 + 1000, chunk=1000)[-1]
    assert (tally.count, tally.comparison.finite_count, tally.nonfinite) == (1000, 0, 0)
    assert (tally.scaled_ulp, tally.core_scaled_ulp) == (None, (0.0, 0.0))


def test_a_result_of_another_shape_is_an_error():
    with pytest.raises(ValueError, match="returned shape"):
        run(implementation(lambda x: x[1:]), 0, 100, chunk=100)


KEY = {"adapter": "toy", "implementation": "silu", "versions": {"toy": "1.0"}, "start": ONE, "stop": ONE + 1000}


@pytest.fixture
def tally() -> Tally:
    return run(SILU, ONE, ONE + 1000, chunk=1000)[-1]


def test_a_saved_tally_is_loaded_to_the_last_bit(tmp_path, tally):
    path = exhaustive_state.path_of(tmp_path, KEY)
    exhaustive_state.save(path, KEY, tally)
    assert exhaustive_state.load(path, KEY) == (tally, "")
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_saved_is_nothing_to_tell(tmp_path):
    assert exhaustive_state.load(tmp_path / "none.json", KEY) == (None, "")


def test_another_version_has_a_file_of_its_own(tmp_path):
    other = KEY | {"versions": {"toy": "1.1"}}
    assert exhaustive_state.path_of(tmp_path, KEY) != exhaustive_state.path_of(tmp_path, other)


def flipped(text: str) -> str:
    at = text.index('"max_abs": ') + len('"max_abs": ')
    return text[:at] + ("2" if text[at] == "1" else "1") + text[at + 1 :]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], "damaged"),
        (lambda text: "", "damaged"),
        (lambda text: "[]", "damaged"),
        (lambda text: '{"body": 1}', "damaged"),
        (lambda text: "\x00" * 500, "damaged"),
        (flipped, "checksum"),
    ],
)
def test_a_damaged_state_is_not_used(tmp_path, tally, damage, reason):
    path = exhaustive_state.path_of(tmp_path, KEY)
    exhaustive_state.save(path, KEY, tally)
    path.write_text(damage(path.read_text()))
    found, why = exhaustive_state.load(path, KEY)
    assert found is None
    assert reason in why


def test_a_foreign_state_is_not_used(tmp_path, tally):
    foreign = KEY | {"versions": {"toy": "1.1"}}
    path = exhaustive_state.path_of(tmp_path, KEY)
    exhaustive_state.save(path, foreign, tally)
    assert exhaustive_state.load(path, KEY) == (None, "it is of another measurement")


def test_the_folder_follows_the_cache_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert exhaustive_state.default_folder() == tmp_path / "framework-parity" / "exhaustive"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert exhaustive_state.default_folder() == tmp_path / "home" / ".cache" / "framework-parity" / "exhaustive"


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be made"):
        exhaustive_state.prepare(tmp_path / "file" / "state")
