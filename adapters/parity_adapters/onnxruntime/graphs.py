"""Activations as ONNX graphs, in ONNX's text form.

A body reads the input ``x`` and makes ``y``. Every other name that it reads without making it is a scalar of
`CONSTANTS`, stored in the dtype of ``x`` as exporters store it. The chains named after an exporter are what
torch 2.13's exporters write for that call, operand by operand: whether ONNX Runtime fuses a chain hangs on the order
of the multiplications, not on the function it computes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

CONSTANTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "half": 0.5,
        "one": 1.0,
        "three": 3.0,
        "sqrt_2": math.sqrt(2.0),
        "cubic": 0.044715,
        "sqrt_2_over_pi": math.sqrt(2.0 / math.pi),
        "quick": 1.702,
        "zero": 0.0,
        "minus_one": -1.0,
        "four": 4.0,
        "six": 6.0,
        "ten": 10.0,
        "minus_ten": -10.0,
        "quarter": 0.25,
        "laplace_mean": 0.707107,
        "laplace_spread": 0.282095 * math.sqrt(2.0),
    }
)
"""Scalars by name."""

_IR_VERSION = 10


@dataclass(frozen=True, slots=True)
class Graph:
    """One activation as a graph.

    Attributes:
        body: Nodes in ONNX's text form.
        opset: Version of the ``ai.onnx`` operator set.
        signature: Inputs and outputs as text, ``T`` standing for the element type. The rank is known, as it is in
            models: ONNX Runtime's GELU approximation needs it.
    """

    body: str
    opset: int = 22
    signature: str = "(T[n] x) => (T[n] y)"

    def model(self, element_type: str, *, length: int | None = None) -> onnx.ModelProto:
        """The graph as a model.

        Args:
            element_type: As ONNX writes it: double, float, float16, bfloat16.
            length: Replaces the dimension ``length`` of the signature, where it has one.
        """
        signature = self.signature.replace("T[", f"{element_type}[")
        if length is not None:
            signature = signature.replace("length", str(length))
        model = parser.parse_model(
            f'<ir_version: {_IR_VERSION}, opset_import: ["": {self.opset}, "com.microsoft": 1]> '
            f"activation {signature} {{ {self.body} }}"
        )
        graph = model.graph
        read = {name for node in graph.node for name in node.input if name}
        made = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
        dtype = element_dtype(model)
        graph.initializer.extend(
            numpy_helper.from_array(np.asarray(CONSTANTS[name]).astype(dtype), name) for name in sorted(read - made)
        )
        return model


def element_dtype(model: onnx.ModelProto) -> np.dtype[Any]:
    """NumPy dtype of the first input of ``model``; of ``ml_dtypes`` for bfloat16."""
    dtype: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    return dtype


F_GELU_LEGACY: Final = """
    scaled = Div (x, sqrt_2)
    erf = Erf (scaled)
    twice_cdf = Add (erf, one)
    product = Mul (x, twice_cdf)
    y = Mul (product, half)
"""
"""``F.gelu`` by ``torch.onnx.export(dynamo=False)`` below opset 20."""

F_GELU_DYNAMO: Final = """
    scaled = Div (x, sqrt_2)
    erf = Erf (scaled)
    twice_cdf = Add (erf, one)
    cdf = Mul (half, twice_cdf)
    y = Mul (x, cdf)
"""
"""``F.gelu`` by ``torch.onnx.export(dynamo=True)`` below opset 20. ONNX Runtime 1.32 does not fuse this order."""

F_GELU_TANH_LEGACY: Final = """
    square = Mul (x, x)
    cube = Mul (x, square)
    cubic_term = Mul (cubic, cube)
    inner = Add (x, cubic_term)
    argument = Mul (sqrt_2_over_pi, inner)
    tanh = Tanh (argument)
    twice_cdf = Add (one, tanh)
    product = Mul (x, twice_cdf)
    y = Mul (half, product)
"""
"""``F.gelu(approximate="tanh")`` by ``torch.onnx.export(dynamo=False)`` below opset 20."""

F_GELU_TANH_DYNAMO: Final = """
    cube = Pow (x, three)
    cubic_term = Mul (cubic, cube)
    inner = Add (x, cubic_term)
    argument = Mul (sqrt_2_over_pi, inner)
    tanh = Tanh (argument)
    twice_cdf = Add (tanh, one)
    cdf = Mul (half, twice_cdf)
    y = Mul (x, cdf)
"""
"""``F.gelu(approximate="tanh")`` by ``torch.onnx.export(dynamo=True)`` below opset 20."""

GELU_PYTHON: Final = """
    half_x = Mul (x, half)
    scaled = Div (x, sqrt_2)
    erf = Erf (scaled)
    twice_cdf = Add (erf, one)
    y = Mul (half_x, twice_cdf)
"""
"""``ACT2FN["gelu_python"]``, ``x * 0.5 * (1 + erf(x / sqrt(2)))``, by both exporters."""

GELU_NEW: Final = """
    half_x = Mul (x, half)
    cube = Pow (x, three)
    cubic_term = Mul (cube, cubic)
    inner = Add (x, cubic_term)
    argument = Mul (inner, sqrt_2_over_pi)
    tanh = Tanh (argument)
    twice_cdf = Add (tanh, one)
    y = Mul (half_x, twice_cdf)
"""
"""``ACT2FN["gelu_new"]`` and ``ACT2FN["gelu_accurate"]`` by both exporters."""

GELU_FAST: Final = """
    half_x = Mul (x, half)
    scaled = Mul (x, sqrt_2_over_pi)
    cubic_x = Mul (x, cubic)
    cubic_term = Mul (cubic_x, x)
    inner = Add (cubic_term, one)
    argument = Mul (scaled, inner)
    tanh = Tanh (argument)
    twice_cdf = Add (tanh, one)
    y = Mul (half_x, twice_cdf)
"""
"""``ACT2FN["gelu_fast"]`` by both exporters."""

QUICK_GELU: Final = """
    scaled = Mul (x, quick)
    sigmoid = Sigmoid (scaled)
    y = Mul (x, sigmoid)
"""
"""``ACT2FN["quick_gelu"]`` by both exporters."""

SILU: Final = """
    sigmoid = Sigmoid (x)
    y = Mul (x, sigmoid)
"""
"""``F.silu`` by both exporters."""

_CLIP_10 = "y = Clip (gelu, minus_ten, ten)"

GELU_10_LEGACY: Final = F_GELU_LEGACY.replace("y =", "gelu =") + _CLIP_10
"""``ACT2FN["gelu_10"]`` by ``torch.onnx.export(dynamo=False)`` below opset 20."""

GELU_10_DYNAMO: Final = F_GELU_DYNAMO.replace("y =", "gelu =") + _CLIP_10
"""``ACT2FN["gelu_10"]`` by ``torch.onnx.export(dynamo=True)`` below opset 20."""

GELU_10: Final = 'gelu = Gelu <approximate = "none"> (x) ' + _CLIP_10
"""``ACT2FN["gelu_10"]`` by both exporters from opset 20."""
