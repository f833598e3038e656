"""Every key of ``transformers.activations.ACT2FN``, as the library builds it.

The keys are read from the library; the table says which variant each of them declares and whether transformers writes
it out of PyTorch's operators (*composed*) or calls one of PyTorch's kernels.
"""

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - what every user of PyTorch calls it
from transformers.activations import ACT2FN

from parity.adapter import Implementation
from parity.functions import FORMULAS, Variant, variant
from parity_adapters.torch.implementation import Call, implementation

DECLARED: Final[Mapping[str, tuple[str, str]]] = {
    "gelu": ("gelu_erf", "kernel"),
    "gelu_python": ("gelu_erf", "composed"),
    "gelu_10": ("gelu_clipped", "kernel"),
    "gelu_new": ("gelu_tanh", "composed"),
    "gelu_accurate": ("gelu_tanh", "composed"),
    "gelu_fast": ("gelu_tanh", "composed"),
    "gelu_python_tanh": ("gelu_tanh", "composed"),
    "gelu_pytorch_tanh": ("gelu_tanh", "kernel"),
    "quick_gelu": ("quick_gelu", "composed"),
    "silu": ("silu", "kernel"),
    "swish": ("silu", "kernel"),
    "mish": ("mish", "kernel"),
    "laplace": ("laplace", "composed"),
    "relu": ("relu", "exact"),
    "relu2": ("relu2", "exact"),
    "relu6": ("relu6", "exact"),
    "leaky_relu": ("leaky_relu", "exact"),
    "prelu": ("leaky_relu", "exact"),
    "sigmoid": ("sigmoid", "kernel"),
    "tanh": ("tanh", "kernel"),
    "linear": ("identity", "exact"),
    "hardswish": ("hard_swish", "kernel"),
    "sqrtsoftplus": ("sqrt_softplus", "composed"),
    "xielu": ("xielu", "composed"),
}
"""Key to the name of the variant it declares and the accuracy to expect; read from transformers 5.24."""


def implementations() -> Iterator[Implementation]:
    """A row for each key of ``ACT2FN``.

    A key that the table does not know declares the variant of its own name. Where the registry has none, there is
    nothing to hold the key against: it gets no row, and a warning says so.
    """
    for key in ACT2FN:
        name, accuracy = DECLARED.get(key, (key, "composed"))
        if name not in FORMULAS:
            warnings.warn(
                f"ACT2FN[{key}] is left out: this version of parity does not know which variant it is.", stacklevel=2
            )
            continue
        yield implementation(f"ACT2FN[{key}]", _declared(key, name), _call(key), accuracy=accuracy)


def _declared(key: str, name: str) -> Variant:
    """The variant called ``name``, with the initial values of parameters that the module of ``key`` would learn."""
    if key == "prelu":
        return variant(name, negative_slope=ACT2FN[key].weight.item())
    if key == "sqrtsoftplus":
        return variant(name, threshold=20)  # that of torch.nn.functional.softplus, which it is the root of
    if key == "xielu":
        module = ACT2FN[key].double()
        beta = module.beta.item()
        return variant(
            name,
            alpha_p=F.softplus(module.alpha_p).item(),
            alpha_n=beta + F.softplus(module.alpha_n).item(),
            beta=beta,
            eps=module.eps.item(),
        )
    return variant(name)


def _call(key: str) -> Call:
    """The module of ``key``, cast to the dtype of its input as the model around it would be."""

    @cache
    def build(dtype: torch.dtype) -> torch.nn.Module:
        module: torch.nn.Module = ACT2FN[key]
        return module.to(dtype).requires_grad_(False)

    def call(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = build(x.dtype)(x)
        return y

    return call
