"""A graph as every format's reader gives it: nodes with what they compute, and constants that are read when asked for.

Kinds are those of `parity.graph`, and the further elementwise functions of `FUNCTIONS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.graph import POINTWISE

Values = NDArray[Any]

FUNCTIONS: Final = (POINTWISE - {"pointwise", "mod"}) | frozenset(
    {
        *("erfc", "exp2", "expm1", "log1p", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
        *("log_sigmoid", "soft_shrink", "hard_shrink", "shrink", "thresholded_relu", "squared_difference"),
        *("logaddexp", "scaled_tanh", "divide_no_nan"),
    }
)
"""Kinds whose value at one place depends on their inputs there alone, and that can be evaluated."""

PASSING: Final = frozenset({"identity", "cast", "quantize", "dequantize"})
"""Kinds that leave a number what it is, up to rounding. A cast to whole numbers is ``trunc``."""

UNIFORM: Final = PASSING | {"reshape", "transpose", "expand", "fill", "slice", "gather"}
"""Kinds whose output is uniform if their first input is."""

READ_AT_MOST: Final = 2**16
"""Elements of a constant that are looked at to tell whether they are all the same."""


class GraphError(ValueError):
    """The nodes do not make a graph."""


def decoded(data: bytes, stored: np.dtype[Any]) -> Values:
    """Plain bytes of a type as float64."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        return np.frombuffer(data, stored).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor of the file.

    Attributes:
        dtype: NumPy's name, ``bfloat16``, or "" where nobody needs to know.
        count: Elements.
        read: Gives its numbers; None where they are not in this file.
    """

    dtype: str
    count: int
    read: Callable[[], Values | None] = lambda: None

    @classmethod
    def number(cls, value: float, dtype: str = "") -> "Constant":
        """A single number that the file writes into a call."""
        return cls(dtype, 1, lambda: np.asarray(value, np.float64))


@dataclass(frozen=True, slots=True)
class Inner:
    """An activation that an operator holds inside and that is no tensor of the graph: the gate of an LSTM.

    Attributes:
        value: How the file says it: ``gates: Sigmoid``.
        kind: What it computes; "" for a function that is not known here.
        attributes: Of that kind.
    """

    value: str
    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator call.

    Attributes:
        name: As a user knows it.
        op: The operator's name in its format.
        kind: One of `parity.graph.KINDS` or `FUNCTIONS`, or "" for any other.
        inputs: Names of the tensors that it reads; "" for an absent one.
        outputs: Names of those that it makes; "" for an absent one.
        attributes: By the names of `parity.scanner.graph.interpreter`.
        scope: Module path or name scope; empty where it is unknown.
        value: What the file says that decides the function (``approximate=tanh``); empty where the operator is all.
        inner: Activations inside.
        domain: Of ``op``, where the format has such.
    """

    name: str
    op: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    scope: str = ""
    value: str = ""
    inner: tuple[Inner, ...] = ()
    domain: str = ""


class Graph:
    """Nodes in an order in which they can run.

    Args:
        nodes: In any order.
        constants: Tensors of the file by name.
        inputs: What the graph is given.
        outputs: What it returns.
        dtypes: Of tensors, where the file tells.
        outer: The graph around a subgraph, whose tensors it may read.

    Raises:
        GraphError: Nodes read one another in a circle, two make the same tensor, or one reads what nothing makes.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        constants: Mapping[str, Constant],
        *,
        inputs: Iterable[str] = (),
        outputs: Iterable[str] = (),
        dtypes: Mapping[str, str] | None = None,
        outer: "Graph | None" = None,
    ) -> None:
        self.nodes = in_order(nodes)
        self.constants = constants
        self.inputs = frozenset(inputs)
        self.outputs = frozenset(outputs)
        self.dtypes = dtypes or {}
        self.outer = outer
        self.makers = {name: at for at, node in enumerate(self.nodes) for name in node.outputs if name}
        self.readers: dict[str, list[int]] = {}
        for at, node in enumerate(self.nodes):
            for name in node.inputs:
                self.readers.setdefault(name, []).append(at)
        for name in (*self.readers, *self.outputs):
            if name and not self.knows(name):
                raise GraphError(f"'{name[:120]}' is read, and nothing makes it")

    def knows(self, name: str) -> bool:
        """Whether a tensor is one of this graph or of those around it."""
        graph: Graph | None = self
        while graph is not None:
            if name in graph.makers or name in graph.constants or name in graph.inputs:
                return True
            graph = graph.outer
        return False

    def constant(self, name: str) -> Constant | None:
        """A tensor of the file, of this graph or of those around it."""
        graph: Graph | None = self
        while graph is not None:
            if name in graph.makers or name in graph.inputs:
                return None
            if name in graph.constants:
                return graph.constants[name]
            graph = graph.outer
        return None


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, each after those whose outputs it reads; as they are where they are so already.

    Raises:
        GraphError: Nodes read one another in a circle, or two make the same tensor.
    """
    makers: dict[str, int] = {}
    sorted_already = True
    for at, node in enumerate(nodes):
        for name in node.outputs:
            if name and makers.setdefault(name, at) != at:
                raise GraphError(f"two nodes make the tensor '{name[:120]}'")
    for at, node in enumerate(nodes):
        if any(makers.get(name, -1) >= at for name in node.inputs):
            sorted_already = False
            break
    return list(nodes) if sorted_already else [nodes[at] for at in _sorted(nodes, makers)]


def _sorted(nodes: Sequence[Node], makers: Mapping[str, int]) -> Iterator[int]:
    waits = [len({makers[name] for name in node.inputs if name in makers}) for node in nodes]
    readers: dict[int, list[int]] = {}
    for at, node in enumerate(nodes):
        for maker in {makers[name] for name in node.inputs if name in makers}:
            readers.setdefault(maker, []).append(at)
    ready = [at for at, count in enumerate(waits) if not count]
    done = 0
    for at in ready:
        done += 1
        yield at
        for reader in readers.get(at, ()):
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    if done < len(nodes):
        first = next(node.name for node, count in zip(nodes, waits, strict=True) if count)
        raise GraphError(f"nodes read one another in a circle, '{first[:120]}' among them")
