"""Normalisations."""

import numpy as np

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.call import Call, Result


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + epsilon) over ``axes``, the mean, and one over that root."""
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + x.dtype.type(epsilon))
    return centred * inverse, mean, inverse


def _affine(x: Array, scale: Array | None, bias: Array | None) -> Array:
    x = x if scale is None else x * scale
    return x if bias is None else x + bias


def layer_norm(call: Call) -> Result:
    """Over all axes from ``axis`` on: the result, the mean, and one over the standard deviation."""
    axes = tuple(range(call.attributes.get("axis", -1) % call[0].ndim, call[0].ndim))
    y, mean, inverse = _standardized(call[0], axes, call.attributes["epsilon"])
    return _affine(y, call[1], call.get(2)), mean, inverse


def _rms(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array]:
    inverse = 1 / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + x.dtype.type(epsilon))
    return x * inverse, inverse


def rms_norm(call: Call) -> Result:
    """Over all axes from ``axis`` on, without a mean: the result, and one over the root mean square."""
    axes = tuple(range(call.attributes.get("axis", -1) % call[0].ndim, call[0].ndim))
    y, inverse = _rms(call[0], axes, call.attributes["epsilon"])
    return y * call[1], inverse


def skip_layer_norm(call: Call) -> Result:
    """Layer norm of input plus skip plus bias; the fourth output is that sum."""
    bias = call.get(4)
    x = call[0] + call[1] + (0 if bias is None else bias)
    y, mean, inverse = _standardized(x, (-1,), call.attributes["epsilon"])
    return _affine(y, call[2], call.get(3)), mean, inverse, x


def skip_rms_norm(call: Call) -> Result:
    """RMS norm of input plus skip plus bias; the fourth output is that sum."""
    bias = call.get(3)
    x = call[0] + call[1] + (0 if bias is None else bias)
    y, inverse = _rms(x, (-1,), call.attributes["epsilon"])
    return y * call[2], None, inverse, x


def embed_layer_norm(call: Call) -> Result:
    """Layer norm of the sum of word, position and segment embeddings; lengths by the mask; the sum."""
    words, positions = call[2][call[0]], call.get(8)
    rows = np.arange(call[0].shape[1]) if positions is None else positions
    x = words + call[3][rows]
    segments, table = call.get(1), call.get(4)
    if segments is not None and table is not None:
        x = x + table[segments]
    y, _, _ = _standardized(x, (-1,), call.attributes["epsilon"])
    mask = call.get(7)
    lengths = np.zeros(x.shape[0], np.int32) if mask is None else mask.sum(-1, dtype=np.int32)
    return _affine(y, call[5], call[6]), lengths, x


def _channels(x: Array, values: Array) -> Array:
    return values.reshape(1, -1, *[1] * (x.ndim - 2))


def batch_norm(call: Call) -> Result:
    """By the given mean and variance, or in training mode by those of the batch, with running ones returned."""
    x, scale, bias, mean, variance = (call[i] for i in range(5))
    one = call.dtype.type
    if not call.attributes.get("training_mode"):
        inverse = scale / np.sqrt(variance + one(call.attributes["epsilon"]))
        return (x - _channels(x, mean)) * _channels(x, inverse) + _channels(x, bias)
    axes = (0, *range(2, x.ndim))
    momentum = one(call.attributes["momentum"])
    y, _, _ = _standardized(x, axes, call.attributes["epsilon"])
    means = mean * momentum + x.mean(axes) * (1 - momentum)
    return y * _channels(x, scale) + _channels(x, bias), means, variance * momentum + x.var(axes) * (1 - momentum)


def instance_norm(call: Call) -> Result:
    """Over space."""
    x = call[0]
    y, _, _ = _standardized(x, tuple(range(2, x.ndim)), call.attributes["epsilon"])
    return y * _channels(x, call[1]) + _channels(x, call[2])


def group_norm(call: Call) -> Result:
    """Over space and the channels of a group; scale and bias are by group before operator set 21."""
    x, groups = call[0], call.attributes["num_groups"]
    grouped = x.reshape(x.shape[0], groups, -1)
    y = _standardized(grouped, (-1,), call.attributes["epsilon"])[0].reshape(x.shape)
    repeats = x.shape[1] // call[1].size
    return y * _channels(x, np.repeat(call[1], repeats)) + _channels(x, np.repeat(call[2], repeats))


def lp_norm(call: Call) -> Result:
    """Divided by the p-norm of ``axis``, or by 1 where that is 0."""
    x, axis = call[0], call.attributes["axis"]
    norm = np.linalg.norm(x, call.attributes["p"], axis, keepdims=True)
    return x / np.where(norm == 0, 1, norm)


def local_response(call: Call) -> Result:
    """Divided by a power of the mean square over neighbouring channels."""
    x, size = call[0], call.attributes["size"]
    one = call.dtype.type
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    square = np.pad(x * x, [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
    sums = np.lib.stride_tricks.sliding_window_view(square, size, 1).sum(-1)
    alpha, beta, bias = (one(call.attributes[name]) for name in ("alpha", "beta", "bias"))
    return x / (bias + alpha / one(size) * sums) ** beta


def mean_variance(call: Call) -> Result:
    """To mean 0 and variance 1."""
    x, axes = call[0], tuple(call.attributes["axes"])
    return (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + x.dtype.type(1e-9))
