"""Computes other functions where a model computes its activations, whenever it runs, training included.

The ``forward`` of each module that holds such an activation is wrapped; while it runs, a `TorchFunctionMode` looks at
the functions that the model's code calls. It follows the tensors from the one that enters an activation through the
calls that the listing saw, to the last one, and puts the result of the other function in the place of that one's. Code,
parameters and buffers stay as they are. A call counts as the listed one only if the same line of the same module calls
the same function on the same tensors, so that what the model does beside (dropout in training, another batch size) does
not matter, and what no longer matches is noticed: a forward that leaves out a replacement does not end in silence.

Of a formula written out by hand, all calls but the last are still computed, for nothing.
"""

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NoReturn

import torch
from torch import nn
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

from parity.adapter import Swap
from parity.errors import InputError
from parity_adapters.torch.calls import (
    SOURCE,
    Place,
    Step,
    module_paths,
    numbers_of,
    operands_of,
    standing_in,
    whereabouts,
)
from parity_adapters.torch.variants import Function, function_of

RELIST = "List the activations again with parity.activations(model, inputs), with inputs and a mode like these."


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """A `Swap` ready to be carried out; ``eq=False``: each is itself alone."""

    swap: Swap
    place: Place
    function: Function

    def wants(self, number: int) -> bool:
        """Whether it speaks of this call of its place."""
        return self.swap.calls is None or number in self.swap.calls


@dataclass(slots=True)
class _Attempt:
    """An activation that has begun and may be the one.

    Attributes:
        source: The tensor that entered it.
        made: What its steps made so far.
    """

    source: torch.Tensor
    made: list[torch.Tensor] = field(default_factory=list)


class _ModelRun:
    """One run of a whole model: how often each place was met, and whether its module ran."""

    def __init__(self, orders: Sequence[_Order]) -> None:
        self.orders = orders
        self.met: Counter[Place] = Counter()
        self.entered: set[Place] = set()

    def check(self) -> None:
        """Makes sure that nothing was left out.

        Raises:
            InputError: A module ran and did not compute the activation that was to be replaced.
        """
        idle = []
        for order in self.orders:
            met, swap = self.met[order.place], order.swap
            if swap.calls is not None and met not in {0, swap.listed}:
                raise InputError(
                    f"The activation {swap.name} was computed {met} times in this run and {swap.listed} times when it "
                    "was listed, so that it is unclear which of its calls to replace.",
                    hint=RELIST,
                )
            if not met and order.place in self.entered:
                raise InputError(
                    f"The activation {swap.name} was to be replaced by {swap.variant}, and this run of the model did "
                    f"not compute it as it did when it was listed ({_told(order.place)}).",
                    hint=RELIST,
                )
            if not met:
                idle.append(swap.name)
        if idle:
            warnings.warn(
                f"This run of the model did not reach {', '.join(idle)}: nothing was replaced there.", stacklevel=3
            )


class _Running(threading.local):
    """The runs of models that are under way in this thread, the innermost last."""

    def __init__(self) -> None:
        self.runs: list[_ModelRun] = []


_running = _Running()


class _ModuleRun(TorchFunctionMode):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """One run of a module that holds activations to be replaced.

    Args:
        module: It.
        orders: What to replace in it.
    """

    def __init__(self, module: nn.Module, orders: Sequence[_Order]) -> None:
        super().__init__()
        self._paths = module_paths(module)
        self._orders: dict[Place, list[_Order]] = {}
        for order in orders:
            self._orders.setdefault(order.place, []).append(order)
        self._attempts: dict[Place, list[_Attempt]] = {place: [] for place in self._orders}
        self._functions = {step.function for place in self._orders for step in place.steps}
        for run in _running.runs:
            run.entered.update(self._orders)

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What PyTorch calls in the place of each function."""
        kwargs = kwargs or {}
        if func not in self._functions:
            return func(*args, **kwargs)
        call = _Call(func, args, kwargs, self._paths)
        going_on: list[_Attempt] = []
        ended: tuple[_Order, _Attempt] | None = None
        for place, attempts in self._attempts.items():
            for attempt in [*attempts, *_begun(place.steps[0], call)]:
                step = place.steps[len(attempt.made)]
                if not call.is_step(step, attempt):
                    continue
                call.refuse_obstacles(self._orders[place][-1].swap, attempt.source)
                if len(attempt.made) + 1 < len(place.steps):
                    going_on.append(attempt)
                    if not attempt.made:
                        attempts.append(attempt)
                    continue
                self._attempts[place] = [one for one in attempts if one is not attempt]
                order = self._met(place)
                ended = (order, attempt) if order is not None else ended
        result = func(*args, **kwargs) if ended is None else call.replaced(*ended)
        for attempt in going_on:
            attempt.made.append(result)
        return result

    def _met(self, place: Place) -> _Order | None:
        """Counts one more call of a place, and says what is to be done with it."""
        orders = self._orders[place]
        counting = next((run for run in reversed(_running.runs) if set(run.orders) & set(orders)), None)
        number = 0
        if counting is not None:
            number = counting.met[place]
            counting.met[place] += 1
        elif any(order.swap.calls is not None for order in orders):
            raise InputError(
                f"Some calls of {orders[-1].swap.name} are to be replaced and others not; they are counted from the "
                "start of a run of the model, and here a part of it runs alone.",
                hint="Run the whole model, or replace all calls.",
            )
        return next((order for order in reversed(orders) if order.wants(number)), None)


class _Call:
    """One function call while a module runs, and which code of the module it comes from."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], paths: Mapping[int, str]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.operands = operands_of(args, kwargs)
        self._numbers = numbers_of(args, kwargs)
        self._where = whereabouts(paths)

    def is_step(self, step: Step, attempt: _Attempt) -> bool:
        """Whether this is the next step of an activation that has begun."""
        if (self.function, self._where.module, self._where.line) != (step.function, step.module, step.line):
            return False
        if self._numbers != step.numbers or len(self.operands) != len(step.operands):
            return False
        wanted = (
            None if place is None else attempt.source if place == SOURCE else attempt.made[place]
            for place in step.operands
        )
        return all(one is None or _same(one, operand) for one, operand in zip(wanted, self.operands, strict=True))

    def refuse_obstacles(self, swap: Swap, source: torch.Tensor) -> None:
        """Makes sure that the activation can be replaced here.

        Raises:
            InputError: It cannot.
        """
        told = f"The activation {swap.name} cannot be replaced in this run"
        if self._where.obstacle:
            raise InputError(
                f"{told}: {self._where.obstacle}.",
                hint="Let torch.utils.checkpoint call a module, or undo the replacement.",
            )
        if self._where.has_own_gradient and source.requires_grad:
            raise InputError(
                f"{told}: its gradient is written by hand, in a torch.autograd.Function, and would stay what it is.",
                hint="Run the model under torch.no_grad(), or undo the replacement.",
            )

    def replaced(self, order: _Order, attempt: _Attempt) -> torch.Tensor:
        """What the other function makes, in the place of this call's result."""
        token = standing_in.set(True)
        try:
            return self._replaced(order, attempt.source)
        finally:
            standing_in.reset(token)

    def _replaced(self, order: _Order, source: torch.Tensor) -> torch.Tensor:
        place = order.place
        if not place.keeps_dtype:
            source = source.to(self.function(*self.args, **self.kwargs).dtype)
        if place.rewritten is None:
            return order.function(source)
        target = self.operands[place.rewritten]
        return target.copy_(order.function(source.clone()))


def _begun(first: Step, call: _Call) -> Iterator[_Attempt]:
    """A new attempt at an activation, where a call may be its first step."""
    if call.function == first.function and len(call.operands) == len(first.operands):
        yield _Attempt(call.operands[first.operands.index(SOURCE)])


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the two are one tensor, or views of the same elements."""
    return one is other or (one.dtype == other.dtype and one.shape == other.shape and one.is_set_to(other))


class _Forward:
    """Stands in the place of a module's ``forward``.

    A copy of the module gets a copy of this, which goes on for good; pickled it cannot be.

    Args:
        module: Whose it is.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.inner: Callable[..., Any] | None = vars(module).get("forward")
        self.held: list[_Order] = []
        self.guarded: list[_Order] = []

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """What would be called without: so that the signature is found."""
        forward: Callable[..., Any] = self.inner or type(self.module).forward.__get__(self.module)
        return forward

    @property
    def __code__(self) -> CodeType:
        """Which torch.export looks at."""
        code: CodeType = self.__wrapped__.__code__
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the module with its replacements."""
        if torch.compiler.is_dynamo_compiling():
            raise InputError(
                "A model with replaced activations cannot be compiled.",
                hint="Undo the replacement first; torch.export.export(…, strict=False) can export it.",
            )
        with ExitStack() as contexts:
            if self.guarded:
                contexts.enter_context(_model_run(tuple(self.guarded)))
            if self.held:
                contexts.enter_context(_ModuleRun(self.module, tuple(self.held)))
            return self.__wrapped__(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Forward":
        copied = object.__new__(_Forward)
        copied.module = memo.get(id(self.module), self.module)
        copied.inner = self.inner
        copied.held, copied.guarded = list(self.held), list(self.guarded)
        return copied

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "A model with replaced activations cannot be pickled.",
            hint="Undo the replacement first, or save model.state_dict(), which it does not change.",
        )

    def remove(self) -> None:
        """Takes itself away where nothing is left to do; if another wrapped it since, it stays and does nothing."""
        if self.held or self.guarded or vars(self.module).get("forward") is not self:
            return
        if self.inner is None:
            del self.module.forward
        else:
            self.module.forward = self.inner


@contextmanager
def _model_run(orders: Sequence[_Order]) -> Iterator[None]:
    """A context for one run of the whole model, checked at its end.

    The mode does nothing, and is there because the listing had one: PyTorch's modules do not take their fused paths
    under a mode.
    """
    run = _ModelRun(orders)
    _running.runs.append(run)
    try:
        with BaseTorchFunctionMode():
            yield
    finally:
        _running.runs.pop()
    run.check()


def swap(model: Any, swaps: Sequence[Swap]) -> Callable[[], None]:
    """See `parity.adapter.Swapper.swap`."""
    _check_model(model)
    orders = [_Order(one, one.place, _scaled(function_of(one.variant), one.scale)) for one in swaps]
    holders = [_holder(model, order) for order in orders]
    wrapper = _wrapped(model)
    wrapper.guarded.extend(orders)
    for holder, order in zip(holders, orders, strict=True):
        _wrapped(holder).held.append(order)

    def undo() -> None:
        for module in dict.fromkeys([*holders, model]):
            own = _find(module)
            if own is not None:
                own.held = [one for one in own.held if one not in orders]
                own.guarded = [one for one in own.guarded if one not in orders]
                own.remove()

    return undo


def _scaled(function: Function, scale: float) -> Function:
    return function if scale == 1 else lambda x: function(x) * scale


def _find(module: nn.Module) -> _Forward | None:
    """The wrapper of a module, under what others may have wrapped around it."""
    forward = vars(module).get("forward")
    while forward is not None and not isinstance(forward, _Forward):
        forward = getattr(forward, "__wrapped__", None)
    return forward if isinstance(forward, _Forward) and forward.module is module else None


def _wrapped(module: nn.Module) -> _Forward:
    found = _find(module)
    if found is None:
        found = _Forward(module)
        module.forward = found
    return found


def _check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"Activations cannot be replaced in a {type(model).__name__}.", hint="Give the torch.nn.Module itself."
        )
    if hasattr(model, "_orig_mod"):
        raise InputError(
            "Activations cannot be replaced in a model that torch.compile made.",
            hint="Replace them in the model that it was given, and run that one.",
        )


def _holder(model: nn.Module, order: _Order) -> nn.Module:
    """The module of the model that holds the activation.

    Raises:
        InputError: There is no such one, or its code does not run in Python.
    """
    path, told = order.place.module, f"The activation {order.swap.name} cannot be replaced"
    passed = [model]
    for name in path.split(".") if path else ():
        inner = getattr(passed[-1], name, None)
        if not isinstance(inner, nn.Module):
            raise InputError(f"{told}: this model has no module '{path}'.", hint="List its own activations.")
        passed.append(inner)
    holder = passed[-1]
    if type(holder).__qualname__ != order.place.kind:
        raise InputError(
            f"{told}: '{path}' is a {type(holder).__qualname__} here, and was a {order.place.kind} when it was listed.",
            hint="List this model's own activations.",
        )
    for module in passed:
        if isinstance(module, torch.jit.ScriptModule) or module._compiled_call_impl is not None:  # noqa: SLF001
            raise InputError(
                f"{told}: the module around it is compiled (torch.compile or TorchScript).",
                hint="Replace it in the model as it was before that.",
            )
    return holder


def _told(place: Place) -> str:
    """Module and line, for a message."""
    line = next((step.line for step in place.steps if step.line), "")
    return f"in {place.module or 'the model itself'}{f', {line}' if line else ''}"
