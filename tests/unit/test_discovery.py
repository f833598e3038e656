"""Adapters are found by entry points, ours and other people's, and nothing is imported for it."""

import sys

from parity.discovery import GROUP, discover


def test_ours_are_found() -> None:
    found = discover()
    assert set(found) >= {"numpy", "torch", "tensorflow", "jax", "onnxruntime", "transformers"}
    assert {one.group for one in found.values()} == {GROUP}


def test_those_of_other_people_are_found_in_order_of_name_and_not_imported(offer) -> None:
    offer("aaa", module="raise RuntimeError('imported')")
    found = discover()
    assert found["aaa"].value == "outside_aaa:adapter"
    assert found["aaa"].dist is not None
    assert found["aaa"].dist.name == "outside-aaa"
    assert list(found) == sorted(found)
    assert "outside_aaa" not in sys.modules
