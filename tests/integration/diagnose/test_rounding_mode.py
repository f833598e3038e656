"""How fractions are made whole."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from parity.jobs.diff import diff

OFFSETS = np.random.default_rng(0).integers(-15, 15, (2, 9))
LOOKUP = helper.make_node("Gather", ["table", "place"], ["y"])


def told(findings):
    return [(one.rule, one.expected, one.observed) for one in findings]


def table():
    return nn.Embedding(14, 4)


def divided(graph, reference, offsets, shift=6):
    nodes = [
        helper.make_node("Div", ["i", "three"], ["quotient"], "quotient"),
        helper.make_node("Add", ["quotient", "six"], ["place"], "place"),
        LOOKUP,
    ]
    weights = {"table": reference.table.weight, "three": np.array(3), "six": np.array(shift)}
    return graph(nodes, {"i": offsets}, weights)


@pytest.fixture
def floored(module):
    return module(lambda m, i: m.table(torch.div(i, 3, rounding_mode="floor") + 6), table=table)


def test_division_of_negatives(floored, graph, diagnosed):
    (finding,) = diagnosed(floored, divided(graph, floored, OFFSETS), i=OFFSETS)
    assert told([finding]) == [("rounding-mode", "floor", "towards zero")]
    assert finding.location["candidate"]["site"] == "quotient"
    assert finding.evidence["share"] == 1
    assert 0 < finding.evidence["unequal"] < 1


def test_division_of_naturals_is_the_same(floored, graph, diagnosed):
    assert not diagnosed(floored, divided(graph, floored, abs(OFFSETS)), i=abs(OFFSETS))


def test_another_offset_is_not_a_rounding(floored, graph, diagnosed):
    findings = diagnosed(floored, divided(graph, floored, abs(OFFSETS), shift=7), i=abs(OFFSETS))
    assert findings
    assert "rounding-mode" not in {one.rule for one in findings}


def test_remainder_of_many_operators(module):
    jnp = pytest.importorskip("jax.numpy")
    reference = module(lambda m, i: m.table(torch.fmod(i, 5) + 5), table=table)
    rows, offsets = reference.table.weight.detach().numpy(), OFFSETS.astype(np.int32)
    findings = diff(reference, lambda i: jnp.asarray(rows)[i % 5 + 5], [{"i": offsets}]).findings
    assert told(findings) == [("rounding-mode", "towards zero", "floor")]


def test_cast_in_place_of_floor(module, graph, diagnosed):
    x = np.random.default_rng(0).uniform(-2, 2, (2, 9)).astype(np.float32)
    reference = module(lambda m, x: m.table((x * 3).floor().long() + 7), table=table)
    nodes = [
        helper.make_node("Mul", ["x", "three"], ["scaled"]),
        helper.make_node("Cast", ["scaled"], ["whole"], "whole", to=TensorProto.INT64),
        helper.make_node("Add", ["whole", "seven"], ["place"]),
        LOOKUP,
    ]
    weights = {"table": reference.table.weight, "three": np.array(3, np.float32), "seven": np.array(7)}
    findings = diagnosed(reference, graph(nodes, {"x": x}, weights), x=x)
    assert told(findings) == [("rounding-mode", "floor", "towards zero")]


def test_halves(module, graph, diagnosed):
    x = (np.random.default_rng(0).integers(-16, 16, (5, 30)) / 2).astype(np.float32)
    reference = module(lambda _, x: x.round().sum(1))
    nodes = [
        helper.make_node("Add", ["x", "half"], ["raised"]),
        helper.make_node("Floor", ["raised"], ["whole"]),
        helper.make_node("ReduceSum", ["whole", "axes"], ["y"], keepdims=0),
    ]
    candidate = graph(nodes, {"x": x}, {"half": np.array(0.5, np.float32), "axes": np.array([1])})
    assert told(diagnosed(reference, candidate, x=x)) == [("rounding-mode", "half to even", "half up")]
