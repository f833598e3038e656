"""Another epsilon in a normalisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn

X = 0.05 * np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
IMAGE = np.random.default_rng(1).standard_normal((2, 3, 6, 6)).astype(np.float32)


def layer_norm(epsilon):
    return lambda: nn.LayerNorm(8, epsilon)


@pytest.fixture
def normalised(module):
    return module(lambda m, x: m.norm(x).tanh(), norm=layer_norm(1e-5))


def composed(epsilon):
    def forward(x):
        centred = x - x.mean(-1, keepdims=True)
        return jnp.tanh(centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + epsilon))

    return forward


def told(finding):
    return finding.rule, finding.expected, finding.observed


def test_fused_against_composed(normalised, diagnosed):
    (finding,) = diagnosed(normalised, composed(1e-3), x=X)
    assert told(finding) == ("normalization-epsilon", "1e-05", "0.001")
    assert finding.location["reference"]["scope"] == "norm"


def test_no_epsilon_at_all(normalised, diagnosed):
    (finding,) = diagnosed(normalised, composed(0.0), x=X)
    assert told(finding) == ("normalization-epsilon", "1e-05", "0")


def test_the_same_epsilon_in_another_spelling(normalised, diagnosed):
    assert not diagnosed(normalised, composed(1e-5), x=X)


def test_two_fused_operators(normalised, graph, diagnosed):
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale"], ["n"], "norm", epsilon=1e-3),
        helper.make_node("Tanh", ["n"], ["y"]),
    ]
    (finding,) = diagnosed(normalised, graph(nodes, {"x": X}, {"scale": np.ones(8, np.float32)}), x=X)
    assert told(finding) == ("normalization-epsilon", "1e-05", "0.001")
    assert "norm" in finding.location["candidate"]["names"]


def test_a_length_that_is_kept_from_zero(module, diagnosed):
    reference = module(lambda _, x: nn.functional.normalize(x / 2, dim=-1, eps=0.1).tanh())

    def forward(x):
        half = x / 2
        return jnp.tanh(half / jnp.maximum(jnp.sqrt((half * half).sum(-1, keepdims=True)), 1e-12))

    (finding,) = diagnosed(reference, forward, x=X)
    assert told(finding) == ("normalization-epsilon", "0.1", "1e-12")


def test_an_epsilon_that_went_into_the_weights(module, graph, diagnosed):
    reference = module(
        lambda m, x: m.norm(m.conv(x)).relu(), conv=lambda: nn.Conv2d(3, 4, 3), norm=lambda: nn.BatchNorm2d(4)
    )
    norm, conv = reference.norm, reference.conv
    with torch.no_grad():
        norm.running_var.copy_(torch.tensor([0.01, 0.02, 0.05, 0.3]))
        scale = norm.weight / torch.sqrt(norm.running_var + 1e-3)
        weights = {"w": conv.weight * scale[:, None, None, None], "b": (conv.bias - norm.running_mean) * scale}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"])]
    (finding,) = diagnosed(reference, graph(nodes, {"x": IMAGE}, weights), x=IMAGE)
    assert told(finding) == ("normalization-epsilon", "1e-05", "0.001")
    assert finding.location["reference"]["scope"] == "norm"
