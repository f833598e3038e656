"""Weights that the candidate lacks, and what only looks so."""

import numpy as np
import pytest
from onnx import helper
from torch import nn

X = np.random.default_rng(0).standard_normal((4, 3, 16)).astype(np.float32)


@pytest.fixture
def reference(module):
    return module(lambda m, x: (x + m.norm(x)).tanh(), norm=lambda: nn.LayerNorm(16))


@pytest.fixture
def weights(reference):
    rng = np.random.default_rng(1)
    for weight, mean in ((reference.norm.weight, 1), (reference.norm.bias, 0)):
        weight.data.copy_(reference.norm.weight.new_tensor(mean + 0.1 * rng.standard_normal(16)))
    return {"scale": reference.norm.weight, "bias": reference.norm.bias, "zeros": np.zeros(16, np.float32)}


def normalised(bias):
    return [
        helper.make_node("LayerNormalization", ["x", "scale", bias], ["normal"]),
        helper.make_node("Add", ["x", "normal"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["y"]),
    ]


def test_a_bias_that_is_left_out(reference, weights, graph, diagnosed):
    (finding,) = diagnosed(reference, graph(normalised("zeros"), {"x": X}, weights), x=X)
    assert finding.rule in {"weights", "normalization-form"}
    assert not diagnosed(reference, graph(normalised("bias"), {"x": X}, weights), x=X)


def test_a_branch_that_is_left_out_is_no_missing_scale(reference, weights, graph, diagnosed):
    findings = diagnosed(reference, graph([helper.make_node("Tanh", ["x"], ["y"])], {"x": X}, {}), x=X)
    assert [one.rule for one in findings] == ["unexplained"]
