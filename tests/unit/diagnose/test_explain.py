"""Which hypotheses are kept: enough alone, several together, or none."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.case import Hypothesis
from parity.diagnose.explain import ENOUGH, MOST, SOME, explain
from parity.errors import EngineError


class Case:
    """A gap of 1 from which each repair, and each injection into the reference, takes a part away."""

    candidate = reference = None

    def __init__(self, floor: float | None = None) -> None:
        self.measure = None if floor is None else SimpleNamespace(gap=1.0, floor=floor)
        self.asked: list[tuple[str, ...]] = []

    def share(self, repaired, injected=None) -> float:
        overrides = {**repaired, **(injected or {})}
        self.asked.append(tuple(overrides))
        return float(sum(array.sum() for array in overrides.values()))


def cause(name: str, share: float, error: Exception | None = None) -> Hypothesis:
    def repair(part, overrides) -> None:
        if error is not None:
            raise error
        overrides[name] = np.array([share])

    return Hypothesis(rule=name, message="", expected="", observed="", repair=repair)


def explained(*examiners, floor: float | None = None):
    case = Case(floor)
    found = explain(case, [lambda _, one=one: iter(one) for one in examiners])
    return [one.rule for one in found.causes], [round(share, 6) for share in found.shares], found, case


def test_the_first_that_is_enough_is_the_cause() -> None:
    names, shares, found, _ = explained([cause("a", 0.3), cause("b", ENOUGH)], [cause("c", 1.0)])
    assert (names, shares) == (["b"], [ENOUGH])
    assert found.rest == pytest.approx(1 - ENOUGH)


@pytest.mark.parametrize(
    ("share", "floor", "enough"),
    [(0.7, None, False), (0.7, 0.29, False), (0.7, 0.31, True), (MOST, 0.51, True), (0.9 * MOST, 9.0, False)],
)
def test_most_of_it_is_enough_where_the_rest_is_noise(share: float, floor: float | None, enough: bool) -> None:
    names, _, _, _ = explained([cause("a", share)], floor=floor)
    assert names == (["a"] if enough else [])


def test_what_is_done_to_the_reference_explains_as_well() -> None:
    def injection(part, overrides) -> None:
        overrides["a"] = np.array([0.95])

    names, shares, _, _ = explained(
        [Hypothesis(rule="a", message="", expected="", observed="", injection=injection), cause("b", 0.1)]
    )
    assert (names, shares) == (["a"], [0.95])


def test_several_that_are_enough_together_the_largest_first() -> None:
    names, shares, found, _ = explained([cause("a", 0.3), cause("b", 0.695)], [cause("c", 0.01)])
    assert (names, shares) == (["b", "a"], [0.695, 0.3])
    assert found.rest == pytest.approx(0.005)
    assert found.tried == ("c",)


def test_several_that_take_only_most_of_it_are_not_the_cause() -> None:
    names, _, found, _ = explained([cause("a", 0.3), cause("b", 0.65)])
    assert names == []
    assert found.rest == 1.0


def test_what_adds_nothing_is_left_out() -> None:
    names, _, _, _ = explained([cause("a", 0.5), cause("b", 0.9 * SOME), cause("c", 0.495)])
    assert names == ["a", "c"]


def test_what_is_not_enough_explains_nothing_and_is_told_as_tried() -> None:
    names, _, found, _ = explained([cause("a", 0.5), cause("b", 0.3), cause("b", 0.01)])
    assert names == []
    assert found.rest == 1.0
    assert set(found.tried) <= {"a", "b"}


def test_a_repair_that_makes_it_worse_is_never_kept() -> None:
    names, shares, _, _ = explained([cause("a", -3.0), cause("b", 0.95)])
    assert (names, shares) == (["b"], [0.95])


def test_no_hypothesis_at_all() -> None:
    names, _, found, case = explained([], [])
    assert (names, found.rest, found.tried, case.asked) == ([], 1.0, (), [])


def test_one_without_a_repair_is_not_tried() -> None:
    names, _, _, case = explained([Hypothesis(rule="a", message="", expected="", observed="")])
    assert (names, case.asked) == ([], [])


@pytest.mark.parametrize("error", [EngineError("x"), ValueError("x")])
def test_a_repair_that_fails_explains_nothing(error: Exception) -> None:
    names, _, _, _ = explained([cause("a", 1.0, error), cause("b", 0.95)])
    assert names == ["b"]


def test_a_cause_that_cannot_be_examined_leaves_what_it_had_and_the_others() -> None:
    def breaks_off(_case):
        yield cause("a", 0.5)
        raise EngineError("no float64 here")

    found = explain(Case(), [breaks_off, lambda _: iter([cause("b", 0.495)])])
    assert [one.rule for one in found.causes] == ["a", "b"]


def test_a_cause_that_breaks_does_not_keep_the_others_from_being_tried() -> None:
    def broken():
        yield cause("a", 0.1)
        raise KeyError("graph")

    with pytest.warns(UserWarning, match="KeyError: 'graph'"):
        names, _, _, _ = explained(broken(), [cause("b", 1.0)])
    assert names == ["b"]
    with pytest.warns(UserWarning, match="IndexError: axis"):
        names, _, _, _ = explained([cause("a", 1.0, IndexError("axis")), cause("b", 1.0)])
    assert names == ["b"]
