"""Pools and resizing."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.call import Call, Result
from parity_adapters.onnxruntime.exact.linear import padded, windows
from parity_adapters.onnxruntime.kinds import resolved_pads


def _window(call: Call) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Kernel, strides, dilations, pads, and how far windows may reach beyond these with ``ceil_mode``."""
    attributes, space = call.attributes, call[0].shape[2:]
    kernel = list(attributes["kernel_shape"])
    n = len(kernel)
    strides = list(attributes.get("strides") or [1] * n)
    dilations = list(attributes.get("dilations") or [1] * n)
    pads = resolved_pads(attributes, space, kernel, strides, dilations)
    beyond = [0] * n
    if attributes.get("ceil_mode"):
        for i in range(n):
            span = (kernel[i] - 1) * dilations[i] + 1
            reach = space[i] + pads[i] + pads[n + i] - span
            places = -(-reach // strides[i])
            # A window that would begin in the padding behind is left out.
            if places * strides[i] >= space[i] + pads[i]:
                places -= 1
            beyond[i] = max(0, places * strides[i] - reach)
    return kernel, strides, dilations, pads, beyond


def _seen(call: Call, x: Array, value: float, *, beyond_value: float) -> Array:
    """Windows of shape (N, C, places…, kernel…) of ``x``, its padding and what lies beyond it."""
    kernel, strides, dilations, pads, beyond = _window(call)
    grown = padded(padded(x, pads, value), [0] * len(beyond) + beyond, beyond_value)
    return windows(grown, kernel, strides, dilations)


def average_pool(call: Call) -> Result:
    """Mean of each window: of its numbers, or with ``count_include_pad`` of its numbers and its padding."""
    x = call[0]
    axes = tuple(range(-len(call.attributes["kernel_shape"]), 0))
    counted = float(call.attributes.get("count_include_pad", 0))
    sums = np.sum(_seen(call, x, 0, beyond_value=0), axes)
    counts = np.sum(_seen(call, np.ones_like(x[:1, :1]), counted, beyond_value=0), axes)
    return sums / counts


def lp_pool(call: Call) -> Result:
    """p-norm of each window."""
    axes = tuple(range(-len(call.attributes["kernel_shape"]), 0))
    p = call.attributes["p"]
    return np.sum(np.abs(_seen(call, call[0], 0, beyond_value=0)) ** p, axes) ** call.dtype.type(1 / p)


def max_pool(call: Call) -> Result:
    """Largest number of each window, and where it is."""
    x = call[0]
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    n = len(call.attributes["kernel_shape"])
    y = np.max(_seen(call, x, low, beyond_value=low), tuple(range(-n, 0)))
    if call.outputs < 2:
        return y
    place = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    if call.attributes.get("storage_order"):
        space = x.shape[2:]
        order = np.arange(math.prod(space)).reshape(space[::-1]).T
        place = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * n) * math.prod(space) + order
    best = _seen(call, x, low, beyond_value=low).reshape(*y.shape, -1).argmax(-1)
    places = _seen(call, place, -1, beyond_value=-1).reshape(*y.shape, -1)
    return y, np.take_along_axis(places, best[..., None], -1)[..., 0]


def max_unpool(call: Call) -> Result:
    """Numbers put back to where they were the largest, zeros elsewhere."""
    x, place, shape = call[0], call[1], call.get(2)
    kernel, n = call.attributes["kernel_shape"], x.ndim - 2
    strides, pads = call.attributes.get("strides") or [1] * n, call.attributes.get("pads") or [0] * 2 * n
    sizes = zip(x.shape[2:], strides, kernel, pads[:n], pads[n:], strict=True)
    space = [(size - 1) * s + k - a - b for size, s, k, a, b in sizes]
    y = np.zeros([*x.shape[:2], *space] if shape is None else [int(i) for i in shape], x.dtype)
    y.reshape(-1)[place.reshape(-1)] = x.reshape(-1)
    return y


def nhwc_max_pool(call: Call) -> Result:
    """Largest number of each window, channels last."""
    moved = Call(call.op, (np.moveaxis(call[0], -1, 1),), call.attributes, call.opset, 1, call.dtype)
    found = max_pool(moved)
    return np.moveaxis(found[0] if isinstance(found, tuple) else found, 1, -1)


def over_space(fold: Callable[..., Array]) -> Callable[[Call], Result]:
    """Pool of all of space."""
    return lambda call: np.asarray(fold(call[0], axis=tuple(range(2, call[0].ndim)), keepdims=True))


def resize(call: Call) -> Result:
    """Interpolation, one axis after another."""
    x, attributes = call[0], call.attributes
    axes = attributes.get("axes") or list(range(x.ndim))
    sizes, scales = _sizes_and_scales(call, axes)
    region = call.get(1) if call.op == "Resize" and call.opset >= 11 else None
    mode = attributes.get("mode", "nearest")
    if mode == "nearest":
        for axis in range(len(axes)):
            place = _coordinates(call, x.shape[axes[axis]], sizes[axis], scales[axis], _roi(region, axis, len(axes)))
            x = _nearest(x, axes[axis], place, call)
        return x
    inside = np.ones((), np.bool_)
    for i, axis in enumerate(axes):
        if sizes[i] == x.shape[axis] and scales[i] == 1 and region is None:
            continue
        place = _coordinates(call, x.shape[axis], sizes[i], scales[i], _roi(region, i, len(axes)))
        matrix = _weights(call, place, x.shape[axis], scales[i]).astype(x.dtype)
        here = (place >= 0) & (place <= x.shape[axis] - 1)
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
        inside = inside & here.reshape([-1 if j == axis % x.ndim else 1 for j in range(x.ndim)])
    if _transformation(call) == "tf_crop_and_resize":
        return np.where(inside, x, x.dtype.type(attributes.get("extrapolation_value", 0.0)))
    return x


def _roi(region: Array | None, i: int, n: int) -> tuple[float, float]:
    return (0.0, 1.0) if region is None or not region.size else (float(region[i]), float(region[n + i]))


def _sizes_and_scales(call: Call, axes: Sequence[int]) -> tuple[list[int], list[float]]:
    space = [call[0].shape[axis] for axis in axes]
    modern = call.op == "Resize" and call.opset >= 11
    wanted = call.get(3) if modern else None
    given = call.attributes.get("scales") or call.get(2 if modern else 1)
    if wanted is None or not wanted.size:
        # Production reads the scales as float32, in whatever type the rest is computed.
        scales = [float(np.float32(s)) for s in np.asarray(given).reshape(-1)]
        return [math.floor(n * s) for n, s in zip(space, scales, strict=True)], scales
    sizes = [int(i) for i in wanted]
    scales = [size / n for size, n in zip(sizes, space, strict=True)]
    policy = call.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = (min if policy == "not_larger" else max)(scales)
        return [math.floor(scale * n + 0.5) for n in space], [scale] * len(space)
    return sizes, scales


def _transformation(call: Call) -> str:
    default = "half_pixel" if call.op == "Resize" and call.opset >= 11 else "asymmetric"
    return str(call.attributes.get("coordinate_transformation_mode", default))


def _coordinates(call: Call, before: int, after: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where each output place of an axis lies in the input, in float64."""
    place = np.arange(after, dtype=np.float64)
    centred = (place + 0.5) / scale - 0.5
    start, end = roi
    steps = max(after - 1, 1)
    cropped = start * (before - 1) + place * ((end - start) * (before - 1) / steps)
    found = {
        "align_corners": place * ((before - 1) / steps),
        "asymmetric": place / scale,
        "tf_crop_and_resize": cropped if after > 1 else 0.5 * (start + end) * (before - 1) + place,
        "tf_half_pixel_for_nn": (place + 0.5) / scale,
        "pytorch_half_pixel": centred if after > 1 else place,
        "half_pixel_symmetric": before / 2 * (1 - after / (scale * before)) + centred,
        "half_pixel": centred,
    }
    return np.asarray(found[_transformation(call)])


def _nearest(x: Array, axis: int, place: Array, call: Call) -> Array:
    rounding = call.attributes.get("nearest_mode", "round_prefer_floor")
    if call.op == "Upsample" or (call.op == "Resize" and call.opset < 11):
        rounding = "floor"
    rounded = {
        "round_prefer_floor": lambda: np.ceil(place - 0.5),
        "round_prefer_ceil": lambda: np.floor(place + 0.5),
        "floor": lambda: np.floor(place),
        "ceil": lambda: np.ceil(place),
    }[rounding]()
    return np.take(x, np.clip(rounded, 0, x.shape[axis] - 1).astype(np.int64), axis)


def _weights(call: Call, place: Array, before: int, scale: float) -> Array:
    """Matrix of shape (places, input size) that interpolates along one axis."""
    cubic = call.attributes.get("mode") == "cubic"
    wide = 1 / scale if call.attributes.get("antialias") and scale < 1 else 1.0
    reach = math.ceil((2 if cubic else 1) * wide)
    first = np.floor(place).astype(np.int64)
    taps = first[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(place[:, None] - taps) / wide
    weights = _cubic(distance, call.attributes.get("cubic_coeff_a", -0.75)) if cubic else np.maximum(0, 1 - distance)
    outside = (taps < 0) | (taps >= before)
    if call.attributes.get("exclude_outside"):
        weights = np.where(outside, 0, weights)
    if call.attributes.get("exclude_outside") or wide > 1:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(place), before))
    np.add.at(matrix, (np.arange(len(place))[:, None], np.clip(taps, 0, before - 1)), weights)
    return matrix


def _cubic(d: Array, a: float) -> Array:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))
