"""From a reference and its options to a checked model; nothing runs here, and no file outside its folder is read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

import onnx
from onnx import TensorProto, external_data_helper, helper, inliner

from parity.adapter import not_opened
from parity.errors import InputError
from parity.graph import InputSpec
from parity_adapters.onnxruntime.sessions import LEVELS

READS: Final = "ONNX models: a path that ends in .onnx"

_CONFIG = "session_config."

_FLOATS: Final[Mapping[int, str]] = {
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a production session is to be made.

    Attributes:
        level: One of `sessions.LEVELS`.
        config: Configuration entries of the session, key and value.
        threads: How many one operator may use.
        dtype: The floating-point type that the user expects the model to run in, or "".
    """

    level: str = "all"
    config: tuple[tuple[str, str], ...] = ()
    threads: int = 1
    dtype: str = ""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "Options":
        """The options of `parity.adapter.Adapter.open`.

        Raises:
            InputError: One of them is unknown, or has a value that it cannot have.
        """
        known = ("optimization", "threads", "dtype")
        for name in options:
            if name not in known and not name.startswith(_CONFIG):
                raise InputError.unknown("option of the onnxruntime adapter", name, [*known, f"{_CONFIG}KEY"])
        level = options.get("optimization", "all")
        if level not in LEVELS:
            raise InputError.unknown("optimisation level", level, LEVELS)
        threads = options.get("threads", "1")
        if not threads.isdecimal() or int(threads) < 1:
            raise InputError(f"'{threads}' is no number of threads.", hint="Give a whole number from 1 on.")
        config = tuple((k.removeprefix(_CONFIG), value) for k, value in options.items() if k.startswith(_CONFIG))
        return cls(level=level, config=config, threads=int(threads), dtype=options.get("dtype", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model as it was given.

    Attributes:
        name: What messages call it.
        model: Its graph, functions written out, weights in external files left there.
        path: Its file, where ONNX Runtime can read it from there.
        folder: Where its external files are; None for a model in memory.
    """

    name: str
    model: onnx.ModelProto
    path: Path | None
    folder: Path | None


def read(reference: Any) -> Source:
    """The model that ``reference`` names, or is.

    Args:
        reference: A path, or an ``onnx.ModelProto``.

    Raises:
        InputError: There is no such file, it is no ONNX model, or it points to files outside its folder.
    """
    if isinstance(reference, onnx.ModelProto):
        return _source("the model", reference, None)
    path = Path(reference)
    if path.suffix != ".onnx":
        raise not_opened("onnxruntime", str(reference), READS)
    if not path.is_file():
        raise InputError(f"There is no file '{path}'.", hint="Check the path of the model.")
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}.", hint="Check its permissions.") from error
    except Exception as error:  # of protobuf, whose two implementations raise different ones
        raise _no_model(str(path)) from error
    return _source(f"'{path}'", model, path)


def _source(name: str, model: onnx.ModelProto, path: Path | None) -> Source:
    if not model.graph.output or not model.opset_import:
        raise _no_model(name.strip("'"))
    folder = path.parent if path else None
    for tensor in stored_tensors(model):
        if external_data_helper.uses_external_data(tensor):
            _check_external(name, tensor, folder)
    if model.functions:
        return Source(name=name, model=inliner.inline_local_functions(model), path=None, folder=folder)
    return Source(name=name, model=model, path=path, folder=folder)


def without_weights(source: Source) -> Source:
    """The same without the numbers of the weights, where ONNX Runtime reads the file itself; else as it is.

    A message of protobuf keeps its memory until all of it is gone, so what is of use is copied to another one.
    """
    if source.path is None:
        return source
    model = onnx.ModelProto(ir_version=source.model.ir_version, opset_import=source.model.opset_import)
    file, graph = source.model.graph, model.graph
    graph.name = file.name
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(file, field))
    for tensor in file.initializer:
        graph.initializer.add(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
    return replace(source, model=model)


def _no_model(name: str) -> InputError:
    return InputError(f"'{name}' is no ONNX model, or it is cut off.", hint="Export it again, and copy the whole file.")


def _check_external(name: str, tensor: onnx.TensorProto, folder: Path | None) -> None:
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    outside = [
        path.is_absolute() or ".." in path.parts or bool(path.anchor)
        for path in (PurePosixPath(location), PureWindowsPath(location))
    ]
    if not location or any(outside):
        raise InputError(
            f"The weight '{tensor.name}' of {name} points to '{location}', which is not in the model's folder.",
            hint="Such a file may have been made to read others; save the model anew with its data beside it.",
        )
    if folder is None:
        raise InputError(
            f"The weight '{tensor.name}' of {name} is in a file, '{location}', and the model is in memory.",
            hint="Load the weights as well, or name the model's file.",
        )
    if not (folder / location).is_file():
        raise InputError(
            f"The weight '{tensor.name}' of {name} is in '{location}', which is missing.",
            hint=f"Put that file into '{folder}', beside the model.",
        )


def stored_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor stored in ``model``, in its functions and inner graphs, too."""
    yield from _tensors_of(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _tensors_of_node(node)


def _tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_of_node(node)


def _tensors_of_node(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from _tensors_of(attribute.g)
        for graph in attribute.graphs:
            yield from _tensors_of(graph)


def input_specs(graph: onnx.GraphProto) -> dict[str, InputSpec]:
    """Specification of each input that a user has to give, in the model's order.

    Raises:
        InputError: One of them is no tensor.
    """
    stored = {tensor.name for tensor in graph.initializer}
    limits = _limits(graph)
    return {value.name: _spec(value, limits.get(value.name)) for value in graph.input if value.name not in stored}


def _spec(value: onnx.ValueInfoProto, limit: int | None) -> InputSpec:
    if not value.type.HasField("tensor_type"):
        raise InputError(
            f"The input '{value.name}' is a {value.type.WhichOneof('value') or 'thing'} and no tensor.",
            hint="Only models whose inputs and outputs are tensors can be compared.",
        )
    tensor = value.type.tensor_type
    if tensor.elem_type == TensorProto.STRING:
        raise InputError(f"The input '{value.name}' is text.", hint="Only models of numbers can be compared.")
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return InputSpec(dtype=_FLOATS.get(tensor.elem_type, dtype), shape=shape, limit=limit)


def _limits(graph: onnx.GraphProto) -> dict[str, int]:
    """Rows of the table that each input looks up, where it goes straight into a lookup."""
    rows = {tensor.name: tensor.dims[0] for tensor in graph.initializer if tensor.dims}
    same = {value.name: value.name for value in graph.input}
    found: dict[str, int] = {}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t") and node.attribute[0].t.dims:
            rows[node.output[0]] = node.attribute[0].t.dims[0]
        if node.op_type in {"Cast", "Identity"} and node.input[0] in same:
            same[node.output[0]] = same[node.input[0]]
        along_rows = node.op_type == "Gather" and all(a.i == 0 for a in node.attribute if a.name == "axis")
        if along_rows and node.input[0] in rows and node.input[1] in same:
            name = same[node.input[1]]
            found[name] = min(rows[node.input[0]], found.get(name, rows[node.input[0]]))
    return found


def own_dtype(graph: onnx.GraphProto) -> str:
    """Name of the floating-point type of the first such input, or else of the largest such weight, or else ""."""
    inputs = [value.type.tensor_type.elem_type for value in graph.input]
    weights = sorted(graph.initializer, key=lambda tensor: -_size(tensor))
    kinds = [*inputs, *(tensor.data_type for tensor in weights)]
    return next((_FLOATS[kind] for kind in kinds if kind in _FLOATS), "")


def _size(tensor: onnx.TensorProto) -> int:
    size = 1
    for dim in tensor.dims:
        size *= dim
    return size
