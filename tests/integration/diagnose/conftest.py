"""Small pairs of models that are compared in this process: a torch module against an ONNX graph, mostly."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

from parity.findings import Finding
from parity.jobs.diff import DiffOptions, diff


class Formula(nn.Module):
    """A module whose forward pass is a function of itself and the inputs; its parts are given by name."""

    def __init__(self, function: Callable[..., torch.Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The function's result."""
        return self.function(self, *inputs)


Diagnosed = Callable[..., Sequence[Finding]]
Graph = Callable[..., onnx.ModelProto]
Module = Callable[..., nn.Module]


@pytest.fixture
def module() -> Module:
    """Makes a torch module of a function and its parts, with weights that are the same each time."""

    def make(function: Callable[..., torch.Tensor], **parts: Callable[[], nn.Module]) -> nn.Module:
        torch.manual_seed(0)
        return Formula(function, **{name: part() for name, part in parts.items()}).eval()

    return make


@pytest.fixture
def graph() -> Graph:
    """Makes an ONNX model of nodes, weights and the inputs' arrays; its output is that of the last node."""

    def make(
        nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, np.ndarray], weights: Mapping[str, Any] | None = None
    ) -> onnx.ModelProto:
        arrays = {
            name: w.detach().numpy() if isinstance(w, torch.Tensor) else np.asarray(w)
            for name, w in (weights or {}).items()
        }
        taken = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in inputs.items()
        ]
        made = helper.make_value_info(nodes[-1].output[0], helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
        stored = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
        whole = helper.make_graph(nodes, "model", taken, [made], stored)
        return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    return make


@pytest.fixture
def diagnosed() -> Diagnosed:
    """Findings of a comparison in this process, the candidate's graph as it is written."""

    def run(reference: Any, candidate: Any, **inputs: np.ndarray) -> Sequence[Finding]:
        level = "none" if isinstance(candidate, onnx.ModelProto) else None
        return diff(reference, candidate, [inputs], options=DiffOptions(candidate_optimization=level)).findings

    return run
