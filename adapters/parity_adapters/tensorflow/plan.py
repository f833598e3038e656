"""What of a function graph has to be run for its outputs, and when each tensor is used for the last time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

ASSIGNS: Final = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph made ready to be interpreted.

    Attributes:
        graph: The function graph.
        operators: Those that its outputs need, in order.
        spent: By operator name, the tensors that nobody reads after it.
    """

    graph: Any
    operators: tuple[Any, ...]
    spent: dict[str, tuple[str, ...]]


def planned(graph: Any) -> Plan:
    """The plan of a ``FuncGraph``."""
    needed = _needed(graph)
    operators = tuple(op for op in graph.get_operations() if op.name in needed)
    last: dict[str, str] = {}
    for op in operators:
        last.update({tensor.name: op.name for tensor in op.inputs})
    for tensor in graph.outputs:
        last.pop(tensor.name, None)
    spent: dict[str, tuple[str, ...]] = {}
    for name, op_name in last.items():
        spent[op_name] = (*spent.get(op_name, ()), name)
    return Plan(graph, operators, spent)


def _needed(graph: Any) -> set[str]:
    """Names of the operators that the outputs read, and of the assignments that must come before these."""
    needed = {op.name for op in _closure([tensor.op for tensor in graph.outputs], control=False)}
    for op in _closure([tensor.op for tensor in graph.outputs], control=True):
        if op.type in ASSIGNS and op.name not in needed:
            needed |= {one.name for one in _closure([op], control=False)}
    return needed


def _closure(ends: Iterable[Any], *, control: bool) -> Iterator[Any]:
    waiting, seen = list(ends), set()
    while waiting:
        op = waiting.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        yield op
        waiting += [tensor.op for tensor in op.inputs]
        if control:
            waiting += op.control_inputs
