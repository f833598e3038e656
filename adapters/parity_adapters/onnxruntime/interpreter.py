"""A graph run node by node: branches taken, loops unrolled, each operator call told as it is made."""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from parity.adapter import Array
from parity.errors import EngineError
from parity.graph import Site
from parity_adapters.onnxruntime import blocks, synthetic
from parity_adapters.onnxruntime.arrays import OrtValue, from_numpy, to_numpy
from parity_adapters.onnxruntime.attributes import attributes_of
from parity_adapters.onnxruntime.kernels import Kernels, Operand
from parity_adapters.onnxruntime.kinds import Call, canonical, kind_of
from parity_adapters.onnxruntime.origins import Origins
from parity_adapters.onnxruntime.weights import Weight, Weights

_SMALL: Final = 64


@dataclass(frozen=True, slots=True)
class Value:
    """What a name of a graph stands for while it runs.

    Attributes:
        name: Of the tensor, in the whole model and over all turns of a loop.
        data: The tensor, an `OrtValue`, or the `Weight`; None for a sequence.
        parts: The tensors of a sequence.
    """

    name: str
    data: Any
    parts: "tuple[Value, ...]" = ()


Scope = ChainMap[str, Value]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator call that was made.

    Attributes:
        site: What is told of it.
        node: The node to make it again.
        opset: Version of its operator set.
        blocked: The tensors among its outputs that are in blocked layout, and how many channels each really has.
    """

    site: Site
    node: onnx.NodeProto
    opset: int
    blocked: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Body:
    """A graph, prepared to be run.

    Attributes:
        path: Where it stands: the node that it belongs to and its name there; "" for the whole model.
        graph: The graph.
        dead: For each node, the names that nothing reads after it.
        inner: The graphs inside its nodes by node number and attribute.
        weights: Its initializers.
    """

    path: str
    graph: onnx.GraphProto
    dead: tuple[frozenset[str], ...]
    inner: Mapping[tuple[int, str], "Body"]
    weights: Mapping[str, Value]


def prepare(graph: onnx.GraphProto, weights: Weights, origins: Origins, path: str = "") -> Body:
    """Prepares a graph and those inside it; takes their initializers into ``weights``."""
    sizes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    views: dict[str, blocks.View] = {}
    inner: dict[tuple[int, str], Body] = {}
    reads: list[set[str]] = []
    for i, node in enumerate(graph.node):
        names = set(node.input)
        views |= blocks.views(node, sizes, origins.filter_shape(node))
        for attribute in node.attribute:
            if attribute.HasField("g"):
                below = f"{path}/{node.name or f'{node.op_type}_{i}'}/{attribute.name}".lstrip("/")
                inner[i, attribute.name] = body = prepare(attribute.g, weights, origins, below)
                names |= _outer_reads(body)
        reads.append(names)
    own = {}
    for tensor in graph.initializer:
        name = f"{path}/{tensor.name}" if path else tensor.name
        weight = weights.add(name, tensor, views.get(tensor.name))
        own[tensor.name] = Value(name, weight)
    return Body(path, graph, _last_reads(graph, reads), inner, own)


def _outer_reads(body: Body) -> set[str]:
    """Names that a graph reads and may have from outside."""
    names = {value.name for value in body.graph.output}
    for node in body.graph.node:
        names.update(node.input)
    for inner in body.inner.values():
        names |= _outer_reads(inner)
    return names


def _last_reads(graph: onnx.GraphProto, reads: Sequence[set[str]]) -> tuple[frozenset[str], ...]:
    alive = {value.name for value in graph.output}
    dead: list[frozenset[str]] = []
    for node, names in zip(reversed(graph.node), reversed(reads), strict=True):
        ending = (names | set(node.output)) - alive
        dead.append(frozenset(ending))
        alive |= ending
    return tuple(reversed(dead))


@dataclass(slots=True)
class Interpreter:
    """Runs a prepared graph.

    Attributes:
        kernels: What runs the nodes.
        weights: The initializers; takes in the numbers that loops make.
        origins: Where the nodes come from.
        opsets: Version of each operator set by domain.
        emit: Told each step with the tensors that it made.
    """

    kernels: Kernels
    weights: Weights
    origins: Origins
    opsets: Mapping[str, int]
    emit: Callable[[Step, Mapping[str, OrtValue]], None]
    _names: set[str] = field(default_factory=set)
    _blocked: dict[str, int] = field(default_factory=dict)
    _branches: dict[str, set[str]] = field(default_factory=dict)
    _loops: dict[str, int] = field(default_factory=dict)

    def run(self, body: Body, inputs: Mapping[str, OrtValue]) -> list[Value]:
        """Outputs of the whole model."""
        scope: Scope = ChainMap({name: Value(name, value) for name, value in inputs.items()})
        return self._body(body, scope, "", [()] * len(body.graph.output))

    def notes(self) -> list[str]:
        """What these inputs left untested, as sentences."""
        other = {"then_branch": "else_branch", "else_branch": "then_branch"}
        found = [
            f"The {other[next(iter(taken))].split('_')[0]} branch of '{path}' was not taken by these inputs: untested."
            for path, taken in self._branches.items()
            if len(taken) == 1
        ]
        idle = [path for path, turns in self._loops.items() if not turns]
        return found + [f"The body of '{path}' was not run by these inputs: untested." for path in idle]

    def _body(self, body: Body, scope: Scope, prefix: str, aliases: Sequence[Sequence[str]]) -> list[Value]:
        """Runs the nodes of ``body`` and returns its outputs.

        Args:
            body: The graph.
            scope: What is known outside, and the inputs.
            prefix: Put before the names of what is made.
            aliases: Names by which the outside calls each output.
        """
        scope.update({name: value for name, value in body.weights.items() if name not in scope.maps[0]})
        outer = {value.name: names for value, names in zip(body.graph.output, aliases, strict=True)}
        for i, (node, dead) in enumerate(zip(body.graph.node, body.dead, strict=True)):
            made = self._node(_Context(body, i, node, scope, prefix, outer))
            scope.update({name: value for name, value in zip(node.output, made, strict=False) if name})
            for name in dead:
                scope.maps[0].pop(name, None)
        return [scope[value.name] for value in body.graph.output]

    def _node(self, at: "_Context") -> list[Value]:
        special = _SPECIAL.get(at.node.op_type) if at.node.domain in {"", "ai.onnx"} else None
        if special:
            return special(self, at)
        return self._call(at, at.node, at.inputs())

    def _call(self, at: "_Context", node: onnx.NodeProto, inputs: Sequence[Value | None]) -> list[Value]:
        """Makes one operator call and tells of it."""
        if any(value is not None and value.data is None for value in inputs):
            raise EngineError(f"{node.op_type} '{node.name}' of a sequence of tensors cannot be followed.")
        opset = self.opsets.get(node.domain, 1)
        operands = [value.data if value else None for value in inputs]
        outputs = tuple(f"{at.prefix}{name}" if name else "" for name in node.output)
        site = self._site(at, node, inputs, outputs)
        made = execute(self.kernels, node, opset, operands)
        values = [Value(name, data) for name, data in zip(outputs, made, strict=True)]
        blocked = {name: channels for name in outputs for channels in self._channels(node, inputs) if name}
        self._blocked |= blocked
        shown = {value.name: value.data for value in values if value.name}
        self.emit(Step(site, node, opset, blocked), shown)
        return values

    def _channels(self, node: onnx.NodeProto, inputs: Sequence[Value | None]) -> list[int]:
        """How many channels the output really has if it is in blocked layout, and nothing if it is not."""
        known = [self._blocked[value.name] for value in inputs if value and value.name in self._blocked]
        if node.op_type == "ReorderOutput" or not (known or node.domain == blocks.DOMAIN):
            return []
        if node.domain == blocks.DOMAIN and node.op_type == "Conv":
            return [self._shape(inputs[1])[0]]
        if node.op_type == "ReorderInput":
            last = any(attribute.name == "channels_last" and attribute.i for attribute in node.attribute)
            return [self._shape(inputs[0])[-1 if last else 1]]
        return [sum(known) if node.op_type == "Concat" else known[0]]

    def _shape(self, value: Value | None) -> tuple[int, ...]:
        """The shape by which a value is seen."""
        if value is None:
            return ()
        if isinstance(value.data, Weight):
            return self.weights.shape(value.name)
        shape = _shape(value)
        return (shape[0], self._blocked[value.name], *shape[2:]) if value.name in self._blocked else shape

    def _site(
        self, at: "_Context", node: onnx.NodeProto, inputs: Sequence[Value | None], outputs: tuple[str, ...]
    ) -> Site:
        aliases = [alias for name in node.output for alias in at.outer.get(name, ())]
        place = self.origins.place(node, aliases)
        call = self._described(node, inputs)
        kind = kind_of(call)
        return Site(
            name=self._unique(at.prefix + (node.name or f"{node.op_type}_{at.number}")),
            op=node.op_type,
            kind=kind,
            scope=place.scope,
            inputs=tuple(value.name if value else "" for value in inputs),
            outputs=outputs,
            attributes=canonical(call, kind),
            source=place.source,
            labels=place.labels,
        )

    def _described(self, node: onnx.NodeProto, inputs: Sequence[Value | None]) -> Call:
        def small(position: int) -> Array | None:
            value = inputs[position] if position < len(inputs) else None
            return _read(value) if value and np.prod(_shape(value)) <= _SMALL else None

        def constant(position: int) -> bool:
            value = inputs[position] if position < len(inputs) else None
            return value is not None and isinstance(value.data, Weight)

        opset = self.opsets.get(node.domain, 1)
        return Call(
            op=node.op_type,
            attributes=attributes_of(node, opset),
            opset=opset,
            shapes=tuple(self._shape(value) if value else None for value in inputs),
            dtypes=tuple(_dtype(value) if value else "" for value in inputs),
            small=small,
            constant=constant,
        )

    def _unique(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._names:
            count += 1
            unique = f"{name}:{count}"
        self._names.add(unique)
        return unique

    def _if(self, at: "_Context") -> list[Value]:
        (condition,) = at.inputs()
        branch = "then_branch" if bool(_number(condition)) else "else_branch"
        self._branches.setdefault(at.path(), set()).add(branch)
        inner = at.body.inner[at.number, branch]
        prefix = f"{at.prefix}{at.name()}/{branch.split('_', maxsplit=1)[0]}/"
        return self._body(inner, at.scope.new_child(), prefix, at.aliases())

    def _loop(self, at: "_Context") -> list[Value]:
        turns, condition, *carried = at.inputs()
        inner = at.body.inner[at.number, "body"]
        most = int(_number(turns)) if turns else None
        going, scanned, turn = condition, [], 0
        self._loops.setdefault(at.path(), 0)
        while (most is None or turn < most) and (going is None or bool(_number(going))):
            prefix = f"{at.prefix}{at.name()}/{turn}/"
            count = self._counter(f"{prefix}turn", np.array(turn, np.int64))
            given = [count, going or self._counter(f"{prefix}condition", np.array(True)), *carried]
            scope = at.scope.new_child(_bound(inner, given))
            going, *made = self._body(inner, scope, prefix, [(), *at.aliases()])
            carried, rest = made[: len(carried)], made[len(carried) :]
            scanned.append(rest)
            turn += 1
        self._loops[at.path()] += turn
        return [*carried, *self._stacked(at, inner, len(carried), scanned)]

    def _stacked(self, at: "_Context", inner: Body, first: int, scanned: list[list[Value]]) -> Iterator[Value]:
        """The outputs that a loop gathers over its turns."""
        for i, name in enumerate(at.node.output[first:]):
            if not name:
                yield Value("", None)
                continue
            parts = [turn[i] for turn in scanned]
            empty = inner.graph.output[1 + first + i].type.tensor_type
            yield self._synthetic(at, "Stack", parts, [name], axis=0, **({} if parts else _nothing(empty)))[0]

    def _scan(self, at: "_Context") -> list[Value]:
        attributes = attributes_of(at.node, self.opsets[""])
        inner = at.body.inner[at.number, "body"]
        if self.opsets[""] < 9:
            raise EngineError(f"Scan '{at.name()}' in the form of operator set 8 cannot be followed.")
        scans = attributes["num_scan_inputs"]
        carried, sequences = at.inputs()[:-scans], at.inputs()[-scans:]
        axes = attributes.get("scan_input_axes") or [0] * scans
        backwards = attributes.get("scan_input_directions") or [0] * scans
        scanned = []
        for turn in range(self._shape(sequences[0])[axes[0]]):
            below = at.under(f"{at.prefix}{at.name()}/{turn}/")
            slices = [
                self._synthetic(below, "Pick", [sequence], [f"scan_{i}"], axis=axis, index=-1 - turn if back else turn)[
                    0
                ]
                for i, (sequence, axis, back) in enumerate(zip(sequences, axes, backwards, strict=True))
            ]
            scope = at.scope.new_child(_bound(inner, [*carried, *slices]))
            made = self._body(inner, scope, below.prefix, at.aliases())
            carried, rest = made[: len(carried)], made[len(carried) :]
            scanned.append(rest)
        return [*carried, *self._gathered(at, attributes, len(carried), scanned)]

    def _gathered(
        self, at: "_Context", attributes: Mapping[str, Any], first: int, scanned: list[list[Value]]
    ) -> Iterator[Value]:
        """The outputs that a scan gathers over its turns."""
        names = at.node.output[first:]
        axes = attributes.get("scan_output_axes") or [0] * len(names)
        backwards = attributes.get("scan_output_directions") or [0] * len(names)
        for i, (name, axis, back) in enumerate(zip(names, axes, backwards, strict=True)):
            parts = [turn[i] for turn in (reversed(scanned) if back else scanned)]
            yield self._synthetic(at, "Stack", parts, [name], axis=axis)[0]

    def _counter(self, name: str, array: Array) -> Value:
        self.weights.make(name, array)
        return Value(name, from_numpy(array))

    def _synthetic(
        self, at: "_Context", op: str, inputs: Sequence[Value], outputs: Sequence[str], **attributes: Any
    ) -> list[Value]:
        """A call of an operator of `synthetic`, which a control-flow operator of the model amounts to."""
        node = helper.make_node(
            op, [""] * len(inputs), list(outputs), f"{at.name()}/{outputs[0]}", domain=synthetic.DOMAIN, **attributes
        )
        return self._call(at, node, inputs)

    def _sequence(self, at: "_Context") -> list[Value]:
        return [_SEQUENCES[at.node.op_type](at.inputs())]

    def _length(self, at: "_Context") -> list[Value]:
        (sequence,) = at.inputs()
        count = len(sequence.parts) if sequence else 0
        return [self._counter(f"{at.prefix}{at.node.output[0]}", np.array(count, np.int64))]

    def _pieces(self, at: "_Context") -> list[Value]:
        x, sizes, *_ = [*at.inputs(), None]
        attributes = attributes_of(at.node, self.opsets.get("", 1))
        axis = int(attributes["axis"])
        length = _shape(x)[axis]
        cuts = synthetic.cuts(length, _read(sizes) if sizes else None)
        keep = int(sizes is not None or attributes["keepdims"])
        names = [f"{at.node.output[0]}/{i}" for i in range(len(cuts) - 1)]
        parts = self._synthetic(at, "Pieces", [x], names, axis=axis, cuts=cuts, keepdims=keep)
        return [Value(f"{at.prefix}{at.node.output[0]}", None, tuple(parts))]

    def _joined(self, at: "_Context") -> list[Value]:
        (sequence,) = at.inputs()
        attributes = attributes_of(at.node, self.opsets.get("", 1))
        op = "Stack" if attributes["new_axis"] else "Join"
        return self._synthetic(at, op, sequence.parts if sequence else (), [at.node.output[0]], axis=attributes["axis"])


@dataclass(frozen=True, slots=True)
class _Context:
    """Where the interpreter is: a node of a graph, and what is known there."""

    body: Body
    number: int
    node: onnx.NodeProto
    scope: Scope
    prefix: str
    outer: Mapping[str, Sequence[str]]

    def inputs(self) -> list[Any]:
        """What the node reads; None for an absent input."""
        return [self.scope[name] if name else None for name in self.node.input]

    def name(self) -> str:
        """The node's name, or one made of its operator and place."""
        return self.node.name or f"{self.node.op_type}_{self.number}"

    def path(self) -> str:
        """The node's name in the whole model, the same in all turns of a loop."""
        return f"{self.body.path}/{self.name()}".lstrip("/")

    def aliases(self) -> list[tuple[str, ...]]:
        """For each output of the node, the names by which the outside knows it."""
        return [(name, *self.outer.get(name, ())) for name in self.node.output]

    def under(self, prefix: str) -> "_Context":
        """The same with another prefix."""
        return _Context(self.body, self.number, self.node, self.scope, prefix, self.outer)


def execute(kernels: Kernels, node: onnx.NodeProto, opset: int, operands: Sequence[Operand]) -> list[OrtValue | None]:
    """Outputs of one call by production's kernels."""
    if node.domain != synthetic.DOMAIN:
        return kernels.run(node, operands)
    arrays = [operand.array() if isinstance(operand, Weight) else to_numpy(operand) for operand in operands]
    return [from_numpy(array) for array in synthetic.run(node.op_type, arrays, attributes_of(node, opset))]


def _bound(body: Body, values: Sequence[Value]) -> dict[str, Value]:
    return {formal.name: value for formal, value in zip(body.graph.input, values, strict=True)}


def _read(value: Value) -> Array:
    data = value.data
    return data.array() if isinstance(data, Weight) else to_numpy(data)


def _number(value: Value) -> Any:
    """The one number of a tensor that configures control flow, which exporters write with no axis or with one."""
    return _read(value).reshape(-1)[0]


def _shape(value: Value) -> tuple[int, ...]:
    data = value.data
    return tuple(data.tensor.dims if isinstance(data, Weight) else data.shape())


def _nothing(tensor: onnx.TypeProto.Tensor) -> dict[str, Any]:
    """Type and shape of what a loop gathers that made no turn."""
    return {"to": tensor.elem_type, "shape": [dim.dim_value for dim in tensor.shape.dim]}


def _dtype(value: Value) -> str:
    data = value.data
    kind = data.tensor.data_type if isinstance(data, Weight) else data.element_type()
    return str(helper.tensor_dtype_to_np_dtype(kind).name)


def _inserted(inputs: list[Any]) -> Value:
    sequence, tensor, *rest = inputs
    parts = list(sequence.parts)
    parts.insert(int(_number(rest[0])) if rest and rest[0] else len(parts), tensor)
    return Value("", None, tuple(parts))


def _erased(inputs: list[Any]) -> Value:
    sequence, *rest = inputs
    parts = list(sequence.parts)
    del parts[int(_number(rest[0])) if rest and rest[0] else -1]
    return Value("", None, tuple(parts))


def _element(inputs: list[Any]) -> Value:
    sequence, position = inputs
    found: Value = sequence.parts[int(_number(position))]
    return found


_SEQUENCES: Final[Mapping[str, Callable[[list[Any]], Value]]] = {
    "SequenceEmpty": lambda _: Value("", None),
    "SequenceConstruct": lambda inputs: Value("", None, tuple(inputs)),
    "SequenceInsert": _inserted,
    "SequenceErase": _erased,
    "SequenceAt": _element,
}
"""Operators that only pass tensors on: what they return is a tensor that was there before."""

_SPECIAL: Final[Mapping[str, Callable[[Interpreter, _Context], list[Value]]]] = {
    "If": Interpreter._if,  # noqa: SLF001 – a table of this class's own methods
    "Loop": Interpreter._loop,  # noqa: SLF001
    "Scan": Interpreter._scan,  # noqa: SLF001
    "SequenceLength": Interpreter._length,  # noqa: SLF001
    "SplitToSequence": Interpreter._pieces,  # noqa: SLF001
    "ConcatFromSequence": Interpreter._joined,  # noqa: SLF001
    **dict.fromkeys(_SEQUENCES, Interpreter._sequence),  # noqa: SLF001
}
