"""What in a graph hangs on no input, and what of that is one number: the constants of formulas."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from parity.scanner.graph.interpreter import compute
from parity.scanner.graph.ir import FUNCTIONS, PASSING, READ_AT_MOST, UNIFORM, Constant, Graph, Node

VARYING: Final = frozenset({"random", "control"})
"""Kinds that give other numbers each time, or that look at more than their inputs."""

FIXED: Final = frozenset({"shape", "constant"})
"""Kinds that read no numbers of their inputs."""

DEEPEST: Final = 64
"""Operators up to which a constant is followed back."""


@dataclass(frozen=True, slots=True)
class Static:
    """A tensor that does not depend on the graph's inputs.

    Attributes:
        number: The one that all its elements are; None where they differ or are not in the file.
        dtype: The type that it was rounded to; "" where it is not known.
    """

    number: float | None
    dtype: str = ""


class Statics:
    """The tensors of one graph that depend on no input.

    Args:
        graph: The graph.
        around: Those of the graph around it.
    """

    def __init__(self, graph: Graph, around: "Statics | None" = None) -> None:
        self._graph = graph
        self._around = around
        self._found: dict[str, Static | None] = {"": None}
        for node in graph.nodes:
            self._enter(node)

    def of(self, name: str) -> Static | None:
        """What is known of a tensor; None where it depends on the inputs."""
        if name in self._found:
            return self._found[name]
        graph = self._graph
        if name in graph.inputs:
            found = None
        elif name in graph.constants:
            found = _of_constant(graph.constants[name])
        else:
            found = self._around.of(name) if self._around is not None else None
        self._found[name] = found
        return found

    def _enter(self, node: Node) -> None:
        made = None
        if node.kind in FIXED:
            made = _filled(node.attributes.get("fill"))
        elif node.kind not in VARYING:
            read = [self.of(name) for name in node.inputs if name]
            if read and all(one is not None for one in read):
                made = self._computed(node, [one for one in read if one is not None])
        for name in node.outputs:
            self._found[name] = made

    def _computed(self, node: Node, read: list[Static]) -> Static:
        dtype = _coarsest(read)
        numbers = [one.number for one in read]
        if node.kind in UNIFORM - PASSING and numbers[0] is not None:
            return Static(numbers[0], dtype)
        if node.kind in FUNCTIONS | PASSING and all(one is not None for one in numbers):
            try:
                value = compute(node, numbers)
            except ValueError:
                return Static(None)
            return Static(float(value), dtype) if value.size == 1 else Static(None)
        return Static(None)


def _coarsest(read: list[Static]) -> str:
    narrow = [one.dtype for one in read if one.dtype in {"float16", "bfloat16"}]
    return narrow[0] if narrow else ""


def _filled(value: Constant | float | None) -> Static:
    return _of_constant(value) if isinstance(value, Constant) else Static(value)


def _of_constant(constant: Constant) -> Static:
    if not 0 < constant.count <= READ_AT_MOST:
        return Static(None)
    values = constant.read()
    if values is None or values.size == 0:
        return Static(None)
    numbers = np.asarray(values).reshape(-1)
    first = numbers[0]
    if numbers.size > 1 and not (numbers == first).all():
        return Static(None)
    return Static(float(first), constant.dtype)
