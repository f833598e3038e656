"""What is to be changed in a model so that it computes what another one does: edits, as data.

A cause that can be mended in the model's file says by which edits; an adapter that can write such files makes them.
Tensors are called what they are in a session that runs the graph as the file has it, and operators by the first tensor
that they make: an exporter need not name them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceActivation:
    """All that lies between two tensors, replaced by a standard spelling of an activation.

    Attributes:
        source: The tensor that goes in.
        target: The one that comes out.
        variant: What is to be computed, as `parity.functions.parse` reads it.
        scale: By which the result is multiplied.
        biases: Vectors of the model that are added to the source before.
    """

    source: str
    target: str
    variant: str
    scale: float = 1.0
    biases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAttributes:
    """Other attributes of one operator.

    Attributes:
        output: The first tensor that it makes.
        values: JSON values by canonical name, as `parity.graph.KINDS` has them.
    """

    output: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNumbers:
    """Other numbers in a weight or constant, in its own type and shape.

    Attributes:
        tensor: Its name.
        numbers: Of its shape, or one number for all of its elements.
        readers: First outputs of the operators that are to read them; whatever else reads the tensor keeps the old
            ones. Empty for all.
    """

    tensor: str
    numbers: NDArray[Any]
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjust:
    """A tensor multiplied by a number, and then added to, before anything reads it.

    Attributes:
        tensor: Its name.
        factor: By which it is multiplied.
        addend: What is added.
    """

    tensor: str
    factor: float = 1.0
    addend: float = 0.0


Edit = ReplaceActivation | SetAttributes | SetNumbers | Adjust


def joined(one: Edit, other: Edit) -> Edit | None:
    """One edit that does what two do; None where they are not of one thing."""
    if isinstance(one, SetNumbers) and isinstance(other, SetNumbers):
        if one.tensor != other.tensor or not np.array_equal(one.numbers, other.numbers):
            return None
        both = {*one.readers, *other.readers} if one.readers and other.readers else set()
        return replace(one, readers=tuple(sorted(both)))
    return one if type(one) is type(other) and not isinstance(one, SetNumbers) and one == other else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one edit.

    Attributes:
        done: It was made.
        told: What was changed, or why nothing could be, as a sentence.
    """

    done: bool
    told: str


@dataclass(frozen=True, slots=True)
class Packed:
    """Edits as a worker is told them: JSON values, and arrays by name beside them."""

    data: tuple[dict[str, Any], ...]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


_KINDS: Final[Mapping[str, Callable[..., Edit]]] = {
    one.__name__: one for one in (ReplaceActivation, SetAttributes, SetNumbers, Adjust)
}
"""Edits by name."""


def pack(edits: Sequence[Edit]) -> Packed:
    """Edits in a form that crosses processes."""
    data, arrays = [], {}
    for k, edit in enumerate(edits):
        values = {one.name: getattr(edit, one.name) for one in fields(edit)}
        if isinstance(edit, SetNumbers):
            arrays[f"x{k}"] = np.asarray(values.pop("numbers"))
        data.append({"edit": type(edit).__name__, **values})
    return Packed(tuple(data), arrays)


def unpack(packed: Packed) -> list[Edit]:
    """The edits again."""
    edits: list[Edit] = []
    for k, entry in enumerate(packed.data):
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
        }
        kind = _KINDS[str(values.pop("edit"))]
        if f"x{k}" in packed.arrays:
            values["numbers"] = packed.arrays[f"x{k}"]
        edits.append(kind(**values))
    return edits
