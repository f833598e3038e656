"""The registered variants in PyTorch's operations: its own kernel where it has one, otherwise composed.

Each works in every floating-point type, and autograd goes through it.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - what every user of PyTorch calls it

from parity.errors import InputError
from parity.functions import Variant, variant

Function = Callable[[torch.Tensor], torch.Tensor]


def function_of(wanted: Variant) -> Function:
    """The variant as a function of a tensor of any shape, which returns one of the same shape and dtype.

    Raises:
        InputError: It is a gated one, a function of two tensors.
    """
    if wanted.name not in _FUNCTIONS:
        raise InputError(
            f"'{wanted}' takes a value and a gate, and cannot stand where an activation takes one tensor.",
            hint=f"Name the function of the gate alone; known: {', '.join(sorted(_FUNCTIONS))}.",
        )
    return partial(_FUNCTIONS[wanted.name], **dict(wanted.parameters))


def _softplus(x: torch.Tensor, *, beta: float, threshold: float) -> torch.Tensor:
    if math.isinf(threshold):  # F.softplus would overflow
        return torch.logaddexp(beta * x, x.new_zeros(())) / beta
    return F.softplus(x, beta, threshold)


def _hard_sigmoid(x: torch.Tensor, *, slope: float, offset: float) -> torch.Tensor:
    if (slope, offset) == _HARD:
        return F.hardsigmoid(x)
    return torch.clamp(slope * x + offset, 0, 1)


def _hard_swish(x: torch.Tensor, *, slope: float, offset: float) -> torch.Tensor:
    return F.hardswish(x) if (slope, offset) == _HARD else x * torch.clamp(slope * x + offset, 0, 1)


def _xielu(x: torch.Tensor, *, alpha_p: float, alpha_n: float, beta: float, eps: float) -> torch.Tensor:
    negative = alpha_n * (torch.expm1(torch.clamp(x, max=eps)) - x) + beta * x
    return torch.where(x > 0, (alpha_p * x + beta) * x, negative)


def _sparse_plus(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 1, x, torch.clamp(x + 1, min=0).square() / 4)


_HARD: Final = tuple(number for _, number in variant("hard_sigmoid").parameters)
_LAPLACE: Final = variant("laplace").formula.constants

_FUNCTIONS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "gelu_erf": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": lambda x, alpha: x * torch.sigmoid(alpha * x),
    "gelu_clipped": lambda x, low, high: torch.clamp(F.gelu(x), low, high),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "laplace": lambda x: 0.5 * (1 + torch.erf((x - _LAPLACE["mu"]) / (_LAPLACE["sigma"] * math.sqrt(2)))),
    "softplus": _softplus,
    "log_sigmoid": F.logsigmoid,
    "sqrt_softplus": lambda x, threshold: _softplus(x, beta=1.0, threshold=threshold).sqrt(),
    "mish": F.mish,
    "softsign": F.softsign,
    "squareplus": lambda x, b: (x + torch.sqrt(x * x + b)) / 2,
    "tanh_shrink": F.tanhshrink,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "xielu": _xielu,
    "identity": torch.clone,
    "relu": torch.relu,
    "relu6": F.relu6,
    "relu2": lambda x: torch.relu(x).square(),
    "leaky_relu": F.leaky_relu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "hard_tanh": lambda x, low, high: F.hardtanh(x, min_val=low, max_val=high),
    "soft_shrink": lambda x, threshold: F.softshrink(x, lambd=threshold),
    "hard_shrink": lambda x, threshold: F.hardshrink(x, lambd=threshold),
    "threshold": F.threshold,
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda x: torch.clamp((x + 1) / 2, 0, 1),
}
"""By name; the parameters of the formula are keywords."""
