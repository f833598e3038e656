"""Watches which torch functions a model's Python code calls, and which recorded operators each of them makes.

The recorder sees operators where PyTorch dispatches them, below autograd, where none can be replaced in training. The
functions that the model's code calls can: so each activation that was found among the operators is traced back to them.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _get_current_dispatch_mode

from parity.errors import InputError
from parity_adapters.torch.recorder import Recorder

SOURCE: Final = -1
"""In the place of an operand: the tensor that enters the activation."""

standing_in: Final[ContextVar[bool]] = ContextVar("standing_in", default=False)
"""Whether what is computed now replaces an activation of the model."""

_STANDING_IN: Final = "it stands in for another already: undo that, or choose from the list made before"
_RECOMPUTED: Final = "torch.utils.checkpoint, called on a function, computes it again in the backward pass"
_OWN_FOLDER: Final = str(Path(__file__).parent)
_PASSED_FOLDERS: Final = (str(Path(torch.__file__).parent), _OWN_FOLDER, "<")
_CHECKPOINT: Final = str(Path(torch.__file__).parent / "utils" / "checkpoint.py")
_MODULE_CALL: Final[CodeType] = nn.Module._call_impl.__code__  # noqa: SLF001 – its frame knows the module that runs
_CUSTOM_CALL: Final[CodeType] = torch.autograd.Function.apply.__func__.__code__


class Whereabouts(NamedTuple):
    """Which of the model's code is running.

    Attributes:
        module: Path of the innermost of the model's modules that runs; None outside of all.
        line: ``file:line`` in it, of the innermost code that is not PyTorch's; "" where all is.
        obstacle: Why a function called here cannot be replaced; "" where it can.
        has_own_gradient: It is called in a torch.autograd.Function, whose gradient is written by hand.
    """

    module: str | None
    line: str
    obstacle: str
    has_own_gradient: bool


def whereabouts(paths: Mapping[int, str]) -> Whereabouts:
    """Finds it out from the stack.

    Args:
        paths: Of the model's modules, by their ``id``.
    """
    line, has_own_gradient = "", False
    obstacle = _STANDING_IN if standing_in.get() else ""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 – inspect.stack would read every source file
    while frame is not None:
        code = frame.f_code
        if code is _MODULE_CALL:
            path = paths.get(id(frame.f_locals["self"]))
            if path is not None:
                return Whereabouts(path, line, obstacle, has_own_gradient)
        elif code is _CUSTOM_CALL:
            has_own_gradient = True
        elif code.co_filename == _CHECKPOINT:
            obstacle = _RECOMPUTED
        elif not line and not code.co_filename.startswith(_PASSED_FOLDERS):
            line = f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return Whereabouts(None, line, obstacle, has_own_gradient)


def module_paths(model: nn.Module) -> dict[int, str]:
    """Path of each module by its ``id``; the first one of a module that has several."""
    return {id(module): path for path, module in model.named_modules()}


@dataclass(frozen=True, slots=True)
class Step:
    """One function call of an activation.

    Attributes:
        function: What the model's code calls.
        module: Path of the module whose code it is, from the one that holds the whole activation.
        line: As in `Whereabouts`.
        operands: For each tensor among the arguments: `SOURCE`, the number of the step that made it, or None for
            another.
        numbers: Floats among the arguments.
    """

    function: Any
    module: str
    line: str
    operands: tuple[int | None, ...]
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the model's code an activation is, independent of how often it runs.

    Attributes:
        module: Path of the module that holds it.
        kind: Qualified name of that module's class.
        steps: Its calls, in order.
        rewritten: Number of the last call's operand that it changes in place; None where it makes a new tensor.
        keeps_dtype: What it makes is of the type of what it takes.
    """

    module: str
    kind: str
    steps: tuple[Step, ...]
    rewritten: int | None
    keeps_dtype: bool


def operands_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors among the arguments of a call, in order."""
    return [value for value in _leaves([*args, *kwargs.values()]) if isinstance(value, torch.Tensor)]


def numbers_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[float, ...]:
    """The floats among the arguments of a call, in order."""
    return tuple(value for value in _leaves([*args, *kwargs.values()]) if isinstance(value, float))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One function call of a traced run.

    Attributes:
        function: As in `Step`.
        where: The code that called it.
        operands: Names of the tensors among the arguments, "" for what the recorder does not know.
        numbers: As in `Step`.
        result: Name of the tensor that it returned; "" where it returned no single one.
        rewritten: Number of the operand that it returned, changed in place; None for a new tensor.
        sites: The operators that it made.
    """

    function: Any
    where: Whereabouts
    operands: tuple[str, ...]
    numbers: tuple[float, ...]
    result: str
    rewritten: int | None
    sites: tuple[str, ...]


class Watch(TorchFunctionMode):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """Notes the function calls of a run that a recorder watches too; satisfies `parity.adapter.Calls`.

    Args:
        model: The model that is run.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._paths = module_paths(model)
        self._kinds = {path: type(module).__qualname__ for path, module in model.named_modules()}
        self._calls: list[_Call] = []
        self._call_of: dict[str, int] = {}
        self._recorder: Recorder | None = None

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What PyTorch calls in the place of each function."""
        kwargs = kwargs or {}
        recorder = _get_current_dispatch_mode()
        if not isinstance(recorder, Recorder):
            return func(*args, **kwargs)
        if recorder is not self._recorder:  # another run, whose operators have the same names again
            self._recorder, self._calls, self._call_of = recorder, [], {}
        operands = operands_of(args, kwargs)
        names = tuple(map(recorder.known_name, operands))
        before = len(recorder.recording.calls)
        result = func(*args, **kwargs)
        made = len(recorder.recording.calls) - before
        if made:
            sites = tuple(islice(reversed(recorder.recording.calls), made))
            self._call_of.update(dict.fromkeys(sites, len(self._calls)))
            self._calls.append(
                _Call(
                    function=func,
                    where=whereabouts(self._paths),
                    operands=names,
                    numbers=numbers_of(args, kwargs),
                    result=recorder.known_name(result) if isinstance(result, torch.Tensor) else "",
                    rewritten=next((place for place, operand in enumerate(operands) if operand is result), None),
                    sites=sites,
                )
            )
        return result

    def place(self, source: str, target: str, sites: Sequence[str]) -> Place:
        """See `parity.adapter.Calls.place`."""
        if any(site not in self._call_of for site in sites):
            raise InputError("no Python code calls it: it runs in TorchScript or inside another operator")
        calls = [self._calls[number] for number in sorted({self._call_of[site] for site in sites})]
        _check(calls, source, target, sites)
        module = _holder([call.where.module or "" for call in calls])
        made: dict[str, int] = {source: SOURCE}
        steps = []
        for number, call in enumerate(calls):
            inner = (call.where.module or "").removeprefix(module).removeprefix(".")
            operands = tuple(made.get(name) if name else None for name in call.operands)
            if all(operand is None for operand in operands):
                raise InputError("its tensors pass through what cannot be watched")
            steps.append(Step(call.function, inner, call.where.line, operands, call.numbers))
            made[call.result] = number
        layouts = self._recorder.recording.layouts if self._recorder is not None else {}
        entering, leaving = layouts[source], layouts[target]
        if entering.shape != leaving.shape:
            raise InputError("it also changes the shape of its tensor")
        return Place(module, self._kinds[module], tuple(steps), calls[-1].rewritten, entering.dtype == leaving.dtype)


def _check(calls: Sequence[_Call], source: str, target: str, sites: Sequence[str]) -> None:
    """Makes sure that these calls are the activation, and can be replaced.

    Raises:
        InputError: They cannot.
    """
    obstacle = next((call.where.obstacle for call in calls if call.where.obstacle), "")
    if obstacle:
        raise InputError(obstacle)
    if any(call.where.module is None for call in calls):
        raise InputError("it runs outside of the model's modules")
    if set().union(*(call.sites for call in calls)) - set(sites):
        raise InputError("the function that computes it computes something else too")
    if source not in calls[0].operands or calls[-1].result != target:
        raise InputError("the function that computes it takes or returns another tensor")
    for call in calls[:-1]:
        if call.rewritten is not None and call.operands[call.rewritten] == source:
            raise InputError("it changes its own input in place before it is done")


def _holder(modules: Sequence[str]) -> str:
    """The innermost module that holds all of these."""
    shared = modules[0].split(".")
    for module in modules:
        parts = module.split(".")
        while shared != parts[: len(shared)]:
            shared.pop()
    return ".".join(shared)


@contextmanager
def watch(model: nn.Module) -> Iterator[Watch]:
    """A context in which the runs of ``model`` are watched and leave no trace in it.

    Buffers and the state of the random numbers are put back: in training mode a run would change both.

    Raises:
        InputError: It is no module.
    """
    eager = getattr(model, "_orig_mod", model)  # that which torch.compile was given, which is what is traced
    if not isinstance(eager, nn.Module):
        raise InputError(
            f"The activations of a {type(model).__name__} cannot be listed.", hint="Give the live torch.nn.Module."
        )
    training = any(module.training for module in eager.modules())
    kept = [(buffer, buffer.clone()) for buffer in eager.buffers()] if training else []
    with torch.random.fork_rng(devices=[]):
        try:
            with Watch(eager) as watching:
                yield watching
        finally:
            with torch.no_grad():
                for buffer, content in kept:
                    buffer.copy_(content)
