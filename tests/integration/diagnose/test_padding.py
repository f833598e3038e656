"""Padding of windows and by itself."""

import numpy as np
import pytest
from onnx import helper
from torch import nn
from torch.nn import functional

from parity.jobs.diff import diff

IMAGE = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
RELU = helper.make_node("Relu", ["c"], ["y"])


def told(findings):
    return [(one.rule, one.expected, one.observed) for one in findings]


def conv(**attributes):
    return helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", **attributes)


def weights(part):
    return {"w": part.weight, "b": part.bias}


def test_same_with_stride_two(module, graph, diagnosed):
    reference = module(lambda m, x: m.stem(x).relu(), stem=lambda: nn.Conv2d(3, 5, 3, stride=2, padding=1))
    candidate = graph([conv(auto_pad="SAME_UPPER", strides=[2, 2]), RELU], {"x": IMAGE}, weights(reference.stem))
    (finding,) = diagnosed(reference, candidate, x=IMAGE)
    assert told([finding]) == [("padding", "1 on each side", "SAME: 0 before, 1 after")]
    assert finding.location["reference"]["scope"] == "stem"
    assert finding.location["candidate"]["site"] == "conv"


def test_channels_last_in_jax(module):
    lax = pytest.importorskip("jax.lax")
    reference = module(lambda m, x: m.conv(x).relu(), conv=lambda: nn.Conv2d(3, 8, 3, stride=2, padding=1))
    w, b = (one.detach().numpy() for one in (reference.conv.weight.permute(2, 3, 1, 0), reference.conv.bias))

    def candidate(x):
        y = lax.conv_general_dilated(
            x.transpose(0, 2, 3, 1), w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return lax.max(y + b, 0.0).transpose(0, 3, 1, 2)

    findings = diff(reference, candidate, [{"x": IMAGE}]).findings
    assert told(findings) == [("padding", "1 on each side", "SAME: 0 before, 1 after")]


def test_causal_and_symmetric(module, graph, diagnosed):
    x = IMAGE[:, :, 0]
    reference = module(lambda m, x: m.conv(functional.pad(x, (2, 0))).relu(), conv=lambda: nn.Conv1d(3, 5, 3))
    candidate = graph([conv(pads=[1, 1]), RELU], {"x": x}, weights(reference.conv))
    assert told(diagnosed(reference, candidate, x=x)) == [("padding", "2 before, 0 after", "1 on each side")]


@pytest.mark.parametrize(("mode", "words"), [("reflect", "reflected"), ("circular", "wrapped around")])
def test_what_the_border_is_made_of(module, graph, diagnosed, mode, words):
    reference = module(lambda m, x: m.conv(x).relu(), conv=lambda: nn.Conv2d(3, 5, 3, padding=1, padding_mode=mode))
    candidate = graph([conv(pads=[1] * 4), RELU], {"x": IMAGE}, weights(reference.conv))
    assert told(diagnosed(reference, candidate, x=IMAGE)) == [
        ("padding", f"{words}, 1 on each side", "zeros, 1 on each side")
    ]


def test_a_padding_by_itself(module, graph, diagnosed):
    reference = module(lambda _, x: functional.pad(x, (1, 2, 1, 2), mode="replicate").sin())
    nodes = [helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect"), helper.make_node("Sin", ["p"], ["y"])]
    candidate = graph(nodes, {"x": IMAGE}, {"pads": np.array([0, 0, 1, 1, 0, 0, 2, 2])})
    ((rule, expected, observed),) = told(diagnosed(reference, candidate, x=IMAGE))
    assert (rule, expected.split(",")[0], observed.split(",")[0]) == ("padding", "border repeated", "reflected")


def test_the_border_of_a_largest_number(module, graph, diagnosed):
    reference = module(lambda _, x: functional.max_pool2d(x, 3, 2, 1).relu())
    pool = helper.make_node("MaxPool", ["x"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    findings = diagnosed(reference, graph([pool, RELU], {"x": IMAGE}), x=IMAGE)
    assert told(findings) == [("padding", "1 on each side", "SAME: 0 before, 1 after")]


def test_an_operator_of_its_own_pads_as_well(module, graph, diagnosed):
    reference = module(lambda m, x: m.conv(x).relu(), conv=lambda: nn.Conv2d(3, 5, 3, padding=1))
    pad = helper.make_node("Pad", ["x", "pads"], ["p"])
    node = helper.make_node("Conv", ["p", "w", "b"], ["c"])
    more = {**weights(reference.conv), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
    assert not diagnosed(reference, graph([pad, node, RELU], {"x": IMAGE}, more), x=IMAGE)


def test_other_weights_are_not_the_padding(module, graph, diagnosed):
    reference = module(lambda m, x: m.conv(x).relu(), conv=lambda: nn.Conv2d(3, 5, 3, padding=1))
    other = {"w": reference.conv.weight * 1.25, "b": reference.conv.bias}
    findings = diagnosed(reference, graph([conv(pads=[1] * 4), RELU], {"x": IMAGE}, other), x=IMAGE)
    assert [one.rule for one in findings] == ["weights"]
