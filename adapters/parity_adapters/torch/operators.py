"""What a recorder must know of an operator before it is called, read from its schema once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from parity_adapters.torch import kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a schema.

    Attributes:
        name: As the schema calls it.
        default: Its default, None where it has none.
        is_tensor: It takes a tensor, or none; a list of tensors likewise.
        is_lifted: A number here is a part of the formula.
        is_written: The operator changes the tensor here.
        is_blank: Only the shape and dtype of the tensor here count.
    """

    name: str
    default: Any
    is_tensor: bool
    is_lifted: bool
    is_written: bool
    is_blank: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator.

    Attributes:
        name: As in `kinds`, without namespace, overload and the underscore of the in-place form.
        full_name: With the namespace, as in ``aten.gelu``.
        parameters: In the order of the schema.
        returns_tensors: False for those whose result leaves the graph.
        is_random: Two calls differ.
        written: Those parameters that the operator changes.
    """

    name: str
    full_name: str
    parameters: tuple[Parameter, ...]
    returns_tensors: bool
    is_random: bool
    written: tuple[Parameter, ...]

    def parameter(self, name: str) -> Parameter:
        """The one called ``name``."""
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def places_written(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[int | str, ...]:
        """Places in ``args``, or keywords, of the arguments that a call changes."""
        return tuple(
            place if place < len(args) else parameter.name
            for place, parameter in enumerate(self.parameters)
            if parameter.is_written and named[parameter.name] is not None
        )

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name, defaults filled in."""
        found = {parameter.name: parameter.default for parameter in self.parameters}
        found.update(zip((parameter.name for parameter in self.parameters), args, strict=False))
        found.update(kwargs)
        return found


@cache
def operator(function: OpOverload) -> Operator:
    """Reads the schema of ``function``."""
    schema = function._schema  # noqa: SLF001 – PyTorch has no public way to it
    namespace, _, spelled = schema.name.partition("::")
    name = spelled if spelled.startswith("__") else spelled.removesuffix("_")
    lifted = kinds.LIFTED.get(name, ())
    parameters = tuple(
        Parameter(
            name=argument.name,
            default=argument.default_value,
            is_tensor="Tensor" in str(argument.type),
            is_lifted=argument.name in lifted,
            is_written=argument.alias_info is not None and argument.alias_info.is_write,
            is_blank=(argument.is_out) or (place == 0 and (name in kinds.IMITATED or spelled in kinds.OVERWRITTEN)),
        )
        for place, argument in enumerate(schema.arguments)
    )
    return Operator(
        name=name,
        full_name=f"{namespace}.{name}",
        parameters=parameters,
        returns_tensors=any("Tensor" in str(result.type) for result in schema.returns)
        or any(parameter.is_written for parameter in parameters),
        written=tuple(parameter for parameter in parameters if parameter.is_written),
        is_random=kinds.KIND_OF.get(name) == "random" or torch.Tag.nondeterministic_seeded in function.tags,
    )
