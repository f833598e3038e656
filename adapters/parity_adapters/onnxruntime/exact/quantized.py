"""Quantised operators: they round where the operator does, and compute everything else in the type asked for."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from onnx import helper

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.attention import packed_attention
from parity_adapters.onnxruntime.exact.call import Call, Result, is_float
from parity_adapters.onnxruntime.exact.linear import convolution
from parity_adapters.onnxruntime.exact.pointwise import leaky_relu, sigmoid
from parity_adapters.onnxruntime.exact.pooling import average_pool
from parity_adapters.onnxruntime.exact.reductions import softmax


def _spread(values: Array, x: Array, axis: int, block: int = 0) -> Array:
    """Scales or zero points that broadcast with ``x``: one, or one for each index of ``axis``, or for a block of it."""
    if block:
        return np.take(np.repeat(values, block, axis), range(x.shape[axis]), axis)
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])


def _whole(x: Array) -> Array:
    """Whole numbers of few bits as int32."""
    return x.astype(np.int32)


def quantized(x: Array, scale: Array, zero: Array | None, dtype: np.dtype[Any]) -> Array:
    """``x`` over ``scale`` plus ``zero``, rounded to even and kept in the range of ``dtype``."""
    if is_float(dtype):
        return (x / scale).astype(dtype)
    limits = ml_dtypes.iinfo(dtype)
    rounded = np.rint(x / scale) + (0 if zero is None else _whole(zero))
    return np.clip(rounded, int(limits.min), int(limits.max)).astype(np.int64).astype(dtype)


def dequantized(x: Array, scale: Array, zero: Array | None, dtype: np.dtype[Any]) -> Array:
    """(x - zero) · scale."""
    if is_float(x.dtype):
        return x.astype(dtype) * scale
    wide = x.astype(np.int64)
    return (wide if zero is None else wide - zero.astype(np.int64)).astype(dtype) * scale


def quantize(call: Call) -> Result:
    """By one scale, or one for each index of ``axis``, or for each block of it."""
    x, zero, attributes = call[0], call.get(2), call.attributes
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    wanted = attributes.get("output_dtype")
    dtype = helper.tensor_dtype_to_np_dtype(wanted) if wanted else np.dtype(np.uint8)
    dtype = dtype if zero is None else zero.dtype
    spread = None if zero is None else _spread(zero, x, axis, block)
    return quantized(x, _spread(call[1], x, axis, block), spread, dtype)


def dequantize(call: Call) -> Result:
    """The inverse of `quantize`, but for what that rounded."""
    x, zero, attributes = call[0], call.get(2), call.attributes
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    spread = None if zero is None else _spread(zero, x, axis, block)
    return dequantized(x, _spread(call[1], x, axis, block), spread, call.dtype)


def _dynamic(x: Array) -> tuple[Array, Array, Array]:
    """``x`` as uint8 by its own range, the scale and the zero point."""
    low, high = min(float(x.min(initial=0)), 0.0), max(float(x.max(initial=0)), 0.0)
    scale = x.dtype.type((high - low) / 255) if high > low else x.dtype.type(1)
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    y = np.clip(np.rint(x / scale) + int(zero), 0, 255).astype(np.uint8)
    return y, np.asarray(scale), np.asarray(zero)


def dynamic_quantize(call: Call) -> Result:
    """uint8 by the range of the input itself."""
    return _dynamic(call[0])


def _shifted(x: Array, zero: Array | None, axis: int) -> Array:
    """Whole numbers less their zero point, as float64, in which their products are exact."""
    wide = x.astype(np.float64)
    return wide if zero is None else wide - _spread(zero, x, axis).astype(np.float64)


def matmul_integer(call: Call) -> Result:
    """Product of whole numbers less their zero points, as int32."""
    a, b = _shifted(call[0], call.get(2), -2), _shifted(call[1], call.get(3), -1)
    return np.matmul(a, b).astype(np.int32)


def conv_integer(call: Call) -> Result:
    """Convolution of whole numbers less their zero points, as int32."""
    x, w = _shifted(call[0], call.get(2), 1), _shifted(call[1], call.get(3), 0)
    return convolution(x, w, call.attributes).astype(np.int32)


def matmul_integer_to_float(call: Call) -> Result:
    """Product of whole numbers less their zero points, scaled, and a bias."""
    a, b = _shifted(call[0], call.get(4), -2), _shifted(call[1], call.get(5), -1)
    y = np.matmul(a, b).astype(call.dtype) * (call[2] * _spread(call[3], b, -1))
    return _with_bias(y, call.get(6))


def dynamic_quantize_matmul(call: Call) -> Result:
    """Product of the input as uint8 by its own range, and a quantised weight; and a bias."""
    x, scale, zero = _dynamic(call[0])
    b = _shifted(call[1], call.get(3), -1)
    y = np.matmul(_shifted(x, zero, -2), b).astype(call.dtype) * (scale * _spread(call[2], b, -1))
    return _with_bias(y, call.get(4))


def _with_bias(y: Array, bias: Array | None) -> Array:
    return y if bias is None else y + bias


def _input(call: Call, position: int, axis: int = 1) -> Array:
    """A quantised input with its scale and zero point behind it, dequantised."""
    x, zero = call[position], call.get(position + 2)
    spread = None if zero is None else _spread(zero, x, axis)
    return dequantized(x, _spread(call[position + 1], x, axis), spread, call.dtype)


def _output(call: Call, y: Array, position: int) -> Array:
    """``y`` quantised by the scale and zero point at ``position``."""
    zero = call.get(position + 1)
    return quantized(y, call[position], zero, call[0].dtype if zero is None else zero.dtype)


def qlinear_matmul(call: Call) -> Result:
    """Product of quantised matrices."""
    return _output(call, np.matmul(_input(call, 0, -2), _input(call, 3, -1)), 6)


def qlinear_conv(call: Call) -> Result:
    """Convolution of quantised numbers; the bias is quantised by the product of the scales."""
    last = call.attributes.get("channels_last")
    x, w = _input(call, 0), _input(call, 3, 0)
    x = np.moveaxis(x, -1, 1) if last else x
    y = convolution(x, w, call.attributes)
    bias = call.get(8)
    if bias is not None:
        y = y + (bias * (call[1] * call[4])).astype(call.dtype).reshape(-1, *[1] * (y.ndim - 2))
    return _output(call, np.moveaxis(y, 1, -1) if last else y, 6)


def qgemm(call: Call) -> Result:
    """Alpha · A · B + C of quantised numbers, as quantised ones if there is a scale for these."""
    a, b = _input(call, 0, -2), _input(call, 3, 0 if call.attributes["transB"] else -1)
    a = a.T if call.attributes["transA"] else a
    b = b.T if call.attributes["transB"] else b
    alpha = call.dtype.type(call.attributes["alpha"])
    y, c = alpha * (a @ b), call.get(6)
    if c is not None:
        y = y + (c * (alpha * call[1] * call[4])).astype(call.dtype)
    return y if call.get(7) is None else _output(call, y, 7)


def qlinear_unary(function: Callable[[Array, Call], Array]) -> Callable[[Call], Result]:
    """A function of one quantised input."""
    return lambda call: _output(call, function(_input(call, 0), call), 3)


def qlinear_binary(function: Callable[[Array, Array], Array]) -> Callable[[Call], Result]:
    """A function of two quantised inputs."""
    return lambda call: _output(call, function(_input(call, 0), _input(call, 3)), 6)


def qlinear_concat(call: Call) -> Result:
    """Quantised inputs, each with a scale and a zero point, one after another."""
    parts = [
        dequantized(call[i], call[i + 1].reshape(()), call[i + 2].reshape(()), call.dtype)
        for i in range(2, len(call.inputs), 3)
    ]
    return quantized(np.concatenate(parts, call.attributes["axis"]), call[0], call[1], call[1].dtype)


def _floating(call: Call, x: Array) -> Call:
    return Call(call.op, (x,), call.attributes, call.opset, 1, call.dtype)


def pooled(x: Array, call: Call) -> Array:
    """Mean of windows, or of all of space."""
    last = call.attributes.get("channels_last")
    x = np.moveaxis(x, -1, 1) if last else x
    if "Global" in call.op:
        y = x.mean(tuple(range(2, x.ndim)), keepdims=True)
    else:
        y = np.asarray(average_pool(_floating(call, x)))
    return np.moveaxis(y, 1, -1) if last else y


def leaky(x: Array, call: Call) -> Array:
    """Leaky ReLU."""
    return leaky_relu(x, x.dtype.type(call.attributes["alpha"]))


def logistic(x: Array, _: Call) -> Array:
    """Sigmoid."""
    return sigmoid(x)


def averaged(x: Array, call: Call) -> Array:
    """Mean over ``axes``."""
    axes = call.attributes.get("axes")
    return np.asarray(x.mean(tuple(axes) if axes else None, keepdims=bool(call.attributes["keepdims"])))


def qlinear_softmax(call: Call) -> Result:
    """Softmax over an axis, or before operator set 13 all from it on."""
    x, axis = _input(call, 0), call.attributes["axis"] % call[0].ndim
    axes = (axis,) if call.attributes["opset"] >= 13 else tuple(range(axis, x.ndim))
    return _output(call, softmax(x, axes), 3)


def qattention(call: Call) -> Result:
    """ONNX Runtime's Attention on quantised input and weight."""
    x, w = call[0], call[1]
    a, b = _shifted(x, call.get(6), -2), _shifted(w, call.get(7), -1)
    scaled_x = (a * float(call[3].reshape(()))).astype(call.dtype)
    scaled_w = (b * _spread(call[4], w, -1)).astype(call.dtype)
    inputs = (scaled_x, scaled_w, call.get(2), call.get(5), call.get(8), None)
    return packed_attention(Call(call.op, inputs, call.attributes, call.opset, call.outputs, call.dtype))


def matmul_nbits(call: Call) -> Result:
    """Product with a weight of few bits, a scale and a zero point for each block of each column."""
    n, k, bits, block = (call.attributes[name] for name in ("N", "K", "bits", "block_size"))
    blocks = math.ceil(k / block)
    codes = _unpacked(call[1].reshape(n, -1), bits, blocks * block).reshape(n, blocks, block)
    zeros = call.get(3)
    if zeros is None:
        zero: Array = np.full((n, blocks), 2 ** (bits - 1), call.dtype)
    elif is_float(zeros.dtype):
        zero = zeros.reshape(n, blocks)
    else:
        zero = _unpacked(zeros.reshape(n, -1), bits, blocks)
    scales = call[2].reshape(n, blocks)
    weight = ((codes.astype(call.dtype) - zero[..., None].astype(call.dtype)) * scales[..., None]).reshape(n, -1)
    return _with_bias(call[0] @ weight[:, :k].T, call.get(5))


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Codes of ``bits`` bits each from rows of bytes, the lowest bits first."""
    flat = np.unpackbits(packed, axis=-1, bitorder="little")
    flat = flat[:, : flat.shape[1] // bits * bits].reshape(packed.shape[0], -1, bits)
    return np.asarray((flat * (1 << np.arange(bits))).sum(-1)[:, :count])
