"""What an ONNX file may be made of: subgraphs, functions, fused and recurrent operators, names, other files."""

import math
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from parity.scanner.model import Unreadable  # noqa: E402

_spec = spec_from_file_location("onnx_models", Path(__file__).with_name("onnx_models.py"))
models = module_from_spec(_spec)
_spec.loader.exec_module(models)
Builder, document, named, uses = models.Builder, models.document, models.named, models.uses

FLOAT = TensorProto.FLOAT


def value(name: str, shape=(None, 8)):
    return helper.make_tensor_value_info(name, FLOAT, shape)


def model(nodes, inputs, outputs, *, initializers=(), functions=(), opset=17, domains=("local", "com.microsoft")):
    graph = helper.make_graph(nodes, "g", [value(one) for one in inputs], [value(one) for one in outputs], initializers)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


def test_branches_and_bodies_are_read_with_the_constants_around_them() -> None:
    def branch(op, output):
        nodes = [
            helper.make_node(op, ["x"], [f"{output}_a"], name=f"{output}/{op}"),
            helper.make_node("Mul", [f"{output}_a", "slope"], [f"{output}_b"]),
            helper.make_node("Sigmoid", [f"{output}_b"], [f"{output}_c"], name=f"{output}/Sigmoid"),
            helper.make_node("Mul", [f"{output}_a", f"{output}_c"], [output]),
        ]
        return helper.make_graph(nodes, output, [], [value(output)])

    node = helper.make_node("If", ["flag"], ["y"], then_branch=branch("Tanh", "p"), else_branch=branch("Relu", "q"))
    slope = helper.make_tensor("slope", FLOAT, [], [1.702])
    flag = helper.make_tensor("flag", TensorProto.BOOL, [], [True])
    found = uses(model([node], ["x"], ["y"], initializers=[slope, flag]))
    assert sorted((one.path, one.variant) for one in found) == [
        ("p/Sigmoid", "quick_gelu"),
        ("p/Tanh", "tanh"),
        ("q/Relu", "relu"),
        ("q/Sigmoid", "quick_gelu"),
    ]


def test_what_a_subgraph_reads_is_read() -> None:
    """A tensor in the middle of a region that a body reads, too, is no inside of it."""
    body = helper.make_graph([helper.make_node("Identity", ["s"], ["b"])], "body", [], [value("b")])
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["m"]),
        helper.make_node("If", ["flag"], ["z"], then_branch=body, else_branch=body),
    ]
    flag = helper.make_tensor("flag", TensorProto.BOOL, [], [True])
    assert named(model(nodes, ["x"], ["m", "z"], initializers=[flag])) == [("silu", {})]


def test_functions_are_read_where_they_are_called() -> None:
    inner = helper.make_function(
        "local",
        "scaled_sigmoid",
        ["v"],
        ["w"],
        [
            helper.make_node("Constant", [], ["k"], value_float=1.0),
            helper.make_node("Mul", ["v", "k"], ["kv"]),
            helper.make_node("Sigmoid", ["kv"], ["w"]),
        ],
        [helper.make_opsetid("", 17)],
    )
    constant = helper.make_node("Constant", [], ["k"])
    reference = onnx.AttributeProto(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name="alpha")
    constant.attribute.append(reference)
    gate = helper.make_function(
        "local",
        "gate",
        ["v"],
        ["w"],
        [
            constant,
            helper.make_node("Mul", ["v", "k"], ["kv"]),
            helper.make_node("scaled_sigmoid", ["kv"], ["s"], domain="local"),
            helper.make_node("Mul", ["v", "s"], ["w"]),
        ],
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)],
        ["alpha"],
    )
    nodes = [
        helper.make_node("gate", ["x"], ["h"], domain="local", name="/mlp/gate", alpha=1.702),
        helper.make_node("gate", ["h"], ["y"], domain="local", name="/mlp.1/gate", alpha=1.0),
    ]
    found = uses(model(nodes, ["x"], ["y"], functions=[inner, gate]))
    assert [(one.variant, one.scope) for one in found] == [("quick_gelu", "mlp"), ("silu", "mlp.1")]
    assert found[0].path.startswith("/mlp/gate/")


def test_functions_that_double_are_refused() -> None:
    functions = [
        helper.make_function(
            "local",
            f"f{at}",
            ["v"],
            ["w"],
            [
                helper.make_node(f"f{at + 1}" if at < 40 else "Relu", [i], [o], domain="local" if at < 40 else "")
                for i, o in (("v", "m"), ("m", "w"))
            ],
            [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)],
        )
        for at in range(41)
    ]
    bomb = model([helper.make_node("f0", ["x"], ["y"], domain="local")], ["x"], ["y"], functions=functions)
    with pytest.raises(Unreadable, match="more than 250,000 operators"):
        uses(bomb)


def test_functions_that_call_themselves_are_refused() -> None:
    function = helper.make_function(
        "local",
        "f",
        ["v"],
        ["w"],
        [helper.make_node("f", ["v"], ["w"], domain="local")],
        [helper.make_opsetid("local", 1)],
    )
    with pytest.raises(Unreadable, match="call one another"):
        uses(model([helper.make_node("f", ["x"], ["y"], domain="local")], ["x"], ["y"], functions=[function]))


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("RNN", {}, [("tanh", "output: Tanh")]),
        ("GRU", {}, [("sigmoid", "gates: Sigmoid"), ("tanh", "candidate: Tanh")]),
        ("LSTM", {}, [("sigmoid", "gates: Sigmoid"), ("tanh", "candidate: Tanh"), ("tanh", "output: Tanh")]),
        (
            "LSTM",
            {"activations": ["HardSigmoid", "Relu", "Tanh"], "activation_alpha": [0.2], "activation_beta": [0.5]},
            [
                ("hard_sigmoid", "gates: HardSigmoid 0.20000000298023224 0.5"),
                ("relu", "candidate: Relu"),
                ("tanh", "output: Tanh"),
            ],
        ),
        ("RNN", {"activations": ["Relu", "Relu"]}, [("relu", "output: Relu")]),
    ],
)
def test_recurrent_operators_tell_their_activations(op, attributes, expected) -> None:
    node = helper.make_node(op, ["x", "w", "r"], ["y"], name="rnn", hidden_size=4, **attributes)
    weights = [helper.make_tensor(name, FLOAT, [1, 4, 4], [0.0] * 16) for name in "wr"]
    found = uses(model([node], ["x"], ["y"], initializers=weights))
    assert [(one.variant, one.value) for one in found] == expected


@pytest.mark.parametrize(
    ("op", "attributes", "variant", "parameters"),
    [
        ("FusedConv", {"activation": "Relu"}, "relu", {}),
        ("FusedConv", {"activation": "LeakyRelu", "activation_params": [0.2]}, "leaky_relu", {"negative_slope": 0.2}),
        ("FusedConv", {"activation": "Clip", "activation_params": [0.0, 6.0]}, "relu6", {}),
        ("FusedGemm", {"activation": "LeakyRelu", "activation_alpha": 0.3}, "leaky_relu", {"negative_slope": 0.3}),
        ("FusedMatMulActivation", {"activation": "Tanh"}, "tanh", {}),
    ],
)
def test_activations_of_fused_operators_are_told(op, attributes, variant, parameters) -> None:
    node = helper.make_node(op, ["x", "u"], ["y"], name="fused", domain="com.microsoft", **attributes)
    (use,) = uses(model([node], ["x", "u"], ["y"]))
    assert (use.variant, dict(use.parameters), use.basis, use.field) == (variant, parameters, "graph", op)


def test_quantised_operators_are_read_as_what_they_stand_for() -> None:
    scale, zero = helper.make_tensor("s", FLOAT, [], [0.1]), helper.make_tensor("z", TensorProto.UINT8, [], [0])
    slope = helper.make_tensor("k", TensorProto.UINT8, [], [17])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearMul", ["q", "s", "z", "k", "s", "z", "s", "z"], ["m"], domain="com.microsoft"),
        helper.make_node("QLinearSigmoid", ["m", "s", "z", "s", "z"], ["g"], domain="com.microsoft"),
        helper.make_node("QLinearMul", ["q", "s", "z", "g", "s", "z", "s", "z"], ["p"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    assert named(model(nodes, ["x"], ["y"], initializers=[scale, zero, slope])) == [("quick_gelu", {"alpha": 1.7})]


def test_weights_elsewhere_are_never_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.float32(1.702).tobytes())
    slope = onnx.TensorProto(name="k", data_type=FLOAT, data_location=onnx.TensorProto.EXTERNAL)
    slope.external_data.add(key="location", value=str(secret))
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("Sigmoid", ["m"], ["s"]),
        helper.make_node("Mul", ["x", "s"], ["y"]),
    ]
    assert named(model(nodes, ["x"], ["y"], initializers=[slope])) == [("sigmoid", {})]


def test_names_of_modules_come_from_the_exporter_or_from_the_node() -> None:
    node = helper.make_node("Relu", ["x"], ["h"], name="node_relu")
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'encoder', 'encoder.act', 'relu']")
    other = helper.make_node("Relu", ["h"], ["y"], name="/decoder/layers.0/act/Relu")
    found = uses(model([node, helper.make_node("MatMul", ["h", "x"], ["m"]), other], ["x"], ["y"]))
    assert [one.scope for one in found] == ["encoder.act", "decoder.layers.0.act"]


def test_experts_and_group_norms_tell_what_they_apply() -> None:
    nodes = [
        helper.make_node("MoE", ["x", "u"], ["h"], domain="com.microsoft", activation_type="gelu"),
        helper.make_node("GroupNorm", ["h", "u"], ["y"], domain="com.microsoft", activation=1),
    ]
    assert [one.variant for one in uses(model(nodes, ["x", "u"], ["y"]))] == ["gelu_erf", "silu"]


def test_an_operator_of_another_domain_is_not_taken_for_one_of_onnx() -> None:
    assert uses(model([helper.make_node("Relu", ["x"], ["y"], domain="local")], ["x"], ["y"])) == ()


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([("Relu", ["b"], ["a"]), ("Relu", ["a"], ["b"])], "circle"),
        ([("Relu", ["nowhere"], ["y"])], "'nowhere' is read, and nothing makes it"),
        ([("Relu", ["x"], ["y"]), ("Tanh", ["x"], ["y"])], "two nodes make"),
    ],
)
def test_what_is_no_graph_is_said_so(nodes, says) -> None:
    made = [helper.make_node(op, inputs, outputs) for op, inputs, outputs in nodes]
    with pytest.raises(Unreadable, match=says) as caught:
        uses(model(made, ["x"], []))
    assert "model.onnx" in caught.value.message
    assert caught.value.hint


def field(number: int, data: bytes) -> bytes:
    """One field of bytes on the wire."""
    length, said = len(data), b""
    while length > 127:
        said, length = said + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + said + bytes([length]) + data


def test_deep_subgraphs_are_refused() -> None:
    graph = b""
    for _ in range(5000):
        attribute = field(1, b"body") + field(6, graph)
        graph = field(1, field(2, b"y") + field(4, b"Loop") + field(5, attribute))
    with pytest.raises(Unreadable, match="nested more than 64 deep"):
        uses(field(7, graph))


@pytest.mark.parametrize("cut", [1, 7, 40, 100, 150])
def test_a_truncated_file_is_refused(cut: int) -> None:
    data = model([helper.make_node("Relu", ["x"], ["y"])], ["x"], ["y"]).SerializeToString()
    with pytest.raises(Unreadable, match=r"model\.onnx is no readable ONNX model"):
        uses(data[:-cut] if cut < len(data) else b"")


def test_constants_of_every_stored_form_are_read() -> None:
    for tensor in (
        helper.make_tensor("k", FLOAT, [], [1.702]),
        helper.make_tensor("k", FLOAT, [1], np.float32([1.702]).tobytes(), raw=True),
        helper.make_tensor("k", TensorProto.DOUBLE, [], [1.702]),
        helper.make_tensor("k", TensorProto.FLOAT16, [1, 1], [1.702]),
        helper.make_tensor("k", FLOAT, [8], [1.702] * 8),
    ):
        nodes = [
            helper.make_node("Mul", ["x", "k"], ["m"]),
            helper.make_node("Sigmoid", ["m"], ["s"]),
            helper.make_node("Mul", ["x", "s"], ["y"]),
        ]
        ((variant, parameters),) = named(model(nodes, ["x"], ["y"], initializers=[tensor]))
        assert variant == "quick_gelu"
        assert math.isclose(parameters.get("alpha", 1.702), 1.702, rel_tol=1e-3)


def test_old_forms_of_operators_are_read() -> None:
    nodes = [
        helper.make_node("Clip", ["x"], ["h"], min=0.0, max=6.0),
        helper.make_node("MatMul", ["h", "x"], ["m"]),
        helper.make_node("Selu", ["m"], ["y"]),
    ]
    assert named(model(nodes, ["x"], ["y"], opset=6)) == [("relu6", {}), ("selu", {})]
