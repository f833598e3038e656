"""The region in ONNX Runtime: ``region.onnx``, run as it stands, without the graph optimiser."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime as ort

TYPES = {"tensor(double)": "float64", "tensor(float)": "float32", "tensor(float16)": "float16"}
"""NumPy's names of the types that are cast to."""


def run(inputs: Mapping[str, Any]) -> Any:
    """What the region makes of its inputs."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    file = Path(__file__).resolve().with_name("region.onnx")
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    given = {one.name: _typed(inputs[one.name], one.type) for one in session.get_inputs()}
    return session.run(None, given)[0]


def _typed(array: Any, kind: str) -> Any:
    return array.astype(TYPES[kind], copy=False) if kind in TYPES else array
