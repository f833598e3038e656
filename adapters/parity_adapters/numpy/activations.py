"""The formulas, each a row: what a person types, the variant it is meant to be, and the expression itself.

Names are the expression as typed; ``value`` and ``gate`` are the two columns of a gated input. Where a name
leaves the origin of a function open, it stands in parentheses: ``(math.erf)``, ``(scipy.special.erf)``.
"""

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from parity.adapter import Array, Implementation
from parity.dtypes import FLOAT_DTYPES
from parity.functions import Variant, variant
from parity_adapters.numpy.arrays import from_numpy, to_numpy

# Python floats, not NumPy scalars: since NumPy 2, ``x / np.sqrt(2)`` of a float32 array is float64.
SQRT_2 = math.sqrt(2)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805

Formula = Callable[[Array], Array]

# Element by element through Python's float, as `np.vectorize` does, and like it at home in any dtype.
_math_erf: Formula = np.frompyfunc(math.erf, 1, 1)
_math_erfc: Formula = np.frompyfunc(math.erfc, 1, 1)


def implementations() -> tuple[Implementation, ...]:
    """Every row; those that need SciPy only where it is installed."""
    return (*_plain(), *(_scipy() if find_spec("scipy") else ()))


def _row(
    name: str,
    declared: Variant,
    function: Formula,
    accuracy: str = "composed",
    *,
    dtypes: tuple[str, ...] = tuple(FLOAT_DTYPES),
    default_of: str | None = None,
) -> Implementation:
    return Implementation(
        name=name,
        variant=declared,
        dtypes=dtypes,
        enter=from_numpy,
        # Hand-written formulas overflow in exp at large |x|; the values are what is measured.
        function=np.errstate(all="ignore")(function),
        leave=to_numpy,
        accuracy=accuracy,
        default_of=default_of,
    )


def _gelu_erf(x: Array, erf: Formula) -> Array:
    y: Array = 0.5 * x * (1 + erf(x / SQRT_2))
    return y


def _gelu_tanh(x: Array, scale: float = SQRT_2_OVER_PI) -> Array:
    y: Array = 0.5 * x * (1 + np.tanh(scale * (x + 0.044715 * x**3)))
    return y


def _gelu_tanh_factored(x: Array, scale: float = SQRT_2_OVER_PI) -> Array:
    y: Array = 0.5 * x * (1 + np.tanh(scale * x * (1 + 0.044715 * x * x)))
    return y


def _gated(gate: Formula) -> Formula:
    return lambda x: x[:, 0] * gate(x[:, 1])


def _plain() -> tuple[Implementation, ...]:
    erf, tanh, quick = variant("gelu_erf"), variant("gelu_tanh"), variant("quick_gelu")
    silu, softplus, sigmoid, mish = variant("silu"), variant("softplus"), variant("sigmoid"), variant("mish")
    clipped, hard_sigmoid, hard_swish = variant("gelu_clipped"), variant("hard_sigmoid"), variant("hard_swish")
    # exp overflows float16 from x = 11.09 on, and log(1+exp(x)) with it.
    no_float16 = tuple(name for name in FLOAT_DTYPES if name != "float16")
    return (
        _row("0.5*x*(1+erf(x/sqrt(2))) (math.erf)", erf, lambda x: _gelu_erf(x, _math_erf)),
        _row("0.5*x*erfc(-x/sqrt(2)) (math.erfc)", erf, lambda x: 0.5 * x * _math_erfc(-x / SQRT_2)),
        _row("0.5*x*(1+np.tanh(sqrt(2/pi)*(x+0.044715*x**3)))", tanh, _gelu_tanh),
        _row("0.5*x*(1+np.tanh(sqrt(2/pi)*x*(1+0.044715*x*x)))", tanh, _gelu_tanh_factored),
        _row("0.5*x*(1+np.tanh(0.7978845608*(x+0.044715*x**3)))", tanh, lambda x: _gelu_tanh(x, 0.7978845608)),
        _row(
            "0.5*x*(1+np.tanh(0.7978845608*x*(1+0.044715*x*x)))",
            tanh,
            lambda x: _gelu_tanh_factored(x, 0.7978845608),
        ),
        _row("x*(1/(1+np.exp(-1.702*x)))", quick, lambda x: x * (1 / (1 + np.exp(-1.702 * x)))),
        _row(
            "np.clip(0.5*x*(1+erf(x/sqrt(2))),-10,10) (math.erf)",
            clipped,
            lambda x: np.clip(_gelu_erf(x, _math_erf), -10, 10),
        ),
        _row("x/(1+np.exp(-x))", silu, lambda x: x / (1 + np.exp(-x))),
        _row("1/(1+np.exp(-x))", sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        _row(
            "np.where(x>=0,1/(1+np.exp(-x)),np.exp(x)/(1+np.exp(x)))",
            sigmoid,
            lambda x: np.where(x >= 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x))),
        ),
        _row("np.maximum(x,0)", variant("relu"), lambda x: np.maximum(x, 0), "exact"),
        _row("np.clip(x,0,6)", variant("relu6"), lambda x: np.clip(x, 0, 6), "exact"),
        _row("np.maximum(x,0)**2", variant("relu2"), lambda x: np.maximum(x, 0) ** 2, "exact"),
        _row("np.where(x>0,x,0.01*x)", variant("leaky_relu"), lambda x: np.where(x > 0, x, 0.01 * x)),
        _row("np.where(x>0,x,np.expm1(x))", variant("elu"), lambda x: np.where(x > 0, x, np.expm1(x)), "kernel"),
        _row(
            "np.where(x>0,scale*x,scale*alpha*np.expm1(x))",
            variant("selu"),
            lambda x: np.where(x > 0, SELU_SCALE * x, SELU_SCALE * SELU_ALPHA * np.expm1(x)),
        ),
        _row(
            "np.maximum(x,0)+np.minimum(0,np.expm1(x))",
            variant("celu"),
            lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)),
            "kernel",
        ),
        _row("np.log1p(np.exp(x))", softplus, lambda x: np.log1p(np.exp(x)), dtypes=no_float16),
        _row("np.logaddexp(0,x)", softplus, lambda x: np.logaddexp(0, x), "kernel"),
        _row("x*np.tanh(np.log1p(np.exp(x)))", mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        _row("x*np.tanh(np.logaddexp(0,x))", mish, lambda x: x * np.tanh(np.logaddexp(0, x))),
        _row("np.sqrt(np.logaddexp(0,x))", variant("sqrt_softplus"), lambda x: np.sqrt(np.logaddexp(0, x))),
        _row("np.clip(x/6+0.5,0,1)", hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
        _row("x*np.clip(x+3,0,6)/6", hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
        _row("np.tanh", variant("tanh"), np.tanh, "kernel", default_of="tanh"),
        _row("np.clip(x,-1,1)", variant("hard_tanh"), lambda x: np.clip(x, -1, 1), "exact"),
        _row("x/(1+np.abs(x))", variant("softsign"), lambda x: x / (1 + np.abs(x))),
        _row(
            "0.5*(1+erf((x-0.707107)/(0.282095*sqrt(2)))) (math.erf)",
            variant("laplace"),
            lambda x: 0.5 * (1 + _math_erf((x - 0.707107) / (0.282095 * SQRT_2))),
        ),
        _row("x", variant("identity"), lambda x: x, "exact"),
        _row(
            "value*0.5*gate*(1+erf(gate/sqrt(2))) (math.erf)",
            variant("geglu_erf"),
            _gated(lambda gate: _gelu_erf(gate, _math_erf)),
        ),
        _row(
            "value*0.5*gate*(1+np.tanh(sqrt(2/pi)*(gate+0.044715*gate**3)))",
            variant("geglu_tanh"),
            _gated(_gelu_tanh),
        ),
        _row("value*gate/(1+np.exp(-gate))", variant("swiglu"), _gated(lambda gate: gate / (1 + np.exp(-gate)))),
    )


def _scipy() -> tuple[Implementation, ...]:
    from scipy import special, stats  # noqa: PLC0415 – an extra: the rows above work without it

    erf: Any = special.erf
    gelu = variant("gelu_erf")
    return (
        _row("0.5*x*(1+erf(x/sqrt(2))) (scipy.special.erf)", gelu, lambda x: _gelu_erf(x, erf)),
        _row("0.5*x*erfc(-x/sqrt(2)) (scipy.special.erfc)", gelu, lambda x: 0.5 * x * special.erfc(-x / SQRT_2)),
        _row("x*scipy.special.ndtr(x)", gelu, lambda x: x * special.ndtr(x)),
        _row("x*scipy.stats.norm.cdf(x)", gelu, lambda x: x * stats.norm.cdf(np.asarray(x))),
        _row(
            "np.clip(0.5*x*(1+erf(x/sqrt(2))),-10,10) (scipy.special.erf)",
            variant("gelu_clipped"),
            lambda x: np.clip(_gelu_erf(x, erf), -10, 10),
        ),
        _row("x*scipy.special.expit(1.702*x)", variant("quick_gelu"), lambda x: x * special.expit(1.702 * x)),
        _row("x*scipy.special.expit(x)", variant("silu"), lambda x: x * special.expit(x)),
        _row("scipy.special.expit", variant("sigmoid"), special.expit, "kernel"),
        _row("scipy.special.log_expit", variant("log_sigmoid"), special.log_expit, "kernel"),
        _row(
            "0.5*(1+erf((x-0.707107)/(0.282095*sqrt(2)))) (scipy.special.erf)",
            variant("laplace"),
            lambda x: 0.5 * (1 + erf((x - 0.707107) / (0.282095 * SQRT_2))),
        ),
        _row(
            "value*0.5*gate*(1+erf(gate/sqrt(2))) (scipy.special.erf)",
            variant("geglu_erf"),
            _gated(lambda gate: _gelu_erf(gate, erf)),
        ),
        _row(
            "value*gate*scipy.special.expit(gate)", variant("swiglu"), _gated(lambda gate: gate * special.expit(gate))
        ),
    )
