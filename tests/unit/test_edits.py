"""Edits cross processes as JSON and arrays, and those of one thing become one."""

import json

import numpy as np

from parity.edits import Adjust, Packed, ReplaceActivation, SetAttributes, SetNumbers, joined, pack, unpack

SWAP = ReplaceActivation(source="h", target="g", variant="leaky_relu[negative_slope=0.2]", scale=0.5, biases=("b",))
PADS = SetAttributes(output="y", values={"pads": [0, 1, 0, 1], "mode": "reflect"})
WEIGHT = SetNumbers(tensor="w", numbers=np.arange(6.0).reshape(2, 3), readers=("a", "b"))
FACTOR = Adjust(tensor="s", factor=0.125)


def test_edits_come_back_as_they_were() -> None:
    packed = pack([SWAP, PADS, WEIGHT, FACTOR])
    sent = Packed(tuple(json.loads(json.dumps(packed.data))), packed.arrays)
    swap, pads, weight, factor = unpack(sent)
    assert (swap, pads, factor) == (SWAP, PADS, FACTOR)
    assert isinstance(weight, SetNumbers)
    assert (weight.tensor, weight.readers) == ("w", ("a", "b"))
    np.testing.assert_array_equal(weight.numbers, WEIGHT.numbers)


def test_the_same_numbers_for_more_readers_are_one_edit() -> None:
    other = SetNumbers(tensor="w", numbers=WEIGHT.numbers.copy(), readers=("c",))
    both = joined(WEIGHT, other)
    assert isinstance(both, SetNumbers)
    assert both.readers == ("a", "b", "c")
    everyone = joined(WEIGHT, SetNumbers(tensor="w", numbers=WEIGHT.numbers))
    assert isinstance(everyone, SetNumbers)
    assert everyone.readers == ()
    assert joined(WEIGHT, SetNumbers(tensor="w", numbers=WEIGHT.numbers + 1)) is None
    assert joined(WEIGHT, SetNumbers(tensor="v", numbers=WEIGHT.numbers)) is None


def test_equal_edits_are_one_and_others_are_not() -> None:
    assert joined(PADS, SetAttributes(output="y", values=dict(PADS.values))) == PADS
    assert joined(PADS, SetAttributes(output="z", values=PADS.values)) is None
    assert joined(SWAP, FACTOR) is None
    assert joined(WEIGHT, FACTOR) is None
