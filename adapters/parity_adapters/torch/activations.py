"""PyTorch's implementations of the registered variants: every call of ``torch.nn.functional``, GELU in every way.

A table to read. Declared parameters are the defaults in PyTorch's documentation; names are explained in
`parity.adapter.Implementation`.
"""

import math
from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - what every user of PyTorch calls it

from parity.adapter import Implementation
from parity.functions import variant
from parity_adapters.torch import modes
from parity_adapters.torch.implementation import Call, implementation

_GELU_VARIANTS = {"none": variant("gelu_erf"), "tanh": variant("gelu_tanh")}
_RRELU_SLOPE = (1 / 8 + 1 / 3) / 2  # rrelu outside training: the mean of its bounds
_COMPILED_DTYPES = ("float32", "float16", "bfloat16")  # float64 would cost two more compilations a row
_MKLDNN_DTYPES = ("float32", "bfloat16")  # those whose kernel depends on the shape and layout of the input


def implementations() -> Iterator[Implementation]:
    """All rows. Nothing is compiled or scripted before its row is called."""
    yield from _gelu()
    yield from _gelu_by_hand()
    yield from _elementwise()
    yield from _gated()
    yield from _other_modes()


def _gelu() -> Iterator[Implementation]:
    """GELU as PyTorch offers it."""
    yield implementation("torch.nn.functional.gelu", _GELU_VARIANTS["none"], F.gelu, default_of="gelu")
    yield implementation("torch.nn.GELU", _GELU_VARIANTS["none"], torch.nn.GELU(), default_of="gelu")
    for flag, declared in _GELU_VARIANTS.items():
        name, call = f"torch.nn.functional.gelu[approximate={flag}]", partial(F.gelu, approximate=flag)
        yield implementation(name, declared, call)
        yield implementation(f"{name} (non-contiguous)", declared, call, enter=modes.strided)
        yield implementation(f"{name} (one element)", declared, modes.one_element(call), dtypes=_MKLDNN_DTYPES)
        yield implementation(f"{name} (mkldnn off)", declared, call, within=modes.without_mkldnn)
        for dtype in (torch.float16, torch.bfloat16):
            short = str(dtype).removeprefix("torch.")
            yield implementation(
                f"{name} (autocast={short})", declared, call, dtypes=("float32", short), within=modes.autocast(dtype)
            )
        yield implementation(f"{name} (compile)", declared, modes.compiled(call), dtypes=_COMPILED_DTYPES)
        module = torch.nn.GELU(approximate=flag)
        yield implementation(f"torch.nn.GELU[approximate={flag}]", declared, module)
        yield implementation(f"torch.nn.GELU[approximate={flag}] (script)", declared, modes.scripted(module))
        yield implementation(f"torch.ops.aten.gelu_[approximate={flag}]", declared, partial(_gelu_in_place, flag=flag))
    yield implementation(
        "torch._addmm_activation[use_gelu=True]",
        _GELU_VARIANTS["none"],
        partial(_addmm_activation, use_gelu=True),
        differentiable=False,
    )


def _gelu_in_place(x: torch.Tensor, flag: str) -> torch.Tensor:
    y: torch.Tensor = torch.ops.aten.gelu_(x.clone(), approximate=flag)
    return y


def _addmm_activation(x: torch.Tensor, *, use_gelu: bool) -> torch.Tensor:
    """The feed-forward step of ``torch.nn.TransformerEncoderLayer``'s inference fast path, its activation alone.

    The weight is 1 and the bias -0.0, which added to any number, -0.0 included, leaves it as it is.
    """
    weight, bias = x.new_ones(1, 1), x.new_full((1,), -0.0)
    y: torch.Tensor = torch._addmm_activation(bias, x.unsqueeze(-1), weight, use_gelu=use_gelu)  # noqa: SLF001
    return y.squeeze(-1)


def _gelu_by_hand() -> Iterator[Implementation]:
    """GELU as people write it out of PyTorch's operators."""
    yield implementation(
        "0.5*x*(1+torch.erf(x/math.sqrt(2)))",
        _GELU_VARIANTS["none"],
        lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
        accuracy="composed",
    )
    yield implementation(
        "0.5*x*(1+torch.tanh(math.sqrt(2/math.pi)*(x+0.044715*x**3)))",
        _GELU_VARIANTS["tanh"],
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        accuracy="composed",
    )
    yield implementation(
        "x*torch.sigmoid(1.702*x)",
        variant("quick_gelu"),
        lambda x: x * torch.sigmoid(1.702 * x),
        accuracy="composed",
    )
    yield implementation(
        "torch.autograd.Function[gelu_erf]", _GELU_VARIANTS["none"], _ErfGelu.apply, accuracy="composed"
    )


class _ErfGelu(torch.autograd.Function):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """GELU with its derivative written out, cdf(x) + x pdf(x), as people do to save memory."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))

    @staticmethod
    def backward(ctx: torch.autograd.function.BackwardCFunction, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
        pdf = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return grad_output * (cdf + x * pdf)


def _elementwise() -> Iterator[Implementation]:
    """The other activations of ``torch.nn.functional``, without flags and with each flag that changes the function."""
    row = implementation
    ft = "torch.nn.functional."
    leaky = partial(variant, "leaky_relu")
    yield row(f"{ft}relu", variant("relu"), F.relu, accuracy="exact", default_of="relu")
    yield row(f"{ft}relu6", variant("relu6"), F.relu6, accuracy="exact", default_of="relu6")
    yield row(f"{ft}leaky_relu", leaky(), F.leaky_relu, accuracy="exact", default_of="leakyrelu")
    yield row(
        f"{ft}leaky_relu[negative_slope=0.2]",
        leaky(negative_slope=0.2),
        partial(F.leaky_relu, negative_slope=0.2),
        accuracy="exact",
    )
    yield row(
        f"{ft}prelu[weight=0.25]",
        leaky(negative_slope=0.25),
        lambda x: F.prelu(x, x.new_full((1,), 0.25)),
        accuracy="exact",
    )
    yield row(f"{ft}rrelu", leaky(negative_slope=_RRELU_SLOPE), F.rrelu, accuracy="exact", default_of="rrelu")
    yield row(f"{ft}elu", variant("elu"), F.elu, default_of="elu")
    yield row(f"{ft}elu[alpha=0.5]", variant("elu", alpha=0.5), partial(F.elu, alpha=0.5))
    yield row(f"{ft}selu", variant("selu"), F.selu, default_of="selu")
    yield row(f"{ft}celu", variant("celu"), F.celu, default_of="celu")
    yield row(f"{ft}celu[alpha=0.5]", variant("celu", alpha=0.5), partial(F.celu, alpha=0.5))
    yield row(f"{ft}softplus", variant("softplus", threshold=20), F.softplus, default_of="softplus")
    yield row(f"{ft}softplus[beta=2]", variant("softplus", beta=2, threshold=20), partial(F.softplus, beta=2))
    yield row(f"{ft}mish", variant("mish"), F.mish, default_of="mish")
    yield row(f"{ft}silu", variant("silu"), F.silu, default_of="silu")
    yield row(f"{ft}hardsigmoid", variant("hard_sigmoid"), F.hardsigmoid, default_of="hardsigmoid")
    yield row(f"{ft}hardswish", variant("hard_swish"), F.hardswish, default_of="hardswish")
    yield row(f"{ft}sigmoid", variant("sigmoid"), F.sigmoid, default_of="sigmoid")
    yield row(f"{ft}tanh", variant("tanh"), F.tanh, default_of="tanh")
    yield row(f"{ft}logsigmoid", variant("log_sigmoid"), F.logsigmoid, default_of="logsigmoid")
    yield row(f"{ft}softsign", variant("softsign"), F.softsign, accuracy="composed", default_of="softsign")
    yield row(f"{ft}tanhshrink", variant("tanh_shrink"), F.tanhshrink, accuracy="composed", default_of="tanhshrink")
    yield row(f"{ft}softshrink", variant("soft_shrink"), F.softshrink, accuracy="exact", default_of="softshrink")
    yield row(
        f"{ft}softshrink[lambd=1.0]",
        variant("soft_shrink", threshold=1),
        partial(F.softshrink, lambd=1.0),
        accuracy="exact",
    )
    yield row(f"{ft}hardshrink", variant("hard_shrink"), F.hardshrink, accuracy="exact", default_of="hardshrink")
    yield row(
        f"{ft}hardshrink[lambd=1.0]",
        variant("hard_shrink", threshold=1),
        partial(F.hardshrink, lambd=1.0),
        accuracy="exact",
    )
    yield row(f"{ft}hardtanh", variant("hard_tanh"), F.hardtanh, accuracy="exact", default_of="hardtanh")
    yield row(
        f"{ft}hardtanh[min_val=-2.0,max_val=2.0]",
        variant("hard_tanh", low=-2, high=2),
        partial(F.hardtanh, min_val=-2.0, max_val=2.0),
        accuracy="exact",
    )
    yield row(
        f"{ft}threshold[threshold=0.5,value=-1.0]",
        variant("threshold", threshold=0.5, value=-1),
        partial(F.threshold, threshold=0.5, value=-1.0),
        accuracy="exact",
    )
    yield row(
        "torch._addmm_activation[use_gelu=False]",
        variant("relu"),
        partial(_addmm_activation, use_gelu=False),
        accuracy="exact",
        differentiable=False,
    )


def _gated() -> Iterator[Implementation]:
    """Gated forms; ``glu`` is PyTorch's own, the others are what model code writes after a ``chunk``."""
    yield implementation("torch.nn.functional.glu", variant("glu"), lambda x: F.glu(x).squeeze(-1), default_of="glu")
    by_hand: dict[str, tuple[str, Call]] = {
        "value*torch.nn.functional.gelu(gate)": ("geglu_erf", F.gelu),
        "value*torch.nn.functional.gelu(gate)[approximate=tanh]": ("geglu_tanh", partial(F.gelu, approximate="tanh")),
        "value*torch.nn.functional.silu(gate)": ("swiglu", F.silu),
    }
    for name, (declared, gate) in by_hand.items():
        yield implementation(name, variant(declared), partial(_chunk_and_gate, gate=gate), accuracy="composed")


def _chunk_and_gate(x: torch.Tensor, gate: Call) -> torch.Tensor:
    value, gated = x.chunk(2, dim=-1)
    return (value * gate(gated)).squeeze(-1)


def _other_modes() -> Iterator[Implementation]:
    """Activations other than GELU, compiled and scripted: few, because a compilation takes seconds."""
    yield implementation(
        "torch.nn.functional.silu (compile)", variant("silu"), modes.compiled(F.silu), dtypes=("float32", "bfloat16")
    )
    modules = {
        "torch.nn.SiLU": (variant("silu"), torch.nn.SiLU()),
        "torch.nn.Mish": (variant("mish"), torch.nn.Mish()),
        "torch.nn.Softplus": (variant("softplus", threshold=20), torch.nn.Softplus()),
    }
    for name, (declared, module) in modules.items():
        yield implementation(f"{name} (script)", declared, modes.scripted(module))
