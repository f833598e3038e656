"""Some traced calls as Python code: one line a call, their weights beside it."""

import keyword
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch._ops import OpOverload

from parity.adapter import Array
from parity.errors import EngineError
from parity_adapters.torch.kinds import UNINITIALISED
from parity_adapters.torch.layout import Layout
from parity_adapters.torch.memory import Read, Write
from parity_adapters.torch.recording import Blank, Call, Number, Recording, Ref

HEAD: Final = '''"""The region in PyTorch, operator by operator as it was recorded."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

WEIGHTS = Path(__file__).resolve().with_name("weights.safetensors")


def laid(tensor, shape, stride, dtype):
    """The tensor as ``dtype``, with its elements where they lay in the recorded run."""
    return torch.empty_strided(shape, stride, dtype=dtype).copy_(tensor)


def given(array, dtype):
    """An array of NumPy as a tensor."""
    array = array.astype(np.float32) if array.dtype.name == "bfloat16" else np.array(array)
    return torch.from_numpy(array).to(dtype)


@torch.no_grad()
def run(inputs):
    """What the region makes of its inputs."""
    weights = load_file(str(WEIGHTS))
'''
"""What is before the lines of the calls."""


def save(calls: Sequence[Call], given: Mapping[str, Array], wanted: str, recording: Recording, folder: Path) -> None:
    """Writes ``region.py`` and ``weights.safetensors``.

    Args:
        calls: In order.
        given: Numbers of the tensors that go in.
        wanted: The tensor that comes out.
        recording: Of the run that the calls are of.
        folder: Where to.

    Raises:
        EngineError: A call draws random numbers, or takes what cannot be written down.
    """
    calls = [call for call in calls if not all(not name or name in given for name in call.site.outputs)]
    writer = _Writer(recording, frozenset(given))
    lines = [line for call in calls for line in writer.call(call)]
    result = writer.variable(wanted)
    last = f"    return ({result}.float() if {result}.dtype == torch.bfloat16 else {result}).numpy()"
    ends = [f"    {line}" for line in [*writer.opening, *lines]]
    (folder / "region.py").write_text("\n".join([HEAD, *ends, last, ""]), encoding="utf-8")
    weights = {name: torch.as_tensor(recording.weights[name]) for name in writer.weights}
    plain = {name: one.detach().clone(memory_format=torch.contiguous_format) for name, one in weights.items()}
    save_file(plain, folder / "weights.safetensors")


class _Writer:
    """Writes calls as lines of Python.

    Attributes:
        opening: Lines that fetch what the calls written so far read.
        weights: Names of the weights among that.
    """

    def __init__(self, recording: Recording, given: frozenset[str]) -> None:
        self.opening: list[str] = []
        self.weights: list[str] = []
        self._recording = recording
        self._given = given
        self._variables: dict[str, str] = {}
        self._taken = {"torch", "np", "inputs", "weights", "laid", "given", "run", "Path", "load_file", "WEIGHTS", "_"}

    def variable(self, name: str) -> str:
        """The variable that holds a tensor, which is fetched if no call made it."""
        if name not in self._variables:
            self.opening.append(f"{self._new(name)} = {self._fetched(name)}")
        return self._variables[name]

    def call(self, call: Call) -> Iterator[str]:
        """The lines of one call."""
        if call.generator is not None:
            raise EngineError(f"{call.site.name} draws random numbers")
        written = []
        arguments: dict[int | str, str] = {place: self._shown(one) for place, one in enumerate(call.args)}
        arguments |= {name: self._shown(one) for name, one in call.kwargs.items()}
        for place in call.written:
            copy = self._fresh("changed")
            yield f"{copy} = {arguments[place]}"
            arguments[place] = copy
            written.append(copy)
        yield from self._made(call, written, arguments)

    def _made(self, call: Call, written: Sequence[str], arguments: Mapping[int | str, str]) -> Iterator[str]:
        function, outputs = call.function, list(call.site.outputs)
        listed = ", ".join(one if isinstance(place, int) else f"{place}={one}" for place, one in arguments.items())
        if isinstance(function, Read | Write):
            yield from self._memory(function, outputs[0], list(arguments.values()))
            return
        if not isinstance(function, OpOverload):
            raise EngineError(f"{call.site.op} is none of PyTorch's own operators")
        text = f"torch.ops.{function}({listed})"
        if function.overloadpacket.__name__ in UNINITIALISED:
            text += ".zero_()"
        returns = [one.alias_info is not None and one.alias_info.is_write for one in function._schema.returns]  # noqa: SLF001
        fresh = outputs[len(written) :]
        if len(returns) == 1 and "[]" in str(function._schema.returns[0].type):  # noqa: SLF001
            left = "".join(f"{self._named(name)}, " for name in fresh) + "*_"
        elif len(returns) > 1:
            waiting = iter(fresh)
            left = ", ".join("_" if changed else self._named(next(waiting, "")) for changed in returns)
        else:
            left = "_" if all(returns) else self._named(fresh[0])
        yield f"{left} = {text}" if left != "_" else text
        for name, copy in zip(outputs, written, strict=False):
            if name and name not in self._given:
                yield f"{self._new(name)} = {copy}"

    def _memory(self, function: Read | Write, output: str, arguments: Sequence[str]) -> Iterator[str]:
        """A view of a tensor, or a tensor with parts put into it."""
        base, target = function.base, self._named(output)
        whole = f"laid({arguments[0]}, {base.shape}, {base.stride}, {arguments[0]}.dtype)"
        if isinstance(function, Read):
            yield f"{target} = {whole}.{_strided(function.place, base)}"
            return
        yield f"{target} = {whole}"
        for part, place in zip(arguments[1:], function.parts, strict=True):
            yield f"{target}.{_strided(place, base)}.copy_({part})"

    def _named(self, name: str) -> str:
        return self._new(name) if name and name not in self._given else "_"

    def _new(self, name: str) -> str:
        self._variables[name] = self._fresh(name)
        return self._variables[name]

    def _fresh(self, name: str) -> str:
        word = re.sub(r"\W+", "_", name).strip("_") or "tensor"
        word = f"t_{word}" if word[0].isdigit() or keyword.iskeyword(word) else word
        count, found = 1, word
        while found in self._taken:
            count += 1
            found = f"{word}_{count}"
        self._taken.add(found)
        return found

    def _fetched(self, name: str) -> str:
        where = self._recording.layouts.get(name)
        weight = self._recording.weights.get(name)
        if name not in self._given and not isinstance(weight, torch.Tensor):
            raise EngineError(f"'{name}' is neither given nor made before")
        if name in self._given:
            dtype = where.dtype if where is not None else torch.float32
            text = f"given(inputs[{name!r}], {dtype})"
        else:
            self.weights.append(name)
            text = f"weights[{name!r}]"
        return text if where is None or where.is_contiguous() else _laid(text, where)

    def _shown(self, value: Any) -> str:
        """An argument as it is written."""
        match value:
            case Ref():
                name = self.variable(value.name)
                return f"{name}.clone()" if value.written else name
            case Number():
                return _literal(value.value)
            case Blank():
                where = value.layout
                return _laid("torch.zeros(())", where)
            case list() | tuple():
                return f"[{', '.join(self._shown(one) for one in value)}]"
            case _:
                return _literal(value)


def _laid(text: str, where: Layout) -> str:
    return f"laid({text}, {tuple(where.shape)}, {tuple(where.stride)}, {where.dtype})"


def _strided(place: Layout, base: Layout) -> str:
    return f"as_strided({tuple(place.shape)}, {tuple(place.stride)}, {place.offset - base.offset})"


def _literal(value: Any) -> str:
    """A plain value as Python writes it.

    Raises:
        EngineError: It is none.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, torch.device):
        return f"torch.device('{value}')"
    raise EngineError(f"{type(value).__name__} cannot be written down")
