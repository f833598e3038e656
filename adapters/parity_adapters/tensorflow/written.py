"""Operators written out for the precisions in which TensorFlow has no kernel of them.

Each takes the inputs, all in one floating-point type, and the attributes of the operator, and returns its outputs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.padding import resolved
from parity_adapters.tensorflow.runtime import tf

Written = Callable[[list[Tensor], Mapping[str, Any]], list[Tensor]]


def batch_norm(inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
    """``FusedBatchNormV3`` and its elders; in training the moments of the batch, the variance told unbiased."""
    x, scale, offset, mean, variance = inputs
    last = attributes["data_format"] in {b"NHWC", b"NDHWC"}
    axes = [axis for axis in range(x.shape.rank) if axis != (x.shape.rank - 1 if last else 1)]
    told = variance
    if attributes["is_training"]:
        mean, variance = tf.nn.moments(x, axes)
        count = tf.cast(tf.size(x) / tf.size(mean), x.dtype)
        told = variance * count / tf.maximum(count - 1, 1)
    channels = [-1 if last == (axis == x.shape.rank - 1) and axis not in axes else 1 for axis in range(x.shape.rank)]
    factor = scale / tf.sqrt(variance + tf.cast(attributes["epsilon"], x.dtype))
    y = (x - tf.reshape(mean, channels)) * tf.reshape(factor, channels) + tf.reshape(offset, channels)
    return [y, mean, told, mean, variance, tf.zeros_like(mean)]


def resize_linear(inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
    """``ResizeBilinear``: a matrix for each of the two axes."""
    return _resize(inputs, attributes, _linear_taps)


def resize_cubic(inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
    """``ResizeBicubic``: Keys' coefficient -0.5 with half pixel centres, -0.75 without, as TensorFlow has it."""
    return _resize(inputs, attributes, _cubic_taps)


def _resize(inputs: list[Tensor], attributes: Mapping[str, Any], taps: Callable[..., Any]) -> list[Tensor]:
    x, size = inputs
    height, width = (int(number) for number in size.numpy())
    rows = tf.constant(_matrix(x.shape[1], height, attributes, taps), x.dtype)
    columns = tf.constant(_matrix(x.shape[2], width, attributes, taps), x.dtype)
    return [tf.einsum("oi,pj,bijc->bopc", rows, columns, x)]


def _matrix(length: int, out: int, attributes: Mapping[str, Any], taps: Callable[..., Any]) -> Any:
    """Weights of each input position (columns) in each output position (rows), float64, shape (out, length)."""
    half, corners = attributes["half_pixel_centers"], attributes["align_corners"]
    scale = (length - 1) / (out - 1) if corners and out > 1 else length / out
    places = (np.arange(out) + 0.5) * scale - 0.5 if half else np.arange(out) * scale
    matrix = np.zeros((out, length))
    for row, place in enumerate(places):
        for position, weight in taps(float(place), length, half=half):
            matrix[row, min(max(position, 0), length - 1)] += weight
    return matrix


def _linear_taps(place: float, length: int, *, half: bool) -> list[tuple[int, float]]:  # noqa: ARG001 – one signature
    below = int(np.floor(place))
    return [(below, 1 - (place - below)), (below + 1, place - below)]


def _cubic_taps(place: float, length: int, *, half: bool) -> list[tuple[int, float]]:
    below = int(np.floor(place))
    a = -0.5 if half else -0.75
    taps = [(position, _cubic(abs(place - position), a)) for position in range(below - 1, below + 3)]
    if not half:
        return taps
    inside = [(position, weight) for position, weight in taps if 0 <= position < length]
    total = sum(weight for _, weight in inside)
    return [(position, weight / total) for position, weight in inside]


def _cubic(distance: float, a: float) -> float:
    if distance <= 1:
        return ((a + 2) * distance - (a + 3)) * distance**2 + 1
    return a * (((distance - 5) * distance + 8) * distance - 4)


def fake_quant(inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
    """``FakeQuantWithMinMax…``: the range nudged so that zero is one of its steps."""
    x = inputs[0]
    low, high = inputs[1:] if len(inputs) > 1 else (tf.cast(attributes[name], x.dtype) for name in ("min", "max"))
    first = 1.0 if attributes["narrow_range"] else 0.0
    last = 2.0 ** attributes["num_bits"] - 1
    step = (high - low) / (last - first)
    zero = tf.clip_by_value(tf.floor(first - low / step + 0.5), first, last)
    nudged_low, nudged_high = (first - zero) * step, (last - zero) * step
    clamped = tf.clip_by_value(x, nudged_low, nudged_high)
    return [tf.floor((clamped - nudged_low) / step + 0.5) * step + nudged_low]


def local_response(inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
    """``LRN`` over the last axis."""
    x = inputs[0]
    radius = attributes["depth_radius"]
    padded = tf.pad(tf.square(x), [[0, 0]] * 3 + [[radius, radius]])
    total = tf.add_n([padded[..., shift : shift + x.shape[-1]] for shift in range(2 * radius + 1)])
    bias, alpha, beta = (tf.cast(attributes[name], x.dtype) for name in ("bias", "alpha", "beta"))
    return [x / tf.pow(bias + alpha * total, beta)]


def _pool(inputs: list[Tensor], attributes: Mapping[str, Any], fold: Callable[[Tensor, Any], Tensor]) -> list[Tensor]:
    """Pooling of three axes, channels last, as a fold over the shifts of the window."""
    x = inputs[0]
    kernel, strides = attributes["ksize"][1:4], attributes["strides"][1:4]
    if attributes["data_format"] != b"NDHWC":
        raise tf.errors.UnimplementedError(None, None, "three-dimensional pooling with channels first")
    pads = resolved(attributes["padding"].decode(), x.shape[1:4], kernel, strides, [1, 1, 1])
    return [fold(x, _windows(kernel, strides, list(zip(pads[:3], pads[3:], strict=True))))]


def _windows(kernel: list[int], strides: list[int], pads: list[tuple[int, int]]) -> Callable[[Tensor, float], Tensor]:
    def windows(x: Tensor, value: float) -> Tensor:
        padded = tf.pad(x, [(0, 0), *pads, (0, 0)], constant_values=tf.cast(value, x.dtype))
        counts = [(n - k) // s + 1 for n, k, s in zip(padded.shape[1:4], kernel, strides, strict=True)]
        return tf.stack(
            [
                padded[
                    (
                        slice(None),
                        *(slice(o, o + s * (n - 1) + 1, s) for o, s, n in zip(offset, strides, counts, strict=True)),
                    )
                ]
                for offset in np.ndindex(*kernel)
            ]
        )

    return windows


def average_pool_3d(inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
    """``AvgPool3D``: padding is not counted."""

    def fold(x: Tensor, windows: Callable[[Tensor, float], Tensor]) -> Tensor:
        counts = tf.reduce_sum(windows(tf.ones_like(x), 0.0), 0)
        return tf.reduce_sum(windows(x, 0.0), 0) / counts

    return _pool(inputs, attributes, fold)


def max_pool_3d(inputs: list[Tensor], attributes: Mapping[str, Any]) -> list[Tensor]:
    """``MaxPool3D``."""
    return _pool(inputs, attributes, lambda x, windows: tf.reduce_max(windows(x, float("-inf")), 0))


WRITTEN: Final[dict[str, Written]] = {
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), batch_norm),
    "ResizeBilinear": resize_linear,
    "ResizeBicubic": resize_cubic,
    **dict.fromkeys(
        ("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"), fake_quant
    ),
    "LRN": local_response,
    "AvgPool3D": average_pool_3d,
    "MaxPool3D": max_pool_3d,
}
"""Operator to how it is written."""
