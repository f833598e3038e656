"""The timing on a clock that the test sets: what is timed, in which order, and what the ratios are of."""

from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parity.adapter import Implementation
from parity.functions import variant
from parity.measure import timing
from parity.measure.timing import BUDGET, REPEATS, TOO_LONG, TimingRow, inputs, time_activations


class Lab:
    """A clock that only the implementations made here move, and a log of their calls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def clock(self) -> float:
        return self.now

    def implementation(
        self, name: str, declared: str, ns: float, *, dtypes: tuple[str, ...] = ("float32",), first: float = 0.0
    ) -> Implementation:
        """Takes ``ns`` an element, at its first call ``first`` seconds more, and a second to enter and to leave."""
        met: set[Any] = set()

        def function(x: Any) -> Any:
            self.log.append(name)
            self.now += ns * 1e-9 * len(x) + (0.0 if len(x) in met else first)
            met.add(len(x))
            return x

        def convert(x: Any) -> Any:
            self.now += 1.0
            return x

        return Implementation(
            name=name, variant=variant(declared), dtypes=dtypes, enter=convert, function=function, leave=convert
        )


@pytest.fixture
def lab(monkeypatch) -> Lab:
    made = Lab()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=made.clock))
    return made


def run(*rows: Implementation, sizes: tuple[int, ...] = (1000,), skip: Any = (), **selection: Any) -> list[TimingRow]:
    adapter: Any = SimpleNamespace(name="toy", activations=lambda: rows)
    messages = list(time_activations(adapter, selection=selection, sizes=sizes, skip=skip))
    return [TimingRow(**row) for message in messages for row in message.data.get("rows", ())]


def refusing(x: Any) -> Any:
    raise TypeError("not for this dtype")


def test_times_and_ratios(lab):
    erf, relu = lab.implementation("erf", "gelu_erf", 8.0), lab.implementation("relu", "relu", 2.0)
    rows = run(erf, lab.implementation("tanh", "gelu_tanh", 4.0), relu)
    assert [row.implementation for row in rows] == ["erf", "tanh", "relu"]
    assert [row.ns_per_element for row in rows] == pytest.approx([8.0, 4.0, 2.0])
    assert [row.ratio_to_gelu for row in rows] == pytest.approx([1.0, 0.5, 0.25])
    assert [row.ratio_to_relu for row in rows] == pytest.approx([4.0, 2.0, 1.0])
    assert {(row.adapter, row.dtype, row.size, row.repeats) for row in rows} == {("toy", "float32", 1000, REPEATS)}


def test_ratios_are_to_the_first_in_the_list_of_that_dtype(lab):
    rows = run(
        lab.implementation("erf, float64 only", "gelu_erf", 100.0, dtypes=("float64",)),
        lab.implementation("erf", "gelu_erf", 8.0),
        lab.implementation("erf again", "gelu_erf", 16.0),
    )
    ratios = {(row.implementation, row.dtype): row.ratio_to_gelu for row in rows}
    assert ratios == {
        ("erf, float64 only", "float64"): 1.0,
        ("erf", "float32"): 1.0,
        ("erf again", "float32"): pytest.approx(2.0),
    }
    assert {row.ratio_to_relu for row in rows} == {None}


def test_what_is_compared_with_is_timed_even_where_it_is_not_chosen(lab):
    erf, relu = lab.implementation("erf", "gelu_erf", 8.0), lab.implementation("relu", "relu", 2.0)
    (row,) = run(erf, lab.implementation("tanh", "gelu_tanh", 4.0), relu, variants=["gelu_tanh"])
    assert row.implementation == "tanh"
    assert (row.ratio_to_gelu, row.ratio_to_relu) == pytest.approx((0.5, 2.0))


def test_repeats_are_interleaved(lab):
    run(*(lab.implementation(name, "silu", 5.0) for name in "abc"))
    turns = [name for name, _ in groupby(lab.log)]
    assert turns == list("abc") * (1 + REPEATS)  # the warm-up, and then the repeats


def test_the_warm_up_is_not_timed(lab):
    (row,) = run(lab.implementation("compiled", "silu", 5.0, first=3.0))
    assert row.ns_per_element == pytest.approx(5.0)


def test_each_size_is_warmed_up(lab):
    rows = run(lab.implementation("compiled", "silu", 5.0, first=3.0), sizes=(10, 100))
    assert [row.ns_per_element for row in rows] == pytest.approx([5.0, 5.0])


def test_a_slow_call_is_repeated_within_its_budget(lab):
    (row,) = run(lab.implementation("slow", "silu", 1e9 * BUDGET / 1000 / 2.5))
    assert row.repeats == 3
    assert row.ns_per_element == pytest.approx(1e9 * BUDGET / 1000 / 2.5)


def test_a_call_that_would_take_too_long_is_not_made(lab):
    slow = lab.implementation("slow", "silu", 1e9 * TOO_LONG / 1000)
    rows = run(slow, sizes=(100, 10_000, 100_000))
    assert [row.size for row in rows] == [100, 10_000, 100_000]
    assert [row.repeats > 0 for row in rows] == [True, False, False]
    assert [row.ns_per_element for row in rows][1:] == [None, None]


def test_what_does_not_run_has_a_row_without_numbers(lab):
    broken = Implementation(
        name="broken",
        variant=variant("gelu_erf"),
        dtypes=("float32",),
        enter=lambda x: x,
        function=refusing,
        leave=lambda x: x,
    )
    rows = run(broken, lab.implementation("silu", "silu", 5.0))
    assert [(row.implementation, row.repeats) for row in rows] == [("broken", 0), ("silu", REPEATS)]
    assert rows[0].ns_per_element is None
    assert rows[1].ratio_to_gelu is None


def test_what_an_earlier_worker_finished_or_died_of_is_left_out(lab):
    good, bad = lab.implementation("good", "silu", 5.0), lab.implementation("bad", "silu", 5.0)
    rows = run(good, bad, sizes=(10, 100), skip=[["float32", 10], ["float32", 100, "bad"]])
    assert [(row.implementation, row.size, row.repeats) for row in rows] == [("good", 100, REPEATS), ("bad", 100, 0)]
    assert "bad" not in lab.log


def test_a_crash_in_the_warm_up_has_a_name_and_one_in_a_repeat_has_none(lab):
    adapter: Any = SimpleNamespace(name="toy", activations=lambda: [lab.implementation("a", "silu", 5.0)])
    messages = [message.data for message in time_activations(adapter, selection={}, sizes=(10,))]
    assert messages[0] == {"total": 1}
    assert messages[1] == {"begin": ["a", "float32", 10], "declared": "silu"}
    assert messages[2:-1] == [{}] * REPEATS
    assert messages[-1]["group"] == ["float32", 10]


def test_inputs_are_pairs_for_gated_variants():
    assert inputs("bfloat16", 5, 1).shape == (5,)
    assert inputs("bfloat16", 5, 2).shape == (5, 2)
    assert inputs("float16", 100_000, 1).astype(np.float64).std() == pytest.approx(1.0, abs=0.01)
