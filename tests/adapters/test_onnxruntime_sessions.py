"""ONNX models as sessions: production's very bits node by node, exact values, names that a user knows."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnxruntime.quantization import CalibrationDataReader, quantize_dynamic, quantize_static

from parity.adapter import Array, UnsupportedPrecisionError
from parity.errors import InputError
from parity.testing.sessions import check_session, traced
from parity_adapters.onnxruntime import adapter, evaluation, kernels

LEVELS = ("none", "basic", "extended", "all")

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def codes(*shape: int, dtype: Any = np.uint8) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(shape).integers(limits.min, limits.max, shape).astype(dtype)


def number(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


def model(text: str, weights: Mapping[str, Array] | None = None, opset: int = 20) -> onnx.ModelProto:
    parsed = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]> {text}')
    for node in parsed.graph.node:  # the parser takes no slash
        node.name = node.name.replace("__", "/")
    parsed.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in (weights or {}).items())
    return parsed


def single(
    op: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any], domain: str, constant: Sequence[int] = ()
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, ["y"], name="node", domain=domain, **attributes)
    given = {name: x for i, (name, x) in enumerate(zip(names, inputs, strict=True)) if name and i not in constant}
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given.items()
    ]
    stored = [numpy_helper.from_array(inputs[i], names[i]) for i in constant]
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name="y")], stored)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), given


ENCODER = """g (float[2,6,16] x) => (float[2,6,16] y) {
    [norm] n = LayerNormalization <axis = -1, epsilon = 0.001> (x, scale, shift)
    [blocks_0__fc1__MatMul] m = MatMul (n, w1)
    [blocks_0__fc1__Add] a = Add (m, b1)
    [blocks_0__act__Div] d = Div (a, root)
    [blocks_0__act__Erf] e = Erf (d)
    [blocks_0__act__Add] p = Add (e, one)
    [blocks_0__act__Mul] q = Mul (a, p)
    [blocks_0__act__Mul_1] g = Mul (q, half)
    [blocks_0__fc2__MatMul] o = MatMul (g, w2)
    [blocks_0__Add] y = Add (x, o)
}"""

ENCODER_WEIGHTS = {
    "scale": floats(16),
    "shift": floats(16),
    "w1": floats(16, 48),
    "b1": floats(48),
    "w2": floats(48, 16),
    "root": number(2**0.5),
    "one": number(1.0),
    "half": number(0.5),
}


def encoder() -> onnx.ModelProto:
    return model(ENCODER, ENCODER_WEIGHTS)


@pytest.mark.parametrize("level", LEVELS)
def test_encoder_at_every_level(level: str) -> None:
    x = {"x": floats(2, 6, 16)}
    with adapter.open(encoder(), {"optimization": level}) as session:
        check_session(session, x)
        sites, _, ends = traced(session, x)
    assert ends.notes == ()
    labels = {label: site for site in sites for label in site.labels}
    for name in ("blocks_0/fc1/MatMul", "blocks_0/fc1/Add", "blocks_0/act/Erf", "e", "blocks_0/act/Mul_1", "g", "norm"):
        assert name in labels, f"{name} is the label of no site"
    fused = level != "none"
    assert (labels["blocks_0/act/Erf"] is labels["blocks_0/act/Mul_1"]) == fused
    assert labels["blocks_0/act/Erf"].scope == "blocks_0.act"
    assert labels["norm"].kind == "layer_norm"
    assert labels["norm"].attributes["epsilon"] == 0.001


def test_numbers_of_a_formula_are_weights_that_can_be_replaced() -> None:
    x = {"x": floats(2, 6, 16)}
    with adapter.open(encoder(), {"optimization": "none"}) as session:
        sites, tensors, _ = traced(session, x)
        division = next(site for site in sites if site.op == "Div")
        assert division.inputs == ("a", "root")
        assert session.weights()["root"].shape == ()
        given = {"a": tensors["a"], "root": np.array(2.0)}
        for precision, dtype in (("native", np.float32), ("float64", np.float64), ("float16", np.float16)):
            made = session.evaluate([division.name], given, ["d"], precision)["d"]
            assert made.dtype == dtype
            assert np.array_equal(made, tensors["a"].astype(dtype) / 2)


def test_given_tensor_stands_in_the_place_of_one_that_is_made() -> None:
    x = {"x": floats(2, 6, 16)}
    with adapter.open(encoder(), {"optimization": "none"}) as session:
        sites, tensors, _ = traced(session, x)
        found = session.evaluate([site.name for site in sites], {**x, "g": tensors["g"] * 0}, ["y", "g"], "native")
        assert np.array_equal(found["y"], x["x"])
        assert not found["g"].any()
        with pytest.raises(InputError, match="reads 'm'"):
            session.evaluate(["blocks_0/fc1/Add"], {}, ["a"], "native")
        with pytest.raises(InputError, match="no site called"):
            session.evaluate(["nobody"], {}, ["a"], "native")


def test_large_weights_and_threads_change_no_bit() -> None:
    text = "g (float[9,256] x) => (float[9,256] y) { h = MatMul (x, w) r = Relu (h) y = MatMul (r, w) }"
    for threads in ("1", "2"):
        with adapter.open(model(text, {"w": floats(256, 256)}), {"threads": threads}) as session:
            check_session(session, {"x": floats(9, 256)})


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a mapped file cannot be removed before it is closed")
def test_an_open_session_leaves_no_file_behind_even_if_its_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with adapter.open(encoder(), {}) as session:
        assert list(tmp_path.iterdir()) == []
        check_session(session, {"x": floats(2, 6, 16)})


def test_sessions_of_nodes_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_BYTES", 2 * 64 * 64 * 4 + 3 * 2**14)
    names = [f"w{i}" for i in range(6)]
    body = " ".join(f"h{i + 1} = MatMul (h{i}, w{i})" for i in range(6))
    text = f"g (float[2,64] h0) => (float[2,64] h6) {{ {body} }}"
    with adapter.open(model(text, {name: floats(64, 64) for name in names}), {"optimization": "none"}) as session:
        check_session(session, {"h0": floats(2, 64)})
        sites, _, ends = traced(session, {"h0": floats(2, 64)})
        assert 1 <= len(session._kernels._kernels) <= 3
        given = {ends.inputs["h0"]: floats(2, 64)}
        session.evaluate([sites[0].name], given, [sites[0].outputs[0]], "float64")
        assert not session._kernels._kernels, "float64 takes about as much memory as they do"


CONVOLUTIONS = """g (float[2,3,17,17] x) => (float[2,10] y) {
    [a__Conv] c1 = Conv <pads = [1,1,1,1], strides = [2,2]> (x, w1, b1)
    [a__Relu] r1 = Relu (c1)
    [b__Conv] c2 = Conv <pads = [1,1,1,1], group = 24> (r1, w2, b2)
    [b__Sigmoid] s2 = Sigmoid (c2)
    [b__Mul] m2 = Mul (c2, s2)
    [c__Conv] c3 = Conv (m2, w3)
    [c__Act] r3 = HardSigmoid (c3)
    [pool] p = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (r3)
    [big] q = MaxPool <kernel_shape = [2,2], strides = [2,2]> (p)
    [all] v = GlobalAveragePool (q)
    [flat] f = Flatten (v)
    [fc] y = Gemm <transB = 1> (f, w4, b4)
}"""

CONVOLUTION_WEIGHTS = {
    "w1": floats(24, 3, 3, 3),
    "b1": floats(24),
    "w2": floats(24, 1, 3, 3),
    "b2": floats(24),
    "w3": floats(40, 24, 1, 1),
    "w4": floats(10, 40),
    "b4": floats(10),
}


@pytest.mark.parametrize("level", LEVELS)
def test_convolutions_in_blocked_layout_look_as_in_the_file(level: str) -> None:
    x = {"x": floats(2, 3, 17, 17)}
    with adapter.open(model(CONVOLUTIONS, CONVOLUTION_WEIGHTS), {"optimization": level}) as session:
        check_session(session, x)
        sites, tensors, _ = traced(session, x)
        weights = session.weights()
        convolutions = [site for site in sites if site.kind == "conv"]
        assert [tensors[site.outputs[0]].shape[1] for site in convolutions] == [24, 24, 40]
        for site, name in zip(convolutions, ("w1", "w2", "w3"), strict=True):
            assert np.array_equal(weights[site.inputs[1]], CONVOLUTION_WEIGHTS[name])
        assert convolutions[1].attributes["groups"] == 24
        pool = next(site for site in sites if site.kind == "average_pool")
        assert pool.attributes["count_include_pad"] is False
        assert pool.attributes["pads"] == [1, 1, 1, 1]
        labels = {label for site in sites for label in site.labels}
        assert {"c/Act", "b/Mul", "b/Sigmoid", "a/Conv", "pool"} <= labels
        filters = convolutions[0].inputs[1]
        given = {**x, filters: weights[filters] * 2}
        output = convolutions[0].outputs[0]
        doubled = session.evaluate([convolutions[0].name], given, [output], "native")[output]
        exact = session.evaluate([convolutions[0].name], given, [output], "float64")[output]
        np.testing.assert_allclose(doubled, exact, atol=1e-4)


CONTROL = """g (float[4] x, bool flag, int64 times) => (float[4] y, float[k,4] all) {
    [br] h = If (flag) <
        then_branch = t () => (float[4] a) { a = Mul (x, two) },
        else_branch = e () => (float[4] b) { c = Relu (x) b = Sub (c, half) }>
    go = Constant <value = bool {1}> ()
    [lp] y, all = Loop (times, go, h) <
        body = b (int64 i, bool on, float[4] v) => (bool more, float[4] w, float[4] s) {
            f = Cast <to = 1> (i)
            g = Add (v, f)
            w = Tanh (g)
            s = Mul (w, two)
            total = ReduceSum <keepdims = 0> (g)
            most = Constant <value = float {9.0}> ()
            more = Less (total, most)
        }>
}"""


@pytest.mark.parametrize(
    ("flag", "times", "turns", "untested"),
    [(True, 3, 3, "else branch of 'br'"), (False, 9, 3, "then branch of 'br'"), (False, 0, 0, "body of 'lp'")],
)
@pytest.mark.parametrize("level", ["none", "all"])
def test_branches_and_loops_are_followed(level: str, flag: bool, times: int, turns: int, untested: str) -> None:
    x = {"x": np.array([1.0, 0.5, -1.0, 2.0], np.float32), "flag": np.array(flag), "times": np.array(times)}
    control = model(CONTROL, {"two": number(2.0), "half": number(0.5)})
    with adapter.open(control, {"optimization": level}) as session:
        check_session(session, x)
        sites, tensors, ends = traced(session, x)
        assert any(untested in note for note in ends.notes)
        bodies = [site for site in sites if site.op == "Tanh"]
        assert len(bodies) == turns
        assert all(site.name.startswith(f"lp/{i}/") for i, site in enumerate(bodies))
        assert tensors[ends.outputs["all"]].shape == (turns, 4)
        assert all({"w", "y"} <= set(site.labels) for site in bodies)


def test_scans_and_sequences_are_followed() -> None:
    scan = model("""g (float[3] init, float[t,3] xs) => (float[3] y, float[t,3] ys) {
        y, ys = Scan <num_scan_inputs = 1, scan_output_directions = [1],
            body = b (float[3] s, float[3] x) => (float[3] s2, float[3] o) {
                s1 = Add (s, x) s2 = Tanh (s1) o = Neg (s2) }> (init, xs) }""")
    sequence = model(
        """g (float[5,3] x) => (float[3] y, float[m,3] z) {
        k = Constant <value = int64 {2}> ()
        parts = SplitToSequence <axis = 0> (x, k)
        first = Constant <value = int64 {0}> ()
        a = SequenceAt (parts, first)
        axes = Constant <value = int64[1] {0}> ()
        y = ReduceSum <keepdims = 0> (a, axes)
        n = SequenceLength (parts)
        more = SequenceInsert (parts, a)
        b = ConcatFromSequence <axis = 0> (more)
        rest = SequenceErase (more, first)
        c = ConcatFromSequence <axis = 0> (rest)
        s = Cast <to = 1> (n)
        d = Mul (c, s)
        z = Concat <axis = 0> (b, d) }"""
    )
    for level in ("none", "all"):
        with adapter.open(scan, {"optimization": level}) as session:
            check_session(session, {"init": floats(3), "xs": floats(4, 3)})
        with adapter.open(sequence, {"optimization": level}) as session:
            check_session(session, {"x": floats(5, 3)})


def test_functions_of_the_model_are_written_out() -> None:
    text = """<ir_version: 10, opset_import: ["": 20, "my": 1]>
        g (float[5] x) => (float[5] y) { [call] y = my.swish (x) }
        <domain: "my", opset_import: ["": 20]> swish (a) => (b) { s = Sigmoid (a) b = Mul (a, s) }"""
    with adapter.open(parser.parse_model(text), {"optimization": "none"}) as session:
        check_session(session, {"x": floats(5)})
        assert [site.kind for site in traced(session, {"x": floats(5)})[0]] == ["sigmoid", "mul"]


HEADS = {"num_heads": 4}

TABLES = [
    np.cos(np.outer(np.arange(16), np.arange(8))).astype("f"),
    np.sin(np.outer(np.arange(16), np.arange(8))).astype("f"),
]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "constant"),
    [
        ("BiasGelu", [floats(3, 4), floats(4)], {}, ()),
        ("FastGelu", [floats(3, 4), floats(4)], {}, ()),
        ("QuickGelu", [floats(3, 4)], {"alpha": 1.702}, ()),
        ("FusedMatMul", [floats(2, 4, 3), floats(2, 4, 5)], {"transA": 1, "alpha": 0.5}, ()),
        (
            "FusedGemm",
            [floats(3, 4), floats(5, 4), floats(5)],
            {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.2},
            (),
        ),
        (
            "FusedConv",
            [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4), floats(1, 4, 4, 4)],
            {"activation": "Relu"},
            (),
        ),
        (
            "SkipLayerNormalization",
            [floats(2, 3, 8), floats(2, 3, 8) + 1, floats(8), floats(8) + 1],
            {"epsilon": 1e-3},
            (),
        ),
        ("SkipSimplifiedLayerNormalization", [floats(2, 3, 8), floats(2, 3, 8) + 1, floats(8)], {"epsilon": 1e-3}, ()),
        ("Attention", [floats(2, 5, 16), floats(16, 48), floats(48)], {**HEADS, "unidirectional": 1}, (1,)),
        ("Attention", [floats(2, 5, 16), floats(16, 48), floats(48), np.array([3, 5], np.int32)], HEADS, ()),
        ("MultiHeadAttention", [floats(2, 5, 16), floats(2, 7, 16), floats(2, 7, 16) + 1, floats(48)], HEADS, ()),
        ("RotaryEmbedding", [floats(2, 5, 64), RNG.integers(0, 16, (2, 5)), *TABLES], {"interleaved": 1}, ()),
        (
            "QLinearAdd",
            [codes(3, 8), number(0.02), number(99, np.uint8)] * 2 + [number(0.1), number(120, np.uint8)],
            {},
            (),
        ),
        (
            "DynamicQuantizeMatMul",
            [floats(3, 8), codes(8, 5, dtype=np.int8), floats(5) ** 2, None, floats(5)],
            {},
            (1, 2),
        ),
        (
            "MatMulNBits",
            [floats(3, 64), codes(6, 2, 16), floats(12)],
            {"K": 64, "N": 6, "bits": 4, "block_size": 32},
            (1, 2),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_exact_values_of_fused_operators(op: str, inputs: Any, attributes: Any, constant: Any) -> None:
    check_exact(*single(op, inputs, attributes, "com.microsoft", constant))


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("LayerNormalization", [floats(2, 3, 8), floats(3, 8)], {"axis": 1}),
        ("GroupNormalization", [floats(2, 4, 3), floats(4), floats(4)], {"num_groups": 2}),
        (
            "Attention",
            [floats(2, 4, 5, 8), floats(2, 2, 7, 8), floats(2, 2, 7, 8) + 1],
            {"is_causal": 1, "softcap": 2.0},
        ),
        (
            "ConvTranspose",
            [floats(1, 4, 5, 5), floats(4, 2, 3, 3)],
            {"group": 2, "strides": [2, 2], "pads": [1, 0, 1, 1]},
        ),
        ("Conv", [floats(1, 4, 9, 9), floats(6, 2, 3, 3)], {"group": 2, "strides": [2, 1], "auto_pad": "SAME_LOWER"}),
        ("AveragePool", [floats(1, 2, 7, 7)], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ("Resize", [floats(1, 2, 5, 5), None, np.array([1, 1, 1.7, 2.3], np.float32)], {"mode": "cubic"}),
        ("Resize", [floats(1, 2, 8, 8), None, None, np.array([1, 2, 3, 5])], {"mode": "linear", "antialias": 1}),
        (
            "GRU",
            [floats(6, 3, 5), floats(2, 12, 5), floats(2, 12, 4), floats(2, 24)],
            {"direction": "bidirectional", "hidden_size": 4},
        ),
        (
            "LSTM",
            [floats(6, 3, 5), floats(1, 16, 5), floats(1, 16, 4), None, np.array([6, 2, 4], np.int32)],
            {"hidden_size": 4},
        ),
        ("Pad", [floats(2, 5), np.array([1, -1, 2, 3])], {}),
        ("GatherND", [floats(2, 3, 4), np.array([[[1]], [[2]]])], {"batch_dims": 1}),
        ("QuantizeLinear", [floats(3, 8), floats(8) ** 2, codes(8)], {"axis": 1}),
        ("Div", [np.array([-7, 7, -8]), np.array([2, -2, 4])], {}),
        ("Erf", [np.linspace(-6, 6, 99, dtype=np.float32)], {}),
        ("Gelu", [np.linspace(-6, 6, 99, dtype=np.float32)], {"approximate": "tanh"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_exact_values_of_operators(op: str, inputs: Any, attributes: Any) -> None:
    check_exact(*single(op, inputs, attributes, ""))


def check_exact(graph: onnx.ModelProto, given: Mapping[str, Array]) -> None:
    with adapter.open(graph, {"optimization": "none"}) as session:
        check_session(session, given)
        sites, tensors, ends = traced(session, given)
        output = ends.outputs["y"]
        names = [site.name for site in sites]
        native = tensors[output].astype(np.float64)
        exact = session.evaluate(names, given, [output], "float64")[output]
        step = 2e-6 * np.abs(native).max() if tensors[output].dtype.kind == "f" else 1
        np.testing.assert_allclose(exact.astype(np.float64), native, rtol=0, atol=step)
        half = session.evaluate(names, given, [output], "float16")[output]
        if tensors[output].dtype.kind == "f":
            assert half.dtype == np.float16
            np.testing.assert_allclose(half.astype(np.float64), native, rtol=0, atol=0.02 * np.abs(native).max())


def test_casts_between_floats_are_left_out_and_those_to_integers_stay() -> None:
    casts = "h = Cast <to = 10> (x) y = Cast <to = 1> (h) n = Cast <to = 7> (x)"
    text = f"g (float[4] x) => (float[4] y, int64[4] n) {{ {casts} }}"
    x = {"x": np.array([1.0001, -2.7, 3.3, 0.1], np.float32)}
    with adapter.open(model(text), {"optimization": "none"}) as session:
        sites, tensors, _ = traced(session, x)
        exact = session.evaluate([site.name for site in sites], x, ["y", "n"], "float64")
        assert np.array_equal(exact["y"], x["x"].astype(np.float64))
        assert not np.array_equal(exact["y"], tensors["y"])
        assert exact["n"].tolist() == [1, -2, 3, 0]


def test_operator_without_an_exact_form_is_named() -> None:
    graph, given = single("BitCast", [floats(3)], {"to": TensorProto.INT32}, "")
    graph.opset_import[0].version = 26
    with adapter.open(graph, {}) as session:
        check_session(session, given, double=False)
        with pytest.raises(UnsupportedPrecisionError, match="BitCast 'node'"):
            session.evaluate(["node"], given, ["y"], "float64")


def test_attributes_have_canonical_names_and_defaults() -> None:
    text = """g (float[2,3,4,4] x, int64[2] ids)
        => (float[2,3,4,4] a, float[2,3,8,8] b, float[4,4,3,2] c, float[2,5] e) {
        a = Softmax (x)
        b = Resize <mode = "cubic"> (x, none, scales)
        c = Transpose (x)
        e = Gather (table, ids)
    }"""
    weights = {"none": floats(0), "scales": np.array([1, 1, 2, 2], np.float32), "table": floats(7, 5)}
    with adapter.open(model(text, weights, opset=11), {"optimization": "none"}) as session:
        assert session.inputs()["ids"].limit == 7
        assert session.inputs()["x"].limit is None
        x = {"x": floats(2, 3, 4, 4), "ids": np.array([1, 6])}
        check_session(session, x)
        sites = {site.op: site for site in traced(session, x)[0]}
    softmax, resize, transpose, gather = (sites[op] for op in ("Softmax", "Resize", "Transpose", "Gather"))
    assert softmax.attributes["axis"] == 1
    assert softmax.attributes["flattened"] is True
    assert resize.attributes["coordinates"] == "half_pixel"
    assert resize.attributes["cubic_coefficient"] == -0.75
    assert transpose.attributes["axes"] == [3, 2, 1, 0]
    assert gather.kind == "embedding"


def test_scopes_come_from_the_exporter_where_it_left_them() -> None:
    graph = encoder()
    properties = {
        "pkg.torch.onnx.name_scopes": "['', 'h.0', 'h.0.mlp', 'gelu_3']",
        "pkg.torch.onnx.stack_trace": 'File "/a/model.py", line 12, in forward\n  x = act(x)',
    }
    for node in graph.graph.node:
        for key, value in properties.items():
            node.metadata_props.add(key=key, value=value)
    x = {"x": floats(2, 6, 16)}
    with adapter.open(graph, {}) as session:
        sites = traced(session, x)[0]
    assert {site.scope for site in sites} == {"h.0.mlp"}
    activation = next(site for site in sites if site.kind == "gelu")
    assert activation.source == "/a/model.py:12"
    assert "gelu_3" in activation.labels


def test_random_numbers_are_said_to_be_random() -> None:
    text = "g (float[64] x) => (float[64] y) { y = Dropout (x, ratio, training) }"
    graph = model(text, {"ratio": number(0.5), "training": np.array(True)})
    with adapter.open(graph, {"optimization": "none"}) as session:
        sites, _, ends = traced(session, {"x": floats(64)})
        assert sites[0].kind == "random"
        assert any("random" in note for note in ends.notes)
        with pytest.raises(UnsupportedPrecisionError, match="Dropout"):
            session.evaluate([sites[0].name], {"x": floats(64)}, ["y"], "float64")


class _Samples(CalibrationDataReader):
    def __init__(self) -> None:
        self._left = [{"x": floats(2, 3, 17, 17) * scale} for scale in (1, 2)]

    def get_next(self) -> Any:
        return self._left.pop() if self._left else None


@pytest.mark.parametrize("level", ["none", "all"])
def test_quantised_models(tmp_path: Path, level: str) -> None:
    plain, static, dynamic = (str(tmp_path / name) for name in ("plain.onnx", "static.onnx", "dynamic.onnx"))
    onnx.save(model(CONVOLUTIONS, CONVOLUTION_WEIGHTS), plain)
    quantize_static(plain, static, _Samples(), per_channel=True)
    with adapter.open(static, {"optimization": level}) as session:
        x = {"x": floats(2, 3, 17, 17)}
        check_session(session, x)
        assert {"quantize", "dequantize", "conv"} <= {site.kind for site in traced(session, x)[0]}
    onnx.save(encoder(), plain)
    quantize_dynamic(plain, dynamic)
    with adapter.open(dynamic, {"optimization": level}) as session:
        check_session(session, {"x": floats(2, 6, 16)})


def test_weights_in_external_files_are_read_from_the_folder_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(encoder(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with adapter.open(str(path), {}) as session:
        check_session(session, {"x": floats(2, 6, 16)})
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"'weights\.bin', which is missing"):
        adapter.open(str(path), {})


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is told by Linux")
def test_weights_that_were_read_do_not_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"w{k}" for k in range(8)]
    text = "".join(f"t{k + 1} = Add (t{k}, {name}) " for k, name in enumerate(names)).replace("t8 =", "y =")
    numbers = {name: floats(2**20) + k for k, name in enumerate(names)}
    path = tmp_path / "model.onnx"
    onnx.save(model(f"g (float[{2**20}] t0) => (float[{2**20}] y) {{ {text} }}", numbers), path)
    monkeypatch.setattr("parity_adapters.onnxruntime.weights.READ", 2**22)
    with adapter.open(str(path), {"optimization": "none"}) as session:
        before = mapped_memory()
        sites, _, ends = traced(session, {"t0": floats(2**20)})
        assert (len(sites), ends.notes) == (8, ())
        assert all(np.array_equal(session.weights()[name], numbers[name]) for name in names)
        assert mapped_memory() - before < 4 * 2**22


def mapped_memory() -> int:
    """Bytes of files that are in this process's memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssFile:")[1].split()[0]) * 1024


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "C:\\weights.bin", "a/../../weights.bin", ""])
def test_weights_outside_the_folder_of_the_model_are_refused(tmp_path: Path, location: str) -> None:
    graph = model("g (float[4] x) => (float[4] y) { y = Add (x, w) }")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    graph.graph.initializer.append(tensor)
    path = tmp_path / "inner" / "model.onnx"
    path.parent.mkdir()
    path.write_bytes(graph.SerializeToString())
    (tmp_path / "weights.bin").write_bytes(bytes(16))
    with pytest.raises(InputError, match="not in the model's folder"):
        adapter.open(str(path), {})


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256)), encoder().SerializeToString()[:-9]])
def test_files_that_are_no_models_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no ONNX model"):
        adapter.open(str(path), {})


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (model("g (float[4] x) => (float[4] y) { y = Relu (x) }", opset=999), "ONNX Runtime .* does not open"),
        (model("g (float[4] x) => (float[4] y) { y = Nonsense (x) }"), "Nonsense"),
        (model("g (string[4] x) => (string[4] y) { y = Identity (x) }"), "is text"),
        (model("g (seq(float) x) => (int64 y) { y = SequenceLength (x) }"), "no tensor"),
    ],
)
def test_models_that_do_not_run_here_are_refused(graph: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adapter.open(graph, {})


def test_custom_operators_are_refused_and_their_libraries_not_asked_for() -> None:
    text = '<ir_version: 10, opset_import: ["": 20, "my": 1]> g (float[4] x) => (float[4] y) { y = my.Own (x) }'
    with pytest.raises(InputError, match="Libraries of custom operators are not loaded"):
        adapter.open(parser.parse_model(text), {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimization": "most"}, "no optimisation level called 'most'"),
        ({"dtype": "float16"}, "cannot run in float16: its graph is in float32"),
        ({"threads": "none"}, "'none' is no number of threads"),
        ({"session": "x"}, "no option of the onnxruntime adapter called 'session'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: Mapping[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        adapter.open(encoder(), options)


def test_session_configuration_reaches_the_optimiser() -> None:
    x = {"x": floats(2, 6, 16)}
    approximate = {"session_config.optimization.enable_gelu_approximation": "1", "dtype": "float32"}
    with adapter.open(model(ENCODER, ENCODER_WEIGHTS, opset=17), approximate) as session:
        check_session(session, x)
        assert "FastGelu" in {site.op for site in traced(session, x)[0]}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "'x' is missing"),
        ({"x": floats(2, 6, 15)}, r"cannot be of shape \(2, 6, 15\)"),
        ({"x": np.zeros((2, 6, 16), np.int64)}, "cannot be of int64"),
        ({"x": floats(2, 6, 16), "z": floats(1)}, "no input called 'z'"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: Mapping[str, Array], message: str) -> None:
    with adapter.open(encoder(), {}) as session, pytest.raises(InputError, match=message):
        session.run(inputs)


def test_missing_files_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        adapter.open(str(tmp_path / "model.onnx"), {})
    with pytest.raises(InputError, match="cannot open"):
        adapter.open(str(tmp_path), {})


def test_of_a_table_only_what_is_looked_up_is_cast(monkeypatch) -> None:
    table = np.arange(300, dtype=np.float32).reshape(50, 6) / 7
    text = """g (int64[4] ids, int64[3] few) => (float[4,6] rows, float[3,6] y) {
        rows = Gather (table, ids)
        third = Div (rows, three)
        y = Gather (third, few)
    }"""
    given = {"ids": np.array([3, 1, 49, 0]), "few": np.array([2, 2, 0])}
    with adapter.open(model(text, {"table": table, "three": number(3)}), {"optimization": "none"}) as session:
        sites, _, _ = traced(session, given)
        sizes, cast = [], evaluation.ExactEngine.enter

        def watched(self, name, x):
            sizes.append(x.size)
            return cast(self, name, x)

        monkeypatch.setattr(evaluation.ExactEngine, "enter", watched)
        made = session.evaluate([site.name for site in sites], given, ["rows", "y"], "float64")
    assert max(sizes) < table.size
    wide = table.astype(np.float64)
    np.testing.assert_array_equal(made["rows"], wide[given["ids"]])
    np.testing.assert_array_equal(made["y"], (wide[given["ids"]] / 3)[given["few"]])


def test_an_arena_that_the_user_registered_serves_as_well(tmp_path: Path) -> None:
    code = """
import numpy as np, onnxruntime as ort
from onnx import parser
from parity_adapters.onnxruntime import adapter
memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(memory, ort.OrtArenaCfg({}))
text = '<ir_version: 10, opset_import: ["": 20]> g (float[3] x) => (float[3] y) { y = Relu (x) }'
with adapter.open(parser.parse_model(text), {}) as session:
    session.trace({"x": np.ones(3, np.float32)}, lambda site, made: print(*made))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "y\n"), done.stderr


def test_whole_numbers_of_another_type_are_taken_in_the_types_of_the_graph() -> None:
    """The other side may count in 64 bits where the graph counts in 32."""
    text = "g (int64[3] x) => (int32[3] y) { a = Cast <to = 6> (x) b = CumSum (a, axis) y = Mul (a, b) }"
    x = np.array([1, 2, 3])
    with adapter.open(model(text, {"axis": np.array(0, np.int32)}), {"optimization": "none"}) as session:
        traced(session, {"x": x})
        for dtype in (np.int64, np.int32, np.uint8):
            made = session.evaluate(["CumSum_1", "Mul_2"], {"a": x.astype(dtype)}, ["y"], "native")
            assert made["y"].tolist() == [1, 6, 18]
        made = session.evaluate(["CumSum_1", "Mul_2"], {"a": x == 2}, ["y"], "native")
        assert made["y"].tolist() == [0, 1, 0], "truth values too"
