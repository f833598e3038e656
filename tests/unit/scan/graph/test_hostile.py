"""Files from strangers: whatever the bytes, a message or rows, in bounded time and memory."""

import json
import struct
import time
import zipfile
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.scanner.graph.flatbuffer import Table
from parity.scanner.graph.protobuf import MalformedError, Message
from parity.scanner.model import Unreadable
from parity.scanner.readers import exported_program, saved_model, tflite
from parity.scanner.readers import onnx as onnx_reader
from parity.scanner.source import Source

onnx = pytest.importorskip("onnx")

_spec = spec_from_file_location("onnx_models", Path(__file__).with_name("onnx_models.py"))
models = module_from_spec(_spec)
_spec.loader.exec_module(models)


def field(number: int, data: bytes | int) -> bytes:
    """One field on the wire."""

    def whole(value: int) -> bytes:
        said = b""
        while value > 127:
            said, value = said + bytes([value & 127 | 128]), value >> 7
        return said + bytes([value])

    if isinstance(data, int):
        return whole(number << 3) + whole(data)
    return whole(number << 3 | 2) + whole(len(data)) + data


def node(name: str, op: str, *inputs: str, **attributes: bytes) -> bytes:
    """A TensorFlow node."""
    parts = [field(1, name.encode()), field(2, op.encode()), *(field(3, one.encode()) for one in inputs)]
    parts += [field(5, field(1, key.encode()) + field(2, value)) for key, value in attributes.items()]
    return b"".join(parts)


def number(value: float) -> bytes:
    return field(8, field(1, 1) + field(2, b"") + field(4, struct.pack("<f", value)))


def call(function: str) -> bytes:
    return field(10, field(1, function.encode()))


def function(name: str, nodes: list[bytes], result: str) -> bytes:
    signature = field(1, name.encode()) + field(2, field(1, b"x")) + field(3, field(1, b"y"))
    return (
        field(1, signature)
        + b"".join(field(3, one) for one in nodes)
        + field(4, field(1, b"y") + field(2, result.encode()))
    )


def frozen(nodes: list[bytes], functions: list[bytes] = ()) -> bytes:
    library = b"".join(field(1, one) for one in functions)
    return b"".join(field(1, one) for one in nodes) + (field(2, library) if functions else b"")


QUICK = [
    node("x", "Placeholder", dtype=field(6, 1)),
    node("k", "Const", value=number(1.702)),
    node("m", "Mul", "x", "k"),
    node("s", "Sigmoid", "m"),
    node("y", "Mul", "x:0", "s", "^k"),
]


def read_graph(data: bytes):
    return saved_model.read(Source.of_bytes(data, "graph.pb"))


def test_a_frozen_graph_is_read() -> None:
    (use,) = read_graph(frozen(QUICK)).activations
    assert (use.variant, use.field, use.value) == ("quick_gelu", "Sigmoid", "Sigmoid chain, 3 nodes")


def test_nodes_in_any_order_are_read() -> None:
    assert [one.variant for one in read_graph(frozen(QUICK[::-1])).activations] == ["quick_gelu"]


def test_a_function_gets_its_constants_from_outside() -> None:
    inner = function("act", [node("s", "Sigmoid", "x"), node("i", "Identity", "s:y:0")], "i:output:0")
    nodes = [*QUICK[:3], node("layer/call", "PartitionedCall", "m", f=call("act")), node("y", "Mul", "x", "layer/call")]
    (use,) = read_graph(frozen(nodes, [inner])).activations
    assert (use.variant, use.path, use.scope) == ("quick_gelu", "layer/call/s", "layer.call")


def test_bodies_of_loops_are_read_once() -> None:
    body = function("body", [node("r", "Relu", "x")], "r:activations:0")
    loops = [node(f"w{at}", "While", "x", cond=call("body"), body=call("body")) for at in range(3)]
    assert [one.variant for one in read_graph(frozen([QUICK[0], *loops], [body])).activations] == ["relu"]


def test_old_loops_are_no_circle() -> None:
    nodes = [
        node("x", "Placeholder"),
        node("e", "Enter", "x"),
        node("m", "Merge", "e", "n"),
        node("t", "Tanh", "m"),
        node("n", "NextIteration", "t"),
    ]
    assert [one.variant for one in read_graph(frozen(nodes)).activations] == ["tanh"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (frozen([node("a", "Relu", "b"), node("b", "Relu", "a")]), "circle"),
        (frozen([node("a", "Relu", "gone")]), "nothing makes it"),
        (
            frozen(
                [node("a", "PartitionedCall", "x", f=call("f"))],
                [function("f", [node("b", "PartitionedCall", "x", f=call("f"))], "b:output:0")],
            ),
            "call one another",
        ),
        (
            frozen(
                [node("c", "PartitionedCall", "x", f=call("f0"))],
                [
                    function(
                        f"f{at}",
                        [node(one, "PartitionedCall", "x", f=call(f"f{at + 1}")) for one in "ab"],
                        "a:output:0",
                    )
                    for at in range(40)
                ]
                + [function("f40", [node("r", "Relu", "x")], "r:y:0")],
            ),
            "expands to more than 250,000 operators",
        ),
        (b"\x0a\xff\xff\xff\xff\x0f", "runs over the end"),
        (b"\x0a", "ends"),
        (b"\x08\x01\x12\x00", "no graph"),
    ],
    ids=["circle", "missing", "recursion", "doubling", "length", "cut", "empty"],
)
def test_what_is_no_tensorflow_graph_is_said_so(data: bytes, says: str) -> None:
    started = time.monotonic()
    with pytest.raises(Unreadable, match=says):
        read_graph(data)
    assert time.monotonic() - started < 5


def program(nodes: list[dict], **more) -> bytes:
    """An exported program's archive."""
    graph = {"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [], "nodes": nodes, "tensor_values": {}}
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", json.dumps({"graph_module": {"graph": graph, "signature": {}}, **more}))
    return held.getvalue()


def aten(name: str, output: str, **arguments) -> dict:
    inputs = [
        {"name": key, "arg": {"as_tensor": {"name": one}} if isinstance(one, str) else {"as_float": one}}
        for key, one in arguments.items()
    ]
    target = f"torch.ops.aten.{name}.default"
    return {"target": target, "inputs": inputs, "outputs": [{"as_tensor": {"name": output}}], "metadata": {}}


def read_program(data: bytes):
    return exported_program.read(Source.of_bytes(data, "model.pt2"))


QUICK_PROGRAM = [
    aten("mul", "m", self="x", other=1.702),
    aten("sigmoid", "s", self="m"),
    aten("mul", "y", self="x", other="s"),
]


def test_an_exported_program_is_read() -> None:
    (use,) = read_program(program(QUICK_PROGRAM, torch_version="2.9")).activations
    assert (use.variant, use.field) == ("quick_gelu", "aten.sigmoid")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PK\x03\x04 and no more", "no readable exported program"),
        (program([aten("relu", "a", self="b"), aten("relu", "b", self="a")]), "circle"),
        (program(QUICK_PROGRAM)[:-30], "no readable exported program"),
    ],
)
def test_what_is_no_program_is_said_so(data: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        read_program(data)


def test_a_zip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported_program, "LARGEST_PROGRAM", 2**20)
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", b" " * 2**24)
    with pytest.raises(Unreadable, match="at most 1,048,576 are read"):
        read_program(held.getvalue())


def test_json_that_nests_without_end_is_refused() -> None:
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", "[" * 200_000)
    with pytest.raises(Unreadable, match="no readable exported program"):
        read_program(held.getvalue())


@pytest.mark.parametrize("shape", [[], {}, 3, "x", None, [[]], [{"arg": 3}]])
def test_json_of_another_shape_is_no_traceback(shape) -> None:
    for nodes in (shape, [shape], [{"target": shape, "inputs": shape, "outputs": shape}]):
        held = BytesIO()
        with zipfile.ZipFile(held, "w") as archive:
            archive.writestr(
                "model.json", json.dumps({"graph_module": {"graph": {"nodes": nodes}, "signature": shape}})
            )
        assert read_program(held.getvalue()).activations == ()


def an_onnx_model() -> bytes:
    g = models.Builder()
    h = g.Gelu(g.Relu(g.Mul("x", g.Sigmoid(g.Mul("x", 1.702)))), approximate="tanh")
    node_of = onnx.helper.make_node("LSTM", [h, "u", "u"], ["r"], activations=["Sigmoid", "Tanh", "Tanh"])
    g.nodes.append(node_of)
    return g.model(g.QLinearSigmoid("r", 0.1, 0.1, domain="com.microsoft"), opset=20).SerializeToString()


SEEDS = {
    "onnx": (onnx_reader, an_onnx_model(), "m.onnx"),
    "tensorflow": (saved_model, frozen(QUICK, [function("f", QUICK[1:4], "s:y:0")]), "m.pb"),
    "program": (exported_program, program(QUICK_PROGRAM), "m.pt2"),
}


@pytest.mark.parametrize("which", SEEDS)
@given(data=st.data())
@settings(max_examples=150, deadline=5000)
def test_changed_bytes_give_rows_or_a_message(which: str, data: st.DataObject) -> None:
    reader, seed, name = SEEDS[which]
    changed = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(changed) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "repeat"]))
        if kind == "set":
            changed[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del changed[at : at + data.draw(st.integers(1, 9))]
        else:
            changed[at:at] = changed[at : at + data.draw(st.integers(1, 40))]
        if not changed:
            break
    with suppress(Unreadable):
        document = reader.read(Source.of_bytes(bytes(changed), name))
        assert all(len(use.path) <= 160 for use in document.activations)


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    try:
        for _, wire, value in Message(data).fields():
            assert wire != 2 or 0 <= value.start <= value.end <= len(data)
    except MalformedError:
        pass


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_are_a_flatbuffer_or_malformed(data: bytes) -> None:
    try:
        root = Table.root(data)
        for number_of in range(8):
            root.number(number_of, "i")
            root.text(number_of)
            root.tables(number_of)
    except MalformedError:
        pass


@pytest.mark.parametrize("length", [0, 4, 8, 20])
def test_a_short_flatbuffer_is_refused(length: int) -> None:
    data = (b"\x08\x00\x00\x00TFL3" + bytes(12))[:length]
    with pytest.raises(Unreadable, match="no readable TFLite model"):
        tflite.read(Source.of_bytes(data, "m.tflite"))
