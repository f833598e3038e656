"""Some traced calls as a model of their own, with a program that runs it."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from parity.adapter import Array
from parity.errors import EngineError
from parity_adapters.onnxruntime import blocks, synthetic
from parity_adapters.onnxruntime.interpreter import Step
from parity_adapters.onnxruntime.weights import Weights

LARGE: Final = 2**30
"""Bytes of weights from which they are saved in a file beside the model."""


def save(
    steps: Sequence[Step],
    given: Mapping[str, Array],
    wanted: str,
    *,
    weights: Weights,
    opsets: Mapping[str, int],
    folder: Path,
) -> None:
    """Writes ``region.onnx`` and ``region.py``.

    Args:
        steps: The calls, in order.
        given: Numbers of the tensors that go in, in the types of the trace.
        wanted: The tensor that comes out.
        weights: Of the model.
        opsets: Version of each operator set by domain.
        folder: Where to.

    Raises:
        EngineError: A call is none of an ONNX operator, or works on blocked tensors.
    """
    steps = [step for step in steps if not all(name in given for name in step.site.outputs if name)]
    odd = [step.site.name for step in steps if step.node.domain in {blocks.DOMAIN, synthetic.DOMAIN} or step.blocked]
    if odd or any(array.dtype.name == "bfloat16" for array in given.values()):
        what = f"'{odd[0]}' works on tensors as no ONNX file has them" if odd else "it takes bfloat16 tensors"
        raise EngineError(f"no ONNX model can be written of the region: {what}")
    made = {name for step in steps for name in step.site.outputs}
    read = dict.fromkeys(name for step in steps for name in step.site.inputs if name and name not in made)
    graph = helper.make_graph(
        [_node(step) for step in steps],
        "region",
        [_value(name, given[name]) for name in read if name in given],
        [onnx.ValueInfoProto(name=wanted)],
        list(_initializers([name for name in read if name not in given], weights)),
    )
    domains = {step.node.domain for step in steps} | {""}
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items() if domain in domains]
    version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    model = helper.make_model(graph, opset_imports=imports, ir_version=max(version, 4))
    large = sum(tensor.ByteSize() for tensor in graph.initializer) > LARGE
    onnx.save(model, folder / "region.onnx", save_as_external_data=large, location="weights.bin")
    shutil.copyfile(Path(__file__).with_name("region_program.py"), folder / "region.py")


def _node(step: Step) -> onnx.NodeProto:
    """The node with the names of the whole model's tensors."""
    node = onnx.NodeProto()
    node.CopyFrom(step.node)
    del node.input[:], node.output[:], node.metadata_props[:]
    node.input.extend(step.site.inputs)
    node.output.extend(step.site.outputs)
    node.name, node.doc_string = step.site.name, ""
    return node


def _value(name: str, array: Array) -> onnx.ValueInfoProto:
    kind: Any = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _initializers(names: Sequence[str], weights: Weights) -> Iterator[onnx.TensorProto]:
    for name in names:
        stored = weights.weight(name)
        yield numpy_helper.from_array(np.asarray(weights[name] if stored is None else stored.array()), name)
