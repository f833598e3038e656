"""Statistics of a normalisation taken over something else."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn

X = np.random.default_rng(0).standard_normal((3, 4, 5, 5)).astype(np.float32) + 0.5


@pytest.fixture
def stored(module):
    made = module(lambda m, x: m.norm(x).tanh(), norm=lambda: nn.BatchNorm2d(4))
    made.norm.running_mean.copy_(torch.tensor([0.1, -0.5, 0.3, 0.9]))
    made.norm.running_var.copy_(torch.tensor([0.5, 2.0, 1.0, 0.2]))
    return made


def onnx_of(graph, norm, weights):
    return graph([norm, helper.make_node("Tanh", [norm.output[0]], ["y"])], {"x": X}, weights)


def test_statistics_of_each_instance(stored, graph, diagnosed):
    norm = helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["n"], "norm")
    candidate = onnx_of(graph, norm, {"scale": stored.norm.weight, "bias": stored.norm.bias})
    (finding,) = diagnosed(stored, candidate, x=X)
    assert finding.rule == "normalization-mode"
    assert (finding.expected, finding.observed) == ("running statistics", "per-instance statistics")
    assert "norm" in finding.location["candidate"]["names"]


def test_statistics_of_the_batch(stored, diagnosed):
    def forward(x):
        mean = x.mean((0, 2, 3), keepdims=True)
        return jnp.tanh((x - mean) / jnp.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5))

    (finding,) = diagnosed(stored, forward, x=X)
    assert finding.rule == "normalization-mode"
    assert (finding.expected, finding.observed) == ("running statistics", "batch statistics")


def test_statistics_of_the_batch_that_a_fused_operator_is_given(stored, graph, diagnosed):
    weights = {"scale": stored.norm.weight, "bias": stored.norm.bias, "axes": np.array([0, 2, 3])}
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["centre"]),
        helper.make_node("Sub", ["x", "centre"], ["apart"]),
        helper.make_node("Mul", ["apart", "apart"], ["squares"]),
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0),
        helper.make_node("ReduceMean", ["squares", "axes"], ["variance"], keepdims=0),
        helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["n"], "norm"),
        helper.make_node("Tanh", ["n"], ["y"]),
    ]
    (finding,) = diagnosed(stored, graph(nodes, {"x": X}, weights), x=X)
    assert finding.rule == "normalization-mode"
    assert (finding.expected, finding.observed) == ("running statistics", "batch statistics")


def test_stored_statistics_on_both_sides(stored, graph, diagnosed):
    norm = helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["n"], "norm")
    weights = {
        "scale": stored.norm.weight,
        "bias": stored.norm.bias,
        "mean": stored.norm.running_mean,
        "variance": stored.norm.running_var,
    }
    assert not diagnosed(stored, onnx_of(graph, norm, weights), x=X)


def test_stored_statistics_that_are_others_are_weights(stored, graph, diagnosed):
    norm = helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["n"], "norm")
    weights = {
        "scale": stored.norm.weight,
        "bias": stored.norm.bias,
        "mean": stored.norm.running_mean,
        "variance": 2 * stored.norm.running_var,
    }
    (finding,) = diagnosed(stored, onnx_of(graph, norm, weights), x=X)
    assert finding.rule == "weights"


def test_other_groups(module, diagnosed):
    first, second = (
        module(lambda m, x: m.norm(x).tanh(), norm=lambda groups=groups: nn.GroupNorm(groups, 4)) for groups in (4, 2)
    )
    (finding,) = diagnosed(first, second, x=X)
    assert finding.rule == "normalization-mode"
    assert finding.observed == "per group of 2"
