"""Pairs by what authors and exporters wrote down."""

import numpy as np
import pytest

from parity.align.alignment import Alignment
from parity.align.by_scope import align_by_name, align_by_scope, normal_scope

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("scope", "normal"),
    [
        ("", ""),
        ("encoder.layers.3.mlp", "encoder.layers.3.mlp"),
        ("/encoder/layers.3/mlp/", "encoder.layers.3.mlp"),
        ("Encoder/Layers_3/MLP", "encoder.layers.3.mlp"),
        ("encoder/layers[3]/mlp", "encoder.layers.3.mlp"),
        ("encoder:layers[3]:mlp", "encoder.layers.3.mlp"),
        ("layers[3][12].mlp", "layers.3.12.mlp"),
        ("layer_norm", "layer_norm"),
        ("layer_norm_2", "layer_norm.2"),
        ("conv2_1", "conv2_1"),
        ("a..b///c", "a.b.c"),
    ],
)
def test_one_spelling_of_a_module_path(scope: str, normal: str) -> None:
    assert normal_scope(scope) == normal
    assert normal_scope(normal) == normal


def aligned(align, one, two) -> dict[str, tuple[str, str]]:
    alignment = Alignment()
    count = align(one.view(x=X), two.view(x=X), alignment)
    assert count == len(alignment)
    return {pair.reference: (pair.candidate, pair.reason) for pair in alignment}


def test_operators_of_a_kind_in_a_module_in_their_order(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    one("tanh", one("tanh", "x", to="a", scope="layers.0"), to="b", scope="layers.0")
    one("exp", "b", to="c", scope="layers.1")
    two("tanh", two("tanh", "x", to="p", scope="Layers_0"), to="q", scope="Layers_0")
    two("exp", "q", to="r", scope="layers[1]")
    assert aligned(align_by_scope, one, two) == {
        "a": ("p", "metadata"),
        "b": ("q", "metadata"),
        "c": ("r", "metadata"),
    }


def test_where_the_counts_differ_nothing_is_said(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    one("tanh", one("tanh", "x", to="a", scope="m"), to="b", scope="m")
    two("tanh", "x", to="p", scope="m")
    assert aligned(align_by_scope, one, two) == {}


def test_what_moves_numbers_or_has_no_module_is_passed_over(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    for model in (one, two):
        model("transpose", model("tanh", "x", to="a"), to="b", scope="m", axes=[1, 0])
    assert aligned(align_by_scope, one, two) == {}


def test_names_of_operators_of_one_kind(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    one("exp", one("tanh", "x", to="same"), to="other_kind")
    two("sqrt", two("tanh", "x", to="same"), to="other_kind")
    assert aligned(align_by_name, one, two) == {"same": ("same", "name")}


def test_a_pair_that_is_there_already_stays(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    for model in (one, two):
        model("tanh", "x", to="a", scope="m")
    views = one.view(x=X), two.view(x=X)
    alignment = Alignment()
    assert align_by_scope(*views, alignment) == 1
    assert align_by_name(*views, alignment) == 0
    assert alignment.reasons() == {"metadata": 1}


def test_tensors_of_other_sizes_are_no_pair(toy) -> None:
    one, two = toy(x=(None, 6)), toy(x=(None, 6))
    one("tanh", "x", to="a", scope="m")
    two("tanh", two("slice", "x", start=0, end=3), to="a", scope="m")
    assert aligned(align_by_scope, one, two) == {}
