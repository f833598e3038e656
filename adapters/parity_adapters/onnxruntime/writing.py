"""A model to a new file: checked first, whole or not at all, and with its external weights where they are found."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import checker, external_data_helper, numpy_helper

from parity.errors import InputError
from parity_adapters.onnxruntime.opening import Source, stored_tensors

Numbers = NDArray[Any]

ALIGNMENT: Final = 64
"""Weights begin at multiples of so many bytes in a data file, so that they can be mapped."""

PIECE: Final = 2**20
"""Bytes that are copied at a time."""


def write(source: Source, model: onnx.ModelProto, numbers: Mapping[str, Numbers], file: Path) -> None:
    """Writes a model that was made of another one.

    External weights stay in the files that they are in if these lie beside the new file; otherwise they are copied, a
    piece at a time, into one data file beside it.

    Args:
        source: The model that it was made of.
        model: What to write; it is changed.
        numbers: New ones of some of its initializers, by name.
        file: It must not exist.

    Raises:
        InputError: The file is there already or cannot be written, or the model is no valid one.
    """
    data = file.with_name(f"{file.name}.data")
    try:
        with ExitStack() as stack:
            stored = _store(source, model, numbers, data, stack)
            if stored is not None:
                _publish(stored, data)
                stack.callback(_unless_there, data, file)
            made = _temporary(file, stack)
            onnx.save(model, made)
            checker.check_model(str(made))
            _publish(made, file)
    except OSError as error:
        taken = isinstance(error, FileExistsError)
        hint = "Name a file that is not there." if taken else "Name a file elsewhere, or make room there."
        raise InputError(f"'{file}' cannot be written: {error.strerror}.", hint=hint) from error
    except checker.ValidationError as error:
        raise InputError(
            f"The mended model is not valid, so it is not written: {str(error).splitlines()[0][:300]}",
            hint="Check the candidate itself with `onnx.checker.check_model`.",
        ) from error


def _temporary(file: Path, stack: ExitStack) -> Path:
    """Name for a file in the same folder, which is gone in the end."""
    made = file.with_name(f".{token_hex(4)}-{file.name}")
    stack.callback(lambda: made.unlink(missing_ok=True))
    return made


def _publish(made: Path, file: Path) -> None:
    """Gives a finished file its name in one step, unless there is one of that name.

    Raises:
        FileExistsError: There is.
    """
    try:
        os.link(made, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with file.open("xb"):
            made.replace(file)
    else:
        made.unlink()  # now: ONNX reads no data file that has two names


def _unless_there(data: Path, file: Path) -> None:
    if not file.exists():
        with suppress(OSError):
            data.unlink()


def _store(
    source: Source, model: onnx.ModelProto, numbers: Mapping[str, Numbers], data: Path, stack: ExitStack
) -> Path | None:
    """Writes what of the weights goes into the data file to a temporary one; None where nothing does."""
    inside = {tensor.name: tensor for tensor in model.graph.initializer}
    external = [tensor for tensor in stored_tensors(model) if external_data_helper.uses_external_data(tensor)]
    stays = source.folder is not None and source.folder.resolve() == data.parent.resolve()
    moving = [one for one in external if not stays or one.name in numbers]
    for name, array in numbers.items():
        if not external_data_helper.uses_external_data(inside[name]):
            inside[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))
    if not moving:
        return None
    made = _temporary(data, stack)
    with made.open("xb") as out:
        for tensor in moving:
            start = out.seek(-out.tell() % ALIGNMENT, os.SEEK_CUR)
            if tensor.name in numbers:
                out.write(numpy_helper.from_array(np.ascontiguousarray(numbers[tensor.name])).raw_data)
            else:
                assert source.folder is not None  # noqa: S101 – a model with external data has one
                _copy(tensor, source.folder, out)
            _point(tensor, data.name, start, out.tell() - start)
    return made


def _copy(tensor: onnx.TensorProto, folder: Path, out: IO[bytes]) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    with (folder / entries["location"]).open("rb") as stream:
        stream.seek(int(entries.get("offset", "0")))
        length = entries.get("length")
        for piece in _pieces(stream, None if length is None else int(length)):
            out.write(piece)


def _pieces(stream: IO[bytes], length: int | None) -> Iterator[bytes]:
    left = length
    while left is None or left > 0:
        piece = stream.read(PIECE if left is None else min(left, PIECE))
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece


def _point(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
