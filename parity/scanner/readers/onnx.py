"""ONNX models: the wire format alone, with no weight read that is not a number of a formula.

Weights in other files are never opened. Subgraphs are graphs inside a graph; calls of functions that the model brings
along are replaced by what is in them, because an activation may have its constants outside.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.dtypes import FLOAT_DTYPES
from parity.scanner.graph.ir import Constant, Graph, GraphError, Node, Values, decoded
from parity.scanner.graph.onnx_kinds import FLOAT_TYPES, Described, described
from parity.scanner.graph.optimizer import fusions
from parity.scanner.graph.protobuf import (
    VARINT,
    MalformedError,
    Message,
    doubles,
    float32,
    floats,
    integer,
    integers,
    message,
    unreadable,
)
from parity.scanner.graph.uses import activations
from parity.scanner.model import Document, Unreadable
from parity.scanner.source import Source, released

FORMAT: Final = "onnx"

MOST_NODES: Final = 250_000
"""Operators of one model, with those that its functions expand to."""

DEEPEST: Final = 64
"""Subgraphs and functions inside one another."""

NAMED: Final = "pkg.torch.onnx.name_scopes"

_ORT: Final = b"ORTM"
_OLDEST, _NEWEST = 3, 40
_INLINE: Final = 2**16

_STORED: Final[Mapping[int, np.dtype[Any]]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: FLOAT_DTYPES["float16"],
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    16: FLOAT_DTYPES["bfloat16"],
}
"""Element types of constants that are read."""


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is called so, or begins with the version of a model that is none of TensorFlow's."""
    if path.suffix.lower() in {".onnx", ".ort"} or head[4:8] == _ORT:
        return True
    return (
        len(head) > 3 and head[0] == 8 and _OLDEST <= head[1] <= _NEWEST and head[2] in {0x12, 0x1A, 0x2A, 0x3A, 0x42}
    )


def read(source: Source) -> Document:
    """The activations of a model.

    Raises:
        Unreadable: It is no ONNX model, is incomplete, or does not make a graph.
    """
    if source.head[4:8] == _ORT:
        raise Unreadable(f"{source.file} is in ONNX Runtime's own format.", hint="Scan the ONNX file it was made from.")
    buffer = source.mapped()
    try:
        model = _Model(Message(buffer))
        graphs = model.graphs()
        found = list(activations(source.file, graphs))
        facts = {**model.facts(), "onnxruntime": fusions(found, model.opset)}
    except (MalformedError, GraphError) as error:
        raise unreadable(source.file, "ONNX model", error) from error
    finally:
        released(buffer)
    return Document(file=source.file, format=FORMAT, activations=tuple(one.use for one in found), facts=facts)


@dataclass(slots=True)
class _Call:
    """A node as the file has it."""

    op: str = ""
    domain: str = ""
    overload: str = ""
    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class _Reference:
    """An attribute that has the value of the calling function's attribute of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the model."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, Any]
    calls: tuple[_Call, ...]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where calls stand: in a graph, or in a function that is called from one.

    Attributes:
        prefix: Before the names of what is made inside.
        names: Of the function's tensors, what they are called outside.
        given: The attributes of the call.
        scope: Of the call.
        depth: Functions and graphs around.
    """

    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    scope: str = ""
    depth: int = 0

    def tensor(self, name: str) -> str:
        return self.names.get(name, f"{self.prefix}{name}" if name and self.prefix else name)

    def value(self, attribute: Any) -> Any:
        return self.given.get(attribute.name) if isinstance(attribute, _Reference) else attribute


@dataclass(slots=True)
class _Body:
    """A graph before its nodes are in order."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    dtypes: dict[str, str] = field(default_factory=dict)
    inner: list["_Body"] = field(default_factory=list)

    def free(self) -> set[str]:
        """Tensors that it reads from around it."""
        read = {name for node in self.nodes for name in node.inputs}.union(self.outputs)
        for one in self.inner:
            read |= one.free()
        made = {name for node in self.nodes for name in node.outputs}
        return read - made - self.constants.keys() - set(self.inputs) - {""}


class _Model:
    """A model's parts."""

    def __init__(self, root: Message) -> None:
        self.opset = 0
        self._facts: dict[str, Any] = {}
        self._graph: Message | None = None
        self._functions: dict[tuple[str, str, str], Message] = {}
        self._parsed: dict[tuple[str, str, str], _Function] = {}
        self._sizes: dict[tuple[str, str, str], int] = {}
        self._count = 0
        for number, wire, value in root.fields():
            self._enter(number, wire, value)
        if self._graph is None:
            raise MalformedError("it holds no graph")

    def _enter(self, number: int, wire: int, value: Any) -> None:
        if number == 7:
            self._graph = message(wire, value)
        elif number == 8:
            domain, version = "", 0
            for inner, kind, one in message(wire, value).fields():
                if inner == 1:
                    domain = message(kind, one).text()
                elif inner == 2:
                    version = integer(kind, one)
            if domain in {"", "ai.onnx"}:
                self.opset = version
        elif number in {2, 3}:
            self._facts["producer" if number == 2 else "producer_version"] = message(wire, value).text()
        elif number == 25:
            function = message(wire, value)
            self._functions[_function_key(function)] = function

    def facts(self) -> dict[str, Any]:
        return {**self._facts, "opset": self.opset}

    def graphs(self) -> list[Graph]:
        """The model's graph and those inside, each after the one around it."""
        assert self._graph is not None  # noqa: S101 – checked when it was made
        made: list[Graph] = []
        self._build(self._body(self._graph, _Frame()), None, made)
        return made

    def _build(self, body: _Body, outer: Graph | None, made: list[Graph]) -> None:
        inputs = [name for name in body.inputs if name not in body.constants]
        graph = Graph(body.nodes, body.constants, inputs=inputs, outputs=body.outputs, dtypes=body.dtypes, outer=outer)
        made.append(graph)
        for one in body.inner:
            self._build(one, graph, made)

    def _body(self, graph: Message, frame: _Frame) -> _Body:
        if frame.depth > DEEPEST:
            raise MalformedError(f"graphs and functions are nested more than {DEEPEST} deep")
        body = _Body()
        calls: list[_Call] = []
        for number, wire, value in graph.fields():
            if number == 1:
                calls.append(_call(message(wire, value)))
            elif number == 5:
                name, constant = _tensor(message(wire, value))
                body.constants[frame.tensor(name)] = constant
            elif number == 15:
                body.constants[frame.tensor(_sparse_name(message(wire, value)))] = Constant("", 0)
            elif number in {11, 12, 13}:
                name, dtype = _value_info(message(wire, value))
                if number != 13:
                    (body.inputs if number == 11 else body.outputs).append(frame.tensor(name))
                if dtype:
                    body.dtypes[frame.tensor(name)] = dtype
        if self._functions and self._size(calls, frame.depth) > MOST_NODES:
            raise MalformedError(f"its functions expand to more than {MOST_NODES:,} operators")
        self._expand(calls, frame, body)
        return body

    def _expand(self, calls: Iterable[_Call], frame: _Frame, body: _Body) -> None:
        """Enters calls into a body, those of functions as what is in them."""
        for at, call in enumerate(calls):
            self._count += 1
            if self._count > MOST_NODES:
                raise MalformedError(f"it has more than {MOST_NODES:,} operators")
            function = self._function(call)
            if function is not None:
                self._inline(call, function, frame, body, at)
            elif call.op == "Constant" and call.domain in {"", "ai.onnx"} and call.outputs:
                body.constants[frame.tensor(call.outputs[0])] = _literal(call, frame)
            else:
                self._enter_node(call, frame, body)

    def _function(self, call: _Call) -> _Function | None:
        if not self._functions:
            return None
        key = (_domain(call.domain), call.op, call.overload)
        if key in self._functions and key not in self._parsed:
            self._parsed[key] = _parsed(self._functions[key])
        return self._parsed.get(key)

    def _size(self, calls: Iterable[_Call], depth: int) -> int:
        """Operators that calls expand to."""
        if depth > DEEPEST:
            raise MalformedError(f"functions call one another more than {DEEPEST} deep")
        total = 0
        for call in calls:
            function = self._function(call)
            if function is None:
                total += 1
                continue
            key = (_domain(call.domain), call.op, call.overload)
            if key not in self._sizes:
                self._sizes[key] = self._size(function.calls, depth + 1)
            total += self._sizes[key]
        return total

    def _inline(self, call: _Call, function: _Function, frame: _Frame, body: _Body, at: int) -> None:
        if frame.depth >= DEEPEST:
            raise MalformedError(f"functions call one another more than {DEEPEST} deep, '{call.op[:80]}' among them")
        names = dict(zip(function.inputs, map(frame.tensor, call.inputs), strict=False))
        names.update(dict.fromkeys(function.inputs[len(call.inputs) :], ""))
        results = dict(zip(function.outputs, map(frame.tensor, call.outputs), strict=False))
        passed = {name: results[name] for name in function.outputs if name in results and name in names}
        names.update((name, to) for name, to in results.items() if name not in passed)
        given = {name: frame.value(value) for name, value in call.attributes.items()}
        scope = call.scope or _scope_of_name(call.name) or frame.scope
        prefix = f"{frame.prefix}{call.name or f'{call.op}_{at}'}/"
        inner = _Frame(prefix, names, {**function.defaults, **given}, scope, frame.depth + 1)
        for name, to in passed.items():
            body.nodes.append(Node(call.name, "Identity", "identity", (names[name],), (to,)))
        self._expand(function.calls, inner, body)

    def _enter_node(self, call: _Call, frame: _Frame, body: _Body) -> None:
        attributes = {name: frame.value(value) for name, value in call.attributes.items()}
        free: set[str] = set()
        for value in attributes.values():
            for graph in value if isinstance(value, _Graphs) else ():
                inner = self._body(graph, _inside(frame))
                free |= inner.free()
                body.inner.append(inner)
        inputs = [frame.tensor(name) for name in call.inputs]
        outputs = tuple(frame.tensor(name) for name in call.outputs)
        name = f"{frame.prefix}{call.name}" if call.name else next(filter(None, outputs), call.op)
        scope = call.scope if call.scope is not None else _scope_of_name(call.name)
        told = described(call.op, attributes, inputs) if _domain(call.domain) in _KNOWN else Described("")
        if free or told.kind == "control":
            told = Described("control")
            inputs += sorted(free.difference(inputs))
        _enter(
            body,
            Node(
                name,
                call.op,
                told.kind,
                tuple(inputs),
                outputs,
                scope=scope or frame.scope,
                domain=_domain(call.domain),
            ),
            told,
        )


_KNOWN: Final = frozenset({"", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"})


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _inside(frame: _Frame) -> _Frame:
    return _Frame(frame.prefix, frame.names, frame.given, frame.scope, frame.depth + 1)


def _enter(body: _Body, node: Node, told: Described) -> None:
    """Enters one call as the nodes that it stands for."""
    inputs = (
        node.inputs if told.inputs is None else tuple(node.inputs[at] for at in told.inputs if at < len(node.inputs))
    )
    outputs = node.outputs or ("",)
    if told.biased is not None:
        summed = f"{outputs[0]}/biased"
        body.nodes.append(
            Node(node.name, node.op, "add", (inputs[0], node.inputs[told.biased]), (summed,), {}, node.scope)
        )
        inputs = (summed,)
    if "dequantized" in told.attributes:
        inputs = tuple(_dequantized(body, node, places) for places in told.attributes["dequantized"])
    made = outputs
    if told.after is not None:
        made = (f"{outputs[0]}/unactivated", *outputs[1:])
    value = "" if told.after else told.value
    body.nodes.append(
        Node(node.name, node.op, told.kind, inputs, made, told.attributes, node.scope, value, told.inner, node.domain)
    )
    if told.after is not None:
        kind, attributes = told.after
        body.nodes.append(Node(node.name, node.op, kind, made[:1], outputs[:1], attributes, node.scope, told.value))


def _dequantized(body: _Body, node: Node, places: tuple[int, ...]) -> str:
    read = tuple(node.inputs[at] for at in places if at < len(node.inputs))
    name = f"{node.outputs[0]}/{places[0]}/dequantized"
    body.nodes.append(Node(node.name, node.op, "dequantize", read, (name,), {}, node.scope))
    return name


class _Graphs(tuple[Message, ...]):
    """Graphs that are the value of an attribute."""

    __slots__ = ()


def _call(node: Message) -> _Call:
    call = _Call()
    for number, wire, value in node.fields():
        if number == 1:
            call.inputs.append(message(wire, value).text())
        elif number == 2:
            call.outputs.append(message(wire, value).text())
        elif number == 5:
            name, attribute = _attribute(message(wire, value))
            call.attributes[name] = attribute
        elif number == 3:
            call.name = message(wire, value).text()
        elif number == 4:
            call.op = message(wire, value).text()
        elif number == 7:
            call.domain = message(wire, value).text()
        elif number == 8:
            call.overload = message(wire, value).text()
        elif number == 9:
            _note_scope(call, message(wire, value))
    return call


_QUOTED: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def _note_scope(call: _Call, entry: Message) -> None:
    """The module path that torch's exporter writes beside a node."""
    key, text = _entry(entry)
    if key == NAMED:
        scopes = [one or other for one, other in _QUOTED.findall(text)]
        call.scope = scopes[-2] if len(scopes) > 1 else ""


def _entry(entry: Message) -> tuple[str, str]:
    key, text = "", ""
    for number, wire, value in entry.fields():
        if number == 1:
            key = message(wire, value).text()
        elif number == 2:
            text = message(wire, value).text()
    return key, text


def _scope_of_name(name: str) -> str:
    """Module path in the name of a node, as torch's older exporter and tf2onnx write it."""
    return name.strip("/").rpartition("/")[0].replace("/", ".")


_SINGLE: Final[Mapping[int, Callable[[int, Any], Any]]] = {
    2: float32,
    3: integer,
    4: lambda wire, value: message(wire, value).text(),
    5: lambda wire, value: _tensor(message(wire, value))[1],
    21: lambda wire, value: _Reference(message(wire, value).text()),
}
_SEVERAL: Final[Mapping[int, Callable[[int, Any], list[Any]]]] = {
    7: floats,
    8: integers,
    9: lambda wire, value: [message(wire, value).text()],
}
"""Field of an attribute to how its value is read."""


def _attribute(attribute: Message) -> tuple[str, Any]:
    name = ""
    found: Any = None
    several: list[Any] = []
    graphs: list[Message] = []
    for number, wire, value in attribute.fields():
        if number == 1:
            name = message(wire, value).text()
        elif number in _SINGLE:
            found = _SINGLE[number](wire, value)
        elif number in _SEVERAL:
            several += _SEVERAL[number](wire, value)
        elif number in {6, 11}:
            graphs.append(message(wire, value))
    if graphs:
        return name, _Graphs(graphs)
    return name, several if found is None else found


def _tensor(tensor: Message) -> tuple[str, Constant]:
    """Name and contents of a tensor; its numbers are read when they are asked for."""
    name, dtype, external = "", 0, False
    count = 1
    typed: list[tuple[int, int, Any]] = []
    raw: Message | None = None
    for number, wire, value in tensor.fields():
        if number == 1:
            count *= math.prod(integers(wire, value))
        elif number == 2:
            dtype = integer(wire, value)
        elif number == 8:
            name = message(wire, value).text()
        elif number == 9:
            raw = message(wire, value)
        elif number == 13 or (number == 14 and value == 1):
            external = True
        elif number in {4, 5, 7, 10, 11} and len(typed) <= _INLINE:
            typed.append((number, wire, value))
    named = FLOAT_TYPES.get(dtype, "")
    if external or dtype not in _STORED or not 0 < count <= _INLINE:
        return name, Constant(named, max(count, 0))
    stored = _STORED[dtype]
    if raw is not None:
        return name, Constant(named, count, _raw(raw, stored, count))
    return name, Constant(named, count, lambda: _typed(typed, dtype))


def _raw(raw: Message, stored: np.dtype[Any], count: int) -> Callable[[], Values | None]:
    def read_numbers() -> Values | None:
        if len(raw) != count * stored.itemsize:
            raise MalformedError(f"a constant of {count:,} elements has {len(raw):,} bytes")
        return decoded(raw.bytes(), stored)

    return read_numbers


def _typed(fields: Iterable[tuple[int, int, Any]], dtype: int) -> Values:
    numbers: list[float] = []
    for number, wire, value in fields:
        if number == 4:
            numbers += floats(wire, value)
        elif number == 10:
            numbers += doubles(wire, value)
        else:
            numbers += integers(wire, value)
    if dtype in {10, 16}:
        return decoded(np.array(numbers, np.int64).astype(np.uint16).tobytes(), _STORED[dtype])
    return np.array(numbers, np.float64)


def _sparse_name(tensor: Message) -> str:
    for number, wire, value in tensor.fields():
        if number == 1:
            return _tensor(message(wire, value))[0]
    return ""


def _literal(call: _Call, frame: _Frame) -> Constant:
    """The constant that a Constant operator makes."""
    for name, attribute in call.attributes.items():
        value = frame.value(attribute)
        if isinstance(value, Constant):
            return value
        if name in {"value_float", "value_int"} and isinstance(value, int | float):
            return Constant.number(float(value), "float32" if name == "value_float" else "")
        if name in {"value_floats", "value_ints"} and isinstance(value, list):
            return Constant("", len(value), _listed(value))
    return Constant("", 0)


def _listed(numbers: list[float]) -> Callable[[], Values]:
    return lambda: np.array(numbers, np.float64)


def _value_info(info: Message) -> tuple[str, str]:
    """Name and floating-point type of an input, an output or a tensor between."""
    name, dtype = "", ""
    for number, wire, value in info.fields():
        if number == 1:
            name = message(wire, value).text()
        elif number == 2:
            for inner, kind, one in message(wire, value).fields():
                if inner == 1:
                    dtype = _element_type(message(kind, one))
    return name, dtype


def _element_type(tensor: Message) -> str:
    for number, wire, value in tensor.fields():
        if number == 1 and wire == VARINT:
            return FLOAT_TYPES.get(value, "")
    return ""


def _function_key(function: Message) -> tuple[str, str, str]:
    name, domain, overload = "", "", ""
    for number, wire, value in function.fields():
        if number == 1:
            name = message(wire, value).text()
        elif number == 10:
            domain = message(wire, value).text()
        elif number == 13:
            overload = message(wire, value).text()
    return _domain(domain), name, overload


def _parsed(function: Message) -> _Function:
    inputs: list[str] = []
    outputs: list[str] = []
    defaults: dict[str, Any] = {}
    calls: list[_Call] = []
    for number, wire, value in function.fields():
        if number == 4:
            inputs.append(message(wire, value).text())
        elif number == 5:
            outputs.append(message(wire, value).text())
        elif number == 7:
            calls.append(_call(message(wire, value)))
        elif number == 11:
            name, default = _attribute(message(wire, value))
            defaults[name] = default
    return _Function(tuple(inputs), tuple(outputs), defaults, tuple(calls))
