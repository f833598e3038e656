"""TFLite's operators in the words of `parity.graph`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from parity.adapter import Array
from parity_adapters.tensorflow.padding import resolved
from parity_adapters.tensorflow.runtime import schema


def _words(enumeration: Any) -> dict[int, str]:
    return {code: name.lower() for name, code in vars(enumeration).items() if not name.startswith("_")}


ACTIVATIONS: Final = _words(schema.ActivationFunctionType)
PADDINGS: Final = {schema.Padding.SAME: "SAME", schema.Padding.VALID: "VALID"}
_MIRRORS: Final = _words(schema.MirrorPadMode)


@dataclass(frozen=True, slots=True)
class LiteSeen:
    """One call as it ran.

    Attributes:
        op: The operator.
        options: By the file format's own names.
        inputs: What it read; None for an absent tensor.
        made: What it made.
        of_weight: Its first input is a constant.
    """

    op: str
    options: Mapping[str, Any]
    inputs: Sequence[Array | None]
    made: Sequence[Array]
    of_weight: bool

    def array(self, place: int) -> Array:
        """An input that is there."""
        return np.asarray(self.inputs[place])

    def numbers(self, place: int) -> list[int]:
        """A small input of whole numbers as a flat list."""
        return [int(number) for number in self.array(place).reshape(-1)]


Details = Callable[[LiteSeen], dict[str, Any]]

PLAIN: Final[dict[str, str]] = {
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), "reshape"),
    **dict.fromkeys(("SLICE", "STRIDED_SLICE", "DYNAMIC_UPDATE_SLICE"), "slice"),
    **dict.fromkeys(("SPLIT", "SPLIT_V", "UNPACK"), "split"),
    **dict.fromkeys(("TILE", "BROADCAST_TO"), "expand"),
    **dict.fromkeys(("SCATTER_ND",), "scatter"),
    **dict.fromkeys(("FILL", "RANGE", "ZEROS_LIKE"), "constant"),
    **dict.fromkeys(("ADD", "ADD_N"), "add"),
    "SUB": "sub",
    "MUL": "mul",
    "DIV": "div",
    "FLOOR_MOD": "mod",
    "POW": "pow",
    "NEG": "neg",
    "ABS": "abs",
    "MAXIMUM": "maximum",
    "MINIMUM": "minimum",
    **dict.fromkeys(("SELECT", "SELECT_V2"), "where"),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"), "compare"),
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"), "logic"),
    "CAST": "cast",
    "FLOOR": "floor",
    "CEIL": "ceil",
    "ROUND": "round",
    "SIGN": "sign",
    "EXP": "exp",
    "LOG": "log",
    "SQRT": "sqrt",
    "RSQRT": "rsqrt",
    "SQUARE": "square",
    "SIN": "sin",
    "COS": "cos",
    "RELU": "relu",
    "PRELU": "prelu",
    "LOGISTIC": "sigmoid",
    "TANH": "tanh",
    "HARD_SWISH": "hard_swish",
    "SQUARED_DIFFERENCE": "pointwise",
    "TOPK_V2": "topk",
    **dict.fromkeys(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"), "random"),
}
"""Operators whose kind is all there is to say."""


def _window(seen: LiteSeen, kernel: list[int], image: Sequence[int]) -> dict[str, Any]:
    options = seen.options
    strides = [options["strideH"], options["strideW"]]
    dilations = [options.get("dilationHFactor", 1), options.get("dilationWFactor", 1)]
    pads = resolved(PADDINGS[options["padding"]], list(image), kernel, strides, dilations)
    return {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "data_format": "NHWC"}


def _conv(seen: LiteSeen) -> dict[str, Any]:
    x, filters = seen.array(0), seen.array(1)
    return {**_window(seen, list(filters.shape[1:3]), x.shape[1:3]), "groups": x.shape[3] // filters.shape[3]}


def _depthwise(seen: LiteSeen) -> dict[str, Any]:
    x, filters = seen.array(0), seen.array(1)
    return {**_window(seen, list(filters.shape[1:3]), x.shape[1:3]), "groups": x.shape[3]}


def _conv_transpose(seen: LiteSeen) -> dict[str, Any]:
    return {**_window(seen, list(seen.array(1).shape[1:3]), seen.made[0].shape[1:3]), "groups": 1}


def _pool(seen: LiteSeen) -> dict[str, Any]:
    return _window(seen, [seen.options["filterHeight"], seen.options["filterWidth"]], seen.array(0).shape[1:3])


def _average_pool(seen: LiteSeen) -> dict[str, Any]:
    return {**_pool(seen), "count_include_pad": False}


def _reduction(seen: LiteSeen) -> dict[str, Any]:
    return {"axes": seen.numbers(1), "keepdims": bool(seen.options.get("keepDims"))}


def _axes(seen: LiteSeen) -> dict[str, Any]:
    return {"axes": seen.numbers(1)}


def _resize(mode: str) -> Details:
    def details(seen: LiteSeen) -> dict[str, Any]:
        half = "half_pixel" if seen.options["halfPixelCenters"] else "asymmetric"
        coordinates = "align_corners" if seen.options["alignCorners"] else half
        return {"mode": mode, "coordinates": coordinates, "antialias": False}

    return details


def _pad(seen: LiteSeen) -> dict[str, Any]:
    pairs = seen.numbers(1)
    pads = pairs[::2] + pairs[1::2]
    if seen.op == "MIRROR_PAD":
        return {"pads": pads, "mode": _MIRRORS[seen.options["mode"]]}
    return {"pads": pads, "mode": "constant", "value": float(seen.array(2).reshape(())) if seen.op == "PADV2" else 0.0}


def _constant(**attributes: Any) -> Details:
    return lambda _: attributes


def _softmax(seen: LiteSeen) -> dict[str, Any]:
    return {"axis": -1, "beta": float(seen.options["beta"])}


def _bits(array: Array) -> dict[str, Any]:
    return {"bits": 8 * array.dtype.itemsize}


DETAILED: Final[dict[str, tuple[str, Details]]] = {
    "TRANSPOSE": ("transpose", _axes),
    "CONCATENATION": ("concat", lambda seen: {"axis": seen.options["axis"]}),
    "PACK": ("concat", lambda seen: {"axis": seen.options["axis"]}),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), ("pad", _pad)),
    "FLOOR_DIV": ("div", _constant(rounding="floor")),
    "RELU6": ("clip", _constant(min=0.0, max=6.0)),
    "RELU_N1_TO_1": ("clip", _constant(min=-1.0, max=1.0)),
    "RELU_0_TO_1": ("clip", _constant(min=0.0, max=1.0)),
    "LEAKY_RELU": ("leaky_relu", lambda seen: {"alpha": float(f"{seen.options['alpha']:.7g}")}),
    "ELU": ("elu", _constant(alpha=1.0)),
    "GELU": ("gelu", lambda seen: {"approximate": "tanh" if seen.options["approximate"] else "none"}),
    **{op: (kind, _reduction) for op, kind in {"MEAN": "mean", "SUM": "sum", "REDUCE_PROD": "prod"}.items()},
    **{op: (kind, _reduction) for op, kind in {"REDUCE_MAX": "max", "REDUCE_MIN": "min", "REDUCE_ANY": "any"}.items()},
    "ARG_MAX": ("argmax", _axes),
    "CUMSUM": ("cumsum", _axes),
    "FULLY_CONNECTED": ("matmul", _constant(transpose_b=True)),
    "BATCH_MATMUL": ("matmul", lambda seen: {"adj_x": seen.options["adjX"], "adj_y": seen.options["adjY"]}),
    "CONV_2D": ("conv", _conv),
    "DEPTHWISE_CONV_2D": ("conv", _depthwise),
    "TRANSPOSE_CONV": ("conv_transpose", _conv_transpose),
    "AVERAGE_POOL_2D": ("average_pool", _average_pool),
    "MAX_POOL_2D": ("max_pool", _pool),
    "SOFTMAX": ("softmax", _softmax),
    "LOG_SOFTMAX": ("log_softmax", _constant(axis=-1)),
    "RESIZE_BILINEAR": ("resize", _resize("linear")),
    "RESIZE_NEAREST_NEIGHBOR": ("resize", _resize("nearest")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ("recurrent", _constant(cell="lstm")),
    "UNIDIRECTIONAL_SEQUENCE_RNN": ("recurrent", _constant(cell="rnn")),
    "QUANTIZE": ("quantize", lambda seen: _bits(seen.made[0])),
}
"""Operators with attributes that matter."""


def lite_described(seen: LiteSeen) -> tuple[str, dict[str, Any]]:
    """Kind and canonical attributes of a call; a fused activation is the attribute ``activation``."""
    kind, attributes = _described(seen)
    activation = ACTIVATIONS.get(seen.options.get("fusedActivationFunction", 0), "none")
    return kind, attributes if activation == "none" else {**attributes, "activation": activation}


def _described(seen: LiteSeen) -> tuple[str, dict[str, Any]]:
    if seen.op in PLAIN:
        return PLAIN[seen.op], {}
    if seen.op in DETAILED:
        kind, details = DETAILED[seen.op]
        return kind, details(seen)
    if seen.op in {"GATHER", "GATHER_ND", "EMBEDDING_LOOKUP"}:
        table = seen.array(1 if seen.op == "EMBEDDING_LOOKUP" else 0)
        lookup = seen.op == "EMBEDDING_LOOKUP" or (seen.of_weight and table.dtype.kind == "f")
        return ("embedding" if lookup else "gather"), {"axis": int(seen.options.get("axis", 0))}
    if seen.op == "DEQUANTIZE":
        stored = seen.array(0)
        return ("cast", {"to": "float32"}) if stored.dtype.kind in "fV" else ("dequantize", _bits(stored))
    return "", {}
