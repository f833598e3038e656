"""A softmax over another axis."""

import jax
import numpy as np
import pytest
from onnx import helper

X = np.random.default_rng(0).standard_normal((2, 5, 7)).astype(np.float32)


@pytest.fixture
def reference(module):
    return module(lambda _, x: (2 * x).softmax(-1))


def onnx_of(graph, opset, **attributes):
    softmax = helper.make_node("Softmax", ["z"], ["y"], "softmax", **attributes)
    nodes = [helper.make_node("Add", ["x", "x"], ["z"]), softmax]
    model = graph(nodes, {"x": X})
    model.opset_import[0].version = opset
    return model


def test_flattened_by_an_old_operator_set(reference, graph, diagnosed):
    (finding,) = diagnosed(reference, onnx_of(graph, 11), x=X)
    assert (finding.rule, finding.expected, finding.observed) == (
        "softmax-axis",
        "last axis",
        "flattened from axis 1",
    )
    assert "softmax" in finding.location["candidate"]["names"]


def test_an_old_operator_set_at_the_last_axis(reference, graph, diagnosed):
    assert not diagnosed(reference, onnx_of(graph, 11, axis=2), x=X)


@pytest.mark.parametrize("function", [jax.nn.softmax, jax.nn.log_softmax])
def test_composed_over_another_axis(module, diagnosed, function):
    reference = module(lambda _, x: getattr(2 * x, function.__name__)(-1))
    (finding,) = diagnosed(reference, lambda x: function(x + x, axis=1), x=X)
    assert (finding.rule, finding.observed) == ("softmax-axis", "axis 1")


def test_another_temperature_is_no_other_axis(reference, diagnosed):
    findings = diagnosed(reference, lambda x: jax.nn.softmax(2.2 * x, axis=-1), x=X)
    assert findings
    assert "softmax-axis" not in {one.rule for one in findings}
