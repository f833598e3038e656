"""What elementwise operators compute, in NumPy's float64: the numbers by which a region is named."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.scanner.graph.ir import Node

Float64 = NDArray[np.float64]
Attributes = Mapping[str, Any]
Function = Callable[[Attributes, Sequence[Float64]], Any]

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _unary(function: Callable[[Float64], Any]) -> Function:
    return lambda _, inputs: function(inputs[0])


def _binary(function: Callable[[Float64, Float64], Any]) -> Function:
    return lambda _, inputs: function(inputs[0], inputs[1])


def _variadic(function: Callable[[Float64, Float64], Any]) -> Function:
    return lambda _, inputs: reduce(function, inputs)


def erf(x: Float64) -> Float64:
    """The error function."""
    return np.asarray(_erf(x), np.float64)


def sigmoid(x: Float64) -> Float64:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def gelu_erf(x: Float64) -> Float64:
    """X · Φ(x)."""
    return np.asarray(x * np.asarray(_erfc(x * -math.sqrt(0.5)), np.float64) * 0.5)


def gelu_tanh(x: Float64) -> Float64:
    """The approximation of GELU by tanh."""
    return np.asarray(x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _gelu(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    return (gelu_tanh if attributes.get("approximate", "none") == "tanh" else gelu_erf)(inputs[0])


def _add(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    first, *rest = inputs
    alpha = attributes.get("alpha", 1.0)
    return reduce(np.add, [alpha * one for one in rest], first)


def _sub(attributes: Attributes, inputs: Sequence[Float64]) -> Any:
    return inputs[0] - attributes.get("alpha", 1.0) * inputs[1]


def _div(attributes: Attributes, inputs: Sequence[Float64]) -> Any:
    quotient = inputs[0] / inputs[1]
    return {"floor": np.floor, "trunc": np.trunc}.get(attributes.get("rounding", ""), np.asarray)(quotient)


def _clip(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    low, high = attributes.get("min"), attributes.get("max")
    x = inputs[0] if low is None else np.maximum(inputs[0], low)
    return np.asarray(x if high is None else np.minimum(x, high))


def _elu(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    x = inputs[0]
    below = attributes.get("alpha", 1.0) * np.expm1(np.minimum(x, 0) * attributes.get("input_scale", 1.0))
    return np.asarray(attributes.get("scale", 1.0) * np.where(x > 0, x, below))


def _selu(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    alpha = attributes.get("alpha", 1.6732632423543772848)
    return _elu({"alpha": alpha, "scale": attributes.get("gamma", 1.0507009873554804934)}, inputs)


def _celu(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    alpha = attributes.get("alpha", 1.0)
    return _elu({"alpha": alpha, "input_scale": 1 / alpha}, inputs)


def _hard_sigmoid(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    slope, offset = attributes.get("slope", 1 / 6), attributes.get("offset", 0.5)
    return np.asarray(np.clip(slope * inputs[0] + offset, 0, 1))


def _softplus(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    beta = attributes.get("beta", 1.0)
    scaled = beta * inputs[0]
    return np.asarray(
        np.where(scaled > attributes.get("threshold", math.inf), inputs[0], np.logaddexp(scaled, 0) / beta)
    )


def _leaky_relu(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    x = inputs[0]
    return np.where(x < 0, attributes.get("alpha", 0.01) * x, x)


def _shrink(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    x, bias, edge = inputs[0], attributes.get("bias", 0.0), attributes.get("threshold", 0.5)
    return np.where(x < -edge, x + bias, np.where(x > edge, x - bias, 0))


def _soft_shrink(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    return _shrink({**attributes, "bias": attributes.get("threshold", 0.5)}, inputs)


def _thresholded_relu(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    return np.where(inputs[0] > attributes.get("threshold", 1.0), inputs[0], attributes.get("value", 0.0))


def _quick_gelu(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    return np.asarray(inputs[0] * sigmoid(attributes.get("alpha", 1.702) * inputs[0]))


def _scaled_tanh(attributes: Attributes, inputs: Sequence[Float64]) -> Float64:
    return np.asarray(attributes.get("alpha", 1.0) * np.tanh(attributes.get("beta", 1.0) * inputs[0]))


_COMPARED: Final[Mapping[str, Callable[[Float64, Float64], Any]]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}
_LOGIC: Final[Mapping[str, Function]] = {
    "and": _variadic(np.logical_and),
    "or": _variadic(np.logical_or),
    "xor": _variadic(np.logical_xor),
    "not": _unary(np.logical_not),
}


def _compare(attributes: Attributes, inputs: Sequence[Float64]) -> Any:
    operator = attributes.get("operator", "")
    if operator == "nan":
        return np.isnan(inputs[0])
    other = inputs[1] if len(inputs) > 1 else np.asarray(attributes["other"], np.float64)
    return _COMPARED[operator](inputs[0], other)


def _logic(attributes: Attributes, inputs: Sequence[Float64]) -> Any:
    return _LOGIC[attributes.get("operator", "")](attributes, inputs)


def _where(_: Attributes, inputs: Sequence[Float64]) -> Any:
    return np.where(inputs[0] != 0, inputs[1], inputs[2])


def _scaling(inputs: Sequence[Float64]) -> tuple[Any, Any]:
    """Scale and zero point."""
    return (inputs[1] if len(inputs) > 1 else 1.0), (inputs[2] if len(inputs) > 2 else 0.0)


def _quantize(_: Attributes, inputs: Sequence[Float64]) -> Any:
    scale, zero = _scaling(inputs)
    return np.rint(inputs[0] / scale) + zero if len(inputs) > 1 else inputs[0]


def _dequantize(_: Attributes, inputs: Sequence[Float64]) -> Any:
    scale, zero = _scaling(inputs)
    return (inputs[0] - zero) * scale


def _divide_no_nan(_: Attributes, inputs: Sequence[Float64]) -> Any:
    return np.where(inputs[1] == 0, 0.0, inputs[0] / np.where(inputs[1] == 0, 1.0, inputs[1]))


_FUNCTIONS: Final[Mapping[str, Function]] = {
    **dict.fromkeys(("identity", "cast"), _unary(np.asarray)),
    "quantize": _quantize,
    "dequantize": _dequantize,
    "add": _add,
    "sub": _sub,
    "mul": _variadic(np.multiply),
    "div": _div,
    "divide_no_nan": _divide_no_nan,
    "pow": _binary(np.power),
    "neg": _unary(np.negative),
    "abs": _unary(np.abs),
    "maximum": _variadic(np.maximum),
    "minimum": _variadic(np.minimum),
    "clip": _clip,
    "where": _where,
    "compare": _compare,
    "logic": _logic,
    "floor": _unary(np.floor),
    "ceil": _unary(np.ceil),
    "round": _unary(np.rint),
    "trunc": _unary(np.trunc),
    "sign": _unary(np.sign),
    "exp": _unary(np.exp),
    "exp2": _unary(np.exp2),
    "expm1": _unary(np.expm1),
    "log": _unary(np.log),
    "log1p": _unary(np.log1p),
    "logaddexp": _binary(np.logaddexp),
    "sqrt": _unary(np.sqrt),
    "rsqrt": _unary(lambda x: 1 / np.sqrt(x)),
    "reciprocal": _unary(lambda x: 1 / x),
    "square": _unary(np.square),
    "squared_difference": _binary(lambda x, y: np.square(x - y)),
    "sin": _unary(np.sin),
    "cos": _unary(np.cos),
    "tan": _unary(np.tan),
    "asin": _unary(np.arcsin),
    "acos": _unary(np.arccos),
    "atan": _unary(np.arctan),
    "sinh": _unary(np.sinh),
    "cosh": _unary(np.cosh),
    "asinh": _unary(np.arcsinh),
    "acosh": _unary(np.arccosh),
    "atanh": _unary(np.arctanh),
    "erf": _unary(erf),
    "erfc": _unary(lambda x: np.asarray(_erfc(x), np.float64)),
    "relu": _unary(lambda x: np.maximum(x, 0)),
    "leaky_relu": _leaky_relu,
    "prelu": _binary(lambda x, slope: np.where(x < 0, slope * x, x)),
    "elu": _elu,
    "selu": _selu,
    "celu": _celu,
    "gelu": _gelu,
    "quick_gelu": _quick_gelu,
    "silu": _unary(lambda x: x * sigmoid(x)),
    "mish": _unary(lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "sigmoid": _unary(sigmoid),
    "log_sigmoid": _unary(lambda x: -np.logaddexp(-x, 0)),
    "tanh": _unary(np.tanh),
    "scaled_tanh": _scaled_tanh,
    "softplus": _softplus,
    "softsign": _unary(lambda x: x / (1 + np.abs(x))),
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda attributes, inputs: inputs[0] * _hard_sigmoid(attributes, inputs),
    "hard_tanh": lambda attributes, inputs: _clip({"min": -1.0, "max": 1.0, **attributes}, inputs),
    "thresholded_relu": _thresholded_relu,
    "shrink": _shrink,
    "soft_shrink": _soft_shrink,
    "hard_shrink": _shrink,
}


def with_given(node: Node, inputs: Sequence[Any]) -> Attributes:
    """A node's attributes with those that are given as further inputs; ``given`` names these, in order."""
    given = node.attributes.get("given", ())
    return {**node.attributes, **dict(zip(given, inputs[1:], strict=False))} if given else node.attributes


def compute(node: Node, inputs: Sequence[Any]) -> Float64:
    """The first output of an elementwise node.

    Args:
        node: Its kind is one of `parity.scanner.graph.ir.FUNCTIONS` or ``PASSING``.
        inputs: What it reads, arrays or numbers that broadcast.

    Returns:
        float64; of a comparison 0 and 1.

    Raises:
        ValueError: It lacks an input, or has an attribute that makes no sense.
    """
    arrays = [np.asarray(one, np.float64) for one in inputs]
    attributes = with_given(node, arrays)
    with np.errstate(all="ignore"):
        try:
            return np.asarray(_FUNCTIONS[node.kind](attributes, arrays), np.float64)
        except (ArithmeticError, LookupError, TypeError) as error:
            raise ValueError(f"{node.op} '{node.name[:120]}' cannot be evaluated: {error}") from error
