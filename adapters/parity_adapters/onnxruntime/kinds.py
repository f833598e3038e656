"""ONNX's and ONNX Runtime's operators in the words of `parity.graph`: kinds, and attributes under canonical names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from parity.adapter import Array
from parity.functions import FORMULAS, variant

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call, before it ran.

    Attributes:
        op: The operator.
        attributes: All of its attributes, defaults filled in.
        opset: Version of its operator set.
        shapes: Of its inputs; None for an absent one.
        dtypes: Names of their types; "" for an absent one.
        small: Reads an input that configures the call, such as the axes of a reduction; None for an absent one.
        constant: Whether an input is a weight.
    """

    op: str
    attributes: Mapping[str, Any]
    opset: int
    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[str, ...]
    small: Callable[[int], Array | None]
    constant: Callable[[int], bool]

    def rank(self) -> int:
        """Dimensions of the first input."""
        return len(self.shape(0))

    def shape(self, position: int) -> tuple[int, ...]:
        """Shape of an input; () for an absent one."""
        found = self.shapes[position] if position < len(self.shapes) else None
        return found or ()


_SAME: Final = {
    "add": ("Add", "Sum", "QLinearAdd"),
    "sub": ("Sub",),
    "mul": ("Mul", "QLinearMul"),
    "div": ("Div",),
    "mod": ("Mod",),
    "pow": ("Pow",),
    "neg": ("Neg",),
    "abs": ("Abs",),
    "maximum": ("Max",),
    "minimum": ("Min",),
    "clip": ("Clip",),
    "where": ("Where", "QLinearWhere"),
    "compare": ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf"),
    "logic": ("And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"),
    "cast": ("Cast", "CastLike"),
    "floor": ("Floor",),
    "ceil": ("Ceil",),
    "round": ("Round",),
    "sign": ("Sign",),
    "exp": ("Exp",),
    "log": ("Log",),
    "sqrt": ("Sqrt",),
    "reciprocal": ("Reciprocal",),
    "sin": ("Sin",),
    "cos": ("Cos",),
    "erf": ("Erf",),
    "relu": ("Relu",),
    "leaky_relu": ("LeakyRelu", "QLinearLeakyRelu"),
    "prelu": ("PRelu",),
    "elu": ("Elu",),
    "selu": ("Selu",),
    "celu": ("Celu",),
    "gelu": ("Gelu",),
    "mish": ("Mish",),
    "sigmoid": ("Sigmoid", "QLinearSigmoid"),
    "tanh": ("Tanh",),
    "softplus": ("Softplus",),
    "softsign": ("Softsign",),
    "hard_sigmoid": ("HardSigmoid",),
    "hard_swish": ("HardSwish",),
    "pointwise": (
        *("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "ThresholdedRelu", "Shrink"),
        *("Mean", "Trilu", "BiasGelu"),
    ),
    "identity": ("Identity", "OptionalGetElement"),
    "reshape": ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "ExpandDims"),
    "transpose": ("Transpose",),
    "slice": ("Slice", "CenterCropPad", "Compress", "Pick"),
    "split": ("Split", "Pieces"),
    "concat": ("Concat", "QLinearConcat", "Stack", "Join"),
    "gather": ("GatherElements", "GatherND", "ReverseSequence"),
    "expand": ("Expand", "Tile"),
    "pad": ("Pad",),
    "scatter": ("Scatter", "ScatterElements", "ScatterND", "TensorScatter"),
    "mean": ("ReduceMean", "QLinearReduceMean"),
    "sum": ("ReduceSum",),
    "prod": ("ReduceProd",),
    "max": ("ReduceMax",),
    "min": ("ReduceMin",),
    "norm": ("ReduceL1", "ReduceL2"),
    "argmax": ("ArgMax",),
    "topk": ("TopK",),
    "cumsum": ("CumSum",),
    "layer_norm": ("LayerNormalization", "SkipLayerNormalization", "EmbedLayerNormalization"),
    "rms_norm": ("RMSNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"),
    "batch_norm": ("BatchNormalization",),
    "instance_norm": ("InstanceNormalization",),
    "group_norm": ("GroupNormalization",),
    "matmul": (
        *("MatMul", "Gemm", "Einsum", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "FusedGemm", "TransposeMatMul"),
        *("QGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits", "FusedMatMulActivation"),
    ),
    "conv": ("Conv", "ConvInteger", "QLinearConv", "FusedConv"),
    "conv_transpose": ("ConvTranspose",),
    "softmax": ("Softmax", "QLinearSoftmax"),
    "log_softmax": ("LogSoftmax",),
    "attention": ("Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"),
    "average_pool": ("AveragePool", "GlobalAveragePool", "QLinearAveragePool", "QLinearGlobalAveragePool"),
    "max_pool": ("MaxPool", "GlobalMaxPool", "NhwcMaxPool"),
    "resize": ("Resize", "Upsample"),
    "recurrent": ("RNN", "GRU", "LSTM", "DynamicQuantizeLSTM"),
    "rotary": ("RotaryEmbedding",),
    "random": ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"),
    "quantize": ("QuantizeLinear", "DynamicQuantizeLinear"),
    "dequantize": ("DequantizeLinear",),
    "constant": ("Range", "ConstantOfShape", "Constant", "EyeLike"),
    "shape": ("Shape", "Size"),
}
_KINDS: Final = {op: kind for kind, ops in _SAME.items() for op in ops}


def kind_of(call: Call) -> str:
    """One of `parity.graph.KINDS`, or "" for an operator of none of them."""
    decide = _BY_USE.get(call.op)
    return decide(call) if decide else _KINDS.get(call.op, "")


def _gather(call: Call) -> str:
    return "embedding" if call.constant(0) and call.attributes["axis"] == 0 and call.rank() == 2 else "gather"


def _dropout(call: Call) -> str:
    training = call.small(2)
    return "random" if training is not None and bool(training) else "identity"


def _biased(kind: str) -> Callable[[Call], str]:
    return lambda call: "pointwise" if len(call.shapes) > 1 and call.shapes[1] is not None else kind


def _sigmoid_times(call: Call) -> str:
    return "silu" if call.attributes["alpha"] == 1.0 else "quick_gelu"


def _reorder(call: Call) -> str:
    return "transpose" if call.attributes.get("channels_last") else "identity"


_BY_USE: Final[Mapping[str, Callable[[Call], str]]] = {
    "Gather": _gather,
    "Dropout": _dropout,
    "FastGelu": _biased("gelu"),
    "QuickGelu": _sigmoid_times,
    "Swish": _sigmoid_times,
    "ReorderInput": _reorder,
    "ReorderOutput": _reorder,
}
"""Operators whose kind hangs on how they are called."""


def canonical(call: Call, kind: str) -> Attributes:
    """Attributes as JSON values, under canonical names where `parity.graph.KINDS` has one."""
    found = {name: _plain(value) for name, value in call.attributes.items() if _is_plain(value)}
    for build in (_BY_KIND.get(kind), _BY_OP.get(call.op)):
        if build:
            found = build(call, found)
    if kind in {"conv", "matmul"} and found.get("activation"):
        return found | {"activation": _inside(found)}
    return found


_INSIDE: Final = {
    "Relu": "relu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softsign": "softsign",
    "Softplus": "softplus",
    "LeakyRelu": "leaky_relu",
    "Elu": "elu",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "Gelu": "gelu_erf",
    "SiLU": "silu",
}
"""Variants by the names of activations inside other operators."""


def _inside(found: Attributes) -> str:
    """The activation inside an operator, as `parity.functions.parse` reads it; else as the operator names it."""
    name = str(found["activation"])
    if name not in _INSIDE:
        return name
    formula = FORMULAS[_INSIDE[name]]
    given = found.get("activation_params")
    if given is None:
        given = [found[one] for one in ("activation_alpha", "activation_beta") if one in found]
    told = dict(zip(formula.parameters, given, strict=False))
    if name == "HardSigmoid":
        told = {"slope": 0.2} | told
    return str(variant(formula.name, **told)) if formula.parameters else formula.name


def _is_plain(value: Any) -> bool:
    return not isinstance(value, (onnx.TensorProto, onnx.GraphProto, onnx.SparseTensorProto, onnx.TypeProto))


def _plain(value: Any) -> Any:
    """Floats as the shortest decimal number that ONNX's float32 stands for."""
    if isinstance(value, float):
        return float(str(np.float32(value)))
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _renamed(found: Attributes, **names: str) -> Attributes:
    return {names.get(name, name): value for name, value in found.items()}


def _transpose(call: Call, found: Attributes) -> Attributes:
    if call.op in {"ReorderInput", "ReorderOutput"}:
        return found | {"axes": [0, 3, 1, 2] if call.op == "ReorderInput" else [0, 2, 3, 1]}
    return {"axes": list(found.get("perm") or range(call.rank() - 1, -1, -1))}


def _reduction(call: Call, found: Attributes) -> Attributes:
    axes = found.get("axes")
    given = call.small(1)
    if given is not None:
        axes = given.reshape(-1).tolist()
    if not axes and found.get("noop_with_empty_axes"):
        axes = []
    elif not axes:
        axes = list(range(call.rank()))
    return found | {"axes": axes, "keepdims": bool(found.get("keepdims", 1))}


def _norm(call: Call, found: Attributes) -> Attributes:
    return _reduction(call, found) | {"order": 1 if call.op == "ReduceL1" else 2}


def _layer_norm(call: Call, found: Attributes) -> Attributes:
    return found | {"axis": found.get("axis", -1), "fused": call.op.startswith(("Skip", "Embed"))}


def _batch_norm(_: Call, found: Attributes) -> Attributes:
    return found | {"training": bool(found.get("training_mode", 0))}


def _group_norm(_: Call, found: Attributes) -> Attributes:
    return _renamed(found, num_groups="groups")


def _softmax(call: Call, found: Attributes) -> Attributes:
    standard = call.op in {"Softmax", "LogSoftmax"}
    opset = call.opset if standard else call.attributes["opset"]
    return found | {"axis": found.get("axis", -1), "flattened": opset < 13}


def _filter(call: Call) -> tuple[int, ...]:
    return call.shape(3 if call.op == "QLinearConv" else 1)


def _window(call: Call, found: Attributes, kernel: list[int]) -> Attributes:
    """Kernel, strides, dilations and pads of a call with one entry for each dimension of space, resolved."""
    n = len(kernel)
    strides = list(found.get("strides") or [1] * n)
    dilations = list(found.get("dilations") or [1] * n)
    last = call.op == "NhwcMaxPool" or bool(found.get("channels_last"))
    space = call.shape(0)[1:-1] if last else call.shape(0)[2:]
    pads = resolved_pads(found, space, kernel, strides, dilations)
    return found | {"kernel": kernel, "strides": strides, "dilations": dilations, "pads": pads}


def resolved_pads(
    attributes: Mapping[str, Any], space: tuple[int, ...], kernel: list[int], strides: list[int], dilations: list[int]
) -> list[int]:
    """Padding before each dimension of space, then after each, whatever ``auto_pad`` and ``pads`` say."""
    mode = attributes.get("auto_pad") or "NOTSET"
    if mode == "NOTSET":
        return list(attributes.get("pads") or [0] * 2 * len(kernel))
    if mode == "VALID":
        return [0] * 2 * len(kernel)
    sizes = zip(space, kernel, strides, dilations, strict=True)
    total = [max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size) for size, k, s, d in sizes]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return small + large if mode == "SAME_UPPER" else large + small


def _conv(call: Call, found: Attributes) -> Attributes:
    found = _window(call, found, list(found.get("kernel_shape") or _filter(call)[2:]))
    return _renamed(found, group="groups") | {"groups": min(found.get("group", 1), _filter(call)[0])}


def _conv_transpose(call: Call, found: Attributes) -> Attributes:
    kernel = list(found.get("kernel_shape") or call.shape(1)[2:])
    n = len(kernel)
    strides, dilations = list(found.get("strides") or [1] * n), list(found.get("dilations") or [1] * n)
    pads = list(found.get("pads") or [0] * 2 * n)
    named = _renamed(found, group="groups")
    return named | {"kernel": kernel, "strides": strides, "dilations": dilations, "pads": pads}


def _pool(call: Call, found: Attributes) -> Attributes:
    if "Global" in call.op:
        return found | {"kernel": list(call.shape(0)[2:]), "strides": [1], "pads": [0], "count_include_pad": False}
    found = _window(call, found, list(found["kernel_shape"]))
    return found | {"count_include_pad": bool(found.get("count_include_pad", 0))}


def _resize(call: Call, found: Attributes) -> Attributes:
    default = "asymmetric" if call.op == "Upsample" or call.opset < 11 else "half_pixel"
    named = _renamed(found, coordinate_transformation_mode="coordinates", cubic_coeff_a="cubic_coefficient")
    return {"coordinates": default, "cubic_coefficient": -0.75, "antialias": 0, "mode": "nearest"} | named


def _recurrent(call: Call, found: Attributes) -> Attributes:
    cell = "lstm" if "LSTM" in call.op else call.op.lower()
    return found | {"cell": cell, "linear_before_reset": bool(found.get("linear_before_reset", 0))}


def _attention(call: Call, found: Attributes) -> Attributes:
    causal = bool(found.get("is_causal") or found.get("unidirectional") or call.op == "GroupQueryAttention")
    scale = found.get("scale") or _head_size(call) ** -0.5
    return found | {"scale": scale, "causal": causal}


def _head_size(call: Call) -> float:
    """Numbers of one head of the queries; 1.0 where the shapes do not tell."""
    heads = call.attributes.get("num_heads") or call.attributes.get("q_num_heads") or 1
    query = call.shape(0)
    if len(query) >= 4:
        return float(query[-1] or 1)
    if call.op in {"Attention", "QAttention"} and "num_heads" in call.attributes:
        sizes = call.attributes.get("qkv_hidden_sizes")
        return float((sizes[0] if sizes else call.shape(1)[-1] // 3) // heads)
    packed = call.op == "GroupQueryAttention" and not call.shape(1)
    heads += 2 * call.attributes["kv_num_heads"] if packed else 0
    return float(query[-1] // heads) if query else 1.0


def _quantize(call: Call, found: Attributes) -> Attributes:
    dtype = call.dtypes[2] if len(call.dtypes) > 2 else ""
    if not dtype and found.get("output_dtype"):
        dtype = helper.tensor_dtype_to_np_dtype(found["output_dtype"]).name
    digits = "".join(character for character in dtype.split("_")[0] if character.isdigit()) or "8"
    return found | {"bits": int(digits)}


def _dequantize(call: Call, found: Attributes) -> Attributes:
    digits = "".join(character for character in call.dtypes[0].split("_")[0] if character.isdigit()) or "8"
    return found | {"bits": int(digits)}


def _rotary(_: Call, found: Attributes) -> Attributes:
    return found | {"interleaved": bool(found.get("interleaved", 0))}


def _div(call: Call, found: Attributes) -> Attributes:
    return found | ({"rounding": "trunc"} if call.dtypes[0].startswith(("int", "uint")) else {})


def _gelu(call: Call, found: Attributes) -> Attributes:
    return found | {"approximate": "tanh" if call.op == "FastGelu" else found.get("approximate", "none")}


def _cast(call: Call, found: Attributes) -> Attributes:
    if call.op == "CastLike":
        return found | {"to": call.dtypes[1]}
    return found | {"to": helper.tensor_dtype_to_np_dtype(found["to"]).name}


def _pad(call: Call, found: Attributes) -> Attributes:
    given, value = call.small(1), call.small(2)
    named = _renamed(found, paddings="pads")
    if given is not None:
        named["pads"] = given.reshape(-1).tolist()
    if value is not None and value.size:
        named["value"] = value.reshape(-1)[0].item()
    return named


def _axes(call: Call, found: Attributes) -> Attributes:
    given = call.small(1)
    return found if given is None else found | {"axes": given.reshape(-1).tolist()}


def _compare(call: Call, found: Attributes) -> Attributes:
    return found | {"operator": call.op}


_BY_KIND: Final[Mapping[str, Callable[[Call, Attributes], Attributes]]] = {
    "transpose": _transpose,
    "mean": _reduction,
    "sum": _reduction,
    "prod": _reduction,
    "max": _reduction,
    "min": _reduction,
    "norm": _norm,
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "average_pool": _pool,
    "max_pool": _pool,
    "resize": _resize,
    "recurrent": _recurrent,
    "attention": _attention,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "rotary": _rotary,
    "div": _div,
    "gelu": _gelu,
    "cast": _cast,
    "pad": _pad,
    "compare": _compare,
    "logic": _compare,
}
_BY_OP: Final[Mapping[str, Callable[[Call, Attributes], Attributes]]] = {"Squeeze": _axes, "Unsqueeze": _axes}
