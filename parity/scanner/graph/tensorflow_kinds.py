"""TensorFlow's operators as the shared graph's kinds; TFLite's custom operators of the same names are these, too."""

from collections.abc import Mapping
from typing import Any, Final

from parity.scanner.graph.ir import Inner

Attributes = Mapping[str, Any]

_PLAIN: Final = {
    "add": "Add AddV2 AddN BiasAdd BiasAddV1",
    "sub": "Sub",
    "mul": "Mul",
    "divide_no_nan": "DivNoNan",
    "div": "Div RealDiv",
    "pow": "Pow",
    "neg": "Neg",
    "abs": "Abs",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "where": "Select SelectV2",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round Rint",
    "sign": "Sign",
    "exp": "Exp",
    "expm1": "Expm1",
    "log": "Log",
    "log1p": "Log1p",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "reciprocal": "Reciprocal Inv",
    "square": "Square",
    "squared_difference": "SquaredDifference",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "erf": "Erf",
    "erfc": "Erfc",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "elu": "Elu",
    "selu": "Selu",
    "identity": "Identity StopGradient PreventGradient CheckNumerics Snapshot EnsureShape",
    "quantize": "QuantizeV2 FakeQuantWithMinMaxVars FakeQuantWithMinMaxArgs QuantizeAndDequantizeV2"
    " QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 FakeQuantWithMinMaxVarsPerChannel",
    "reshape": "Reshape Squeeze ExpandDims",
    "transpose": "Transpose",
    "expand": "BroadcastTo Tile",
    "slice": "Slice StridedSlice",
    "gather": "Gather GatherV2",
    "shape": "Shape ShapeN Size Rank",
    "constant": "Range LinSpace ReadVariableOp VarHandleOp VariableV2 Variable Empty",
    "random": "RandomUniform RandomStandardNormal TruncatedNormal Multinomial StatelessRandomUniformV2",
    "control": "If StatelessIf While StatelessWhile Case StatelessCase Switch Merge Enter Exit NextIteration",
}
_KINDS: Final = {op: kind for kind, ops in _PLAIN.items() for op in ops.split()}

_COMPARISONS: Final = {
    "Equal": "equal",
    "NotEqual": "not_equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "Less": "less",
    "LessEqual": "less_equal",
    "IsNan": "nan",
}
_LOGIC: Final = {"LogicalAnd": "and", "LogicalOr": "or", "LogicalNot": "not"}
_FLOATING: Final = frozenset({"float16", "bfloat16", "float32", "float64"})

FUSED: Final[Mapping[str, tuple[str, Attributes]]] = {
    "Relu": ("relu", {}),
    "Relu6": ("clip", {"min": 0.0, "max": 6.0}),
    "Elu": ("elu", {}),
    "Tanh": ("tanh", {}),
    "Sigmoid": ("sigmoid", {}),
    "GeluExact": ("gelu", {"approximate": "none"}),
    "GeluApproximate": ("gelu", {"approximate": "tanh"}),
    "_MklSwish": ("silu", {}),
}
"""Last of the operators that a fused one names, and what it computes."""

_FIXED: Final[Mapping[str, tuple[str, Attributes]]] = {
    **{op: ("compare", {"operator": operator}) for op, operator in _COMPARISONS.items()},
    **{op: ("logic", {"operator": operator}) for op, operator in _LOGIC.items()},
    **dict.fromkeys(("Fill", "ZerosLike", "OnesLike"), ("fill", {})),
    "Relu6": FUSED["Relu6"],
    "ClipByValue": ("clip", {"given": ("min", "max")}),
}
"""Operators that have the same attributes wherever they stand."""

_LSTM: Final = (Inner("gates: Sigmoid", "sigmoid"), Inner("candidate and output: Tanh", "tanh"))
_GRU: Final = (Inner("gates: Sigmoid", "sigmoid"), Inner("candidate: Tanh", "tanh"))
_CELLS: Final = {
    **dict.fromkeys(("LSTMBlockCell", "BlockLSTM", "BlockLSTMV2"), _LSTM),
    "GRUBlockCell": _GRU,
}
_CUDNN: Final = {
    "lstm": _LSTM,
    "gru": _GRU,
    "rnn_relu": (Inner("output: Relu", "relu"),),
    "rnn_tanh": (Inner("output: Tanh", "tanh"),),
}


def kind_of(op: str, attributes: Attributes) -> tuple[str, Attributes]:
    """Kind of an operator, with the attributes that decide it; attributes are of simple values, types as names."""
    if op in _FIXED:
        return _FIXED[op]
    if op == "LeakyRelu":
        return "leaky_relu", {"alpha": number_of(attributes, "alpha", 0.2)}
    if op == "Cast":
        return ("cast" if str(attributes.get("DstT", "float32")) in _FLOATING else "trunc"), {}
    return _KINDS.get(op, ""), {}


def inner_of(op: str, attributes: Attributes) -> tuple[Inner, ...]:
    """Activations inside an operator."""
    if op.startswith("CudnnRNN"):
        return _CUDNN.get(str(attributes.get("rnn_mode", "lstm")), ())
    return _CELLS.get(op, ())


def number_of(attributes: Attributes, name: str, default: float) -> float:
    """An attribute that should be a number; the default where it is none."""
    value = attributes.get(name)
    return float(value) if isinstance(value, int | float) else default
