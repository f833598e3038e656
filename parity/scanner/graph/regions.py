"""Elementwise regions: operators that make one tensor of one other, place by place, and constants.

A region is found by structure alone: every path back from its end leads through elementwise operators to one single
tensor. What else they read must be one number each; a vector (a bias, a learned slope) ends a region.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from parity.scanner.graph.interpreter import Float64, compute, with_given
from parity.scanner.graph.ir import FUNCTIONS, PASSING, Graph, Node
from parity.scanner.graph.statics import Static, Statics

ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "divide_no_nan", "neg", "pow", "square"})
"""Kinds that alone make no activation."""

LONGEST: Final = 24
"""Operators up to which a region is followed back."""

NESTED: Final = 8
"""Regions with one end that are looked at: an activation has few tensors through which all of it goes."""

SKIPPED: Final = 32
"""Operators that change nothing, up to which one looks behind them."""


@dataclass(frozen=True, slots=True)
class Region:
    """Elementwise operators between two tensors.

    Attributes:
        source: The tensor that goes in.
        target: The one that comes out.
        nodes: The operators, in execution order, without those that only pass numbers on.
        passing: Output of an operator that only passes numbers on, to what it passes.
        closed: Whether nothing outside reads what is made on the way.
    """

    source: str
    target: str
    nodes: tuple[Node, ...]
    passing: Mapping[str, str]
    closed: bool

    @property
    def forked(self) -> bool:
        """Whether its source takes more than one way through it."""
        return sum(self.resolved(name) == self.source for node in self.nodes for name in node.inputs) > 1

    def resolved(self, name: str) -> str:
        """The tensor behind operators that pass numbers on."""
        while name in self.passing and name != self.source:
            name = self.passing[name]
        return name


class Regions:
    """The regions of one graph.

    Args:
        graph: The graph.
        statics: Its constants.
    """

    def __init__(self, graph: Graph, statics: Statics) -> None:
        self.graph = graph
        self.statics = statics
        self._fruitful: list[bool] = []
        for node in graph.nodes:
            self._fruitful.append(self._may_be_active(node))

    def _may_be_active(self, node: Node) -> bool:
        """Whether the elementwise operators up to a node are more than arithmetic."""
        if node.kind in FUNCTIONS - ARITHMETIC:
            return True
        if node.kind not in ARITHMETIC | PASSING:
            return False
        makers = (self.graph.makers.get(name) for name in node.inputs)
        return any(self._fruitful[at] for at in makers if at is not None)

    def ending(self, at: int) -> list[Region]:
        """Active regions that end with the node at that place, the shortest first."""
        node = self.graph.nodes[at]
        if (
            not self._fruitful[at]
            or node.kind not in FUNCTIONS
            or not node.outputs[0]
            or self.statics.of(node.outputs[0]) is not None
        ):
            return []
        return list(islice(self._behind(node.outputs[0]), NESTED))

    def _behind(self, target: str) -> Iterator[Region]:
        makers, nodes = self.graph.makers, self.graph.nodes
        passed: dict[int, Node] = {}
        passing: dict[str, str] = {}
        waiting = {target}
        steps = 0
        active = False
        closed = True
        while len(passed) < LONGEST and steps < LONGEST + SKIPPED:
            name = max(waiting, key=lambda one: makers.get(one, -1))
            at = makers.get(name)
            if at is None:
                return
            inputs = self._followed(nodes[at], name)
            if inputs is None:
                return
            steps += 1
            # Readers stand behind what they read, so those in the region have been met by now.
            closed = closed and (name == target or self._inside(name, passed, passing))
            joined = len(waiting) > 1
            waiting.discard(name)
            waiting.update(inputs)
            if nodes[at].kind in PASSING:
                passing[name] = inputs[0]
            else:
                passed[at] = nodes[at]
                active = active or nodes[at].kind not in ARITHMETIC
            if len(waiting) == 1 and active and (joined or nodes[at].kind not in PASSING):
                yield Region(next(iter(waiting)), target, tuple(reversed(passed.values())), dict(passing), closed)

    def _followed(self, node: Node, name: str) -> tuple[str, ...] | None:
        """Tensors that a node reads and that depend on the inputs; None where it ends a region."""
        if node.kind in PASSING:
            return node.inputs[:1] if node.inputs and node.outputs[0] == name else None
        if node.kind not in FUNCTIONS or node.outputs[0] != name:
            return None
        dynamic = []
        for one in node.inputs:
            static = self.statics.of(one) if one else None
            if static is None and one:
                dynamic.append(one)
            elif static is not None and static.number is None:
                return None
        return tuple(dynamic) or None

    def _inside(self, name: str, passed: Mapping[int, Node], passing: Mapping[str, str]) -> bool:
        if name in self.graph.outputs:
            return False
        readers = self.graph.readers.get(name, ())
        return all(at in passed or self.graph.nodes[at].outputs[0] in passing for at in readers)

    def signature(self, region: Region) -> Hashable:
        """What a region computes, as far as its operators, their wiring and their constants say."""
        places = {region.source: -1} | {node.outputs[0]: at for at, node in enumerate(region.nodes)}
        parts = []
        for node in region.nodes:
            read = []
            for name in node.inputs:
                static = self.statics.of(name)
                read.append(("", places.get(region.resolved(name))) if static is None else ("=", static.number))
            parts.append((node.kind, tuple(sorted(node.attributes.items())), tuple(read)))
        return tuple(parts)

    def attributes(self, node: Node) -> Mapping[str, Any]:
        """A node's attributes with those that constants give."""
        numbers = [self.statics.of(name) for name in node.inputs]
        return with_given(node, [None if one is None else one.number for one in numbers])

    def evaluate(self, region: Region, x: Float64) -> Float64:
        """What a region makes of numbers, shape (n,), as float64 of that shape.

        Raises:
            ValueError: An operator in it cannot be evaluated.
        """
        made: dict[str, Float64] = {region.source: x}
        for node in region.nodes:
            inputs = [self._value(region, made, name) for name in node.inputs if name]
            made[node.outputs[0]] = compute(node, inputs)
        return made[region.target]

    def _value(self, region: Region, made: Mapping[str, Float64], name: str) -> Float64 | float:
        static: Static | None = self.statics.of(name)
        if static is not None and static.number is not None:
            return static.number
        return made[region.resolved(name)]
