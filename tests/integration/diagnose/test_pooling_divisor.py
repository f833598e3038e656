"""What an average is divided by."""

import numpy as np
import pytest
from onnx import helper
from torch.nn import functional

from parity.jobs.diff import diff

IMAGE = np.random.default_rng(0).normal(1, 1, (2, 3, 9, 9)).astype(np.float32)


def pool(counted: int, pad: int):
    return helper.make_node(
        "AveragePool",
        ["x"],
        ["p"],
        "pool",
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[pad] * 4,
        count_include_pad=counted,
    )


TANH = helper.make_node("Tanh", ["p"], ["y"])


def test_padding_that_one_side_counts(module, graph, diagnosed):
    reference = module(lambda _, x: functional.avg_pool2d(x, 3, 2, 1).tanh())
    (finding,) = diagnosed(reference, graph([pool(0, 1), TANH], {"x": IMAGE}), x=IMAGE)
    assert (finding.rule, finding.expected, finding.observed) == (
        "pooling-divisor",
        "padding counted",
        "padding not counted",
    )
    assert finding.location["candidate"]["site"] == "pool"
    assert finding.evidence["share"] > 0.999


def test_a_convolution_that_is_an_average(module, graph, diagnosed):
    reference = module(lambda _, x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False).tanh())
    mean = helper.make_node("Conv", ["x", "w"], ["p"], "mean", pads=[1] * 4, strides=[2, 2], group=3)
    weights = {"w": np.full((3, 1, 3, 3), 1 / 9, np.float32)}
    (finding,) = diagnosed(reference, graph([mean, TANH], {"x": IMAGE}, weights), x=IMAGE)
    assert (finding.rule, finding.expected) == ("pooling-divisor", "padding not counted")


def test_without_padding_the_flag_means_nothing(module, graph, diagnosed):
    reference = module(lambda _, x: functional.avg_pool2d(x, 3, 2).tanh())
    assert not diagnosed(reference, graph([pool(0, 0), TANH], {"x": IMAGE}), x=IMAGE)


@pytest.mark.parametrize("divisor", [9, 6])
def test_a_length_in_place_of_the_number_of_numbers(module, graph, diagnosed, divisor):
    x = IMAGE[:, 0]
    reference = module(lambda _, x: x.mean(1).tanh())
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["sum"], "sum", keepdims=0),
        helper.make_node("Div", ["sum", "length"], ["p"], "by_length"),
        TANH,
    ]
    weights = {"axes": np.array([1]), "length": np.array(divisor, np.float32)}
    findings = diagnosed(reference, graph(nodes, {"x": x}, weights), x=x)
    told = [(one.rule, one.expected, one.observed) for one in findings]
    wrong = [("pooling-divisor", "divided by the length, 9", "length 6 baked in")]
    assert told == ([] if divisor == 9 else wrong)


def test_sums_over_windows_in_jax(module):
    lax = pytest.importorskip("jax.lax")
    window = {"window_dimensions": (1, 1, 3, 3), "window_strides": (1, 1, 2, 2)}
    padding = ((0, 0), (0, 0), (1, 1), (1, 1))

    def candidate(x):
        return lax.tanh(lax.reduce_window(x, 0.0, lax.add, padding=padding, **window) / 9)

    reference = module(lambda _, x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False).tanh())
    (finding,) = diff(reference, candidate, [{"x": IMAGE}]).findings
    assert (finding.rule, finding.observed) == ("pooling-divisor", "padding counted")
