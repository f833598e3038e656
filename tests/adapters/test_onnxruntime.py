"""The onnxruntime adapter: every row against its declared variant, what the optimiser makes of it, ONNX's own cases."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from parity.adapter import Adapter, Implementation
from parity.dtypes import FLOAT_DTYPES
from parity.functions import variant

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper, parser  # noqa: E402 - only after the skip
from onnx.backend.test import loader  # noqa: E402

from parity_adapters.onnxruntime import adapter, graphs  # noqa: E402
from parity_adapters.onnxruntime.arrays import from_numpy, to_numpy  # noqa: E402
from parity_adapters.onnxruntime.sessions import (  # noqa: E402
    GELU_APPROXIMATION,
    LEVELS,
    open_session,
    run_model,
    session_options,
)

GRID = (np.arange(-768, 768) + 0.5) / 128
"""[-6, 6] in odd multiples of 1/256, so never on a kink; exact in float32 and, but for few, in float16."""

VALUE_ULP = {"float64": 5.0, "float32": 5.0, "float16": 1.0}
"""At max(|x|, |y|). Measured on ONNX Runtime 1.32 CPU: 4, 3.6 (Tanh) and 0.74 on [-20, 20], `WORSE` aside."""

WORSE = {
    ("Elu", "float32"): 64,  # exp(x) - 1 cancels below zero: without bound in relative terms
    ("Elu[alpha=1.5]", "float32"): 96,
    ("Selu", "float32"): 128,
    ("Celu", "float32"): 64,
    ("Celu[alpha=2.0]", "float32"): 192,
    ("Sub,Div,Erf,Add,Mul", "float32"): 64,  # 1 + erf cancels where the result is small and so is x
    ("Sub,Div,Erf,Add,Mul", "float16"): 4,
}
"""Measured on ONNX Runtime 1.32 CPU, by name and dtype."""

FLOAT32_CONSTANTS = {"Gelu[approximate=tanh]", "com.microsoft.FastGelu", "com.microsoft.FastGelu[bias]"}
"""Run in float64 as a function of smaller operators whose constants have float32 precision: 1e9 ulp."""


@cache
def by_name() -> dict[str, Implementation]:
    return {implementation.name: implementation for implementation in adapter.activations()}


def inputs(implementation: Implementation, dtype: str) -> np.ndarray:
    x = GRID if implementation.variant.arity == 1 else np.stack([np.roll(GRID, 501), GRID], axis=-1)
    return x.astype(FLOAT_DTYPES[dtype])


def ulp(size: np.ndarray, dtype: str) -> np.ndarray:
    kind = ml_dtypes.finfo(FLOAT_DTYPES[dtype])
    _, exponent = np.frexp(np.maximum(size, float(kind.smallest_normal)))
    return np.ldexp(float(kind.eps), exponent - 1)


def operators(model: "onnx.ModelProto", tmp_path, *, level: str, approximate: bool = False) -> list[str]:
    """Operators that the optimiser leaves of ``model``, in order."""
    options = session_options(level=level, config=(GELU_APPROXIMATION,) if approximate else ())
    path = tmp_path / "optimized.onnx"
    options.optimized_model_filepath = str(path)
    open_session(model, options)
    return [f"{node.domain}.{node.op_type}".lstrip(".") for node in onnx.load(path).graph.node]


def test_it_is_an_adapter() -> None:
    assert isinstance(adapter, Adapter)
    assert {"onnx", "onnxruntime"} <= set(adapter.versions())


def test_names_are_unique_and_all_levels_are_there() -> None:
    names = [implementation.name for implementation in adapter.activations()]
    assert len(set(names)) == len(names)
    assert {f"Gelu[approximate=none] (level={level})" for level in LEVELS} <= set(names)


@pytest.mark.parametrize("name", by_name())
def test_value_is_that_of_the_declared_variant(name: str) -> None:
    implementation = by_name()[name]
    for dtype in implementation.dtypes:
        x = inputs(implementation, dtype)
        y = implementation(x)
        assert y.dtype == x.dtype
        assert y.shape == (len(x),)
        exact = implementation.variant.value(x)
        size = np.maximum(np.abs(x.astype(float)).reshape(len(x), -1).prod(axis=1), np.abs(exact))
        error = np.abs(y.astype(float) - exact) / ulp(size, dtype)
        bare = name.partition(" (")[0]
        if dtype == "float64" and bare in FLOAT32_CONSTANTS:
            limit = 2.0**31
        elif implementation.accuracy == "exact" or dtype == "bfloat16":
            limit = 1.0
        else:
            limit = WORSE.get((bare, dtype), VALUE_ULP.get(dtype, 1.0))
        assert error.max() <= limit, f"{dtype}: {error.max():.3g} ulp at x = {x[error.argmax()]}"


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_arrays_survive_the_way_there_and_back_to_the_bit(dtype: str) -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    kind = FLOAT_DTYPES[dtype]
    x = bits.view(kind) if kind.itemsize == 2 else (bits.astype(kind) - 2**15) / 3
    back = to_numpy(from_numpy(x))
    assert back.dtype == x.dtype
    assert back.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_an_ort_value_owns_its_memory(dtype: str) -> None:
    x = np.ones(8, dtype=FLOAT_DTYPES[dtype])
    value = from_numpy(x)
    x[:] = 0
    assert (to_numpy(value) == 1).all()


FUSED = "com.microsoft.Gelu"
APPROXIMATED = "com.microsoft.FastGelu"
ERF_CHAIN = ["Div", "Erf", "Add", "Mul", "Mul"]

TANH_CHAIN = ["Mul", "Pow", "Mul", "Add", "Mul", "Tanh", "Add", "Mul"]
QUICK = "com.microsoft.QuickGelu"

FUSIONS = [
    # Body, opset; what is left at none, at all, at all with the approximation.
    (graphs.F_GELU_LEGACY, 17, (ERF_CHAIN, [FUSED], [APPROXIMATED])),
    (graphs.F_GELU_DYNAMO, 18, (ERF_CHAIN, ERF_CHAIN, ERF_CHAIN)),
    (graphs.GELU_PYTHON, 18, (["Mul", *ERF_CHAIN[:-1]], [FUSED], [APPROXIMATED])),
    (graphs.GELU_PYTHON, 20, (["Mul", *ERF_CHAIN[:-1]], ["Gelu"], ["Gelu"])),
    (graphs.GELU_10_LEGACY, 17, ([*ERF_CHAIN, "Clip"], [FUSED, "Clip"], [APPROXIMATED, "Clip"])),
    (graphs.QUICK_GELU, 18, (["Mul", "Sigmoid", "Mul"], [QUICK], [QUICK])),
    (graphs.SILU, 18, (["Sigmoid", "Mul"], [QUICK], [QUICK])),
    (graphs.GELU_NEW, 18, (TANH_CHAIN, TANH_CHAIN, TANH_CHAIN)),
    ("y = Gelu (x)", 20, (["Gelu"], ["Gelu"], ["Gelu"])),
    ("y = com.microsoft.Gelu (x)", 20, ([FUSED], [FUSED], [APPROXIMATED])),
]
"""As measured on ONNX Runtime 1.32 in float32."""


@pytest.mark.parametrize(("body", "opset", "left"), FUSIONS)
def test_the_optimizer_fuses_by_the_order_of_operands(body, opset, left, tmp_path) -> None:
    model = graphs.Graph(body, opset).model("float")
    none, everything, approximated = left
    assert operators(model, tmp_path, level="none") == none
    assert operators(model, tmp_path, level="all") == everything
    assert operators(model, tmp_path, level="all", approximate=True) == approximated


def test_a_bias_in_front_carries_even_onnx_gelu_into_the_approximation(tmp_path) -> None:
    header = '<ir_version: 10, opset_import: ["": 20]> linear (float[n, 8] x, float[8] bias) => (float[n, 8] y)'
    model = parser.parse_model(header + "{ sum = Add (x, bias) y = Gelu (sum) }")
    assert operators(model, tmp_path, level="all") == ["com.microsoft.BiasGelu"]
    assert operators(model, tmp_path, level="all", approximate=True) == [APPROXIMATED]


@pytest.mark.parametrize(
    ("name", "dtype", "computes"),
    [
        ("com.microsoft.Gelu (level=all, enable_gelu_approximation)", "float32", "gelu_tanh"),
        ("com.microsoft.BiasGelu (level=all, enable_gelu_approximation)", "float32", "gelu_tanh"),
        ("Add,Gelu[approximate=none] (level=all, enable_gelu_approximation)", "float32", "gelu_tanh"),
        ("com.microsoft.Gelu (level=all, enable_gelu_approximation, float16)", "float16", "gelu_erf"),
        ("Gelu[approximate=none] (level=all, enable_gelu_approximation)", "float32", "gelu_erf"),
        ("Gelu[approximate=none] (level=all, enable_gelu_approximation)", "float16", "gelu_erf"),
    ],
)
def test_the_approximation_replaces_erf_by_tanh_only_in_float32_and_not_in_onnx_gelu(name, dtype, computes) -> None:
    # Mean errors, because in float16 the largest ones of the two are alike.
    x = np.linspace(-4, 4, 4001).astype(dtype)
    y = by_name()[name](x).astype(float)
    error = {form: np.abs(y - variant(form).value(x)).mean() for form in ("gelu_erf", "gelu_tanh")}
    assert min(error, key=error.__getitem__) == computes
    assert max(error.values()) > 1.5 * error[computes]
    assert str(by_name()[name].variant) == computes


def test_quick_gelu_with_alpha_one_is_silu() -> None:
    x = GRID.astype(np.float32)
    y = by_name()["com.microsoft.QuickGelu[alpha=1.0] (level=all)"](x)
    assert np.abs(y - variant("silu").value(x)).max() < 2e-6
    assert np.abs(y - variant("quick_gelu").value(x)).max() > 0.1


def test_defaults_are_rows_of_the_default_level() -> None:
    defaults = {i.default_of: i for i in by_name().values() if i.default_of and "." not in i.name}
    assert defaults["gelu"].name == "Gelu (level=all)"
    assert defaults["hardsigmoid"].variant == variant("hard_sigmoid", slope=0.2)
    assert {"leakyrelu", "elu", "celu", "selu", "softplus", "hardswish", "mish"} <= set(defaults)


def test_float64_gelu_tanh_has_float32_constants() -> None:
    """Accepted as float64, and no nearer to the exact result than 1e-9: the operator's function body is to blame."""
    x = np.linspace(-4, 4, 1001)
    error = by_name()["Gelu[approximate=tanh] (level=all)"](x) - variant("gelu_tanh").value(x)
    assert 1e-9 < np.abs(error).max() < 1e-7


def test_float64_shrink_is_computed_in_float32() -> None:
    """The reason why Shrink has no row in float64."""
    x = np.linspace(1, 4, 1001)
    (y,) = run_model(graphs.Graph("y = Shrink (x)").model("double"), [x])
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, x.astype(np.float32).astype(np.float64))
    assert (y != x).any()


def test_float64_quick_gelu_has_a_float32_alpha() -> None:
    """The reason why QuickGelu with 1.702 has no row in float64."""
    x = np.linspace(-4, 4, 1001)
    (y,) = run_model(graphs.Graph("y = com.microsoft.QuickGelu (x)").model("double"), [x])
    assert np.abs(y - variant("quick_gelu").value(x)).max() > 1e-9
    assert np.abs(y - variant("quick_gelu", alpha=float(np.float32(1.702))).value(x)).max() < 1e-15


def test_the_exported_log_sigmoid_overflows_where_activations_live() -> None:
    """``F.logsigmoid`` is exported as Sigmoid and Log; the float32 Sigmoid kernel is 0 from about -16."""
    x = np.array([-20, -18, -15, 0], dtype=np.float32)
    with np.errstate(divide="ignore"):
        (y,) = run_model(graphs.Graph("s = Sigmoid (x) y = Log (s)").model("float"), [x])
    assert list(np.isfinite(y)) == [False, False, True, True]


def test_a_dtype_without_kernel_fails_at_the_call_and_not_before() -> None:
    implementation = by_name()["Gelu (level=all)"]
    with pytest.raises(Exception, match=r"(?i)not.?implemented"):
        implementation(GRID.astype(ml_dtypes.bfloat16))


@cache
def gelu_cases() -> dict:
    with np.errstate(all="ignore"):  # the cases of all operators are computed on the way, infinities included
        cases = loader.load_model_tests(kind="node")
    return {case.name: case for case in cases if case.name.startswith("test_gelu_")}


def test_onnx_has_the_gelu_cases_that_we_know() -> None:
    known = {f"test_gelu_{form}_{n}{end}" for form in ("default", "tanh") for n in (1, 2) for end in ("", "_expanded")}
    assert set(gelu_cases()) == known


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", gelu_cases())
def test_onnx_backend_case(name: str, level: str) -> None:
    """The cases of the onnx package itself, through the adapter's own way to a session."""
    case = gelu_cases()[name]
    assert case.data_sets is not None
    for given, wanted in case.data_sets:
        outputs = run_model(case.model, [np.asarray(x) for x in given], level=level)
        for output, reference in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(output, reference, rtol=case.rtol, atol=case.atol)


def expression(model: "onnx.ModelProto"):
    """The output of ``model`` as nested tuples (operator, attributes, operands); constants as numbers, inputs as x."""
    graph = model.graph
    values = {tensor.name: float(numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    values |= {value.name: "x" for value in graph.input}
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            values[node.output[0]] = float(numpy_helper.to_array(attributes["value"]))
        else:
            operands = tuple(values[name] for name in node.input)
            values[node.output[0]] = (node.op_type, tuple(sorted(attributes.items())), operands)
    return values[graph.output[0].name]


EXPORTS = [
    ("gelu", graphs.F_GELU_LEGACY, 17, False),
    ("gelu", graphs.F_GELU_DYNAMO, 18, True),
    ("gelu_pytorch_tanh", graphs.F_GELU_TANH_LEGACY, 17, False),
    ("gelu_pytorch_tanh", graphs.F_GELU_TANH_DYNAMO, 18, True),
    ("gelu_10", graphs.GELU_10_LEGACY, 17, False),
    ("gelu_10", graphs.GELU_10_DYNAMO, 18, True),
    *(
        (key, body, opset, dynamo)
        for key, body, opset in (
            ("gelu_python", graphs.GELU_PYTHON, 18),
            ("gelu_python", graphs.GELU_PYTHON, 20),
            ("gelu_new", graphs.GELU_NEW, 18),
            ("gelu_accurate", graphs.GELU_NEW, 18),
            ("gelu_fast", graphs.GELU_FAST, 18),
            ("quick_gelu", graphs.QUICK_GELU, 18),
            ("silu", graphs.SILU, 18),
            ("gelu_10", graphs.GELU_10, 20),
        )
        for dynamo in (False, True)
    ),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns about its older exporter, and about its own code
@pytest.mark.parametrize(("key", "body", "opset", "dynamo"), EXPORTS)
def test_chains_are_what_torch_exports(key, body, opset, dynamo, tmp_path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    activation = pytest.importorskip("transformers.activations").ACT2FN[key]
    path = tmp_path / "exported.onnx"
    torch.onnx.export(torch.nn.Sequential(activation), (torch.zeros(3),), str(path), opset_version=opset, dynamo=dynamo)
    exported = onnx.load(path)
    assert exported.opset_import[0].version == opset
    assert expression(exported) == expression(graphs.Graph(body, opset).model("float"))
