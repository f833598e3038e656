"""Activations that have no name, several of them in one region, and what to type in each framework."""

import jax
import numpy as np
import pytest
import tensorflow as tf
import torch
from onnx import helper
from torch import nn
from torch.nn.functional import gelu, silu

X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)


@pytest.fixture
def reference(module):
    """A GELU between two linear layers."""
    return module(lambda m, x: m.down(gelu(m.up(x))), up=lambda: nn.Linear(8, 16), down=lambda: nn.Linear(16, 4))


def weights(reference):
    named = {name.replace(".", "_"): one.detach().numpy() for name, one in reference.named_parameters()}
    return {name: np.ascontiguousarray(one.T) if one.ndim == 2 else one for name, one in named.items()}


def chain(*spelt):
    """The same layers around other nodes, that make ``a`` of ``h``."""
    return [
        helper.make_node("MatMul", ["x", "up_weight"], ["m"]),
        helper.make_node("Add", ["m", "up_bias"], ["h"]),
        *spelt,
        helper.make_node("MatMul", ["a", "down_weight"], ["n"]),
        helper.make_node("Add", ["n", "down_bias"], ["y"]),
    ]


def test_a_polynomial_in_the_place_of_an_activation(reference, graph, diagnosed) -> None:
    spelt = [
        helper.make_node("Mul", ["h", "h"], ["square"]),
        helper.make_node("Mul", ["square", "eighth"], ["first"]),
        helper.make_node("Mul", ["h", "quarter"], ["second"]),
        helper.make_node("Add", ["first", "second"], ["both"]),
        helper.make_node("Add", ["both", "half"], ["a"]),
    ]
    numbers = {name: np.float32(value) for name, value in (("eighth", 0.125), ("quarter", 0.25), ("half", 0.5))}
    (found,) = diagnosed(reference, graph(chain(*spelt), {"x": X}, {**weights(reference), **numbers}), x=X)
    assert (found.rule, found.expected, found.observed) == ("activation-variant", "gelu_erf", "unknown")
    assert "the candidate computes 0.125 x² + 0.25 x + 0.5, no known activation" in found.message
    assert "between the tensors 'h' and 'a'" in found.fix


def test_arithmetic_that_is_the_same_function_is_none(module, graph, diagnosed) -> None:
    """A near miss: a square by itself and by a product."""
    reference = module(
        lambda m, x: m.down(torch.square(m.up(x))), up=lambda: nn.Linear(8, 16), down=lambda: nn.Linear(16, 4)
    )
    spelt = helper.make_node("Mul", ["h", "h"], ["a"])
    assert diagnosed(reference, graph(chain(spelt), {"x": X}, weights(reference)), x=X) == []


def test_what_to_type_in_the_words_of_the_candidate(reference, graph, diagnosed) -> None:
    """An erf GELU of which each framework makes the tanh form."""
    named = weights(reference)
    up, down = (lambda x, p=p: x @ named[f"{p}_weight"] + named[f"{p}_bias"] for p in ("up", "down"))

    class Copy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = reference.up, reference.down

        def forward(self, x):
            return self.down(gelu(self.up(x), approximate="tanh"))

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32)])
        def __call__(self, x):
            return down(tf.nn.gelu(up(x), approximate=True))

    node = helper.make_node("Gelu", ["h"], ["a"], "act", approximate="tanh")
    written = graph(chain(node), {"x": X}, named)
    written.opset_import[0].version = 20
    said = {
        'torch.nn.functional.gelu(x, approximate="none")': Copy(),
        "jax.nn.gelu(x, approximate=False)": lambda x: down(jax.nn.gelu(up(x), approximate=True)),
        "keras.activations.gelu(x, approximate=False)": Module(),
        "Set node 'act' to Gelu(approximate=\"none\")": written,
    }
    for words, candidate in said.items():
        (found,) = diagnosed(reference, candidate, x=X)
        assert (found.rule, found.observed) == ("activation-variant", "gelu_tanh")
        assert words in found.fix
        assert "If the weights were trained with gelu_tanh, the reference is wrong." in found.fix


def test_two_in_one_region_are_each_held_against_their_own(module, graph, diagnosed) -> None:
    """No tensor between them is in both models: batch norms went into the weights, and their order of sums too."""
    reference = module(
        lambda m, x: m.last(silu(m.norm(m.middle(silu(m.first(x)))))),
        first=lambda: nn.Linear(8, 8),
        middle=lambda: nn.Linear(8, 8),
        norm=lambda: nn.BatchNorm1d(8),
        last=lambda: nn.Linear(8, 4),
    )
    with torch.no_grad():
        reference.norm.running_var.uniform_(0.5, 2.0)
        reference.norm.weight.uniform_(0.5, 2.0)
        scale = reference.norm.weight / torch.sqrt(reference.norm.running_var + reference.norm.eps)
        middle = (reference.middle.weight * scale[:, None]).T.numpy()
        bias = (reference.middle.bias * scale + reference.norm.bias).numpy()
    layers = [("first", reference.first.weight.detach().T.numpy(), reference.first.bias), ("middle", middle, bias)]
    layers.append(("last", reference.last.weight.detach().T.numpy(), reference.last.bias))
    nodes, numbers, at = [], {}, "x"
    for name, weight, shift in layers:
        numbers |= {f"{name}_w": np.ascontiguousarray(weight), f"{name}_b": shift}
        nodes += [helper.make_node("MatMul", [at, f"{name}_w"], [f"{name}_m"])]
        nodes += [helper.make_node("Add", [f"{name}_m", f"{name}_b"], [f"{name}_h"])]
        if name != "last":
            nodes += [helper.make_node("HardSigmoid", [f"{name}_h"], [f"{name}_s"], alpha=1 / 6, beta=0.5)]
            nodes += [helper.make_node("Mul", [f"{name}_h", f"{name}_s"], [f"{name}_a"])]
            at = f"{name}_a"
    (found,) = diagnosed(reference, graph(nodes, {"x": X}, numbers), x=X)
    assert (found.rule, found.expected, found.observed) == ("activation-variant", "silu", "hard_swish")
    assert found.evidence["count"] == 2
    assert "fused" not in found.message
