"""Interprets a TFLite file, one operator after the other, each in an interpreter of its own.

Branches that are taken and steps of loops are told of as if they had been written one after the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parity.adapter import Array
from parity.errors import InputError
from parity.graph import Site
from parity_adapters.tensorflow.lite_calls import LiteCall, alone
from parity_adapters.tensorflow.lite_file import Graph, LiteFile, Operator
from parity_adapters.tensorflow.lite_kinds import LiteSeen, lite_described
from parity_adapters.tensorflow.values import Names

MOST_STATIC: Final = 4096
"""Elements of a tensor of whole numbers that is computed without being told of."""

VARIABLES: Final = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"})


@dataclass(frozen=True, slots=True, eq=False)
class LiteValue:
    """A tensor on its way.

    Attributes:
        array: Its numbers; None for a variable that an operator keeps for itself.
        name: Its name in the trace; empty for what is not told of.
        weight: It stands in the file, or follows from what does and from shapes.
        static: A weight of few whole numbers.
        handle: Name of the variable that a handle stands for.
    """

    array: Array | None
    name: str = ""
    weight: bool = False
    static: bool = False
    handle: str = ""


Tell = Callable[[LiteCall, Sequence[LiteValue], Sequence[LiteValue]], None]
"""Receives each call with the values that it read and made."""


class LiteWalk:
    """One run of a TFLite file.

    Args:
        file: The file.
        threads: How many an interpreter may use.
        taken: Names of the inputs, which no other tensor may have.
        tell: Is told of each call.
    """

    def __init__(self, file: LiteFile, threads: int | None, taken: Sequence[str], tell: Tell) -> None:
        self._file = file
        self._threads = threads
        self._tell = tell
        self._quiet = False
        self._sites, self._tensors = Names(), Names()
        self._constants: dict[tuple[int, int], LiteValue] = {}
        self._variables: dict[str, LiteValue] = {}
        self._branches: dict[str, set[int]] = {}
        for name in taken:
            self._tensors.fresh(name)

    def run(self, graph: Graph, arguments: Sequence[LiteValue], step: str = "") -> list[LiteValue]:
        """Runs a graph.

        Args:
            graph: The graph.
            arguments: One for each of its inputs.
            step: Of the loops that it is inside of.

        Returns:
            One value for each of its outputs.
        """
        held = dict(zip(graph.inputs, arguments, strict=True))
        last = {number: place for place, operator in enumerate(graph.operators) for number in operator.inputs}
        for place, operator in enumerate(graph.operators):
            inputs = [self._read(graph, number, held) for number in operator.inputs]
            for number in {*operator.inputs} - {*graph.outputs}:
                if last[number] == place:
                    held.pop(number, None)
            made = self._operator(graph, operator, inputs, step)
            held.update(zip(operator.outputs, made, strict=True))
        return [self._read(graph, number, held) for number in graph.outputs]

    def notes(self) -> tuple[str, ...]:
        """The branches that were not taken, as sentences."""
        return tuple(
            f"{name}: these inputs did not take branch {1 - next(iter(taken))} of 2."
            for name, taken in self._branches.items()
            if len(taken) == 1
        )

    def _read(self, graph: Graph, number: int, held: dict[int, LiteValue]) -> LiteValue:
        if number in held:
            return held[number]
        if number < 0:
            return LiteValue(None)
        key = (id(graph), number)
        if key not in self._constants:
            array = graph.constant(number)
            name = "" if array is None else self._tensors.fresh(graph.name(number))
            self._constants[key] = LiteValue(array, name, weight=True, static=array is not None and is_static(array))
        return self._constants[key]

    def _operator(self, graph: Graph, operator: Operator, inputs: list[LiteValue], step: str) -> list[LiteValue]:
        match operator.op:
            case "WHILE":
                return self._loop(operator, inputs, step)
            case "IF":
                return self._branch(graph, operator, inputs, step)
            case "CALL":
                return self.run(self._file.graphs[operator.options["subgraph"]], inputs, step)
            case op if op in VARIABLES:
                return self._variable(operator, inputs, step)
        return self._plain(graph, operator, inputs, step)

    def _loop(self, operator: Operator, inputs: list[LiteValue], step: str) -> list[LiteValue]:
        condition = self._file.graphs[operator.options["condSubgraphIndex"]]
        body = self._file.graphs[operator.options["bodySubgraphIndex"]]
        state, count = inputs, 0
        while self._holds(condition, state):
            state = self.run(body, state, f"{step}@{count}")
            count += 1
        return state

    def _holds(self, condition: Graph, state: list[LiteValue]) -> bool:
        before, self._quiet = self._quiet, True
        outcome = self.run(condition, state)[0]
        self._quiet = before
        return bool(outcome.array)

    def _branch(self, graph: Graph, operator: Operator, inputs: list[LiteValue], step: str) -> list[LiteValue]:
        chosen = 0 if bool(inputs[0].array) else 1
        option = ("thenSubgraphIndex", "elseSubgraphIndex")[chosen]
        self._branches.setdefault(graph.name(operator.outputs[0]), set()).add(chosen)
        return self.run(self._file.graphs[operator.options[option]], inputs[1:], step)

    def _variable(self, operator: Operator, inputs: list[LiteValue], step: str) -> list[LiteValue]:
        """Variables are those of this run; each starts as the file's first call sets it."""
        match operator.op:
            case "VAR_HANDLE":
                return [LiteValue(None, handle=str(operator.options["sharedName"]))]
            case "READ_VARIABLE":
                return [self._value_of(inputs[0].handle)]
            case "ASSIGN_VARIABLE":
                self._variables[inputs[0].handle] = inputs[1]
            case _:
                self.run(self._file.graphs[operator.options["initSubgraphIndex"]], [], step)
        return []

    def _value_of(self, variable: str) -> LiteValue:
        if variable not in self._variables:
            raise InputError(f"The TFLite model reads the variable '{variable}' before anything was assigned to it.")
        return self._variables[variable]

    def _plain(self, graph: Graph, operator: Operator, inputs: list[LiteValue], step: str) -> list[LiteValue]:
        name = _merged(graph.name(operator.outputs[0]))[0] + step
        names = tuple(value.name for value in inputs)
        site = Site(name=name, op=operator.op, kind="", scope="", inputs=names, outputs=())
        call = LiteCall(site, graph, operator, self._threads)
        arrays = [value.array for value in inputs]
        made = alone(call, arrays, ())
        settled = operator.op in {"SHAPE", "RANK"} or all(value.static for value in inputs)
        if settled and all(map(is_static, made)):
            return [self._settled(graph, number, array) for number, array in zip(operator.outputs, made, strict=True)]
        if self._quiet or not any(map(has_numbers, made)):
            return [LiteValue(array) for array in made]
        values = [
            LiteValue(array, self._tensors.fresh(graph.name(number) + step) if has_numbers(array) else "")
            for number, array in zip(operator.outputs, made, strict=True)
        ]
        seen = LiteSeen(operator.op, operator.options, arrays, made, bool(inputs) and inputs[0].weight)
        told = self._site(graph, operator, seen, name, (names, tuple(value.name for value in values)))
        self._tell(LiteCall(told, graph, operator, self._threads), inputs, values)
        return values

    def _site(
        self, graph: Graph, operator: Operator, seen: LiteSeen, name: str, ends: tuple[tuple[str, ...], tuple[str, ...]]
    ) -> Site:
        kind, attributes = lite_described(seen)
        merged = _merged(graph.name(operator.outputs[0]))
        return Site(
            name=self._sites.fresh(name),
            op=operator.op,
            kind=kind,
            scope=".".join(merged[0].split("/")[:-1]),
            inputs=ends[0],
            outputs=ends[1],
            attributes=attributes,
            labels=tuple(dict.fromkeys(label for label in merged if label != name)),
        )

    def _settled(self, graph: Graph, number: int, array: Array) -> LiteValue:
        return LiteValue(array, self._tensors.fresh(graph.name(number)), weight=True, static=True)


def has_numbers(array: Any) -> bool:
    """Whether an array holds numbers, and not text."""
    return array.dtype.kind in "biufcV"


def is_static(array: Array) -> bool:
    """Whether an array is few whole numbers."""
    return array.dtype.kind in "biu" and array.size <= MOST_STATIC


def _merged(name: str) -> list[str]:
    """The names of which the converter made one."""
    return [part for part in name.split(";") if part] or [name]
