"""A model's file written anew with some of its parts changed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from parity.adapter import Array
from parity.dtypes import float_dtype
from parity.edits import Adjust, Edit, Outcome, ReplaceActivation, SetAttributes, SetNumbers
from parity.functions import parse
from parity_adapters.onnxruntime.opening import own_dtype, read
from parity_adapters.onnxruntime.origins import all_graphs, all_nodes
from parity_adapters.onnxruntime.spellings import Spelling, own_attributes, spelling
from parity_adapters.onnxruntime.writing import Numbers, write

_CAST: Final = "InsertedPrecisionFreeCast_"
"""Before the name of a float16 tensor that ONNX Runtime computes in float32."""

_NAMES: Final = {"coordinates": "coordinate_transformation_mode", "cubic_coefficient": "cubic_coeff_a"}
"""ONNX's names of attributes that the core calls otherwise."""


def mend(model: Any, edits: Sequence[Edit], file: Path) -> list[Outcome]:
    """See `parity.adapter.Mender.mend`."""
    source = read(model)
    mender = _Mender(source.model)
    outcomes = [mender.make(edit) for edit in edits]
    if any(one.done for one in outcomes):
        write(source, mender.model, mender.numbers, file)
    return outcomes


class _Mender:
    """Makes edits in a copy of a model.

    Args:
        model: Weights in external files are left there.

    Attributes:
        model: The copy.
        numbers: Weights with other numbers, by name.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.model.ir_version = max(self.model.ir_version, 4)  # below, every weight has to be an input as well
        self.graph = self.model.graph
        self.numbers: dict[str, Numbers] = {}
        self._opset = next((one.version for one in model.opset_import if one.domain in {"", "ai.onnx"}), 1)
        self._types: dict[str, int] = {}
        self._taken = {one for node in self._nodes() for one in (*node.input, *node.output)}
        self._taken |= {one.name for graph in all_graphs(self.graph) for one in (*graph.initializer, *graph.input)}

    def make(self, edit: Edit) -> Outcome:
        """Makes one edit; what cannot be made leaves the model as it is."""
        if isinstance(edit, ReplaceActivation):
            return self._replace_activation(edit)
        if isinstance(edit, SetAttributes):
            return self._set_attributes(self._maker(edit.output), edit)
        return self._set_numbers(edit) if isinstance(edit, SetNumbers) else self._adjust(edit)

    # ------------------------------------------------------------------------------------------------- activations

    def _replace_activation(self, edit: ReplaceActivation) -> Outcome:
        wanted, last = parse(edit.variant), self._maker(edit.target)
        source = _file_name(edit.source)
        if last is None:
            return _nowhere(edit.target)
        found = spelling(wanted, self._opset)
        if found is None:
            return Outcome(done=False, told=f"{wanted} cannot be written in operator set {self._opset}.")
        own = own_attributes(last, found)
        if own is not None and list(last.input)[:1] == [source] and edit.scale == 1 and not edit.biases:
            return self._set_attributes(last, SetAttributes(output=last.output[0], values=own))
        before = len(self.graph.node)
        nodes = self._spelt(found, edit, last)
        at = self._place(last)
        self.graph.node.remove(last)
        for k, node in enumerate(nodes):
            self.graph.node.insert(at + k, node)
        self._prune(last.input)
        replaced = before + len(nodes) - len(self.graph.node)
        operators = ", ".join(node.op_type for node in nodes)
        return Outcome(
            done=True,
            told=f"'{last.output[0]}' is made of '{source}' by {wanted} ({operators}) in place of {replaced} "
            f"operator{'' if replaced == 1 else 's'}.",
        )

    def _spelt(self, found: Spelling, edit: ReplaceActivation, last: onnx.NodeProto) -> list[onnx.NodeProto]:
        """The nodes of a spelling between two tensors of the graph, with what is added before and multiplied after."""
        target, stem = last.output[0], last.name or last.output[0]
        dtype = self._dtype(target)
        steps: list[onnx.NodeProto] = []
        x = _file_name(edit.source)
        for bias in edit.biases:
            steps.append(helper.make_node("Add", [x, bias], [self._unique(f"{target}/biased")]))
            x = steps[-1].output[0]
        known = {"x": x, "y": target if edit.scale == 1 else self._unique(f"{target}/unscaled")}
        for name, value in found.constants.items():
            known[name] = self._constant(f"{target}/{name}", np.array(value, dtype))
        for node in found.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            known.update({name: self._unique(f"{target}/{name}") for name in node.output if name not in known})
            copy.input[:], copy.output[:] = [known[one] for one in node.input], [known[one] for one in node.output]
            steps.append(copy)
        if edit.scale != 1:
            factor = self._constant(f"{target}/scale", np.array(edit.scale, dtype))
            steps.append(helper.make_node("Mul", [known["y"], factor], [target]))
        for k, node in enumerate(steps):
            node.name = stem if node is steps[-1] else f"{stem}/{node.op_type}_{k}"
            node.metadata_props.extend(last.metadata_props)
        return steps

    # -------------------------------------------------------------------------------------------------- attributes

    def _set_attributes(self, node: onnx.NodeProto | None, edit: SetAttributes) -> Outcome:
        if node is None:
            return _nowhere(edit.output)
        values = {_NAMES.get(name, name): value for name, value in edit.values.items()}
        kinds = self._kinds(node)
        unknown = [name for name in values if kinds is not None and name not in kinds]
        if unknown:
            return Outcome(
                done=False, told=f"{_called(node)} has no attribute '{unknown[0]}' in operator set {self._opset}."
            )
        before = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        gone = {*values, *(["auto_pad"] if "pads" in values else [])}
        kept = [one for one in node.attribute if one.name not in gone]
        made = [helper.make_attribute(name, _typed(value, (kinds or {}).get(name))) for name, value in values.items()]
        del node.attribute[:]
        node.attribute.extend([*kept, *made])
        changes = [
            f"{name} is {_shown(value)} in place of {_shown(before.get(name))}" for name, value in values.items()
        ]
        return Outcome(done=True, told=f"{_called(node)}: {'; '.join(changes)}.")

    def _kinds(self, node: onnx.NodeProto) -> Mapping[str, Any] | None:
        """Types of the attributes that a node may have; None where its operator is none of ONNX's."""
        if node.domain not in {"", "ai.onnx"} or not defs.has(node.op_type, self._opset):
            return None
        return {name: one.type for name, one in defs.get_schema(node.op_type, self._opset).attributes.items()}

    # ----------------------------------------------------------------------------------------------------- numbers

    def _set_numbers(self, edit: SetNumbers) -> Outcome:
        name = _file_name(edit.tensor)
        tensor = self._stored(name)
        if tensor is None:
            return Outcome(done=False, told=f"'{name}' is no weight or constant of the file's main graph.")
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        numbers = np.broadcast_to(_cast(edit.numbers, dtype), tuple(tensor.dims))
        wanted = {_file_name(one) for one in edit.readers}
        readers = [(node, place) for node in self._nodes() for place, one in enumerate(node.input) if one == name]
        chosen = [(node, place) for node, place in readers if node.output[0] in wanted]
        if chosen and (len(chosen) < len(readers) or name in self._outputs()):
            own = self._weight(tensor, f"{name}/mended", numbers)
            for node, place in chosen:
                node.input[place] = own
        elif self._maker(name) is None:
            self.numbers[name] = numbers
        else:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(numbers), tensor.name))
        return Outcome(done=True, told=_told_numbers(name, numbers))

    def _weight(self, like: onnx.TensorProto, name: str, numbers: Array) -> str:
        """A new weight, stored in the same way as another one, whose numbers are written with the others."""
        unique = self._unique(name)
        self.graph.initializer.append(
            onnx.TensorProto(name=unique, data_type=like.data_type, dims=like.dims, data_location=like.data_location)
        )
        self.numbers[unique] = numbers
        return unique

    def _adjust(self, edit: Adjust) -> Outcome:
        name = _file_name(edit.tensor)
        maker = self._maker(name)
        if maker is None:
            return _nowhere(name)
        dtype = self._dtype(name)
        steps = [
            (op, value) for op, value, idle in (("Mul", edit.factor, 1.0), ("Add", edit.addend, 0.0)) if value != idle
        ]
        at, x = self._place(maker) + 1, self._unique(f"{name}/unadjusted")
        maker.output[list(maker.output).index(name)] = x
        for k, (op, value) in enumerate(steps):
            constant = self._constant(f"{name}/{op.lower()}", np.array(value, dtype))
            made = name if k == len(steps) - 1 else self._unique(f"{name}/{op}")
            node = helper.make_node(op, [x, constant], [made], f"{maker.name or name}/{op}")
            node.metadata_props.extend(maker.metadata_props)
            self.graph.node.insert(at + k, node)
            x = made
        words = {"Mul": "multiplied by", "Add": "added to:"}
        return Outcome(
            done=True, told=f"'{name}' is {' and '.join(f'{words[op]} {value:.9g}' for op, value in steps)}."
        )

    # ------------------------------------------------------------------------------------------------------- graph

    def _nodes(self) -> Iterator[onnx.NodeProto]:
        yield from all_nodes(self.graph)

    def _outputs(self) -> set[str]:
        """Tensors that leave a graph of the model."""
        return {value.name for graph in all_graphs(self.graph) for value in graph.output}

    def _maker(self, name: str) -> onnx.NodeProto | None:
        name = _file_name(name)
        return next((node for node in self.graph.node if name in node.output), None)

    def _place(self, node: onnx.NodeProto) -> int:
        return next(k for k, one in enumerate(self.graph.node) if one.output[0] == node.output[0])

    def _stored(self, name: str) -> onnx.TensorProto | None:
        """The weight of that name, or the value of the node that is that constant."""
        found = next((one for one in self.graph.initializer if one.name == name), None)
        if found is not None:
            return found
        node = self._maker(name)
        if node is None or node.op_type != "Constant":
            return None
        return next((one.t for one in node.attribute if one.name == "value"), None)

    def _constant(self, name: str, value: Array) -> str:
        unique = self._unique(name)
        self.graph.initializer.append(numpy_helper.from_array(value, unique))
        return unique

    def _unique(self, name: str) -> str:
        found, count = name, 1
        while found in self._taken:
            count += 1
            found = f"{name}:{count}"
        self._taken.add(found)
        return found

    def _prune(self, names: Sequence[str]) -> None:
        """Removes what nothing reads any more: operators that made only these tensors, and those before them."""
        reads = Counter(one for node in self._nodes() for one in node.input)
        reads.update(self._outputs())
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if not name or reads[name]:
                continue
            maker = self._maker(name)
            if maker is not None and not any(reads[one] for one in maker.output):
                waiting.extend(maker.input)
                reads.subtract(maker.input)
                self.graph.node.remove(maker)
            for listed in (self.graph.initializer, self.graph.value_info):
                for one in [one for one in listed if one.name == name]:
                    listed.remove(one)

    def _dtype(self, name: str) -> np.dtype[Any]:
        """Type of a floating-point tensor of the graph."""
        if not self._types:
            self._types = _types(self.model)
        kind = self._types.get(name)
        if kind:
            found: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(kind)
            return found
        return float_dtype(own_dtype(self.graph) or "float32")


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """Element types of the tensors of the main graph, as far as they are declared or can be inferred."""
    with suppress(Exception):  # of protobuf or of the inference: then what the file declares has to do
        model = shape_inference.infer_shapes(model)
    graph = model.graph
    values = [*graph.input, *graph.value_info, *graph.output]
    return {value.name: value.type.tensor_type.elem_type for value in values}


def _file_name(name: str) -> str:
    """What a tensor of the session is called in the file."""
    return name.removeprefix(_CAST)


def _nowhere(name: str) -> Outcome:
    return Outcome(done=False, told=f"No operator of the file's main graph makes '{_file_name(name)}'.")


def _called(node: onnx.NodeProto) -> str:
    return f"{node.op_type} '{node.name or node.output[0]}'"


def _typed(value: Any, kind: Any) -> Any:
    """An attribute's value as ONNX has it."""
    if isinstance(value, bool) or kind == defs.OpSchema.AttrType.INT:
        return int(value)
    return float(value) if kind == defs.OpSchema.AttrType.FLOAT else list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if value is None:
        return "the default"
    if isinstance(value, bytes):
        return f"'{value.decode(errors='replace')}'"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _cast(numbers: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore"):
        return (np.rint(numbers) if dtype.kind in "iu" else numbers).astype(dtype)


def _told_numbers(name: str, numbers: Array) -> str:
    if numbers.size == 1:
        return f"Constant '{name}' is {float(numbers.reshape(-1)[0]):.9g}."
    shape = " × ".join(map(str, numbers.shape))
    return f"Weight '{name}' ({shape}, {numbers.dtype}) holds the reference's numbers."
