"""TFLite models: the tables of the flatbuffer, with no weight read that is not a number of a formula.

An activation that is fused into an operator is one of its own behind it. Quantised tensors count as the numbers that
they stand for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.dtypes import FLOAT_DTYPES
from parity.scanner.graph.flatbuffer import Table
from parity.scanner.graph.ir import Constant, Graph, GraphError, Inner, Node, Values, decoded
from parity.scanner.graph.protobuf import MalformedError, unreadable
from parity.scanner.graph.tensorflow_kinds import kind_of as tensorflow_kind_of
from parity.scanner.graph.tflite_kinds import FUSED, FUSED_FIELD, OPERATORS, RECURRENT, kind_of
from parity.scanner.graph.uses import activations
from parity.scanner.model import Document
from parity.scanner.source import Source, released

FORMAT: Final = "tflite"

IDENTIFIER: Final = b"TFL3"

MOST_ELEMENTS: Final = 2**16

_CUSTOM: Final = 32
_LAST_OF_BYTE: Final = 127
_GELU: Final = "GELU"
Inputs = tuple[str, ...]
Kind = tuple[str, Mapping[str, Any], Inputs]
_DIRECTIONS: Final = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")

_STORED: Final[Mapping[int, np.dtype[Any]]] = {
    0: np.dtype(np.float32),
    1: FLOAT_DTYPES["float16"],
    2: np.dtype(np.int32),
    3: np.dtype(np.uint8),
    4: np.dtype(np.int64),
    6: np.dtype(np.bool_),
    7: np.dtype(np.int16),
    9: np.dtype(np.int8),
    10: np.dtype(np.float64),
    18: FLOAT_DTYPES["bfloat16"],
}
_NAMES: Final = {0: "float32", 1: "float16", 10: "float64", 18: "bfloat16"}
_FLOATING: Final = frozenset(_NAMES)


def recognises(path: Path, head: bytes) -> bool:
    """Whether it has the mark of a TFLite file, or is called so."""
    return head[4:8] == IDENTIFIER or path.suffix.lower() in {".tflite", ".lite"}


def read(source: Source) -> Document:
    """The activations of a model.

    Raises:
        Unreadable: It is no TFLite model, is incomplete, or does not make a graph.
    """
    buffer = source.mapped()
    try:
        model = _Model(buffer)
        found = [one.use for one in activations(source.file, model.graphs())]
    except (MalformedError, GraphError) as error:
        raise unreadable(source.file, "TFLite model", error) from error
    finally:
        released(buffer)
    return Document(file=source.file, format=FORMAT, activations=tuple(found), facts=model.facts)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor: its name, type, size and, for a constant, where its bytes are."""

    name: str
    dtype: int
    count: int
    buffer: int
    quantization: Table | None


class _Model:
    """A model's tables."""

    def __init__(self, buffer: Any) -> None:
        self._bytes = buffer
        if buffer[4:8] != IDENTIFIER:
            raise MalformedError("it lacks the mark 'TFL3'")
        self._root = Table.root(buffer)
        self._operators = [_operator(one) for one in self._root.tables(1)]
        self._buffers = self._root.tables(4)
        self.facts: dict[str, Any] = {"producer": self._root.text(3)} if self._root.text(3) else {}

    def graphs(self) -> list[Graph]:
        """All its subgraphs."""
        if not self._root.tables(2):
            raise MalformedError("it holds no graph")
        return [self._graph(one, at) for at, one in enumerate(self._root.tables(2))]

    def _graph(self, subgraph: Table, number: int) -> Graph:
        tensors = [_tensor(one) for one in subgraph.tables(0)]
        given = {int(one) for one in subgraph.numbers(1, "i")}
        names = [f"{at}" for at in range(len(tensors))]
        constants = {}
        for at, tensor in enumerate(tensors):
            found = self._constant(tensor)
            if found is not None and at not in given:
                constants[names[at]] = found
        nodes: list[Node] = []
        for one in subgraph.tables(3):
            nodes += self._nodes(one, tensors, number)
        made = {name for node in nodes for name in node.outputs}
        free = [name for name in names if name not in made and name not in constants]
        dtypes = {names[at]: _NAMES.get(tensor.dtype, "") for at, tensor in enumerate(tensors)}
        outputs = [_named(int(one), tensors) for one in subgraph.numbers(2, "i")]
        return Graph(nodes, constants, inputs=free, outputs=outputs, dtypes=dtypes)

    def _constant(self, tensor: _Tensor) -> Constant | None:
        """A tensor with bytes in the file; None for one that is computed."""
        if not 0 <= tensor.buffer < len(self._buffers):
            raise MalformedError(
                f"tensor '{tensor.name[:80]}' has its numbers in buffer {tensor.buffer}, which does not exist"
            )
        held = self._buffers[tensor.buffer]
        start, length = held.span(0)
        if not length:
            return Constant("", 0) if held.number(1, "Q") > 1 else None
        stored = _STORED.get(tensor.dtype)
        if stored is None or tensor.count > MOST_ELEMENTS:
            return Constant("", tensor.count)
        return Constant(_NAMES.get(tensor.dtype, ""), tensor.count, self._reader(tensor, start, length, stored))

    def _reader(self, tensor: _Tensor, start: int, length: int, stored: np.dtype[Any]) -> Callable[[], Values | None]:
        def read_numbers() -> Values | None:
            if length != tensor.count * stored.itemsize or start + length > len(self._bytes):
                raise MalformedError(f"tensor '{tensor.name[:80]}' has {length:,} bytes for {tensor.count:,} elements")
            numbers = decoded(bytes(self._bytes[start : start + length]), stored)
            if tensor.quantization is None or tensor.dtype in _FLOATING:
                return numbers
            scales, zeros = tensor.quantization.numbers(2, "f"), tensor.quantization.numbers(3, "q")
            if not scales:
                return numbers
            return (numbers - (zeros[0] if zeros else 0)) * scales[0] if len(scales) == 1 else None

        return read_numbers

    def _nodes(self, operator: Table, tensors: Sequence[_Tensor], subgraph: int) -> list[Node]:
        index = operator.whole(0, "I")
        if index >= len(self._operators):
            raise MalformedError(f"an operator has the code {index}, which does not exist")
        op, custom = self._operators[index]
        inputs = tuple(_named(int(one), tensors) for one in operator.numbers(1, "i"))
        outputs = tuple(_named(int(one), tensors) for one in operator.numbers(2, "i")) or ("",)
        label = tensors[int(outputs[0])].name.partition(";")[0] if outputs[0] else op
        kind, attributes, read = _kind(op, custom, operator, inputs)
        value = (
            f"GELU, approximate={'tanh' if attributes.get('approximate') == 'tanh' else 'none'}" if op == _GELU else ""
        )
        if op in {"CAST", "STABLEHLO_CONVERT"} and outputs[0] and not _floating(tensors, int(outputs[0])):
            kind = "trunc"
        scope = _scope(label) if not subgraph else f"subgraph {subgraph}"
        inner = _inner(op)
        fused = _fused(operator)
        if fused is None or inner:
            return [Node(label, custom or op, kind, read, outputs, attributes, scope, value, inner)]
        name, after, numbers = fused
        before = f"{outputs[0]}/unactivated"
        return [
            Node(label, custom or op, kind, read, (before, *outputs[1:]), attributes, scope),
            Node(label, custom or op, after, (before,), outputs[:1], numbers, scope, f"{op}, fused {name}"),
        ]


def _kind(op: str, custom: str, operator: Table, inputs: Inputs) -> Kind:
    if custom.startswith("Flex"):
        return (*tensorflow_kind_of(custom.removeprefix("Flex"), {}), inputs)
    if op in _BY_OPTIONS:
        return _BY_OPTIONS[op](operator, inputs)
    kind, attributes = kind_of(op)
    return kind, attributes, inputs[:1] if kind in {"cast", "quantize", "identity"} else inputs


def _gelu(operator: Table, inputs: Inputs) -> Kind:
    options = operator.table(4)
    tanh = options is not None and bool(options.whole(0, "?"))
    return "gelu", {"approximate": "tanh" if tanh else "none"}, inputs


def _leaky_relu(operator: Table, inputs: Inputs) -> Kind:
    options = operator.table(4)
    return "leaky_relu", {"alpha": options.number(0, "f") if options is not None else 0.0}, inputs


def _clamp(_: Table, inputs: Inputs) -> Kind:
    low, *rest = inputs
    return "clip", {"given": ("min", "max")}, (*rest[:1], low, *rest[1:])


def _compare(operator: Table, inputs: Inputs) -> Kind:
    options = operator.table(12)
    direction = options.whole(0, "I") if options is not None else 0
    known = direction < len(_DIRECTIONS)
    return ("compare", {"operator": _DIRECTIONS[direction]}, inputs) if known else ("", {}, inputs)


_BY_OPTIONS: Final[Mapping[str, Callable[[Table, Inputs], Kind]]] = {
    _GELU: _gelu,
    "LEAKY_RELU": _leaky_relu,
    "PRELU": lambda _, inputs: ("leaky_relu", {"given": ("alpha",)}, inputs),
    "DEQUANTIZE": lambda _, inputs: ("dequantize", {}, inputs[:1]),
    "FILL": lambda _, inputs: ("fill", {}, inputs[1:2]),
    "STABLEHLO_CLAMP": _clamp,
    "STABLEHLO_COMPARE": _compare,
}
"""Operators whose options or order of inputs decide what they are."""


def _inner(op: str) -> tuple[Inner, ...]:
    if op in RECURRENT:
        return Inner("gates: Sigmoid", "sigmoid"), Inner("candidate and output: Tanh", "tanh")
    return ()


def _fused(operator: Table) -> tuple[str, str, Mapping[str, Any]] | None:
    field = FUSED_FIELD.get(operator.whole(3, "B"))
    options = operator.table(4) if field is not None else None
    if options is None or field is None:
        return None
    return FUSED.get(options.whole(field, "b"))


def _operator(code: Table) -> tuple[str, str]:
    """Name of an operator, and its own for a custom one. Old files have the number in one byte."""
    number = max(code.whole(3, "i"), code.whole(0, "b"))
    custom = code.text(1) if number == _CUSTOM else ""
    return (OPERATORS[number] if 0 <= number < len(OPERATORS) else f"builtin {number}"), custom


def _tensor(tensor: Table) -> _Tensor:
    count = 1
    for size in tensor.numbers(0, "i"):
        count *= max(int(size), 0)
    return _Tensor(tensor.text(3), tensor.whole(1, "b"), count, tensor.whole(2, "I"), tensor.table(4))


def _named(number: int, tensors: Sequence[_Tensor]) -> str:
    if number == -1:
        return ""
    if not 0 <= number < len(tensors):
        raise MalformedError(f"an operator reads or makes tensor {number}, which does not exist")
    return str(number)


def _floating(tensors: Sequence[_Tensor], number: int) -> bool:
    return tensors[number].dtype in _FLOATING


def _scope(name: str) -> str:
    return name.rpartition("/")[0].replace("/", ".")
