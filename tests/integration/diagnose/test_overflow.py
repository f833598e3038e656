"""Infinities that the candidate alone makes."""

import numpy as np
import pytest
from onnx import helper

MASK = np.where(np.tri(4, dtype=bool), 0, -np.inf).astype(np.float32)


def softmax_written_out(graph, x):
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["masked"]),
        helper.make_node("Exp", ["masked"], ["powers"], "exp"),
        helper.make_node("ReduceSum", ["powers", "last"], ["total"]),
        helper.make_node("Div", ["powers", "total"], ["y"]),
    ]
    return graph(nodes, {"x": x}, {"mask": MASK, "last": np.array([-1])})


@pytest.mark.parametrize("size", [30.0, 300.0], ids=["within float64", "beyond it"])
def test_the_operator_that_overflows_and_not_the_mask(module, graph, diagnosed, size):
    x = (size * np.linspace(1, 4, 16).reshape(4, 4)).astype(np.float32)
    reference = module(lambda _, x: (x + torch_mask()).softmax(-1))
    (finding,) = diagnosed(reference, softmax_written_out(graph, x), x=x)
    assert (finding.rule, finding.observed) == ("overflow", "NaN")
    assert "exp" in finding.location["candidate"]["names"]
    assert "gives infinity in float32" in finding.message


def test_scores_within_range_are_quiet(module, graph, diagnosed):
    x = np.linspace(-4, 4, 16).reshape(4, 4).astype(np.float32)
    reference = module(lambda _, x: (x + torch_mask()).softmax(-1))
    assert not diagnosed(reference, softmax_written_out(graph, x), x=x)


def torch_mask():
    torch = pytest.importorskip("torch")
    return torch.from_numpy(MASK)
