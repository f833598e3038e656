"""PyTorch's exported programs (``.pt2``): the JSON inside the archive, and numbers that lie there as plain bytes.

Nothing is unpickled. Weights are not read, but for single numbers that a formula may need.
"""

import io
import json
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.dtypes import FLOAT_DTYPES
from parity.scanner.graph.aten_kinds import described
from parity.scanner.graph.ir import Constant, Graph, Node, Values, decoded
from parity.scanner.graph.protobuf import MalformedError, unreadable
from parity.scanner.graph.uses import activations
from parity.scanner.json_text import parts
from parity.scanner.model import Document
from parity.scanner.source import Source

FORMAT: Final = "exported_program"

LARGEST_PROGRAM: Final = 2**27
"""Bytes of JSON that are read."""

MOST_PARTS: Final = 2**23
"""Objects, lists and values of a program; an operator has about twenty."""

MOST_ELEMENTS: Final = 2**12
"""Elements of a constant that are looked at."""

DEEPEST: Final = 64
"""Graphs inside one another."""

_PROGRAMS: Final = ("serialized_exported_program.json", "model.json")
_CONFIGS: Final = ("model_weights_config.json", "model_constants_config.json")
_ATEN: Final = ("torch.ops.aten.", "torch.ops.prims.", "torch.ops.quantized_decomposed.")
_TYPES: Final = {6: "float16", 7: "float32", 8: "float64", 13: "bfloat16"}
"""Number of a floating-point type in the program's schema."""

_STORED: Final[Mapping[int, np.dtype[Any]]] = {
    **{number: FLOAT_DTYPES[name] for number, name in _TYPES.items()},
    4: np.dtype(np.int32),
    5: np.dtype(np.int64),
}


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is called so and is an archive."""
    return path.suffix.lower() == ".pt2" and head[:4] == b"PK\x03\x04"


def read(source: Source) -> Document:
    """The activations of a program.

    Raises:
        Unreadable: It is no such archive, is too large, or does not make a graph.
    """
    try:
        with zipfile.ZipFile(source.path if source.inline is None else io.BytesIO(source.inline)) as archive:
            program = _Program(archive)
            found = [one.use for one in activations(source.file, program.graphs())]
    except _BROKEN as error:
        raise unreadable(source.file, "exported program", error) from error
    return Document(file=source.file, format=FORMAT, activations=tuple(found), facts=program.facts)


_BROKEN: Final = (
    *(ValueError, OverflowError, RecursionError, RuntimeError, NotImplementedError, EOFError, OSError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)
"""What a broken archive, broken JSON and a broken graph are told by."""


class _Program:
    """The program in an archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._entries = {entry.filename: entry for entry in archive.infolist()}
        name = next((one for end in _PROGRAMS for one in self._entries if one.rpartition("/")[2] == end), None)
        if name is None:
            raise MalformedError("it holds no program as JSON")
        program = self._json(name)
        self._module = _mapping(program.get("graph_module"))
        version = program.get("torch_version")
        self.facts: dict[str, Any] = {"library": "torch"}
        if isinstance(version, str):
            self.facts["version"] = version
        self._weights = dict(self._stored())

    def graphs(self) -> list[Graph]:
        """The program's graph and those inside it."""
        made: list[Graph] = []
        self._build(_mapping(self._module.get("graph")), self._held(), made, 0)
        return made

    def _build(self, graph: Mapping[str, Any], held: Mapping[str, Constant], made: list[Graph], depth: int) -> None:
        if depth > DEEPEST:
            raise MalformedError(f"graphs are nested more than {DEEPEST} deep")
        reader = _GraphReader(graph, held)
        made.append(reader.graph())
        for one in reader.inside:
            self._build(one, {}, made, depth + 1)

    def _json(self, name: str) -> Mapping[str, Any]:
        text = self._bytes(name, LARGEST_PROGRAM)
        if parts(text) > MOST_PARTS:
            raise MalformedError(f"its {name.rpartition('/')[2]} has more than {MOST_PARTS:,} parts")
        return _mapping(json.loads(text))

    def _bytes(self, name: str, limit: int) -> bytes:
        entry = self._entries[name]
        if entry.file_size > limit:
            raise MalformedError(f"its '{name[:120]}' has {entry.file_size:,} bytes, and at most {limit:,} are read")
        with self._archive.open(entry) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise MalformedError(f"its '{name[:120]}' unpacks to more than {limit:,} bytes")
        return data

    def _stored(self) -> Iterator[tuple[str, Constant]]:
        """Weights and constants that lie in the archive as plain bytes, by name."""
        for name in self._entries:
            folder, _, end = name.rpartition("/")
            if end not in _CONFIGS:
                continue
            config = _mapping(self._json(name).get("config"))
            for key, value in config.items():
                entry = _mapping(value)
                yield key, self._constant(f"{folder}/{entry.get('path_name', '')}", entry)

    def _constant(self, path: str, entry: Mapping[str, Any]) -> Constant:
        meta = _mapping(entry.get("tensor_meta"))
        dtype, sizes = meta.get("dtype"), _list(meta.get("sizes"))
        counts = [_mapping(one).get("as_int") for one in sizes]
        if not all(isinstance(one, int) and one >= 0 for one in counts) or not isinstance(dtype, int):
            return Constant("", 0)
        count = math.prod(one for one in counts if isinstance(one, int))
        plain = entry.get("use_pickle") is not True and path in self._entries and dtype in _STORED
        if not plain or not 0 < count <= MOST_ELEMENTS:
            return Constant(_TYPES.get(dtype, ""), count)
        return Constant(_TYPES.get(dtype, ""), count, self._reader(path, count, _STORED[dtype]))

    def _reader(self, path: str, count: int, stored: np.dtype[Any]) -> Callable[[], Values | None]:
        def read_numbers() -> Values | None:
            data = self._bytes(path, count * stored.itemsize)
            return decoded(data, stored) if len(data) == count * stored.itemsize else None

        return read_numbers

    def _held(self) -> dict[str, Constant]:
        """What the graph is given that is no user's input."""
        held = {}
        for spec in _list(_mapping(self._module.get("signature")).get("input_specs")):
            for kind, value in _mapping(spec).items():
                given = _mapping(value)
                name = _mapping(given.get("arg")).get("name")
                if kind == "user_input" or not isinstance(name, str):
                    continue
                key = next((given[one] for one in given if one.endswith("_name")), "")
                held[name] = self._weights.get(str(key), Constant("", 0))
        return held


class _GraphReader:
    """One graph of a program."""

    def __init__(self, graph: Mapping[str, Any], held: Mapping[str, Constant]) -> None:
        self._graph = graph
        self._values = _mapping(graph.get("tensor_values"))
        self._constants = dict(held)
        self._nodes: list[Node] = []
        self.inside: list[Mapping[str, Any]] = []

    def graph(self) -> Graph:
        for node in _list(self._graph.get("nodes")):
            self._enter(_mapping(node))
        made = {name for node in self._nodes for name in node.outputs}
        read = {name for node in self._nodes for name in node.inputs}
        given = {name for one in _list(self._graph.get("inputs")) for name in _tensors(one)}
        dtypes = {name: self._dtype(name) for name in made | read if self._dtype(name)}
        inputs = (given | (read - made)) - self._constants.keys() - {""}
        return Graph(self._nodes, self._constants, inputs=inputs, dtypes=dtypes)

    def _dtype(self, name: str) -> str:
        number = _mapping(self._values.get(name)).get("dtype")
        return _TYPES.get(number, "") if isinstance(number, int) else ""

    def _enter(self, node: Mapping[str, Any]) -> None:
        target = str(node.get("target", ""))
        arguments: dict[str, Any] = {}
        tensors: dict[str, list[str]] = {}
        for one in _list(node.get("inputs")):
            given = _mapping(one)
            name, value = str(given.get("name", "")), _mapping(given.get("arg"))
            tensors[name] = list(_tensors(value))
            arguments[name] = _plain(value) if not tensors[name] else tensors[name]
            inner = _mapping(value.get("as_graph"))
            if inner:
                self.inside.append(_mapping(inner.get("graph")))
        outputs = tuple(name for one in _list(node.get("outputs")) for name in _tensors(one)) or ("",)
        label = str(node.get("name") or outputs[0] or target)
        op = target.removeprefix("torch.ops.").rpartition(".")[0] or target
        scope = _scope(_mapping(node.get("metadata")).get("nn_module_stack"))
        if not target.startswith(_ATEN):
            read = tuple(name for names in tensors.values() for name in names)
            self._nodes.append(Node(label, target, "control" if self.inside else "", read, outputs, {}, scope))
            return
        name = op.rpartition(".")[2]
        name = name.removesuffix("_") if not name.startswith("_") else name
        told = described(name, arguments, floating=bool(self._dtype(outputs[0])))
        reads = told.reads if told.reads is not None else list(tensors)
        inputs = tuple(one for argument in reads for one in self._read(label, argument, arguments, tensors))
        self._nodes.append(Node(label, op, told.kind, inputs, outputs, told.attributes, scope, told.value, told.inner))

    def _read(
        self, label: str, argument: str, arguments: Mapping[str, Any], tensors: Mapping[str, list[str]]
    ) -> list[str]:
        """Tensors that an argument is; a number becomes a constant of its own."""
        if tensors.get(argument):
            return tensors[argument]
        value = arguments.get(argument)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return []
        name = f"{label}/{argument}"
        self._constants[name] = Constant.number(float(value))
        return [name]


def _tensors(argument: Any) -> Iterator[str]:
    """Names of the tensors in an argument."""
    given = _mapping(argument)
    for kind in ("as_tensor", "as_optional_tensor"):
        one = _mapping(given.get(kind))
        one = _mapping(one.get("as_tensor")) or one
        if isinstance(one.get("name"), str):
            yield one["name"]
    for kind in ("as_tensors", "as_optional_tensors"):
        for each in _list(given.get(kind)):
            one = _mapping(_mapping(each).get("as_tensor")) or _mapping(each)
            if isinstance(one.get("name"), str):
                yield one["name"]


def _plain(argument: Mapping[str, Any]) -> Any:
    """A number or text; None for anything else."""
    for kind in ("as_float", "as_int", "as_bool", "as_string"):
        value = argument.get(kind)
        if isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value
    return None


def _scope(stack: Any) -> str:
    """The innermost module's path in ``key,path,class;…``."""
    if not isinstance(stack, str):
        return ""
    parts = stack[-4096:].rpartition(";")[2].split(",")
    return parts[1].removeprefix("L['self'].") if len(parts) > 2 else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
