"""One row of the table: a call on tensors made into an `Implementation`. Shared with the transformers adapter."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from parity.adapter import Array, Implementation
from parity.dtypes import FLOAT_DTYPES
from parity.functions import Variant
from parity_adapters.torch.arrays import from_numpy, to_numpy

Call = Callable[[torch.Tensor], torch.Tensor]
"""Tensor of shape (n,), or (n, 2) for a gated variant, to a tensor of shape (n,)."""


def implementation(
    name: str,
    variant: Variant,
    call: Call,
    *,
    dtypes: tuple[str, ...] = tuple(FLOAT_DTYPES),
    accuracy: str = "kernel",
    default_of: str | None = None,
    enter: Callable[[Array], torch.Tensor] = from_numpy,
    within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    differentiable: bool = True,
) -> Implementation:
    """``call`` as an `Implementation`, with its gradient by autograd.

    ``within`` makes the context in which ``call`` and its backward pass run, such as autocast; ``differentiable`` is
    False where PyTorch has no derivative for the call. The other arguments are those of `Implementation`.
    """

    def function(x: torch.Tensor) -> torch.Tensor:
        with within():
            return call(x)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        with within():
            y = call(x)
            # Not y.sum().backward(): it would hand down an expanded, non-contiguous gradient and so take other
            # kernels than training does.
            (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
        return dx

    return Implementation(
        name=name,
        variant=variant,
        dtypes=dtypes,
        enter=enter,
        function=function,
        leave=to_numpy,
        gradient=gradient if differentiable else None,
        accuracy=accuracy,
        default_of=default_of,
    )
