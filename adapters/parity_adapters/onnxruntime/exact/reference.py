"""Operators that ONNX's own reference computes well, in the type of its inputs."""

from typing import Final

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from parity_adapters.onnxruntime.exact.call import Call, Result

OPERATORS: Final = frozenset(
    {
        *("AffineGrid", "BlackmanWindow", "CenterCropPad", "Col2Im", "DFT", "DeformConv", "Det", "GridSample"),
        *("HammingWindow", "HannWindow", "Hardmax", "MelWeightMatrix", "NonMaxSuppression"),
        *("RoiAlign", "STFT", "TensorScatter", "Unique"),
    }
)
"""Those that are used from there."""


def run(call: Call, node: onnx.NodeProto) -> Result:
    """Outputs of ``node`` by ONNX's reference."""
    names = [name if x is not None else "" for name, x in zip(node.input, call.inputs, strict=True)]
    feeds = {f"i{i}": x for i, (name, x) in enumerate(zip(names, call.inputs, strict=True)) if name}
    one = onnx.NodeProto(op_type=node.op_type, attribute=node.attribute, output=node.output)
    one.input.extend(f"i{i}" if name else "" for i, name in enumerate(names))
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), None)
        for name, x in feeds.items()
        if x is not None
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([one], "node", inputs, outputs)
    opsets = [onnx.helper.make_opsetid("", call.opset)]
    found = iter(ReferenceEvaluator(onnx.helper.make_model(graph, opset_imports=opsets)).run(None, feeds))
    return tuple(np.asarray(next(found)) if name else None for name in node.output)
