"""TensorFlow: the graph of a SavedModel, and frozen graphs. The variables' files are never opened.

Calls of functions are replaced by what is in them; the branches and bodies of conditions and loops are graphs of their
own. Of a SavedModel only what its signatures reach is read – or, where it has none, every function that no other calls.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.dtypes import FLOAT_DTYPES
from parity.scanner.graph.ir import FUNCTIONS, PASSING, Constant, Graph, GraphError, Node, Values, decoded
from parity.scanner.graph.protobuf import (
    BYTES,
    MalformedError,
    Message,
    doubles,
    float32,
    floats,
    integer,
    integers,
    message,
    signed,
    unreadable,
)
from parity.scanner.graph.tensorflow_kinds import FUSED, inner_of, kind_of, number_of
from parity.scanner.graph.uses import activations
from parity.scanner.model import Document
from parity.scanner.source import Source, released

FORMAT: Final = "saved_model"

MOST_NODES: Final = 250_000
"""Operators of one model, with those that its functions expand to."""

DEEPEST: Final = 64
"""Functions inside one another."""

CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient", "RemoteCall"})
"""Operators that call a function in their place."""

SERVICE: Final = ("__inference__traced_save", "__inference__traced_restore", "__inference__initializer", "__backward_")
"""How functions are called that keep and load a model, or train it."""

_TYPES: Final[Mapping[int, str]] = {1: "float32", 2: "float64", 14: "bfloat16", 19: "float16"}
_STORED: Final[Mapping[int, np.dtype[Any]]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.float64),
    3: np.dtype(np.int32),
    4: np.dtype(np.uint8),
    5: np.dtype(np.int16),
    6: np.dtype(np.int8),
    9: np.dtype(np.int64),
    10: np.dtype(np.bool_),
    14: FLOAT_DTYPES["bfloat16"],
    19: FLOAT_DTYPES["float16"],
}
_SMALL: Final = 2**16
_BESIDE: Final = frozenset({"fingerprint.pb", "keras_metadata.pb"})
"""Files of a SavedModel's folder that hold no graph."""


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is called so and is no text, or begins as a SavedModel does."""
    if path.name in _BESIDE:
        return False
    return head[:3] == b"\x08\x01\x12" or (path.suffix.lower() == ".pb" and head[:1] in {b"\x0a", b"\x08", b"\x12"})


def read(source: Source) -> Document:
    """The activations of a SavedModel's ``saved_model.pb`` or of a frozen graph.

    Raises:
        Unreadable: It is neither, is incomplete, or does not make a graph.
    """
    buffer = source.mapped()
    try:
        model = _Model(Message(buffer), saved=source.head[:3] == b"\x08\x01\x12")
        found = [one.use for one in activations(source.file, model.graphs())]
        facts = model.facts
    except (MalformedError, GraphError) as error:
        raise unreadable(source.file, "TensorFlow graph", error) from error
    finally:
        released(buffer)
    return Document(file=source.file, format=FORMAT, activations=tuple(found), facts=facts)


@dataclass(slots=True)
class _Call:
    """A node as the file has it."""

    name: str = ""
    op: str = ""
    inputs: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Function:
    """A function of the library."""

    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)


class _Model:
    """The graph and the functions of a file."""

    def __init__(self, root: Message, *, saved: bool) -> None:
        self.facts: dict[str, Any] = {}
        self._library: dict[str, Message] = {}
        self._parsed: dict[str, _Function] = {}
        self._main: list[_Call] = []
        self._count = 0
        self._waiting: list[str] = []
        self._walked: set[str] = set()
        graph = self._of_saved(root) if saved else root
        for number, wire, value in graph.fields():
            if number == 1:
                self._main.append(_call(message(wire, value)))
            elif number == 2:
                self._enter_library(message(wire, value))
        if not self._main and not self._library:
            raise MalformedError("it holds no operators")

    def _of_saved(self, root: Message) -> Message:
        for number, wire, value in root.fields():
            if number == 2:
                return self._of_meta(message(wire, value))
        raise MalformedError("it holds no graph")

    def _of_meta(self, meta: Message) -> Message:
        graph = None
        for number, wire, value in meta.fields():
            if number == 2:
                graph = message(wire, value)
            elif number == 1:
                for inner, kind, one in message(wire, value).fields():
                    if inner == 5 and kind == BYTES:
                        self.facts["version"] = one.text()
        if graph is None:
            raise MalformedError("it holds no graph")
        return graph

    def _enter_library(self, library: Message) -> None:
        for number, wire, value in library.fields():
            if number == 1:
                function = message(wire, value)
                self._library[_function_name(function)] = function

    def graphs(self) -> list[Graph]:
        """The graph, and those of the functions that are branches and bodies."""
        made = []
        body = _Body()
        self._check_size()
        self._expand(self._once(self._main), _Frame(), body)
        if body.nodes:
            made.append(body.graph())
        if not any(call.functions for call in self._main):
            self._waiting += self._roots()
        while self._waiting:
            name = self._waiting.pop()
            if name in self._walked or name not in self._library:
                continue
            self._walked.add(name)
            made.append(self._own_graph(self._function(name)))
        return made

    def _check_size(self) -> None:
        """Refuses functions that would expand to too much, before they do."""
        sizes: dict[str, int] = {}

        def size(name: str, depth: int) -> int:
            if depth > DEEPEST:
                raise MalformedError(f"functions call one another more than {DEEPEST} deep, '{name[:80]}' among them")
            if name not in sizes:
                calls = self._function(name).calls
                sizes[name] = sum(size(one, depth + 1) if (one := self._called(call)) else 1 for call in calls)
            return sizes[name]

        total = sum(size(one, 1) if (one := self._called(call)) else 1 for call in self._main)
        if total > MOST_NODES:
            raise MalformedError(f"it expands to more than {MOST_NODES:,} operators")

    def _roots(self) -> list[str]:
        called: set[str] = set()
        for name in self._library:
            called.update(
                one for call in self._function(name).calls for names in call.functions.values() for one in names
            )
        return [name for name in self._library if name not in called and not name.startswith(SERVICE)]

    def _own_graph(self, function: _Function) -> Graph:
        body = _Body(inputs=list(function.inputs))
        self._expand(function.calls, _Frame(names={name: name for name in function.inputs}, within=function.name), body)
        return body.graph()

    def _function(self, name: str) -> _Function:
        if name not in self._parsed:
            self._parsed[name] = _parsed(self._library[name])
        return self._parsed[name]

    def _expand(self, calls: Iterable[_Call], frame: "_Frame", body: "_Body") -> None:
        calls = list(calls)
        frame.ops = {call.name: call for call in calls}
        for call in calls:
            self._count += 1
            if self._count > MOST_NODES:
                raise MalformedError(f"it has more than {MOST_NODES:,} operators, or functions that expand to so many")
            called = self._called(call)
            if called:
                self._inline(call, self._function(called), frame, body)
                continue
            self._waiting += [name for names in call.functions.values() for name in names]
            if call.op == "Const":
                constant = call.attributes.get("value")
                body.constants[frame.made(call.name)] = constant if isinstance(constant, Constant) else Constant("", 0)
            elif call.op in {"Placeholder", "PlaceholderV2", "_Arg"}:
                body.inputs.append(frame.made(call.name))
            else:
                _enter(call, frame, body)

    def _once(self, calls: Iterable[_Call]) -> list[_Call]:
        """Calls of the main graph, without those that do what one before does: several signatures may be served."""
        seen: set[str] = set()
        kept = []
        for call in calls:
            called = self._called(call)
            core = self._core(called) if called else call.name
            if core in seen or core.startswith(SERVICE):
                kept.append(_Call(call.name, "NoOp"))
            else:
                kept.append(call)
            seen.add(core)
        return kept

    def _core(self, name: str) -> str:
        """The function that a function does nothing but call."""
        for _ in range(DEEPEST):
            calls = [call for call in self._function(name).calls if call.op not in {"Identity", "NoOp"}]
            inner = self._called(calls[0]) if len(calls) == 1 else ""
            if not inner:
                break
            name = inner
        return name

    def _called(self, call: _Call) -> str:
        if call.op in self._library:
            return call.op
        names = call.functions.get("f", []) if call.op in CALLS else []
        return names[0] if names and names[0] in self._library else ""

    def _inline(self, call: _Call, function: _Function, frame: "_Frame", body: "_Body") -> None:
        if frame.depth >= DEEPEST:
            raise MalformedError(
                f"functions call one another more than {DEEPEST} deep, '{function.name[:80]}' among them"
            )
        given = [frame.tensor(one) for one in call.inputs if not one.startswith("^")]
        names = dict(zip(function.inputs, given, strict=False))
        inner = _Frame(prefix=f"{frame.made(call.name)}/", names=names, depth=frame.depth + 1, within=function.name)
        self._expand(function.calls, inner, body)
        for at, name in enumerate(function.outputs):
            result = function.results.get(name)
            if result is not None:
                made = frame.made(call.name) + (f":{at}" if at else "")
                body.nodes.append(Node(call.name, "Identity", "identity", (inner.tensor(result),), (made,)))


@dataclass(slots=True)
class _Frame:
    """Where calls stand.

    Attributes:
        prefix: Before the names of what is made inside a function.
        names: Of a function's inputs, what they are outside.
        ops: The calls by name.
        depth: Functions around.
        within: The function that they are of.
    """

    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    ops: Mapping[str, _Call] = field(default_factory=dict)
    depth: int = 0
    within: str = ""

    def made(self, name: str) -> str:
        """What the first output of a call is called."""
        return f"{self.prefix}{name}"

    def tensor(self, reference: str) -> str:
        """What a tensor is called that a call reads as ``node``, ``node:1`` or, in functions, ``node:output:1``."""
        name, *rest = reference.split(":")
        if name in self.names and name not in self.ops:
            return self.names[name]
        at = rest[-1] if rest else "0"
        call = self.ops.get(name)
        if len(rest) == 2 and call is not None and not _plain(call):
            return self.made(name) + f":{rest[0]}:{at}"
        return self.made(name) + ("" if at == "0" else f":{at}")


def _plain(call: _Call) -> bool:
    """Whether its outputs are told by their numbers alone."""
    kind, _ = kind_of(call.op, call.attributes)
    return bool(kind) or bool(call.functions) or call.op in {"IdentityN", "Const", "Placeholder"}


@dataclass(slots=True)
class _Body:
    """A graph before its nodes are in order."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    dtypes: dict[str, str] = field(default_factory=dict)

    def graph(self) -> Graph:
        return Graph(self._complete(), self.constants, inputs=self.inputs, dtypes=self.dtypes)

    def _complete(self) -> list[Node]:
        """The nodes, each with all outputs that others read of it."""
        first = {node.outputs[0]: at for at, node in enumerate(self.nodes)}
        made = {name for node in self.nodes for name in node.outputs}.union(self.constants, self.inputs)
        nodes = list(self.nodes)
        for name in dict.fromkeys(name for node in self.nodes for name in node.inputs):
            owner = name
            while owner not in first and ":" in owner:
                owner = owner.rpartition(":")[0]
            if name not in made and owner in first:
                at = first[owner]
                node = nodes[at]
                nodes[at] = Node(
                    node.name, node.op, node.kind, node.inputs, (*node.outputs, name), node.attributes, node.scope
                )
        return nodes


def _enter(call: _Call, frame: _Frame, body: _Body) -> None:
    inputs = tuple(frame.tensor(one) for one in call.inputs if not one.startswith("^"))
    made = frame.made(call.name)
    name = "/".join(_told(made))
    scope = ".".join(_told(made)[:-1])
    dtype = call.attributes.get("T", "")
    if isinstance(dtype, str) and dtype in FLOAT_DTYPES:
        body.dtypes[made] = dtype
    if call.op == "IdentityN":
        for at, one in enumerate(inputs):
            body.nodes.append(Node(name, call.op, "identity", (one,), (made + (f":{at}" if at else ""),), {}, scope))
        return
    kind, attributes = kind_of(call.op, call.attributes)
    if call.op in {"NextIteration", "Merge"}:
        inputs = ()
    if call.op in {"OnesLike", "ZerosLike"}:
        body.constants[made] = Constant.number(1.0 if call.op == "OnesLike" else 0.0)
        return
    if call.op == "Fill":
        inputs = inputs[1:]
    after = _fused(call)
    if after is not None:
        before = f"{made}/unactivated"
        body.nodes.append(Node(name, call.op, "matmul", inputs, (before,), {}, scope))
        body.nodes.append(Node(name, call.op, after[1], (before,), (made,), after[2], scope, f"{call.op}, {after[0]}"))
        return
    inner = inner_of(call.op, call.attributes)
    if kind in FUNCTIONS | PASSING and not inputs:
        kind = ""
    body.nodes.append(Node(name, call.op, kind, inputs, (made,), attributes, scope, inner=inner))


def _fused(call: _Call) -> tuple[str, str, Mapping[str, Any]] | None:
    """Name, kind and attributes of an activation that a call applies to what it computed."""
    names = call.attributes.get("fused_ops")
    last = names[-1] if isinstance(names, list) and names else ""
    if last == "LeakyRelu":
        return last, "leaky_relu", {"alpha": number_of(call.attributes, "leakyrelu_alpha", 0.2)}
    return (last, *FUSED[last]) if last in FUSED else None


def _told(name: str) -> list[str]:
    """The parts of a name without the calls that every SavedModel wraps its functions in."""
    *around, last = name.split("/")
    return [*(one for one in around if not one.startswith(("StatefulPartitionedCall", "PartitionedCall"))), last]


def _call(node: Message) -> _Call:
    call = _Call()
    for number, wire, value in node.fields():
        if number == 1:
            call.name = message(wire, value).text()
        elif number == 2:
            call.op = message(wire, value).text()
        elif number == 3:
            call.inputs.append(message(wire, value).text())
        elif number == 5:
            _enter_attribute(call, message(wire, value))
    return call


def _enter_attribute(call: _Call, entry: Message) -> None:
    key, held = "", None
    for number, wire, value in entry.fields():
        if number == 1:
            key = message(wire, value).text()
        elif number == 2:
            held = message(wire, value)
    if held is None:
        return
    for number, wire, value in held.fields():
        if number == 10:
            call.functions[key] = [_named(message(wire, value))]
        elif number == 1:
            texts, functions = _listed(message(wire, value))
            call.attributes[key] = texts
            if functions:
                call.functions[key] = functions
        elif number in _VALUES:
            call.attributes[key] = _VALUES[number](wire, value)


_VALUES: Final[Mapping[int, Callable[[int, Any], Any]]] = {
    2: lambda wire, value: message(wire, value).text(),
    3: integer,
    4: float32,
    5: lambda _, value: bool(value),
    6: lambda wire, value: _TYPES.get(integer(wire, value), "other"),
    8: lambda wire, value: _tensor(message(wire, value)),
}
"""Field of an attribute's value to how it is read."""


def _named(function: Message) -> str:
    for number, wire, value in function.fields():
        if number == 1:
            return message(wire, value).text()
    return ""


def _listed(values: Message) -> tuple[list[str], list[str]]:
    """Texts and functions of a list."""
    texts, functions = [], []
    for number, wire, value in values.fields():
        if number == 2:
            texts.append(message(wire, value).text())
        elif number == 9:
            functions.append(_named(message(wire, value)))
    return texts, functions


def _tensor(tensor: Message) -> Constant:
    dtype, count = 0, 1
    content: Message | None = None
    typed: list[tuple[int, int, Any]] = []
    for number, wire, value in tensor.fields():
        if number == 1:
            dtype = integer(wire, value)
        elif number == 2:
            count = _count(message(wire, value))
        elif number == 4:
            content = message(wire, value)
        elif number in {5, 6, 7, 10, 11, 13} and len(typed) <= _SMALL:
            typed.append((number, wire, value))
    named = _TYPES.get(dtype, "")
    if dtype not in _STORED or count < 1:
        return Constant(named, max(count, 0))
    if content is not None and len(content):
        return Constant(named, count, _raw(content, _STORED[dtype]))
    return Constant(named, count, lambda: _typed(typed, dtype))


def _raw(content: Message, stored: np.dtype[Any]) -> Callable[[], Values | None]:
    def read_numbers() -> Values | None:
        whole = len(content) // stored.itemsize * stored.itemsize
        if whole != len(content):
            raise MalformedError(f"a constant has {len(content):,} bytes, which are no whole number of elements")
        return decoded(content.bytes(), stored)

    return read_numbers


def _typed(fields: Iterable[tuple[int, int, Any]], dtype: int) -> Values:
    """Numbers of a tensor; those that are left out at the end are like the last, or 0 where there are none."""
    numbers: list[float] = []
    for number, wire, value in fields:
        if number == 5:
            numbers += floats(wire, value)
        elif number == 6:
            numbers += doubles(wire, value)
        else:
            numbers += integers(wire, value)
    if dtype in {14, 19}:
        return decoded(np.array(numbers, np.int64).astype(np.uint16).tobytes(), _STORED[dtype])
    return np.array(numbers or [0.0], np.float64)


def _count(shape: Message) -> int:
    sizes = []
    for number, wire, value in shape.fields():
        if number == 2:
            sizes.append(next((signed(one) for inner, _, one in message(wire, value).fields() if inner == 1), 0))
    return math.prod(sizes)


def _function_name(function: Message) -> str:
    for number, wire, value in function.fields():
        if number == 1:
            return _named(message(wire, value))
    return ""


def _parsed(function: Message) -> _Function:
    made = _Function()
    for number, wire, value in function.fields():
        if number == 1:
            _enter_signature(made, message(wire, value))
        elif number == 3:
            made.calls.append(_call(message(wire, value)))
        elif number == 4:
            key, result = _entry(message(wire, value))
            made.results[key] = result
    return made


def _enter_signature(function: _Function, signature: Message) -> None:
    for number, wire, value in signature.fields():
        if number == 1:
            function.name = message(wire, value).text()
        elif number in {2, 3}:
            (function.inputs if number == 2 else function.outputs).append(_named(message(wire, value)))


def _entry(entry: Message) -> tuple[str, str]:
    key, text = "", ""
    for number, wire, value in entry.fields():
        if number == 1:
            key = message(wire, value).text()
        elif number == 2:
            text = message(wire, value).text()
    return key, text
