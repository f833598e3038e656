"""Small ONNX models for the tests of graph reading."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from parity.scanner.model import ActivationUse, Document
from parity.scanner.readers import onnx as reader
from parity.scanner.source import Source

DTYPES = {
    "float32": (TensorProto.FLOAT, np.float32),
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}


class Builder:
    """Writes an ONNX graph call by call: ``g.Mul("x", 0.5)`` adds a node and gives its output's name."""

    def __init__(self, dtype: str = "float32", *, swapped: bool = False, literal: str = "initializer") -> None:
        self.dtype = dtype
        self.swapped = swapped
        self.literal = literal
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def __getattr__(self, op: str) -> Callable[..., str]:
        return lambda *inputs, **attributes: self.add(op, inputs, **attributes)

    def add(
        self, op: str, inputs: Sequence[Any], *, domain: str = "", name: str | None = None, **attributes: Any
    ) -> str:
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        if self.swapped and op in {"Add", "Mul"} and len(names) == 2:
            names.reverse()
        output = f"t{len(self.nodes)}"
        label = f"/layer.{len(self.nodes)}/{op}" if name is None else name
        self.nodes.append(helper.make_node(op, names, [output], name=label, domain=domain, **attributes))
        return output

    def constant(self, value: Any, dtype: str | None = None) -> str:
        name = f"c{len(self.initializers)}_{len(self.nodes)}"
        array = np.asarray(value, DTYPES[dtype or self.dtype][1]) if np.asarray(value).dtype.kind == "f" else None
        tensor = numpy_helper.from_array(np.asarray(value) if array is None else array, name)
        if self.literal == "initializer":
            self.initializers.append(tensor)
        elif self.literal == "node":
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.nodes.append(helper.make_node("Constant", [], [f"{name}_"], value=tensor))
            self.nodes.append(helper.make_node("Cast", [f"{name}_"], [name], to=DTYPES[self.dtype][0]))
        return name

    def model(self, output: str, *, opset: int = 17, **fields: Any) -> onnx.ModelProto:
        dtype = DTYPES[self.dtype][0]
        graph = helper.make_graph(
            self.nodes,
            "g",
            [
                helper.make_tensor_value_info("x", dtype, [None, 8]),
                helper.make_tensor_value_info("u", dtype, [None, 8]),
            ],
            [helper.make_tensor_value_info(output, dtype, None)],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, **fields)


def document(model: onnx.ModelProto | bytes) -> Document:
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return reader.read(Source.of_bytes(data, "model.onnx"))


def uses(model: onnx.ModelProto | bytes) -> tuple[ActivationUse, ...]:
    return document(model).activations


def named(model: onnx.ModelProto | bytes) -> list[tuple[str | None, dict[str, float]]]:
    return [(use.variant, dict(use.parameters)) for use in uses(model)]
