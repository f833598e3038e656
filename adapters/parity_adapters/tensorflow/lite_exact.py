"""TFLite's operators in other precisions than their own, by TensorFlow's kernels.

Each is a function of the inputs (eager tensors, floating-point ones of one type, None where absent) and of the
operator's options, and returns its outputs. Operators on quantised numbers are not among them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from parity_adapters.tensorflow.arrays import Tensor, from_numpy, to_numpy
from parity_adapters.tensorflow.lite_kinds import ACTIVATIONS, PADDINGS
from parity_adapters.tensorflow.runtime import tf
from parity_adapters.tensorflow.written import resize_linear

Options = Mapping[str, Any]
Exact = Callable[[Sequence[Any], Options], list[Tensor]]

_INT64: Final = 4
"""The number of this type in the file format."""

_ACTIVATE: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "none": lambda y: y,
    "relu": tf.nn.relu,
    "relu_n1_to_1": lambda y: tf.clip_by_value(y, -1, 1),
    "relu6": tf.nn.relu6,
    "tanh": tf.tanh,
}


def activated(y: Tensor, options: Options) -> list[Tensor]:
    """The output after the activation that is fused into the operator."""
    return [_ACTIVATE[ACTIVATIONS[options.get("fusedActivationFunction", 0)]](y)]


def _pointwise(function: Callable[..., Tensor]) -> Exact:
    return lambda inputs, options: activated(function(*inputs), options)


def _fully_connected(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    x, weights, *rest = inputs
    y = tf.matmul(tf.reshape(x, (-1, weights.shape[1])), weights, transpose_b=True)
    if rest and rest[0] is not None:
        y += rest[0]
    if options["keepNumDims"]:
        y = tf.reshape(y, (*x.shape[:-1], weights.shape[0]))
    return activated(y, options)


def _steps(options: Options) -> dict[str, Any]:
    return {
        "strides": (1, options["strideH"], options["strideW"], 1),
        "padding": PADDINGS[options["padding"]],
    }


def _biased(y: Tensor, rest: Sequence[Any], options: Options) -> list[Tensor]:
    return activated(y + rest[0] if rest and rest[0] is not None else y, options)


def _conv(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    x, filters, *rest = inputs
    kernel = tf.transpose(filters, (1, 2, 3, 0))
    groups = x.shape[3] // filters.shape[3]
    dilations = (options["dilationHFactor"], options["dilationWFactor"])
    parts = [
        tf.nn.conv2d(part, weights, dilations=dilations, **_steps(options))
        for part, weights in zip(tf.split(x, groups, 3), tf.split(kernel, groups, 3), strict=True)
    ]
    return _biased(tf.concat(parts, 3), rest, options)


def _depthwise(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    x, filters, *rest = inputs
    channels = x.shape[3]
    kernel = tf.reshape(filters, (*filters.shape[1:3], channels, filters.shape[3] // channels))
    dilations = (options["dilationHFactor"], options["dilationWFactor"])
    y = tf.nn.depthwise_conv2d(x, kernel, dilations=dilations, **_steps(options))
    return _biased(y, rest, options)


def _conv_transpose(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    shape, filters, x, *rest = inputs
    y = tf.nn.conv2d_transpose(x, tf.transpose(filters, (1, 2, 0, 3)), shape, **_steps(options))
    return _biased(y, rest, options)


def _pooled(function: Callable[..., Tensor]) -> Exact:
    def pool(inputs: Sequence[Any], options: Options) -> list[Tensor]:
        window = (1, options["filterHeight"], options["filterWidth"], 1)
        return activated(function(inputs[0], window, **_steps(options)), options)

    return pool


def _batch_matmul(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    return [tf.matmul(*inputs, transpose_a=options["adjX"], transpose_b=options["adjY"])]


def _reduced(function: Callable[..., Tensor]) -> Exact:
    return lambda inputs, options: [function(*inputs, keepdims=options["keepDims"])]


def _softmax(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    return [tf.nn.softmax(inputs[0] * tf.cast(options["beta"], inputs[0].dtype))]


def _hard_swish(x: Tensor) -> Tensor:
    return x * tf.nn.relu6(x + tf.cast(3, x.dtype)) / tf.cast(6, x.dtype)


def _squeeze(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    axes = options["squeezeDims"]
    return [tf.squeeze(inputs[0], None if axes is None or not len(axes) else [int(axis) for axis in axes])]


def _reshape(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    shape = inputs[1] if len(inputs) > 1 and inputs[1] is not None else options["newShape"]
    return [tf.reshape(inputs[0], shape)]


def _strided_slice(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    masks = {
        "begin_mask": "beginMask",
        "end_mask": "endMask",
        "ellipsis_mask": "ellipsisMask",
        "new_axis_mask": "newAxisMask",
        "shrink_axis_mask": "shrinkAxisMask",
    }
    return [tf.strided_slice(*inputs, **{name: options[own] for name, own in masks.items()})]


def _split(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    return list(tf.split(inputs[1], options["numSplits"], int(inputs[0])))


def _split_sizes(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    del options
    return list(tf.split(inputs[0], inputs[1].numpy().tolist(), int(inputs[2])))


def _gather(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    return [tf.gather(*inputs, axis=options["axis"], batch_dims=options["batchDims"])]


def _mirror_pad(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    return [tf.pad(*inputs, mode="SYMMETRIC" if options["mode"] else "REFLECT")]


def _resize_linear(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    flags = {"half_pixel_centers": options["halfPixelCenters"], "align_corners": options["alignCorners"]}
    return resize_linear(list(inputs), flags)


def _resize_nearest(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    flags = {"half_pixel_centers": options["halfPixelCenters"], "align_corners": options["alignCorners"]}
    return [tf.raw_ops.ResizeNearestNeighbor(images=inputs[0], size=inputs[1], **flags)]


def _normalised(inputs: Sequence[Any], options: Options) -> list[Tensor]:
    x = inputs[0]
    return activated(x / tf.maximum(tf.norm(x, axis=-1, keepdims=True), tf.cast(1e-6, x.dtype)), options)


def _update(x: Tensor, part: Tensor, at: Tensor) -> Tensor:
    """``part`` written over ``x``, its first element at ``at``, moved inside where it would not fit."""
    whole = to_numpy(x).copy()
    starts = [
        min(max(int(start), 0), room - size) for start, room, size in zip(at, whole.shape, part.shape, strict=True)
    ]
    whole[tuple(slice(start, start + size) for start, size in zip(starts, part.shape, strict=True))] = to_numpy(part)
    return from_numpy(whole)


def _arg(function: Callable[..., Tensor]) -> Exact:
    def arg(inputs: Sequence[Any], options: Options) -> list[Tensor]:
        whole = tf.int64 if options["outputType"] == _INT64 else tf.int32
        return [function(inputs[0], int(inputs[1]), output_type=whole)]

    return arg


_ELEMENTWISE: Final[dict[str, Callable[..., Tensor]]] = {
    "ADD": tf.add,
    "SUB": tf.subtract,
    "MUL": tf.multiply,
    "DIV": tf.divide,
    "POW": tf.pow,
    "SQUARED_DIFFERENCE": tf.math.squared_difference,
    "MAXIMUM": tf.maximum,
    "MINIMUM": tf.minimum,
    "FLOOR_DIV": tf.math.floordiv,
    "FLOOR_MOD": tf.math.floormod,
    "LOGISTIC": tf.sigmoid,
    "TANH": tf.tanh,
    "RELU": tf.nn.relu,
    "RELU6": tf.nn.relu6,
    "RELU_N1_TO_1": lambda x: tf.clip_by_value(x, -1, 1),
    "RELU_0_TO_1": lambda x: tf.clip_by_value(x, 0, 1),
    "ELU": tf.nn.elu,
    "PRELU": lambda x, alpha: tf.where(x >= 0, x, alpha * x),
    "HARD_SWISH": _hard_swish,
    "RSQRT": tf.math.rsqrt,
    "SQRT": tf.sqrt,
    "EXP": tf.exp,
    "LOG": tf.math.log,
    "ABS": tf.abs,
    "NEG": tf.negative,
    "SIN": tf.sin,
    "COS": tf.cos,
    "SQUARE": tf.square,
    "FLOOR": tf.floor,
    "CEIL": tf.math.ceil,
    "ROUND": tf.round,
    "SIGN": tf.sign,
    "EQUAL": tf.equal,
    "NOT_EQUAL": tf.not_equal,
    "LESS": tf.less,
    "LESS_EQUAL": tf.less_equal,
    "GREATER": tf.greater,
    "GREATER_EQUAL": tf.greater_equal,
    "LOGICAL_NOT": tf.logical_not,
    "LOGICAL_AND": tf.logical_and,
    "LOGICAL_OR": tf.logical_or,
    "SELECT": tf.compat.v1.where,
    "SELECT_V2": tf.where,
    "ADD_N": lambda *parts: tf.add_n(parts),
    "LOG_SOFTMAX": tf.nn.log_softmax,
}

_MOVING: Final[dict[str, Callable[..., Tensor]]] = {
    "TILE": tf.tile,
    "BROADCAST_TO": tf.broadcast_to,
    "FILL": tf.fill,
    "TRANSPOSE": tf.transpose,
    "EXPAND_DIMS": lambda x, axis: tf.expand_dims(x, int(axis)),
    "SLICE": tf.slice,
    "PAD": tf.pad,
    "PADV2": lambda x, pads, value: tf.pad(x, pads, constant_values=tf.reshape(value, ())),
    "ZEROS_LIKE": tf.zeros_like,
    "GATHER_ND": tf.gather_nd,
    "SCATTER_ND": tf.scatter_nd,
    "EMBEDDING_LOOKUP": lambda rows, table: tf.gather(table, rows),
    "RANGE": tf.range,
    "SHAPE": tf.shape,
    "RANK": tf.rank,
    "DYNAMIC_UPDATE_SLICE": _update,
    "REVERSE_V2": tf.reverse,
}

MOVING: Final[dict[str, Exact]] = {
    **{name: _pointwise(function) for name, function in _MOVING.items()},
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "SPLIT": _split,
    "SPLIT_V": _split_sizes,
    "CONCATENATION": lambda inputs, options: activated(tf.concat(list(inputs), options["axis"]), options),
    "PACK": lambda inputs, options: [tf.stack(list(inputs), options["axis"])],
    "UNPACK": lambda inputs, options: list(tf.unstack(inputs[0], options["num"], options["axis"])),
    "GATHER": _gather,
    "MIRROR_PAD": _mirror_pad,
}
"""Operators that compute nothing, and so may also be given whole numbers that stand for others."""

EXACT: Final[dict[str, Exact]] = {
    **MOVING,
    **{name: _pointwise(function) for name, function in _ELEMENTWISE.items()},
    "FULLY_CONNECTED": _fully_connected,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _conv_transpose,
    "BATCH_MATMUL": _batch_matmul,
    "AVERAGE_POOL_2D": _pooled(tf.nn.avg_pool2d),
    "MAX_POOL_2D": _pooled(tf.nn.max_pool2d),
    "SOFTMAX": _softmax,
    "L2_NORMALIZATION": _normalised,
    "LEAKY_RELU": lambda inputs, options: [tf.nn.leaky_relu(inputs[0], options["alpha"])],
    "GELU": lambda inputs, options: [tf.nn.gelu(inputs[0], options["approximate"])],
    "MEAN": _reduced(tf.reduce_mean),
    "SUM": _reduced(tf.reduce_sum),
    "REDUCE_MAX": _reduced(tf.reduce_max),
    "REDUCE_MIN": _reduced(tf.reduce_min),
    "REDUCE_PROD": _reduced(tf.reduce_prod),
    "REDUCE_ANY": _reduced(tf.reduce_any),
    "REDUCE_ALL": _reduced(tf.reduce_all),
    "ARG_MAX": _arg(tf.argmax),
    "ARG_MIN": _arg(tf.argmin),
    "CUMSUM": lambda inputs, options: [
        tf.cumsum(inputs[0], int(inputs[1]), exclusive=options["exclusive"], reverse=options["reverse"])
    ],
    "TOPK_V2": lambda inputs, options: list(tf.math.top_k(inputs[0], int(inputs[1]))),  # noqa: ARG005 – has none
    "RESIZE_BILINEAR": _resize_linear,
    "RESIZE_NEAREST_NEIGHBOR": _resize_nearest,
}
"""Operator to how it is computed."""
