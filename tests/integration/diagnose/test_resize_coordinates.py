"""Conventions of resizing."""

import numpy as np
import pytest
from onnx import helper
from torch.nn import functional

from parity.diagnose.interpolation import forms
from parity.jobs.diff import diff

IMAGE = np.random.default_rng(0).standard_normal((1, 3, 5, 6)).astype(np.float32)


def resized(graph, sizes, **attributes):
    nodes = [
        helper.make_node("Resize", ["x", "", "", "sizes"], ["r"], "resize", **attributes),
        helper.make_node("Tanh", ["r"], ["y"]),
    ]
    return graph(nodes, {"x": IMAGE}, {"sizes": np.array([1, 3, *sizes])})


def test_coordinates(module, graph, diagnosed):
    reference = module(lambda _, x: functional.interpolate(x, size=(9, 11), mode="bilinear", align_corners=True).tanh())
    (finding,) = diagnosed(reference, resized(graph, (9, 11), mode="linear"), x=IMAGE)
    assert (finding.rule, finding.expected, finding.observed) == ("resize-coordinates", "align_corners", "half_pixel")
    assert finding.location["candidate"]["site"] == "resize"


def test_cubic_coefficient(module, graph, diagnosed):
    reference = module(lambda _, x: functional.interpolate(x, size=(10, 12), mode="bicubic").tanh())
    (finding,) = diagnosed(reference, resized(graph, (10, 12), mode="cubic", cubic_coeff_a=-0.5), x=IMAGE)
    assert (finding.rule, finding.observed) == ("resize-coordinates", "cubic coefficient -0.5")


def test_a_factor_that_is_not_the_ratio_of_the_sizes(module, graph, diagnosed):
    reference = module(lambda _, x: functional.interpolate(x, scale_factor=1.5, mode="bilinear").tanh())
    (finding,) = diagnosed(reference, resized(graph, (7, 9), mode="linear"), x=IMAGE)
    assert (finding.rule, finding.expected) == ("resize-coordinates", "scale as given")


def test_antialiasing_of_many_operators(module):
    jax = pytest.importorskip("jax")
    reference = module(lambda _, x: functional.interpolate(x, size=(3, 3), mode="bilinear").tanh())
    (finding,) = diff(
        reference, lambda x: jax.numpy.tanh(jax.image.resize(x, (1, 3, 3, 3), "bilinear")), [{"x": IMAGE}]
    ).findings
    assert finding.rule == "resize-coordinates"
    assert finding.expected.startswith("no antialias")


def test_conventions_that_agree_at_this_size(module, graph, diagnosed):
    reference = module(lambda _, x: functional.interpolate(x, scale_factor=2, mode="nearest").tanh())
    same = resized(graph, (10, 12), mode="nearest", coordinate_transformation_mode="half_pixel")
    assert not diagnosed(reference, same, x=IMAGE)


def test_another_fault_is_not_the_resize(module, graph, diagnosed):
    reference = module(lambda _, x: (functional.interpolate(x, size=(9, 11), mode="bilinear") * 1.5).tanh())
    findings = diagnosed(reference, resized(graph, (9, 11), mode="linear"), x=IMAGE)
    assert findings
    assert "resize-coordinates" not in {one.rule for one in findings}


def test_a_resize_to_the_same_size_changes_nothing():
    moving = [form for form in forms() if not np.array_equal(form.matrix(6, 6), np.eye(6))]
    assert {form.coordinates for form in moving} == {"tf_half_pixel_for_nn"}
    assert all(np.allclose(form.matrix(6, 9).sum(1), 1) for form in forms())
