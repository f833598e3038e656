"""What a traced run leaves: its operator calls without their numbers, ready to be computed again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

from parity.graph import Site
from parity_adapters.torch.kinds import UNINITIALISED
from parity_adapters.torch.layout import Layout


@dataclass(frozen=True, slots=True)
class Ref:
    """In the place of a tensor: its name, and whether the call changes it and so must be handed a copy."""

    name: str
    written: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """In the place of a number that stands in a formula: the name under which it can be replaced."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Blank:
    """In the place of a tensor of which only shape and dtype count: one that is written over, or imitated."""

    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operator call.

    Attributes:
        site: What the core is told of it.
        function: The operator; does the same for the same arguments, and changes none but the ``written`` ones.
        args: Its arguments with `Ref`, `Number` and `Blank` in them.
        kwargs: Likewise.
        written: Places or keywords of the arguments that the operator changes; these are its first outputs.
        generator: State of the random numbers before the call, where it draws some.
    """

    site: Site
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    written: tuple[int | str, ...] = ()
    generator: torch.Tensor | None = None


@dataclass(slots=True)
class Recording:
    """One traced run.

    Attributes:
        calls: By the name of their site, in execution order.
        layouts: How each tensor lay, by name.
        weights: Tensors that the run found and numbers that stand in its formulas, by name. The tensors are the
            model's own: operators made of others look whether they require gradients.
    """

    calls: dict[str, Call] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    weights: dict[str, torch.Tensor | float] = field(default_factory=dict)


def substitute(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument with ``change`` applied to whatever is neither list nor tuple in it."""
    if isinstance(value, list | tuple):
        return [substitute(item, change) for item in value]
    return change(value)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result or an argument."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def compute(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the operator returns; zeros where it would return whatever the memory held."""
    result = function(*args, **kwargs)
    if isinstance(function, OpOverload) and function.overloadpacket.__name__ in UNINITIALISED:
        result.zero_()
    return result


def fresh(function: Callable[..., Any], result: Any) -> Iterator[torch.Tensor | None]:
    """What a call returned, flat, without the arguments that it changed; None for what it did not make."""
    if not isinstance(function, OpOverload):
        yield result
        return
    returns = function._schema.returns  # noqa: SLF001 – PyTorch has no public way to it
    results = (result,) if len(returns) == 1 else result
    for declared, value in zip(returns, results or (), strict=False):
        if declared.alias_info is not None and declared.alias_info.is_write:
            continue
        yield from value if isinstance(value, list | tuple) else (value,)
