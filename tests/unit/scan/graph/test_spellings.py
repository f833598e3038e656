"""Every spelling of an activation is the function that it computes, whatever its constants, order and type."""

import math
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

_spec = spec_from_file_location("onnx_models", Path(__file__).with_name("onnx_models.py"))
models = module_from_spec(_spec)
_spec.loader.exec_module(models)
Builder, named, uses = models.Builder, models.named, models.uses

ROOT = math.sqrt(2.0)
SCALE = math.sqrt(2.0 / math.pi)
Spelling = Callable[..., str]


def erf_legacy(g, x="x", *, half=0.5, one=1.0, root=ROOT):
    return g.Mul(g.Mul(x, g.Add(g.Erf(g.Div(x, root)), one)), half)


def erf_dynamo(g, x="x"):
    return g.Mul(x, g.Mul(0.5, g.Add(g.Erf(g.Div(x, ROOT)), 1.0)))


def erf_python(g, x="x"):
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Erf(g.Div(x, ROOT)), 1.0))


def erf_by_factor(g, x="x"):
    return g.Mul(g.Mul(0.5, x), g.Add(1.0, g.Erf(g.Mul(x, 1 / ROOT))))


def erf_of_computed_root(g, x="x"):
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Erf(g.Div(x, g.Sqrt(2.0))), 1.0))


def quick_of_filled(g, x="x"):
    """With its slope in a tensor of the input's shape."""
    value = onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [1], [1.702])
    return g.Mul(x, g.Sigmoid(g.Mul(g.Expand(g.ConstantOfShape(g.Shape(x), value=value), g.Shape(x)), x)))


def erf_as_jax(g, x="x"):
    """0.5 · x · erfc(-x · √½), where ONNX has no erfc."""
    return g.Mul(g.Mul(x, 0.5), g.Sub(1.0, g.Erf(g.Mul(g.Neg(x), math.sqrt(0.5)))))


def tanh_legacy(g, x="x"):
    cube = g.Mul(0.044715, g.Mul(x, g.Mul(x, x)))
    return g.Mul(0.5, g.Mul(x, g.Add(1.0, g.Tanh(g.Mul(SCALE, g.Add(x, cube))))))


def tanh_dynamo(g, x="x"):
    inner = g.Mul(g.Add(x, g.Mul(g.Pow(x, 3.0), 0.044715)), SCALE)
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Tanh(inner), 1.0))


def tanh_new(g, x="x", *, cubic=0.044715, scale=SCALE):
    inner = g.Mul(g.Add(x, g.Mul(g.Pow(x, 3.0), cubic)), scale)
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Tanh(inner), 1.0))


def tanh_fast(g, x="x"):
    inner = g.Mul(g.Mul(x, 0.7978845608), g.Add(g.Mul(g.Mul(x, 0.044715), x), 1.0))
    return g.Mul(g.Mul(x, 0.5), g.Add(g.Tanh(inner), 1.0))


def tanh_by_sigmoid(g, x="x"):
    inner = g.Mul(g.Add(x, g.Mul(g.Mul(g.Mul(x, x), x), 0.044715)), 2 * SCALE)
    return g.Mul(x, g.Sigmoid(inner))


def quick(g, x="x", *, alpha=1.702):
    return g.Mul(x, g.Sigmoid(g.Mul(x, alpha)))


def quick_division(g, x="x"):
    return g.Div(x, g.Add(g.Exp(g.Mul(x, -1.702)), 1.0))


def silu(g, x="x"):
    return g.Mul(x, g.Sigmoid(x))


def silu_as_jax(g, x="x"):
    return g.Mul(x, g.Div(1.0, g.Add(1.0, g.Exp(g.Neg(x)))))


def clipped(g, x="x"):
    return g.Clip(erf_legacy(g, x), -10.0, 10.0)


def mish(g, x="x"):
    return g.Mul(x, g.Tanh(g.Softplus(x)))


def mish_of_logarithm(g, x="x"):
    return g.Mul(x, g.Tanh(g.Log(g.Add(g.Exp(x), 1.0))))


def hard_swish(g, x="x"):
    return g.Div(g.Mul(x, g.Clip(g.Add(x, 3.0), 0.0, 6.0)), 6.0)


def hard_swish_of_sigmoid(g, x="x"):
    return g.Mul(x, g.HardSigmoid(x, alpha=1 / 6, beta=0.5))


def relu_by_maximum(g, x="x"):
    return g.Max(x, 0.0)


def relu6_by_two(g, x="x"):
    return g.Min(g.Max(x, 0.0), 6.0)


def relu_squared(g, x="x"):
    return g.Pow(g.Relu(x), 2.0)


def leaky_where(g, x="x"):
    return g.Where(g.GreaterOrEqual(x, 0.0), x, g.Mul(x, 0.01))


def elu_as_jax(g, x="x"):
    safe = g.Where(g.Greater(x, 0.0), 0.0, x)
    return g.Where(g.Greater(x, 0.0), x, g.Sub(g.Exp(safe), 1.0))


def softplus_as_jax(g, x="x"):
    return g.Add(g.Max(x, 0.0), g.Log(g.Add(1.0, g.Exp(g.Neg(g.Abs(x))))))


def softsign(g, x="x"):
    return g.Div(x, g.Add(1.0, g.Abs(x)))


def log_sigmoid(g, x="x"):
    return g.Log(g.Sigmoid(x))


def tanh_shrink(g, x="x"):
    return g.Sub(x, g.Tanh(x))


GELU = {
    "gelu_erf": [erf_legacy, erf_dynamo, erf_python, erf_by_factor, erf_of_computed_root, erf_as_jax],
    "gelu_tanh": [tanh_legacy, tanh_dynamo, tanh_new, tanh_fast, tanh_by_sigmoid],
    "quick_gelu": [quick, quick_division, quick_of_filled],
    "silu": [silu, silu_as_jax],
    "gelu_clipped": [clipped],
}
OTHERS = {
    "mish": [mish, mish_of_logarithm],
    "hard_swish": [hard_swish, hard_swish_of_sigmoid],
    "relu": [relu_by_maximum],
    "relu6": [relu6_by_two],
    "relu2": [relu_squared],
    "leaky_relu": [leaky_where],
    "elu": [elu_as_jax],
    "softplus": [softplus_as_jax],
    "softsign": [softsign],
    "log_sigmoid": [log_sigmoid],
    "tanh_shrink": [tanh_shrink],
}
CASES = [pytest.param(v, s, id=f"{v}-{s.__name__}") for v, many in (GELU | OTHERS).items() for s in many]
GELU_CASES = [pytest.param(v, s, id=f"{v}-{s.__name__}") for v, many in GELU.items() for s in many]


@pytest.mark.parametrize(("variant", "spelling"), CASES)
def test_a_spelling_is_named_by_what_it_computes(variant: str, spelling: Spelling) -> None:
    g = Builder()
    (use,) = uses(g.model(spelling(g)))
    assert (use.variant, dict(use.parameters), use.basis) == (variant, {}, "probed")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("variant", "spelling"), GELU_CASES)
def test_constants_of_16_bits_are_the_same_variant(variant: str, spelling: Spelling, dtype: str) -> None:
    g = Builder(dtype)
    assert named(g.model(spelling(g))) == [(variant, {})]


@pytest.mark.parametrize("literal", ["node", "cast"])
@pytest.mark.parametrize(("variant", "spelling"), GELU_CASES)
def test_order_of_operands_and_place_of_constants_do_not_matter(variant: str, spelling: Spelling, literal: str) -> None:
    g = Builder(swapped=True, literal=literal)
    assert named(g.model(spelling(g))) == [(variant, {})]


@pytest.mark.parametrize(("variant", "spelling"), GELU_CASES)
def test_a_gated_form_names_the_activation_inside(variant: str, spelling: Spelling) -> None:
    g = Builder()
    gate, up = g.MatMul("x", np.eye(8)), g.MatMul("x", np.eye(8))
    (use,) = uses(g.model(g.MatMul(g.Mul(spelling(g, gate), up), np.eye(8))))
    assert use.variant == variant
    assert str(use.value).endswith("gating")


def erf_half(g, x):
    return g.Mul(g.Add(g.Erf(g.Div(x, ROOT)), 1.0), 0.5)


@pytest.mark.parametrize(
    ("variant", "factor"),
    [
        ("silu", lambda g, x: g.Sigmoid(x)),
        ("quick_gelu", lambda g, x: g.Sigmoid(g.Mul(x, 1.702))),
        ("gelu_erf", erf_half),
    ],
)
def test_a_gate_multiplied_from_the_left_to_the_right_is_the_activation_all_the_same(variant: str, factor) -> None:
    """x·y·f(x) in place of x·f(x)·y."""
    g = Builder()
    x = g.Add("x", 0.25)
    found = uses(g.model(g.Mul(g.Mul(x, g.Sqrt("x")), factor(g, x))))
    assert [one.variant for one in found] == [variant]
    g = Builder()
    found = uses(g.model(g.Mul(g.Sqrt("x"), g.Sigmoid("x"))))
    assert [one.variant for one in found] == ["sigmoid"]


@pytest.mark.parametrize(("variant", "spelling"), GELU_CASES)
def test_a_bias_before_and_a_residual_after_are_no_part_of_it(variant: str, spelling: Spelling) -> None:
    g = Builder()
    h = g.Add(g.MatMul("x", np.eye(8)), np.arange(8.0))
    assert named(g.model(g.Add("x", g.Mul(spelling(g, h), 2.0)))) == [(variant, {})]


@pytest.mark.parametrize(("variant", "spelling"), GELU_CASES)
def test_quantised_around_and_between(variant: str, spelling: Spelling) -> None:
    g = Builder()

    class Quantised:
        """Writes each operator with a quantised result."""

        def __getattr__(self, op: str) -> Callable[..., str]:
            def add(*inputs, **attributes):
                made = g.add(op, inputs, **attributes)
                if op in {"Sqrt", "Shape", "Expand", "ConstantOfShape"}:
                    return made
                stored = g.QuantizeLinear(made, 0.05, np.int8(0))
                return g.DequantizeLinear(stored, 0.05, np.int8(0))

            return add

    assert named(g.model(spelling(Quantised(), Quantised().MatMul("x", np.eye(8))))) == [(variant, {})]


@pytest.mark.parametrize(
    ("spelling", "nearest"),
    [
        (lambda g: tanh_new(g, cubic=0.44715), "gelu_tanh"),
        (lambda g: tanh_new(g, cubic=SCALE, scale=0.044715), "the nearest"),
        (lambda g: tanh_new(g, scale=0.75), "gelu_tanh"),
        (lambda g: erf_legacy(g, root=1.5), "gelu_erf"),
        (lambda g: erf_legacy(g, one=1.1), "gelu_erf"),
    ],
    ids=["cubic", "swapped", "scale", "root", "one"],
)
def test_a_near_miss_is_no_variant_and_says_which_it_is_near(spelling: Spelling, nearest: str) -> None:
    g = Builder()
    (use,) = uses(g.model(spelling(g)))
    assert use.variant is None
    assert "nothing fits" in use.reason
    assert nearest in use.reason


@pytest.mark.parametrize(("alpha", "expected"), [(1.0, ("silu", {})), (1.5, ("quick_gelu", {"alpha": 1.5}))])
def test_the_slope_of_a_quick_gelu_decides(alpha: float, expected: tuple[str, dict[str, float]]) -> None:
    g = Builder()
    assert named(g.model(quick(g, alpha=alpha))) == [expected]


def test_a_factor_that_stands_elsewhere_is_told() -> None:
    g = Builder()
    (use,) = uses(g.model(g.Mul("x", g.Add(g.Erf(g.Div("x", ROOT)), 1.0))))
    assert use.variant == "gelu_erf"
    assert "times 2" in use.reason


@pytest.mark.parametrize("cap", [30.0, 50.0, 5.0])
def test_a_soft_cap_of_logits_is_no_plain_tanh(cap: float) -> None:
    g = Builder()
    (use,) = uses(g.model(g.Mul(g.Tanh(g.Div("x", cap)), cap)))
    assert (use.variant, use.parameters) == ("tanh", {"cap": cap})
    assert use.reason == f"a soft cap, {cap:g}·tanh(x/{cap:g})"
    g = Builder()
    assert named(g.model(g.Mul(g.Tanh(g.Mul("x", 1 / cap)), cap))) == [("tanh", {"cap": cap})]


@pytest.mark.parametrize(("before", "after"), [(1.0, 1.0), (2 / 3, 1.7159), (-1 / 30, 30.0), (1.0, 30.0)])
def test_a_scaled_activation_is_named_without_its_scale(before: float, after: float) -> None:
    g = Builder()
    assert named(g.model(g.Mul(g.Tanh(g.Mul("x", before)), after))) == [("tanh", {})]


def test_thousands_of_activations_that_one_operator_reads_are_read_in_a_moment() -> None:
    g = Builder()
    parts = [g.Relu("x") for _ in range(4_000)]
    started = time.process_time()
    assert len(uses(g.model(g.Sum(*parts)))) == 4_000
    assert time.process_time() - started < 10


def test_a_sum_with_its_own_input_is_a_connection_and_no_function() -> None:
    g = Builder()
    assert named(g.model(g.Add("x", g.Relu("x")))) == [("relu", {})]


def test_two_activations_in_a_row_are_two() -> None:
    g = Builder()
    assert named(g.model(g.Sigmoid(erf_legacy(g)))) == [("gelu_erf", {}), ("sigmoid", {})]


FUSED = {
    "Relu": ({}, "", ("relu", {})),
    "LeakyRelu": ({"alpha": 0.2}, "", ("leaky_relu", {"negative_slope": 0.2})),
    "Elu": ({}, "", ("elu", {})),
    "Selu": ({}, "", ("selu", {})),
    "Celu": ({"alpha": 2.0}, "", ("celu", {"alpha": 2.0})),
    "Softplus": ({}, "", ("softplus", {})),
    "HardSigmoid": ({}, "", ("hard_sigmoid", {"slope": 0.2})),
    "HardSwish": ({}, "", ("hard_swish", {})),
    "ThresholdedRelu": ({"alpha": 0.5}, "", ("threshold", {"threshold": 0.5})),
    "Shrink": ({"lambd": 0.25, "bias": 0.25}, "", ("soft_shrink", {"threshold": 0.25})),
    "Mish": ({}, "", ("mish", {})),
    "Swish": ({}, "", ("silu", {})),
    "Gelu": ({"approximate": "tanh"}, "", ("gelu_tanh", {})),
    "FastGelu": ({}, "com.microsoft", ("gelu_tanh", {})),
    "BiasGelu": ({}, "com.microsoft", ("gelu_erf", {})),
    "QuickGelu": ({}, "com.microsoft", ("quick_gelu", {})),
}


@pytest.mark.parametrize("op", FUSED)
def test_an_operator_is_what_it_is_defined_to_be(op: str) -> None:
    attributes, domain, expected = FUSED[op]
    g = Builder()
    inputs = ["x", np.arange(8.0)] if op == "BiasGelu" else ["x"]
    (use,) = uses(g.model(g.add(op, inputs, domain=domain, **attributes)))
    assert (use.variant, dict(use.parameters), use.basis) == (*expected, "graph")
    assert use.field == op


@pytest.mark.parametrize("alpha", [1.0, 1.702])
def test_a_fused_quick_gelu_of_slope_one_is_silu(alpha: float) -> None:
    g = Builder()
    variant = "silu" if alpha == 1.0 else "quick_gelu"
    assert named(g.model(g.QuickGelu("x", domain="com.microsoft", alpha=alpha))) == [(variant, {})]


def test_a_gelu_without_the_attribute_is_exact() -> None:
    g = Builder()
    (use,) = uses(g.model(g.Gelu("x"), opset=20))
    assert (use.variant, use.basis) == ("gelu_erf", "graph")


def test_learned_slopes_are_told_as_such() -> None:
    g = Builder()
    (use,) = uses(g.model(g.PRelu("x", np.linspace(0.1, 0.3, 8))))
    assert use.variant is None
    assert "learned slopes" in use.reason


def softmax(g):
    raised = g.Exp(g.Sub("x", g.ReduceMax("x")))
    return g.Div(raised, g.ReduceSum(raised))


def layer_norm(g):
    centred = g.Sub("x", g.ReduceMean("x"))
    variance = g.ReduceMean(g.Pow(centred, 2.0))
    return g.Mul(g.Div(centred, g.Sqrt(g.Add(variance, 1e-5))), np.arange(8.0))


NO_ACTIVATION = {
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": lambda g: g.Mul("x", g.Reciprocal(g.Sqrt(g.Add(g.ReduceMean(g.Mul("x", "x")), 1e-6)))),
    "attention_scores": lambda g: g.Softmax(g.Add(g.Div(g.MatMul("x", "u"), 8.0), g.Mul(g.Sub(1.0, "u"), -10000.0))),
    "mask": lambda g: g.Where(g.Greater("u", 0.5), "x", -3.4e38),
    "rotary": lambda g: g.Add(g.Mul("x", g.Cos("u")), g.Mul(g.Neg("x"), g.Sin("u"))),
    "positions": lambda g: g.Concat(g.Sin(g.Mul("x", np.arange(8.0))), g.Cos(g.Mul("x", np.arange(8.0))), axis=-1),
    "epsilon_guard": lambda g: g.Div("u", g.Max(g.ReduceSum("x"), 1e-9)),
    "overflow_guard": lambda g: g.Clip("x", -65504.0, 65504.0),
    "distance": lambda g: g.Sqrt(g.Add(g.Mul("x", "x"), 1e-6)),
    "affine": lambda g: g.Add(g.Mul("x", 2.0), 1.0),
    "absolute": lambda g: g.Abs("x"),
    "exponential": lambda g: g.Exp(g.Mul("x", -0.5)),
}


@pytest.mark.parametrize("what", NO_ACTIVATION)
def test_other_arithmetic_is_no_activation(what: str) -> None:
    g = Builder()
    assert uses(g.model(NO_ACTIVATION[what](g))) == ()
