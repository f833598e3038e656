"""How an activation is written in a graph of some operator set: as one operator where there is one, or else as several.

What stands here is written into models, so only ONNX's own operators are used.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import onnx
from onnx import defs, parser

from parity.functions import Variant
from parity_adapters.onnxruntime import graphs

FAR: Final = 15.0
"""Input from which on a softplus and the straight line beyond its threshold are one in float32."""

_OPERATORS: Final[Mapping[str, tuple[str, ...]]] = {
    "gelu_erf": ('y = Gelu <approximate = "none"> (x)', graphs.F_GELU_LEGACY),
    "gelu_tanh": ('y = Gelu <approximate = "tanh"> (x)', graphs.F_GELU_TANH_LEGACY),
    "gelu_clipped": (
        'gelu = Gelu <approximate = "none"> (x) y = Clip (gelu, low, high)',
        graphs.F_GELU_LEGACY.replace("y =", "gelu =") + "y = Clip (gelu, low, high)",
    ),
    "quick_gelu": ("scaled = Mul (x, alpha) sigmoid = Sigmoid (scaled) y = Mul (x, sigmoid)",),
    "silu": (graphs.SILU,),
    "sigmoid": ("y = Sigmoid (x)",),
    "tanh": ("y = Tanh (x)",),
    "laplace": (
        "d = Sub (x, laplace_mean) z = Div (d, laplace_spread) e = Erf (z) twice = Add (e, one) y = Mul (twice, half)",
    ),
    "softplus": (
        "y = Softplus (x)",
        "scaled = Mul (x, beta) smooth = Softplus (scaled) y = Div (smooth, beta)",
    ),
    "log_sigmoid": ("n = Neg (x) s = Softplus (n) y = Neg (s)",),
    "sqrt_softplus": ("s = Softplus (x) y = Sqrt (s)",),
    "mish": ("y = Mish (x)", "s = Softplus (x) t = Tanh (s) y = Mul (x, t)"),
    "softsign": ("y = Softsign (x)",),
    "squareplus": (
        "square = Mul (x, x) sum = Add (square, b) root = Sqrt (sum) twice = Add (x, root) y = Mul (twice, half)",
    ),
    "tanh_shrink": ("t = Tanh (x) y = Sub (x, t)",),
    "elu": ("y = Elu <alpha = {alpha}> (x)",),
    "selu": ("y = Selu (x)",),
    "celu": ("y = Celu <alpha = {alpha}> (x)",),
    "identity": ("y = Identity (x)",),
    "relu": ("y = Relu (x)",),
    "relu6": ("y = Clip (x, zero, six)",),
    "relu2": ("relu = Relu (x) y = Mul (relu, relu)",),
    "leaky_relu": ("y = LeakyRelu <alpha = {negative_slope}> (x)",),
    "hard_sigmoid": ("y = HardSigmoid <alpha = {slope}, beta = {offset}> (x)",),
    "hard_swish": (
        "y = HardSwish (x)",
        "gate = HardSigmoid <alpha = {slope}, beta = {offset}> (x) y = Mul (x, gate)",
    ),
    "hard_tanh": ("y = Clip (x, low, high)",),
    "soft_shrink": ("y = Shrink <lambd = {threshold}, bias = {threshold}> (x)",),
    "hard_shrink": ("y = Shrink <lambd = {threshold}, bias = 0.0> (x)",),
    "threshold": ("y = ThresholdedRelu <alpha = {threshold}> (x)",),
}
"""Bodies by formula, the preferred first, as in `graphs`; a parameter is an attribute in braces, or a scalar."""

_SINCE: Final = {"Clip": 11}
"""Operator sets from which an operator takes as inputs what it is given here."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write an activation.

    Attributes:
        nodes: They read ``x`` and make ``y``.
        constants: The scalars that they read beside.
    """

    nodes: tuple[onnx.NodeProto, ...]
    constants: Mapping[str, float]


def spelling(wanted: Variant, opset: int) -> Spelling | None:
    """The preferred spelling in an operator set; None where there is none."""
    numbers = {**wanted.formula.constants, **dict(wanted.parameters)}
    for body in _OPERATORS.get(wanted.name, ()):
        found = _parsed(_filled(body, numbers), {**graphs.CONSTANTS, **numbers})
        if all(_known(node, opset) for node in found.nodes) and _faithful(wanted, found, numbers):
            return found
    return None


def _filled(body: str, numbers: Mapping[str, float]) -> str:
    """The body with numbers in place of names in braces, written as ONNX's text form reads them."""
    return re.sub(r"\{(\w+)\}", lambda found: f"{numbers[found[1]]:.12f}", body)


def _parsed(body: str, constants: Mapping[str, float]) -> Spelling:
    nodes = tuple(parser.parse_graph(f"activation (float[n] x) => (float[n] y) {{ {body} }}").node)
    made = {name for node in nodes for name in node.output} | {"x"}
    read = dict.fromkeys(name for node in nodes for name in node.input if name not in made)
    return Spelling(nodes, {name: constants[name] for name in read})


def _known(node: onnx.NodeProto, opset: int) -> bool:
    """Whether an operator set has the operator as it is written here."""
    if not defs.has(node.op_type, opset) or opset < _SINCE.get(node.op_type, 0):
        return False
    schema = defs.get_schema(node.op_type, opset)
    return all(attribute.name in schema.attributes for attribute in node.attribute)


def _faithful(wanted: Variant, found: Spelling, numbers: Mapping[str, float]) -> bool:
    """Whether nothing of the variant is lost: parameters that the spelling has no place for have their usual values."""
    if wanted.name == "hard_swish" and found.nodes[0].op_type == "HardSwish":
        return wanted.parameters == tuple(wanted.formula.parameters.items())
    if wanted.name in {"softplus", "sqrt_softplus"}:
        return numbers["threshold"] >= FAR and ("beta" in found.constants or numbers.get("beta", 1.0) == 1)
    return wanted.name != "threshold" or numbers["value"] == 0


def own_attributes(node: onnx.NodeProto, wanted: Spelling) -> dict[str, Any] | None:
    """Attributes with which a node is that spelling already; None where it is another operator, or one with more."""
    (first, *rest) = wanted.nodes
    if rest or wanted.constants or node.op_type != first.op_type or node.domain not in {"", "ai.onnx"}:
        return None
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in first.attribute}
