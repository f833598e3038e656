"""Alignments: each tensor in one pair at most, and the numbers of a pair in either side's layout."""

from parity.align.alignment import CONFIDENCE, Alignment, Pair
from parity.align.layout import Layout

PLAIN = Layout.reshaped((2, 3), (2, 3))
MOVED = Layout((2, 3), (2, 3), (1, 0), (3, 2))


def pair(one: str, two: str, reason: str = "value", layout: Layout = PLAIN) -> Pair:
    return Pair(one, two, layout, reason, CONFIDENCE[reason])


def test_each_tensor_is_in_one_pair() -> None:
    alignment = Alignment()
    assert alignment.add(pair("a", "p"))
    assert not alignment.add(pair("a", "q"))
    assert not alignment.add(pair("b", "p"))
    assert alignment.add(pair("b", "q", "name"))
    assert len(alignment) == 2
    assert [one.reference for one in alignment] == ["a", "b"]
    assert alignment.of_candidate["q"].reference == "b"
    assert alignment.reasons() == {"value": 1, "name": 1}


def test_a_dropped_pair_makes_room() -> None:
    alignment = Alignment()
    alignment.add(pair("a", "p"))
    alignment.drop(alignment.of_reference["a"])
    assert len(alignment) == 0
    assert alignment.add(pair("a", "q"))
    assert alignment.add(pair("b", "p"))


def test_sources_say_where_the_numbers_are_and_how_to_move_them() -> None:
    plain, moved = pair("a", "p"), pair("a", "p", layout=MOVED)
    assert plain.source() == {"tensor": "a", "layout": None}
    assert plain.source(for_candidate=False, of_candidate=True) == {"tensor": "p", "layout": None}
    assert moved.source() == {"tensor": "a", "layout": MOVED.as_json()}
    assert moved.source(for_candidate=False) == {"tensor": "a", "layout": None}
    assert moved.source(of_candidate=True) == {"tensor": "p", "layout": None}
    assert moved.source(for_candidate=False, of_candidate=True) == {"tensor": "p", "layout": MOVED.inverse.as_json()}


def test_what_needs_no_proof_is_certain_and_what_is_like_is_not() -> None:
    assert {reason for reason, confidence in CONFIDENCE.items() if confidence >= 0.9} == {
        "input",
        "map",
        "output",
        "weights",
    }
