"""A TFLite file: its operators, tensors and constants, and small models that hold one operator each."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.adapter import Array
from parity.dtypes import any_dtype
from parity.errors import InputError
from parity_adapters.tensorflow.runtime import schema

IDENTIFIER: Final = b"TFL3"


def _named(enumeration: Any) -> dict[int, str]:
    return {code: name for name, code in vars(enumeration).items() if not name.startswith("_")}


OPERATORS: Final = _named(schema.BuiltinOperator)
TYPES: Final = {code: name.lower() for code, name in _named(schema.TensorType).items()}
UNSIZED: Final = frozenset({"string", "resource", "variant"})
"""Types of tensors that hold no numbers."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a file.

    Attributes:
        op: Its name: that of the builtin operator, or of the custom one.
        options: Its options by the file format's own names.
        inputs: Numbers of the tensors that it reads; -1 for an absent one.
        outputs: Numbers of the tensors that it makes.
        raw: Its record in the file.
    """

    op: str
    options: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    raw: Any


class Graph:
    """One subgraph of a file.

    Args:
        file: The file.
        raw: The subgraph's record.
    """

    def __init__(self, file: "LiteFile", raw: Any) -> None:
        self.file = file
        self.raw = raw
        self.inputs = _numbers(raw.inputs)
        self.outputs = _numbers(raw.outputs)

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """In order of execution."""
        return tuple(map(self._operator, self.raw.operators or ()))

    def _operator(self, raw: Any) -> Operator:
        code = self.file.raw.operatorCodes[raw.opcodeIndex]
        op = OPERATORS[max(code.builtinCode, code.deprecatedBuiltinCode)]
        options = {**_options(raw.builtinOptions), **_options(raw.builtinOptions2)}
        name = _text(code.customCode) if op == "CUSTOM" else op
        return Operator(name, options, _numbers(raw.inputs), _numbers(raw.outputs), raw)

    def name(self, number: int) -> str:
        """Name of a tensor as the file has it; a number where it has none."""
        return _text(self.raw.tensors[number].name) or f"tensor_{number}"

    def dtype(self, number: int) -> str:
        """Name of a tensor's type."""
        return TYPES[self.raw.tensors[number].type]

    def quantization(self, number: int) -> tuple[Array, Array, int] | None:
        """Scales, zero points and their axis of a quantised tensor; None for any other."""
        raw = self.raw.tensors[number].quantization
        if raw is None or raw.scale is None or not len(raw.scale) or self.dtype(number).startswith("float"):
            return None
        scales = np.asarray(raw.scale, np.float64)
        zeros = np.zeros(len(scales)) if raw.zeroPoint is None else np.asarray(raw.zeroPoint, np.float64)
        return scales, zeros, int(raw.quantizedDimension)

    def shape(self, number: int) -> tuple[int | None, ...]:
        """Shape of a tensor, None for what may be any number."""
        raw = self.raw.tensors[number]
        shape = raw.shape if raw.shapeSignature is None else raw.shapeSignature
        return tuple(None if size < 0 else int(size) for size in (() if shape is None else shape))

    def stored(self, number: int) -> bool:
        """Whether the numbers of a tensor stand in the file."""
        return self.file.data(self.raw.tensors[number].buffer) is not None

    def constant(self, number: int) -> Array | None:
        """The numbers of a tensor that stand in the file; None for one that is computed."""
        raw = self.raw.tensors[number]
        data = self.file.data(raw.buffer)
        if data is None or self.dtype(number) in UNSIZED or raw.sparsity is not None:
            return None
        shape = tuple(int(size) for size in (() if raw.shape is None else raw.shape))
        if self.dtype(number) in {"int4", "uint4"}:
            return _unpacked(data, signed=self.dtype(number) == "int4")[: int(np.prod(shape))].reshape(shape)
        return np.frombuffer(data.tobytes(), any_dtype(self.dtype(number))).reshape(shape)


class LiteFile:
    """A TFLite file read into memory.

    Args:
        path: Of the file.

    Raises:
        InputError: It cannot be read, or is none.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.content = path.read_bytes()
        except OSError as error:
            raise InputError(f"'{path}' cannot be read: {error}", hint="Name a *.tflite file.") from error
        if self.content[4:8] != IDENTIFIER:
            raise InputError(f"'{path}' is no TFLite file.", hint="It should have TFL3 as its fifth to eighth byte.")
        try:
            self.raw = schema.ModelT.InitFromObj(schema.Model.GetRootAs(self.content, 0))
            self.graphs = tuple(Graph(self, graph) for graph in self.raw.subgraphs)
            self._check()
        except Exception as error:
            raise InputError(f"'{path}' is a damaged TFLite file.", hint="Copy or convert it again.") from error

    def _check(self) -> None:
        """Reads all that is read later, so that a damaged file fails here."""
        for graph in self.graphs:
            for number in range(len(graph.raw.tensors)):
                graph.constant(number)
            for operator in graph.operators:
                for number in (*operator.inputs, *operator.outputs):
                    graph.raw.tensors[number]

    def data(self, buffer: int) -> Array | None:
        """The bytes of a buffer; None where it is empty."""
        raw = self.raw.buffers[buffer]
        if raw.offset > 1:  # large files keep the bytes behind the flatbuffer
            return np.frombuffer(self.content, np.uint8, raw.size, raw.offset)
        return None if raw.data is None or isinstance(raw.data, int) or not len(raw.data) else np.asarray(raw.data)

    def signature(self) -> tuple[dict[int, str], dict[int, str]]:
        """Names of the inputs and outputs of the main graph by tensor number, as far as a signature has them."""
        for signature in self.raw.signatureDefs or ():
            if signature.subgraphIndex == 0:
                inputs = {entry.tensorIndex: _text(entry.name) for entry in signature.inputs or ()}
                return inputs, {entry.tensorIndex: _text(entry.name) for entry in signature.outputs or ()}
        return {}, {}


def single(
    graph: Graph, operator: Operator, shapes: Mapping[int, tuple[int, ...]], constants: Mapping[int, Array]
) -> bytes:
    """A model of one operator.

    Args:
        graph: The graph that the operator is in.
        operator: The operator.
        shapes: Of the tensors that it reads and that are no constants, by number: the inputs of the model.
        constants: Numbers in place of those of the file, for constants that it reads.

    Returns:
        A TFLite file whose inputs are the keys of ``shapes`` in order, and whose outputs are the operator's.
    """
    model = schema.ModelT()
    model.version, model.operatorCodes = graph.file.raw.version, graph.file.raw.operatorCodes
    model.buffers = [schema.BufferT()]
    part = schema.SubGraphT()
    part.tensors = []
    places: dict[int, int] = {-1: -1}
    used = [*operator.inputs, *_numbers(operator.raw.intermediates), *operator.outputs]
    for number in dict.fromkeys(number for number in used if number >= 0):
        places[number] = len(part.tensors)
        part.tensors.append(_tensor(graph, number, shapes.get(number), constants.get(number), model.buffers))
    one = copy.copy(operator.raw)
    one.inputs = [places[number] for number in operator.inputs]
    one.outputs = [places[number] for number in operator.outputs]
    one.intermediates = [places[number] for number in _numbers(operator.raw.intermediates)]
    part.operators = [one]
    part.inputs = [places[number] for number in shapes]
    part.outputs = one.outputs
    model.subgraphs = [part]
    builder = schema.flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def _tensor(
    graph: Graph, number: int, shape: tuple[int, ...] | None, constant: Array | None, buffers: list[Any]
) -> Any:
    """The record of a tensor in a model of one operator, its constant added to ``buffers``."""
    made = copy.copy(graph.raw.tensors[number])
    made.buffer, made.externalBuffer = 0, 0
    data = graph.file.data(graph.raw.tensors[number].buffer) if constant is None else _bytes(constant)
    if shape is not None:
        made.shape, made.shapeSignature, made.hasRank = list(shape), None, True
    elif data is not None:
        made.buffer = len(buffers)
        buffer = schema.BufferT()
        buffer.data = data
        buffers.append(buffer)
    return made


def _bytes(array: Array) -> Array:
    return np.frombuffer(array.tobytes(), np.uint8)


def _unpacked(data: Array, *, signed: bool) -> Array:
    """Two numbers of four bits a byte, the lower half first."""
    halves = np.stack([data & 15, data >> 4], axis=-1).reshape(-1).astype(np.int8)
    return np.where(halves > 7, halves - 16, halves).astype(np.int8) if signed else halves.astype(np.uint8)


def _options(raw: Any) -> dict[str, Any]:
    return {} if raw is None else dict(vars(raw))


def _numbers(raw: Any) -> tuple[int, ...]:
    return () if raw is None else tuple(int(number) for number in raw)


def _text(raw: Any) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw or "")
