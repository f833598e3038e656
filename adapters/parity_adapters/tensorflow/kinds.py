"""TensorFlow's operators in the words of `parity.graph`: kinds, and the attributes that causes are found through."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.padding import resolved


@dataclass(frozen=True, slots=True)
class Seen:
    """One call as it ran: what a kind is told by.

    Attributes:
        op: The operator.
        attributes: As TensorFlow has them.
        inputs: The tensors that it was given.
        made: The tensors that it made.
        of_weight: Its first input is a weight.
        fixed: All its inputs are the model's own numbers.
    """

    op: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Tensor]
    made: Sequence[Tensor]
    of_weight: bool
    fixed: bool

    def numbers(self, place: int) -> list[int]:
        """A small whole-number input as a flat list."""
        return [int(number) for number in self.inputs[place].numpy().reshape(-1)]

    def number(self, attribute: str) -> float:
        """A float32 attribute as it was written: 0.1 and not 0.10000000149."""
        return float(str(np.float32(self.attributes[attribute])))

    def text(self, attribute: str) -> str:
        """A text attribute; empty where the operator has none of that name."""
        value = self.attributes.get(attribute, b"")
        return value.decode() if isinstance(value, bytes) else str(value)


Details = Callable[[Seen], dict[str, Any]]

PLAIN: Final[dict[str, str]] = {
    **dict.fromkeys(("Reshape", "Squeeze", "ExpandDims"), "reshape"),
    **dict.fromkeys(("Slice", "StridedSlice"), "slice"),
    **dict.fromkeys(("BroadcastTo", "Tile"), "expand"),
    **dict.fromkeys(
        ("ScatterNd", "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax"), "scatter"
    ),
    **dict.fromkeys(("Fill", "Range", "LinSpace", "ZerosLike", "OnesLike", "Empty"), "constant"),
    **dict.fromkeys(("Add", "AddV2", "AddN", "BiasAdd", "BiasAddV1", "AssignAddVariableOp"), "add"),
    **dict.fromkeys(("Sub", "AssignSubVariableOp"), "sub"),
    **dict.fromkeys(("Mul", "MulNoNan"), "mul"),
    **dict.fromkeys(("Div", "RealDiv", "DivNoNan"), "div"),
    **dict.fromkeys(("FloorMod", "Mod", "TruncateMod"), "mod"),
    "Pow": "pow",
    "Neg": "neg",
    "Abs": "abs",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "ClipByValue": "clip",
    **dict.fromkeys(("Select", "SelectV2"), "where"),
    **dict.fromkeys(
        ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "IsNan", "IsInf", "IsFinite"),
        "compare",
    ),
    **dict.fromkeys(("LogicalAnd", "LogicalOr", "LogicalNot"), "logic"),
    "Floor": "floor",
    "Ceil": "ceil",
    **dict.fromkeys(("Round", "Rint"), "round"),
    "Sign": "sign",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Rsqrt": "rsqrt",
    **dict.fromkeys(("Reciprocal", "Inv"), "reciprocal"),
    "Square": "square",
    "Sin": "sin",
    "Cos": "cos",
    "Erf": "erf",
    "Relu": "relu",
    "Selu": "selu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    **dict.fromkeys(
        ("SquaredDifference", "Erfc", "Expm1", "Log1p", "Tan", "Atan", "Atan2", "Sinh", "Cosh", "Asinh", "Acosh"),
        "pointwise",
    ),
    **dict.fromkeys(("Atanh", "Asin", "Acos", "Lgamma", "Digamma", "Xlogy", "Xdivy", "Xlog1py", "Erfinv"), "pointwise"),
    **dict.fromkeys(("TopK", "TopKV2"), "topk"),
}
"""Operators whose kind is all there is to say."""


def _padding(seen: Seen, place: int, kernel: list[int]) -> dict[str, Any]:
    """Strides, dilations and the padding in numbers of a window over the spatial axes of input ``place``."""
    form = seen.text("data_format") or "NHWC"
    spatial = [axis for axis, name in enumerate(form) if name not in "NC"]
    strides = [seen.attributes["strides"][axis] for axis in spatial]
    dilations = [(seen.attributes.get("dilations") or [1] * len(form))[axis] for axis in spatial]
    image = [seen.inputs[place].shape[axis] for axis in spatial]
    explicit = seen.attributes.get("explicit_paddings") or []
    pads = resolved(seen.text("padding"), image, kernel, strides, dilations)
    if seen.text("padding") == "EXPLICIT":
        pads = [explicit[2 * axis] for axis in spatial] + [explicit[2 * axis + 1] for axis in spatial]
    return {"strides": strides, "pads": pads, "dilations": dilations, "data_format": form}


def _channels(seen: Seen, tensor: Tensor) -> int:
    return int(tensor.shape[(seen.text("data_format") or "NHWC").index("C")])


def _conv(seen: Seen) -> dict[str, Any]:
    kernel = [int(number) for number in seen.inputs[1].shape]
    groups = _channels(seen, seen.inputs[0]) // kernel[-2]
    return {"kernel": kernel[:-2], **_padding(seen, 0, kernel[:-2]), "groups": groups}


def _depthwise(seen: Seen) -> dict[str, Any]:
    kernel = [int(number) for number in seen.inputs[1].shape]
    return {"kernel": kernel[:2], **_padding(seen, 0, kernel[:2]), "groups": kernel[2]}


def _conv_transpose(seen: Seen) -> dict[str, Any]:
    kernel = [int(number) for number in seen.inputs[1].shape][:-2]
    form = seen.text("data_format") or "NHWC"
    spatial = [axis for axis, name in enumerate(form) if name not in "NC"]
    sizes = seen.numbers(0)
    sizes = sizes if len(sizes) == len(form) else [0] * (len(form) - len(sizes)) + sizes
    strides = [seen.attributes["strides"][axis] for axis in spatial]
    dilations = [(seen.attributes.get("dilations") or [1] * len(form))[axis] for axis in spatial]
    pads = resolved(seen.text("padding"), [sizes[axis] for axis in spatial], kernel, strides, dilations)
    return {
        "kernel": kernel,
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "groups": 1,
        "data_format": form,
    }


def _pool(seen: Seen) -> dict[str, Any]:
    form = seen.text("data_format") or "NHWC"
    kernel = [size for size, name in zip(seen.attributes["ksize"], form, strict=True) if name not in "NC"]
    return {"kernel": kernel, **_padding(seen, 0, kernel)}


def _average_pool(seen: Seen) -> dict[str, Any]:
    return {**_pool(seen), "count_include_pad": False}


def _reduction(seen: Seen) -> dict[str, Any]:
    return {"axes": seen.numbers(1), "keepdims": bool(seen.attributes["keep_dims"])}


def _first_axis(seen: Seen) -> dict[str, Any]:
    return {"axes": seen.numbers(1)}


def _batch_norm(seen: Seen) -> dict[str, Any]:
    return {
        "epsilon": seen.number("epsilon"),
        "training": bool(seen.attributes["is_training"]),
        "data_format": seen.text("data_format"),
    }


def _coordinates(seen: Seen) -> str:
    if seen.attributes.get("align_corners"):
        return "align_corners"
    return "half_pixel" if seen.attributes.get("half_pixel_centers") else "asymmetric"


def _resize(seen: Seen) -> dict[str, Any]:
    return {"mode": "linear", "coordinates": _coordinates(seen), "antialias": False}


def _resize_nearest(seen: Seen) -> dict[str, Any]:
    rounding = "floor" if _coordinates(seen) == "asymmetric" else "round_prefer_ceil"
    return {"mode": "nearest", "coordinates": _coordinates(seen), "nearest_mode": rounding, "antialias": False}


def _resize_cubic(seen: Seen) -> dict[str, Any]:
    coefficient = -0.5 if seen.attributes["half_pixel_centers"] else -0.75
    return {"mode": "cubic", "coordinates": _coordinates(seen), "cubic_coefficient": coefficient, "antialias": False}


def _scale_and_translate(seen: Seen) -> dict[str, Any]:
    mode = {"triangle": "linear", "keyscubic": "cubic"}.get(seen.text("kernel_type"), seen.text("kernel_type"))
    return {"mode": mode, "coordinates": "half_pixel", "antialias": bool(seen.attributes["antialias"])}


def _matmul(seen: Seen) -> dict[str, Any]:
    names = ("transpose_a", "transpose_b", "adj_x", "adj_y")
    return {name: bool(seen.attributes[name]) for name in names if name in seen.attributes}


def _axis(place: int) -> Details:
    return lambda seen: {"axis": seen.numbers(place)[0]}


def _attribute_axis(seen: Seen) -> dict[str, Any]:
    return {"axis": int(seen.attributes["axis"])}


def _cumulative(seen: Seen) -> dict[str, Any]:
    return {"axes": seen.numbers(1), **{name: bool(seen.attributes[name]) for name in ("exclusive", "reverse")}}


def _number(name: str) -> Details:
    return lambda seen: {name: seen.number(name)}


def _constant(**attributes: Any) -> Details:
    return lambda _: attributes


def _pad(seen: Seen) -> dict[str, Any]:
    pairs = seen.numbers(1)
    value = float(seen.inputs[2].numpy()) if seen.op == "PadV2" else 0.0
    mode = seen.text("mode").lower()
    return {"pads": pairs[::2] + pairs[1::2], **({"mode": mode} if mode else {"mode": "constant", "value": value})}


DETAILED: Final[dict[str, tuple[str, Details]]] = {
    "Transpose": ("transpose", lambda seen: {"axes": seen.numbers(1)}),
    "Split": ("split", _axis(0)),
    "SplitV": ("split", _axis(2)),
    "Unpack": ("split", _attribute_axis),
    "Pack": ("concat", _attribute_axis),
    "ConcatV2": ("concat", lambda seen: {"axis": seen.numbers(len(seen.inputs) - 1)[0]}),
    "Concat": ("concat", _axis(0)),
    "TensorListStack": ("concat", _constant(axis=0)),
    "TensorListGetItem": ("slice", _constant(axis=0)),
    **dict.fromkeys(("Pad", "PadV2", "MirrorPad"), ("pad", _pad)),
    "FloorDiv": ("div", _constant(rounding="floor")),
    "TruncateDiv": ("div", _constant(rounding="trunc")),
    "Cast": ("cast", lambda seen: {"to": seen.attributes["DstT"].name}),
    "Relu6": ("clip", _constant(min=0.0, max=6.0)),
    "LeakyRelu": ("leaky_relu", _number("alpha")),
    "Elu": ("elu", _constant(alpha=1.0)),
    **{op: (kind, _reduction) for op, kind in {"Mean": "mean", "Sum": "sum", "Prod": "prod", "Max": "max"}.items()},
    **{op: (kind, _reduction) for op, kind in {"Min": "min", "Any": "any", "EuclideanNorm": "norm"}.items()},
    "ArgMax": ("argmax", _first_axis),
    "Cumsum": ("cumsum", _cumulative),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), ("matmul", _matmul)),
    "Einsum": ("matmul", lambda seen: {"equation": seen.text("equation")}),
    **dict.fromkeys(("Conv2D", "Conv3D"), ("conv", _conv)),
    "DepthwiseConv2dNative": ("conv", _depthwise),
    **dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), ("conv_transpose", _conv_transpose)),
    **dict.fromkeys(("AvgPool", "AvgPool3D"), ("average_pool", _average_pool)),
    **dict.fromkeys(("MaxPool", "MaxPool3D"), ("max_pool", _pool)),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), ("batch_norm", _batch_norm)),
    "Softmax": ("softmax", _constant(axis=-1)),
    "LogSoftmax": ("log_softmax", _constant(axis=-1)),
    "ResizeBilinear": ("resize", _resize),
    "ResizeNearestNeighbor": ("resize", _resize_nearest),
    "ResizeBicubic": ("resize", _resize_cubic),
    "ScaleAndTranslate": ("resize", _scale_and_translate),
    **dict.fromkeys(
        ("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"),
        ("quantize", lambda seen: {"bits": int(seen.attributes["num_bits"])}),
    ),
}
"""Operators with attributes that matter."""

_GATHERS: Final = frozenset({"Gather", "GatherV2", "GatherNd", "ResourceGather", "ResourceGatherNd"})
_RANDOM: Final = ("Random", "Stateless", "Stateful", "Truncated", "Multinomial", "Rng", "ParameterizedTruncated")


def described(seen: Seen) -> tuple[str, dict[str, Any]]:
    """Kind and canonical attributes of a call; kind "" for an operator that has none."""
    if seen.op in PLAIN:
        return PLAIN[seen.op], {}
    if seen.op in DETAILED:
        kind, details = DETAILED[seen.op]
        return kind, details(seen)
    if seen.op in _GATHERS:
        lookup = seen.of_weight and seen.made[0].dtype.is_floating
        axis = seen.numbers(2)[0] if seen.op == "GatherV2" else 0
        return ("embedding" if lookup else "gather"), {"axis": axis}
    if seen.op.startswith(_RANDOM):
        return ("constant" if seen.fixed and seen.op.startswith("Stateless") else "random"), {}
    return "", {}
