"""Graphs in float16, whose activations differ by less than their rounding: they are told by probing."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from parity.jobs.diff import DiffOptions, diff

RANDOM = np.random.default_rng(0)
UP = (RANDOM.standard_normal((32, 64)) / 6).astype(np.float16)
DOWN = (RANDOM.standard_normal((64, 32)) / 8).astype(np.float16)

ERF = [
    ("Div", "a", "root2", "d"),
    ("Erf", "d", "e"),
    ("Add", "e", "one", "p"),
    ("Mul", "a", "p", "q"),
    ("Mul", "q", "half", "g"),
]
TANH = [
    ("Pow", "a", "three", "cube"),
    ("Mul", "cube", "cubic", "c"),
    ("Add", "a", "c", "u"),
    ("Mul", "u", "root", "v"),
    ("Tanh", "v", "t"),
    ("Add", "t", "one", "p"),
    ("Mul", "a", "p", "q"),
    ("Mul", "q", "half", "g"),
]
NUMBERS = {"root2": 2**0.5, "one": 1, "half": 0.5, "three": 3, "cubic": 0.044715, "root": (2 / np.pi) ** 0.5}


def graph(activation):
    """A float16 MLP whose activation is written out, as exporters do: no operator of its type has a kernel on a CPU."""
    steps = [("MatMul", "x", "up", "a"), *activation, ("MatMul", "g", "down", "y")]
    numbers = {name: np.array(value, np.float16) for name, value in NUMBERS.items()} | {"up": UP, "down": DOWN}
    read = {name for _, *names in steps for name in names[:-1]}
    made = helper.make_graph(
        [helper.make_node(op, names[:-1], names[-1:]) for op, *names in steps],
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [None, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [None, 32])],
        [numpy_helper.from_array(value, name) for name, value in numbers.items() if name in read],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


INPUTS = {"x": np.random.default_rng(1).standard_normal((64, 32)).astype(np.float16)}


@pytest.mark.parametrize("level", ["none", "all"])
def test_written_out_activations_are_told_apart_at_every_level(level):
    report = diff(graph(ERF), graph(TANH), INPUTS, options=DiffOptions(candidate_optimization=level))
    (finding,) = report.findings
    assert (finding.rule, finding.expected, finding.observed) == ("activation-variant", "gelu_erf", "gelu_tanh")


@pytest.mark.parametrize("activation", [ERF, TANH])
def test_the_same_at_two_levels_passes(activation):
    options = DiffOptions(reference_optimization="all", candidate_optimization="none")
    assert diff(graph(activation), graph(activation), INPUTS, options=options).verdict == "pass"
