"""Results that depend on the batch."""

import numpy as np
import pytest
from onnx import helper
from torch import nn

IMAGE = np.random.default_rng(0).standard_normal((4, 3, 5, 5)).astype(np.float32)
IMAGE *= np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1, 1)


@pytest.fixture
def normalised(module):
    return module(lambda m, x: m.norm(x).relu(), norm=lambda: nn.GroupNorm(1, 3, affine=False))


def statistics(graph, axes):
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], "mean"),
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("Mul", ["centred", "centred"], ["squares"]),
        helper.make_node("ReduceMean", ["squares", "axes"], ["variance"], "variance"),
        helper.make_node("Add", ["variance", "epsilon"], ["raised"]),
        helper.make_node("Sqrt", ["raised"], ["deviation"]),
        helper.make_node("Div", ["centred", "deviation"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    return graph(nodes, {"x": IMAGE}, {"axes": np.array(axes), "epsilon": np.array(1e-5, np.float32)})


def test_statistics_over_the_whole_batch(normalised, graph, diagnosed):
    (finding,) = diagnosed(normalised, statistics(graph, [0, 1, 2, 3]), x=IMAGE)
    assert (finding.rule, finding.expected, finding.observed) == (
        "batch-dependence",
        "per sample",
        "over the whole batch",
    )
    assert "mean" in finding.location["candidate"]["names"]


def test_statistics_of_each_sample(normalised, graph, diagnosed):
    assert not diagnosed(normalised, statistics(graph, [1, 2, 3]), x=IMAGE)


def test_other_statistics_of_each_sample_are_another_fault(normalised, graph, diagnosed):
    findings = diagnosed(normalised, statistics(graph, [2, 3]), x=IMAGE)
    assert findings
    assert "batch-dependence" not in {one.rule for one in findings}


def test_a_reference_that_mixes_its_samples(module, graph, diagnosed):
    reference = module(lambda _, x: (x - x.mean((0, 1, 2, 3), keepdim=True)).sigmoid().relu())
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"]),
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("Sigmoid", ["centred"], ["gate"]),
        helper.make_node("Relu", ["gate"], ["y"]),
    ]
    (finding,) = diagnosed(reference, graph(nodes, {"x": IMAGE}, {"axes": np.array([1, 2, 3])}), x=IMAGE)
    assert (finding.rule, finding.expected) == ("batch-dependence", "over the whole batch")
