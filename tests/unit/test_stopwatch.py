"""The stopwatch adds up what is measured, whatever happens meanwhile."""

import time

import pytest

from parity.stopwatch import Stopwatch


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    """One by which every look at the clock is a second after the one before."""
    seconds = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))
    return Stopwatch()


def test_parts_add_up_in_the_order_in_which_they_first_ended(watch: Stopwatch) -> None:
    with watch("whole"):
        for _ in range(3):
            with watch("part"):
                pass
    assert list(watch.seconds.items()) == [("part", 3.0), ("whole", 7.0)]


def test_a_part_that_fails_counts(watch: Stopwatch) -> None:
    with pytest.raises(ValueError, match="broken"), watch("part"):
        raise ValueError("broken")
    assert watch.seconds == {"part": 1.0}
