"""Which function computes which operator."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from parity.adapter import Array, UnsupportedPrecisionError
from parity_adapters.onnxruntime import blocks, synthetic
from parity_adapters.onnxruntime.attributes import attributes_of
from parity_adapters.onnxruntime.exact import (
    attention,
    layout,
    linear,
    normalization,
    pointwise,
    pooling,
    quantized,
    recurrent,
    reductions,
    reference,
)
from parity_adapters.onnxruntime.exact.call import Call, Result, is_float
from parity_adapters.onnxruntime.exact.pointwise import binary, unary, variadic, with_alpha
from parity_adapters.onnxruntime.exact.reductions import reduction

Operator = Callable[[Call], Result]


def _identity(call: Call) -> Result:
    return call[0]


def _dropped(call: Call) -> Result:
    """Dropout at inference, and its mask."""
    training = call.get(2)
    if training is not None and bool(training):
        raise NotImplementedError("Dropout in training mode")
    return call[0], np.ones(call[0].shape, np.bool_)


_ONNX: Final[Mapping[str, Operator]] = {
    # arithmetic
    "Add": binary(np.add),
    "Sub": binary(np.subtract),
    "Mul": binary(np.multiply),
    "Div": pointwise.div,
    "Mod": pointwise.mod,
    "Pow": pointwise.power,
    "Neg": unary(np.negative),
    "Abs": unary(np.abs),
    "Sum": variadic(np.add),
    "Max": variadic(np.maximum),
    "Min": variadic(np.minimum),
    "Mean": pointwise.mean,
    "Clip": pointwise.clip,
    "Where": lambda call: np.where(call[0], call[1], call[2]),
    "Equal": binary(np.equal),
    "Greater": binary(np.greater),
    "GreaterOrEqual": binary(np.greater_equal),
    "Less": binary(np.less),
    "LessOrEqual": binary(np.less_equal),
    "And": binary(np.logical_and),
    "Or": binary(np.logical_or),
    "Xor": binary(np.logical_xor),
    "Not": unary(np.logical_not),
    "BitwiseAnd": binary(np.bitwise_and),
    "BitwiseOr": binary(np.bitwise_or),
    "BitwiseXor": binary(np.bitwise_xor),
    "BitwiseNot": unary(np.invert),
    "BitShift": pointwise.shift,
    "IsNaN": unary(np.isnan),
    "IsInf": pointwise.is_inf,
    "Cast": pointwise.cast,
    "CastLike": pointwise.cast,
    "Floor": unary(np.floor),
    "Ceil": unary(np.ceil),
    "Round": unary(np.rint),
    "Sign": unary(np.sign),
    # functions
    "Exp": unary(np.exp),
    "Log": unary(np.log),
    "Sqrt": unary(np.sqrt),
    "Reciprocal": unary(np.reciprocal),
    "Erf": unary(pointwise.erf),
    "Sin": unary(np.sin),
    "Cos": unary(np.cos),
    "Tan": unary(np.tan),
    "Asin": unary(np.arcsin),
    "Acos": unary(np.arccos),
    "Atan": unary(np.arctan),
    "Sinh": unary(np.sinh),
    "Cosh": unary(np.cosh),
    "Asinh": unary(np.arcsinh),
    "Acosh": unary(np.arccosh),
    "Atanh": unary(np.arctanh),
    # activations
    "Relu": unary(lambda x: np.maximum(x, x.dtype.type(0))),
    "LeakyRelu": with_alpha(pointwise.leaky_relu),
    "PRelu": pointwise.prelu,
    "Elu": with_alpha(pointwise.elu),
    "Celu": with_alpha(pointwise.celu),
    "Selu": pointwise.selu,
    "Gelu": pointwise.gelu,
    "Swish": with_alpha(pointwise.sigmoid_times),
    "Mish": unary(lambda x: x * np.tanh(pointwise.softplus(x))),
    "Sigmoid": unary(pointwise.sigmoid),
    "Tanh": unary(np.tanh),
    "Softplus": unary(pointwise.softplus),
    "Softsign": unary(lambda x: x / (1 + np.abs(x))),
    "HardSigmoid": lambda call: pointwise.hard_sigmoid(call[0], call.attributes["alpha"], call.attributes["beta"]),
    "HardSwish": unary(pointwise.hard_swish),
    "ThresholdedRelu": with_alpha(pointwise.thresholded_relu),
    "Shrink": pointwise.shrink,
    # layout and selection
    "Identity": _identity,
    "Dropout": _dropped,
    "Reshape": layout.reshape,
    "Flatten": layout.flatten,
    "Squeeze": layout.squeeze,
    "Unsqueeze": layout.unsqueeze,
    "Transpose": layout.transpose,
    "Slice": layout.slice_,
    "Split": layout.split,
    "Concat": layout.concat,
    "Gather": layout.gather,
    "GatherElements": layout.gather_elements,
    "GatherND": layout.gather_nd,
    "Scatter": layout.scatter_elements,
    "ScatterElements": layout.scatter_elements,
    "ScatterND": layout.scatter_nd,
    "Expand": layout.expand,
    "Tile": layout.tile,
    "Pad": layout.pad,
    "Trilu": layout.trilu,
    "DepthToSpace": layout.depth_to_space,
    "SpaceToDepth": layout.space_to_depth,
    "OneHot": layout.one_hot,
    "ReverseSequence": layout.reverse_sequence,
    "Compress": layout.compress,
    "NonZero": unary(lambda x: np.array(np.nonzero(x), np.int64)),
    "Shape": layout.shape_of,
    "Size": unary(lambda x: np.array(x.size, np.int64)),
    "ConstantOfShape": layout.filled,
    "EyeLike": layout.eye_like,
    "Range": layout.range_,
    # reductions
    "ReduceMean": reduction(np.mean),
    "ReduceSum": reduction(reductions.total),
    "ReduceProd": reduction(reductions.product),
    "ReduceMax": reduction(reductions.largest),
    "ReduceMin": reduction(reductions.smallest),
    "ReduceL1": reduction(lambda x, **how: reductions.total(np.abs(x), **how)),
    "ReduceL2": reduction(reductions.length),
    "ReduceSumSquare": reduction(lambda x, **how: reductions.total(x * x, **how)),
    "ReduceLogSum": reduction(lambda x, **how: np.log(reductions.total(x, **how))),
    "ReduceLogSumExp": reduction(reductions.log_sum_exp),
    "ArgMax": reductions.extreme_index,
    "ArgMin": reductions.extreme_index,
    "TopK": reductions.top_k,
    "CumSum": reductions.running(np.cumsum, 0),
    "CumProd": reductions.running(np.cumprod, 1),
    "Softmax": reductions.softmax_of,
    "LogSoftmax": reductions.log_softmax_of,
    # linear
    "MatMul": linear.matmul,
    "Gemm": linear.gemm,
    "Einsum": linear.einsum,
    "Conv": linear.conv,
    "ConvTranspose": linear.conv_transpose,
    # pools
    "AveragePool": pooling.average_pool,
    "MaxPool": pooling.max_pool,
    "LpPool": pooling.lp_pool,
    "MaxUnpool": pooling.max_unpool,
    "GlobalAveragePool": pooling.over_space(np.mean),
    "GlobalMaxPool": pooling.over_space(np.max),
    "Resize": pooling.resize,
    "Upsample": pooling.resize,
    # normalisations
    "LayerNormalization": normalization.layer_norm,
    "SimplifiedLayerNormalization": normalization.rms_norm,
    "RMSNormalization": normalization.rms_norm,
    "BatchNormalization": normalization.batch_norm,
    "InstanceNormalization": normalization.instance_norm,
    "GroupNormalization": normalization.group_norm,
    "LpNormalization": normalization.lp_norm,
    "LRN": normalization.local_response,
    "MeanVarianceNormalization": normalization.mean_variance,
    # attention and recurrence
    "Attention": attention.onnx_attention,
    "RotaryEmbedding": attention.onnx_rotary,
    "RNN": recurrent.recurrent,
    "GRU": recurrent.recurrent,
    "LSTM": recurrent.recurrent,
    # quantisation
    "QuantizeLinear": quantized.quantize,
    "DequantizeLinear": quantized.dequantize,
    "DynamicQuantizeLinear": quantized.dynamic_quantize,
    "MatMulInteger": quantized.matmul_integer,
    "ConvInteger": quantized.conv_integer,
    "QLinearMatMul": quantized.qlinear_matmul,
    "QLinearConv": quantized.qlinear_conv,
}

_MICROSOFT: Final[Mapping[str, Operator]] = {
    "Gelu": pointwise.gelu,
    "BiasGelu": pointwise.gelu,
    "FastGelu": pointwise.gelu,
    "QuickGelu": with_alpha(pointwise.sigmoid_times),
    "Inverse": unary(np.linalg.inv),
    "ExpandDims": layout.expand_dims,
    "Trilu": layout.trilu,
    "FusedMatMul": linear.fused_matmul,
    "FusedMatMulActivation": linear.fused_matmul,
    "TransposeMatMul": linear.fused_matmul,
    "FusedGemm": linear.gemm,
    "FusedConv": linear.conv,
    "SkipLayerNormalization": normalization.skip_layer_norm,
    "SkipSimplifiedLayerNormalization": normalization.skip_rms_norm,
    "SimplifiedLayerNormalization": normalization.rms_norm,
    "EmbedLayerNormalization": normalization.embed_layer_norm,
    "Attention": attention.packed_attention,
    "MultiHeadAttention": attention.multi_head_attention,
    "GroupQueryAttention": attention.group_query_attention,
    "RotaryEmbedding": attention.rotary,
    "NhwcMaxPool": pooling.nhwc_max_pool,
    "QuantizeLinear": quantized.quantize,
    "DequantizeLinear": quantized.dequantize,
    "DynamicQuantizeMatMul": quantized.dynamic_quantize_matmul,
    "MatMulIntegerToFloat": quantized.matmul_integer_to_float,
    "MatMulNBits": quantized.matmul_nbits,
    "QAttention": quantized.qattention,
    "QGemm": quantized.qgemm,
    "QLinearConv": quantized.qlinear_conv,
    "QLinearMatMul": quantized.qlinear_matmul,
    "QLinearAdd": quantized.qlinear_binary(np.add),
    "QLinearMul": quantized.qlinear_binary(np.multiply),
    "QLinearSigmoid": quantized.qlinear_unary(quantized.logistic),
    "QLinearLeakyRelu": quantized.qlinear_unary(quantized.leaky),
    "QLinearAveragePool": quantized.qlinear_unary(quantized.pooled),
    "QLinearGlobalAveragePool": quantized.qlinear_unary(quantized.pooled),
    "QLinearReduceMean": quantized.qlinear_unary(quantized.averaged),
    "QLinearSoftmax": quantized.qlinear_softmax,
    "QLinearConcat": quantized.qlinear_concat,
}

_BLOCKED: Final[Mapping[str, Operator]] = {
    "Conv": linear.blocked_conv,
    "MaxPool": pooling.max_pool,
    "AveragePool": pooling.average_pool,
    "GlobalMaxPool": pooling.over_space(np.max),
    "GlobalAveragePool": pooling.over_space(np.mean),
    "Upsample": pooling.resize,
    "ReorderInput": layout.reorder_input,
    "ReorderOutput": layout.reorder_output,
}
"""On numbers in their usual order: see `blocks`."""

_OPERATORS: Final[Mapping[str, Mapping[str, Operator]]] = {
    "": _ONNX,
    "ai.onnx": _ONNX,
    "com.microsoft": _MICROSOFT,
    blocks.DOMAIN: _BLOCKED,
    synthetic.DOMAIN: dict.fromkeys(("Stack", "Join", "Pick", "Pieces"), layout.cut_or_joined),
}


LOOKUPS: Final = frozenset({"Gather", "GatherND"})
"""Operators that pick rows of their first operand, which may be a table far larger than these: only they are cast."""


def compute(
    node: onnx.NodeProto, opset: int, operands: Sequence[Array | None], dtype: np.dtype[Any]
) -> list[Array | None]:
    """Outputs of one call in one floating-point type.

    Args:
        node: The call.
        opset: Version of its operator set.
        operands: Its inputs; floating-point ones are of type ``dtype``, but for the first one of `LOOKUPS`.
        dtype: float64, float32, float16 or bfloat16; in the last two the operator computes in float32.

    Raises:
        UnsupportedPrecisionError: The operator is not one of those here, or not in the form that the node asks for.
    """
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    table = 0 if node.op_type in LOOKUPS else None
    inputs = tuple(
        x if x is None or place == table or not is_float(x.dtype) else x.astype(wide, copy=False)
        for place, x in enumerate(operands)
    )
    call = Call(node.op_type, inputs, attributes_of(node, opset), opset, len(node.output), wide)
    with np.errstate(all="ignore"):
        try:
            found = _operator(node)(call)
        except (NotImplementedError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise UnsupportedPrecisionError(
                f"{node.op_type} '{node.name}' cannot be computed in {dtype.name}: {error}.",
                hint="Its region is compared in the model's own precision only.",
            ) from error
    results = found if isinstance(found, tuple) else (found,)
    if len(results) < len(node.output):
        raise UnsupportedPrecisionError(
            f"Output {len(results)} of {node.op_type} '{node.name}' cannot be computed in {dtype.name}."
        )
    return [_rounded(x, dtype) for x in results[: len(node.output)]]


def _operator(node: onnx.NodeProto) -> Operator:
    operator = _OPERATORS.get(node.domain, {}).get(node.op_type)
    if operator:
        return operator
    if node.domain in {"", "ai.onnx"} and node.op_type in reference.OPERATORS:
        return lambda call: reference.run(call, node)
    raise NotImplementedError(f"there is no such operator of {node.domain or 'ONNX'} here")


def _rounded(x: Array | None, dtype: np.dtype[Any]) -> Array | None:
    if x is None:
        return None
    return x.astype(dtype, copy=False) if is_float(x.dtype) else np.asarray(x)
