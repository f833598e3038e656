"""Interprets a TensorFlow function graph, one operator after the other.

Functions are entered, the branch that is taken and every step of a loop are told of as if they had been written one
after the other, lists of tensors are Python's, and arithmetic on shapes is done without a word.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from parity.errors import InputError
from parity.graph import Site
from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.calls import ALIASES, Call, attributes_of, encoded
from parity_adapters.tensorflow.kinds import Seen, described
from parity_adapters.tensorflow.lists import LISTS
from parity_adapters.tensorflow.naming import Naming
from parity_adapters.tensorflow.plan import ASSIGNS, Plan, planned
from parity_adapters.tensorflow.runtime import run_kernel, tf
from parity_adapters.tensorflow.values import Held, TensorList, Value

Tell = Callable[[Call, Sequence[Value], Sequence[Value]], None]
"""Receives each call with the values that it read and made."""

OLD_CONTROL: Final = frozenset({"Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond"})
SHAPES: Final = frozenset({"Shape", "ShapeN", "Size", "Rank", "VariableShape", "VarIsInitializedOp"})
"""Operators that read no numbers."""

MOST_STATIC: Final = 4096
"""Elements of a tensor of whole numbers that is computed without being told of."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the model a graph is run: the scope of the call that it is inside of, and the steps of loops."""

    scope: str = ""
    step: str = ""

    def name(self, op_name: str) -> str:
        """The name of an operator of the graph, within the whole model."""
        inside = not self.scope or op_name.startswith(f"{self.scope}/")
        return (op_name if inside else f"{self.scope}/{op_name}") + self.step

    def inside(self, op_name: str, step: str = "") -> "Place":
        """The place within a call of a function, or within a step of a loop."""
        return Place(self.name(op_name).removesuffix(self.step).rpartition("/")[0], self.step + step)


class Walk:
    """One run of a function graph.

    Args:
        naming: Names of sites, tensors and variables.
        tell: Is told of each call.
        plans: Filled with what was found out about the graphs; keep it for the next run.

    Attributes:
        notes: What a reader should know of the run, as keys.
        kept: Values of the variables that the model assigns to, from before the run.
    """

    def __init__(self, naming: Naming, tell: Tell, plans: dict[int, Plan]) -> None:
        self.naming = naming
        self.notes: dict[str, None] = {}
        self.kept: dict[str, Tensor] = {}
        self._tell = tell
        self._plans = plans
        self._quiet = False
        self._constants: dict[tuple[int, str], Value] = {}
        self._assigned: dict[int, Value] = {}
        self._variables: dict[int, Value] = {}
        self._branches: dict[str, tuple[int, set[int]]] = {}

    def run(self, graph: Any, arguments: list[Held], place: Place) -> list[Held]:
        """Runs a ``FuncGraph``.

        Args:
            graph: The graph.
            arguments: One for each of its inputs, captured ones among them; emptied, so that they can be freed.
            place: Where it is run.

        Returns:
            One value for each of its outputs.
        """
        if id(graph) not in self._plans:
            self._plans[id(graph)] = planned(graph)
        plan = self._plans[id(graph)]
        held = {tensor.name: argument for tensor, argument in zip(graph.inputs, arguments, strict=True)}
        arguments.clear()
        for op in plan.operators:
            if op.type == "Placeholder":
                continue
            inputs = [held[tensor.name] for tensor in op.inputs]
            for name in plan.spent.get(op.name, ()):
                held.pop(name, None)
            made = self._operator(op, inputs, place)
            held.update({tensor.name: value for tensor, value in zip(op.outputs, made, strict=True)})
        return [held[tensor.name] for tensor in graph.outputs]

    def finish(self) -> tuple[str, ...]:
        """What a reader should know of the run: among it the branches that were not taken."""
        for name, (count, taken) in self._branches.items():
            rest = [str(number) for number in range(count) if number not in taken]
            if rest:
                branches = "branch" if len(rest) == 1 else "branches"
                self.notes[f"{name}: these inputs did not take {branches} {', '.join(rest)} of {count}."] = None
        return tuple(self.notes)

    def _operator(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        if op.type in OLD_CONTROL:
            raise InputError(
                f"The graph has TensorFlow 1 control flow ({op.type} at {op.name}), which cannot be traced.",
                hint="Save the model again with TensorFlow 2.",
            )
        if op.type in LISTS:
            return [LISTS[op.type](self, op, inputs, place)]
        if op.type in ALIASES:
            return list(inputs)
        return self._HANDLERS.get(op.type, Walk._plain)(self, op, inputs, place)

    def _call(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        if _flag(op, "_XlaMustCompile"):
            self.notes["Parts are compiled by XLA in production; they were traced operator by operator."] = None
        return self.run(self._function(op, "f"), inputs, place.inside(op.name))

    def _function(self, op: Any, attribute: str, number: int | None = None) -> Any:
        function = op.get_attr(attribute)
        name = function.name if number is None else function[number].name
        return op.graph._get_function(name).graph  # noqa: SLF001 – TensorFlow offers no other way to it

    def _loop(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        condition, body = self._function(op, "cond"), self._function(op, "body")
        state, step = list(inputs), 0
        while self._holds(condition, list(state), place):
            state = self.run(body, list(state), place.inside(op.name, f"@{step}"))
            step += 1
        return state

    def _holds(self, condition: Any, state: list[Held], place: Place) -> bool:
        before, self._quiet = self._quiet, True
        outcome = self.run(condition, state, place)[0]
        self._quiet = before
        return isinstance(outcome, Value) and bool(outcome.tensor)

    def _branch(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        chosen = inputs.pop(0).tensor
        if op.type.endswith("Case"):
            count = len(op.get_attr("branches"))
            number = int(chosen) if 0 <= int(chosen) < count else count - 1
            graph = self._function(op, "branches", number)
        else:
            count, number = 2, 0 if bool(chosen) else 1
            graph = self._function(op, ("then_branch", "else_branch")[number])
        self._branches.setdefault(place.name(op.name), (count, set()))[1].add(number)
        return self.run(graph, inputs, place.inside(op.name))

    def _constant(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        del inputs
        key = (id(op.graph), op.name)
        if key not in self._constants:

            def read() -> Tensor:
                return tf.constant(tf.make_ndarray(op.get_attr("value")), op.get_attr("dtype"))

            tensor = read()
            name = self.naming.weight(Place(place.scope).name(op.name)) if has_numbers(tensor) else ""
            self._constants[key] = Value(tensor, name, read, static=is_static(tensor))
        return [self._constants[key]]

    def _variable_read(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        return [self._variable(inputs[0], op, place)]

    def _variable(self, handle: Value, op: Any, place: Place) -> Value:
        """The value of a variable: a weight, or what was assigned to it in this run."""
        key = id(handle.tensor)
        if key in self._assigned:
            return self._assigned[key]
        if key not in self._variables:
            dtype = op.get_attr("dtype").as_datatype_enum

            def read() -> Tensor:
                return run_kernel("ReadVariableOp", [handle.tensor], ["dtype", dtype], 1)[0]

            name = self.naming.variable(handle.tensor, place.name(op.name))
            self._variables[key] = Value(read(), name, read)
        return self._variables[key]

    def _assign(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        """Assignments are kept for the run alone: what is traced is not changed by it."""
        handle, value = inputs
        before = self._variable(handle, op, place)
        self.kept[before.name] = before.tensor
        if op.type != "AssignVariableOp":
            arithmetic = {"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}[op.type]
            value = self.told(op, [before, value], place, run=(arithmetic, {"T": value.tensor.dtype}))[0]
        self._assigned[id(handle.tensor)] = value
        return []

    def _gather(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        table = self._variable(inputs[0], op, place)
        types = {"Tparams": table.tensor.dtype, "Tindices": inputs[1].tensor.dtype}
        if op.type == "ResourceGatherNd":
            return list(self.told(op, [table, inputs[1]], place, run=("GatherNd", types)))
        batch = op.get_attr("batch_dims")
        axis = Value(tf.constant(batch))
        run = ("GatherV2", {**types, "Taxis": tf.int32, "batch_dims": batch})
        return list(self.told(op, [table, inputs[1], axis], place, run=run))

    def _plain(self, op: Any, inputs: list[Any], place: Place) -> list[Held]:
        if any(isinstance(value, TensorList) for value in inputs):
            raise InputError(f"A loop of the model uses {op.type} (at {op.name}), which cannot be traced.")
        foldable = op.type in SHAPES or (not op.op_def.is_stateful and all(value.static for value in inputs))
        if not foldable:
            return list(self.told(op, inputs, place))
        made = run_kernel(op.type, [v.tensor for v in inputs], encoded(attributes_of(op)), len(op.outputs))
        if not all(map(is_static, made)):
            return list(self.told(op, inputs, place))
        name = place.name(op.name)
        return [_folded(tensor, self.naming.tensor(f"{name}:{number}")) for number, tensor in enumerate(made)]

    def told(
        self, op: Any, inputs: Sequence[Value], place: Place, run: tuple[str, Mapping[str, Any]] | None = None
    ) -> list[Value]:
        """Runs one operator and tells of it.

        Args:
            op: The operator of the graph.
            inputs: What it reads.
            place: Where the graph is run.
            run: The kernel and its attributes where these are not the operator's own.
        """
        kernel, attributes = run or (op.type, attributes_of(op))
        outputs = 1 if run else len(op.outputs)
        tensors = [value.tensor for value in inputs]
        made = run_kernel(kernel, tensors, encoded(attributes), outputs)
        if self._quiet or not any(map(has_numbers, made)):
            return [Value(tensor) for tensor in made]
        name = self.naming.site(place.name(op.name))
        values = [
            Value(tensor, self.naming.tensor(f"{name}:{number}") if has_numbers(tensor) else "")
            for number, tensor in enumerate(made)
        ]
        weights = [value.read is not None or not value.name for value in inputs]
        own = attributes if run is None or op.type not in {"TensorListStack", "TensorListGetItem"} else {}
        seen = Seen(op.type, own, tensors, made, bool(weights and weights[0]), all(weights))
        kind, details = described(seen)
        site = Site(
            name=name,
            op=op.type,
            kind=kind,
            scope=self.naming.scope(name),
            inputs=tuple(value.name for value in inputs),
            outputs=tuple(value.name for value in values),
            attributes=details,
            source=self.naming.source(op),
            labels=self.naming.labels(op.name, name),
        )
        fixed = {place: value.tensor for place, value in enumerate(inputs) if not value.name}
        self._tell(Call(site, kernel, attributes, fixed, outputs), inputs, values)
        return values

    _HANDLERS: ClassVar[dict[str, Callable[["Walk", Any, list[Any], Place], list[Held]]]] = {
        **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), _call),
        **dict.fromkeys(("While", "StatelessWhile"), _loop),
        **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), _branch),
        "Const": _constant,
        "ReadVariableOp": _variable_read,
        **dict.fromkeys(ASSIGNS, _assign),
        **dict.fromkeys(("ResourceGather", "ResourceGatherNd"), _gather),
    }


def has_numbers(tensor: Tensor) -> bool:
    """Whether a tensor can be shown as an array of numbers: it is no resource, variant or text."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_bool or tensor.dtype.is_complex)


def is_static(tensor: Tensor) -> bool:
    """Whether a tensor is few whole numbers."""
    whole = tensor.dtype.is_integer or tensor.dtype.is_bool
    return bool(whole and tensor.shape.num_elements() <= MOST_STATIC)


def _folded(tensor: Tensor, name: str) -> Value:
    return Value(tensor, name, lambda: tensor, static=True)


def _flag(op: Any, attribute: str) -> bool:
    return attribute in op.node_def.attr and bool(op.get_attr(attribute))
