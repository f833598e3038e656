"""Operators whose every output element depends on the input elements at the same place."""

import math
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np
from onnx import helper

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.call import Call, Result, is_float

try:
    special: Any = import_module("scipy.special")
except ImportError:
    special = None

Operator = Callable[[Call], Result]

_erfc_slow = np.frompyfunc(math.erfc, 1, 1)
_erf_slow = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """Error function, in the type of ``x``."""
    return np.asarray(special.erf(x) if special else _erf_slow(x), x.dtype)


def normal_cdf(x: Array) -> Array:
    """Distribution function of the normal distribution, right in both tails."""
    t = x * -math.sqrt(0.5)
    return np.asarray((special.erfc(t) if special else _erfc_slow(t)) * 0.5, x.dtype)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small), x.dtype)


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.asarray(np.logaddexp(x, x.dtype.type(0)))


def unary(function: Callable[[Array], Array]) -> Operator:
    """Operator of one input."""
    return lambda call: function(call[0])


def binary(function: Callable[[Array, Array], Array]) -> Operator:
    """Operator of two inputs."""
    return lambda call: function(call[0], call[1])


def variadic(function: Callable[[Array, Array], Array]) -> Operator:
    """Operator of any number of inputs."""
    return lambda call: reduce(function, call.present())


def with_alpha(function: Callable[[Array, Any], Array]) -> Operator:
    """Operator of one input and the attribute ``alpha``."""
    return lambda call: function(call[0], call.dtype.type(call.attributes["alpha"]))


def mean(call: Call) -> Result:
    """Mean of the inputs."""
    return reduce(np.add, call.present()) / call.dtype.type(len(call.present()))


def div(call: Call) -> Result:
    """Quotient; of whole numbers, towards zero."""
    a, b = call[0], call[1]
    if is_float(a.dtype):
        return a / b
    quotient = np.abs(a) // np.abs(b)
    return np.asarray(quotient * np.sign(a) * np.sign(b), a.dtype)


def mod(call: Call) -> Result:
    """Remainder, with the sign of the divisor, or of the dividend with ``fmod``."""
    return np.fmod(call[0], call[1]) if call.attributes["fmod"] else np.mod(call[0], call[1])


def power(call: Call) -> Result:
    """Power in the type of the base."""
    base, exponent = call[0], call[1]
    if exponent.size == 1 and exponent.reshape(-1)[0] == 2:
        return np.broadcast_to(base * base, np.broadcast_shapes(base.shape, exponent.shape))
    return np.asarray(np.power(base, exponent), base.dtype)


def clip(call: Call) -> Result:
    """Between ``min`` and ``max``, each of which may be absent."""
    x = call[0]
    for position, name, limit in ((1, "min", np.maximum), (2, "max", np.minimum)):
        bound = call.get(position)
        value = call.attributes.get(name) if bound is None else bound
        x = x if value is None else limit(x, np.asarray(value, x.dtype))
    return x


def cast(call: Call) -> Result:
    """To another type; from one floating-point type to another, nothing."""
    to = call[1].dtype if call.op == "CastLike" else helper.tensor_dtype_to_np_dtype(call.attributes["to"])
    x = call[0]
    if is_float(to):
        return x.astype(call.dtype)
    return x.astype(to)


def is_inf(call: Call) -> Result:
    """Infinities of the signs asked for."""
    x, wanted = call[0], call.attributes
    return (np.isposinf(x) & bool(wanted["detect_positive"])) | (np.isneginf(x) & bool(wanted["detect_negative"]))


def shift(call: Call) -> Result:
    """Bits moved to the left or the right."""
    return (np.left_shift if call.attributes["direction"] == "LEFT" else np.right_shift)(call[0], call[1])


def elu(x: Array, alpha: Any) -> Array:
    """x, or alpha · (exp(x) - 1) below zero."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def celu(x: Array, alpha: Any) -> Array:
    """x, or alpha · (exp(x / alpha) - 1) below zero."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def selu(call: Call) -> Result:
    """Gamma · elu."""
    return call.dtype.type(call.attributes["gamma"]) * elu(call[0], call.dtype.type(call.attributes["alpha"]))


def leaky_relu(x: Array, alpha: Any) -> Array:
    """x, or alpha · x below zero."""
    return np.where(x < 0, alpha * x, x)


def prelu(call: Call) -> Result:
    """x, or slope · x below zero."""
    return np.where(call[0] < 0, call[1] * call[0], call[0])


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """Alpha · x + beta between 0 and 1."""
    return np.asarray(np.clip(x.dtype.type(alpha) * x + x.dtype.type(beta), 0, 1))


def hard_swish(x: Array) -> Array:
    """X times the hard sigmoid of slope 1/6."""
    return x * hard_sigmoid(x, 1 / 6, 0.5)


def sigmoid_times(x: Array, alpha: Any) -> Array:
    """X · sigmoid(alpha · x)."""
    return x * sigmoid(alpha * x)


def gelu_erf(x: Array) -> Array:
    """X · Φ(x)."""
    return x * normal_cdf(x)


def gelu_tanh(x: Array) -> Array:
    """The approximation of GELU by tanh, which is x · sigmoid(2 · its argument)."""
    one = x.dtype.type
    return x * sigmoid(one(2 * math.sqrt(2 / math.pi)) * (x + one(0.044715) * x * x * x))


def gelu(call: Call) -> Result:
    """GELU in the form that ``approximate`` names, of the input with its bias."""
    x = call[0] if call.get(1) is None else call[0] + call[1]
    tanh = call.op == "FastGelu" or call.attributes.get("approximate", "none") == "tanh"
    return gelu_tanh(x) if tanh else gelu_erf(x)


def thresholded_relu(x: Array, alpha: Any) -> Array:
    """X above alpha, else 0."""
    return np.where(x > alpha, x, 0).astype(x.dtype)


def shrink(call: Call) -> Result:
    """X moved towards zero by ``bias`` where it is farther from it than ``lambd``, else 0."""
    x, bias, edge = call[0], call.attributes["bias"], call.attributes["lambd"]
    return np.where(x < -edge, x + call.dtype.type(bias), np.where(x > edge, x - call.dtype.type(bias), 0))


ACTIVATIONS: dict[str, Callable[[Array, float | None, float | None], Array]] = {
    "Relu": lambda x, _a, _b: np.maximum(x, 0),
    "Tanh": lambda x, _a, _b: np.tanh(x),
    "Sigmoid": lambda x, _a, _b: sigmoid(x),
    "Softsign": lambda x, _a, _b: x / (1 + np.abs(x)),
    "Softplus": lambda x, _a, _b: softplus(x),
    "LeakyRelu": lambda x, a, _b: leaky_relu(x, x.dtype.type(0.01 if a is None else a)),
    "Elu": lambda x, a, _b: elu(x, x.dtype.type(1 if a is None else a)),
    "HardSigmoid": lambda x, a, b: hard_sigmoid(x, 0.2 if a is None else a, 0.5 if b is None else b),
    "HardSwish": lambda x, _a, _b: hard_swish(x),
    "Clip": np.clip,
    "Affine": lambda x, a, b: x.dtype.type(a) * x + x.dtype.type(b),
    "ScaledTanh": lambda x, a, b: x.dtype.type(a) * np.tanh(x.dtype.type(b) * x),
    "ThresholdedRelu": lambda x, a, _b: thresholded_relu(x, x.dtype.type(1 if a is None else a)),
    "Gelu": lambda x, _a, _b: gelu_erf(x),
    "SiLU": lambda x, _a, _b: x * sigmoid(x),
}
"""Activations inside other operators, with their two parameters."""


def activated(x: Array, call: Call) -> Array:
    """``x`` through the activation that a fused operator names, if it names one."""
    name = call.attributes.get("activation") or ""
    if not name:
        return x
    several = call.attributes.get("activation_params")
    if several is None:
        names = ("activation_alpha", "activation_beta")
        several = [call.attributes[one] for one in names if one in call.attributes]
    first, second = ([*several, None, None])[:2]
    return ACTIVATIONS[name](x, first, second)
