"""Products of matrices and convolutions."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.call import Call, Result
from parity_adapters.onnxruntime.exact.pointwise import activated
from parity_adapters.onnxruntime.kinds import resolved_pads


def matmul(call: Call) -> Result:
    """Product of matrices."""
    return np.matmul(call[0], call[1])


def gemm(call: Call) -> Result:
    """Alpha · A · B + beta · C, and the activation of a fused one."""
    attributes = call.attributes
    a = call[0].T if attributes["transA"] else call[0]
    b = call[1].T if attributes["transB"] else call[1]
    y = call.dtype.type(attributes["alpha"]) * (a @ b)
    c = call.get(2)
    return activated(y if c is None else y + call.dtype.type(attributes["beta"]) * c, call)


def fused_matmul(call: Call) -> Result:
    """Alpha · A · B with either transposed, be it in its last two axes or with its batch axes moved inwards."""
    attributes = call.attributes
    a = _turned(call[0], bool(attributes.get("transA")), bool(attributes.get("transBatchA")))
    b = _turned(call[1], bool(attributes.get("transB")), bool(attributes.get("transBatchB")))
    return activated(call.dtype.type(attributes.get("alpha", 1.0)) * np.matmul(a, b), call)


def _turned(x: Array, last: bool, batch: bool) -> Array:
    if x.ndim < 2:
        return x
    if batch:
        x = np.moveaxis(x, 0, -2)
    return np.swapaxes(x, -1, -2) if last else x


def einsum(call: Call) -> Result:
    """Sum of products that an equation names."""
    return np.einsum(call.attributes["equation"], *call.present(), optimize=True)


def conv(call: Call) -> Result:
    """Convolution; a fused one adds a sum and applies its activation."""
    y = convolution(call[0], call[1], call.attributes)
    bias, more = call.get(2), call.get(3)
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * (y.ndim - 2))
    return activated(y if more is None else y + more, call)


def blocked_conv(call: Call) -> Result:
    """Convolution whose groups were counted with the channels that fill up a block."""
    x, w, *rest = call.inputs
    groups = min(call.attributes.get("group", 1), call[1].shape[0])
    w = call[1][:, : call[0].shape[1]] if groups == 1 else w
    return conv(replace(call, inputs=(x, w, *rest), attributes={**call.attributes, "group": groups}))


def convolution(x: Array, w: Array, attributes: Any) -> Array:
    """Convolution without a bias.

    Args:
        x: Of shape (N, C, space…).
        w: Of shape (M, C / groups, kernel…).
        attributes: ``strides``, ``pads`` or ``auto_pad``, ``dilations``, ``group``, each of which may be absent.
    """
    kernel, n = list(w.shape[2:]), w.ndim - 2
    strides, dilations = attributes.get("strides") or [1] * n, attributes.get("dilations") or [1] * n
    pads = resolved_pads(attributes, x.shape[2:], kernel, strides, dilations)
    groups = attributes.get("group", 1)
    filters = w.reshape(groups, w.shape[0] // groups, -1)
    # One image at a time: its patches are as many times larger than it as the kernel has places.
    images = [
        np.matmul(filters, _patches(windows(image[None], kernel, strides, dilations)[0], groups))
        for image in padded(x, pads, 0)
    ]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = zip(x.shape[2:], pads[:n], pads[n:], spans, strides, strict=True)
    space = [(size + a + b - span) // s + 1 for size, a, b, span, s in sizes]
    return np.reshape(images, (x.shape[0], w.shape[0], *space))


def _patches(view: Array, groups: int) -> Array:
    """Columns (groups, channels of one · kernel, places) of windows (channels, places…, kernel…)."""
    n = (view.ndim - 1) // 2
    columns = np.moveaxis(view, range(1 + n, 1 + 2 * n), range(1, 1 + n))
    return columns.reshape(groups, -1, math.prod(view.shape[1 : 1 + n]))


def padded(x: Array, pads: Sequence[int], value: Any) -> Array:
    """(N, C, space…) with ``pads`` before and after each dimension of space; negative ones cut off."""
    n = len(pads) // 2
    sizes = [(0, 0), (0, 0), *zip(pads[:n], pads[n:], strict=True)]
    x = x[tuple(slice(max(0, -a), size - max(0, -b)) for (a, b), size in zip(sizes, x.shape, strict=True))]
    return np.pad(x, [(max(0, a), max(0, b)) for a, b in sizes], constant_values=value)


def windows(x: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """A view of shape (N, C, places…, kernel…) of ``x`` of shape (N, C, space…)."""
    n = len(kernel)
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + n)))
    places = [slice(None, None, s) for s in strides]
    return view[(slice(None), slice(None), *places, *[slice(None, None, d) for d in dilations])]


def conv_transpose(call: Call) -> Result:
    """Transposed convolution: each input number spread over the output by the kernel."""
    x, w, attributes = call[0], call[1], call.attributes
    kernel, n, groups = w.shape[2:], w.ndim - 2, attributes["group"]
    strides, dilations = attributes.get("strides") or [1] * n, attributes.get("dilations") or [1] * n
    extra = attributes.get("output_padding") or [0] * n
    sizes = zip(x.shape[2:], strides, kernel, dilations, extra, strict=True)
    full = [(size - 1) * s + (k - 1) * d + 1 + e for size, s, k, d, e in sizes]
    pads = _transposed_pads(attributes, full, x.shape[2:], strides)
    batch, channels = x.shape[0], w.shape[1] * groups
    grouped = x.reshape(batch, groups, -1, math.prod(x.shape[2:]))
    filters = w.reshape(groups, w.shape[0] // groups, -1)
    parts = np.matmul(np.swapaxes(filters, 1, 2), grouped).reshape(batch, channels, *kernel, *x.shape[2:])
    y = np.zeros((batch, channels, *full), x.dtype)
    for place in np.ndindex(*kernel):
        starts = [p * d for p, d in zip(place, dilations, strict=True)]
        steps = zip(starts, x.shape[2:], strides, strict=True)
        region = tuple(slice(a, a + (size - 1) * s + 1, s) for a, size, s in steps)
        y[(slice(None), slice(None), *region)] += parts[(slice(None), slice(None), *place)]
    y = padded(y, [-p for p in pads], 0)
    bias = call.get(2)
    return y if bias is None else y + bias.reshape(-1, *[1] * n)


def _transposed_pads(attributes: Any, full: list[int], space: Sequence[int], strides: Sequence[int]) -> list[int]:
    """What is cut off before and after each dimension of the full output."""
    wanted = attributes.get("output_shape")
    mode = attributes.get("auto_pad") or "NOTSET"
    if not wanted and mode in {"NOTSET", "VALID"}:
        return list(attributes.get("pads") or [0] * 2 * len(full))
    wanted = wanted or [size * s for size, s in zip(space, strides, strict=True)]
    total = [f - w for f, w in zip(full, wanted[-len(full) :], strict=True)]
    small = [t // 2 for t in total]
    large = [t - s for t, s in zip(total, small, strict=True)]
    return small + large if mode == "SAME_UPPER" else large + small
