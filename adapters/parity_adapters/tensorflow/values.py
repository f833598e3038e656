"""What flows through a TensorFlow graph while it is interpreted: tensors by name, lists of them, and names for both."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from parity_adapters.tensorflow.arrays import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor on its way.

    Attributes:
        tensor: The eager tensor.
        name: Its name in the trace; empty for what has no numbers (resources, text) or is not told of.
        read: For a weight: makes the tensor again.
        static: Whole numbers that do not depend on the inputs' contents: shapes, axes, loop counters.
    """

    tensor: Tensor
    name: str = ""
    read: Callable[[], Tensor] | None = None
    static: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Element ``number`` of a tensor that was made into a list, not yet read."""

    source: Value
    number: int


Element = Value | Row | None


@dataclass(frozen=True, slots=True, eq=False)
class TensorList:
    """TensorFlow's list of tensors, as loops use it: held as its elements, None for one that was not set.

    Attributes:
        elements: In order.
        dtype: Theirs, a ``tf.DType``.
        shape: Theirs as far as known; an unknown dimension is negative, an unknown shape is empty.
    """

    elements: tuple[Element, ...]
    dtype: object
    shape: tuple[int, ...]

    def with_element(self, number: int, element: Element) -> "TensorList":
        """The list with one element set; it grows where that is needed."""
        grown = [*self.elements, *[None] * (number + 1 - len(self.elements))]
        grown[number] = element
        return replace(self, elements=tuple(grown))

    def whole(self) -> Value | None:
        """The tensor that the list was made of, if it still has all its rows in order."""
        first = self.elements[0] if self.elements else None
        if not isinstance(first, Row) or first.source.tensor.shape[0] != len(self.elements):
            return None
        for number, element in enumerate(self.elements):
            if not isinstance(element, Row) or element.source is not first.source or element.number != number:
                return None
        return first.source


Held = Value | TensorList


class Names:
    """Gives each name once."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """``wanted``, or with a number behind it where it was given before."""
        name = wanted
        while name in self._given:
            self._given[wanted] += 1
            name = f"{wanted}_{self._given[wanted]}"
        self._given[name] = 0
        return name
