"""PyTorch's operators in the core's words: of which kind each is, and its attributes by their canonical names.

Tables to read. The names are those of ``torch.ops.aten`` without overload and without the underscore of the in-place
form.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

Arguments = Mapping[str, Any]
"""The arguments of one call by the names of the operator's schema, defaults filled in."""

_NAMES: Final[Mapping[str, str]] = {
    "identity": "detach alias lift lift_fresh lift_fresh_copy clone contiguous positive resolve_conj resolve_neg",
    "reshape": "view _unsafe_view reshape _reshape_alias squeeze unsqueeze flatten unflatten view_as_real"
    " view_as_complex",
    "transpose": "t transpose permute movedim numpy_T",
    "slice": "slice select narrow diagonal as_strided real imag",
    "split": "split split_with_sizes chunk unbind unsafe_split unsafe_split_with_sizes unsafe_chunk tensor_split",
    "concat": "cat stack concat concatenate",
    "gather": "index index_select gather take take_along_dim roll flip rot90 unfold im2col masked_select pixel_shuffle"
    " pixel_unshuffle channel_shuffle",
    "expand": "expand repeat repeat_interleave tile broadcast_to",
    "pad": "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d"
    " replication_pad3d",
    "scatter": "scatter scatter_add scatter_reduce index_put _index_put_impl index_copy index_add index_fill"
    " slice_scatter select_scatter diagonal_scatter as_strided_scatter masked_scatter",
    "embedding": "embedding",
    "add": "add",
    "sub": "sub rsub",
    "mul": "mul",
    "div": "div true_divide floor_divide",
    "mod": "remainder fmod",
    "pow": "pow float_power",
    "neg": "neg",
    "abs": "abs",
    "maximum": "maximum fmax",
    "minimum": "minimum fmin",
    "clip": "clamp clip clamp_min clamp_max",
    "where": "where masked_fill",
    "compare": "eq ne lt le gt ge isnan isinf isfinite",
    "logic": "logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor __and__"
    " __or__ __xor__",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round",
    "trunc": "trunc fix",
    "sign": "sign sgn",
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "square": "square",
    "sin": "sin",
    "cos": "cos",
    "erf": "erf",
    "relu": "relu",
    "leaky_relu": "leaky_relu",
    "prelu": "prelu _prelu_kernel",
    "elu": "elu",
    "celu": "celu",
    "gelu": "gelu",
    "silu": "silu",
    "mish": "mish",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "softplus": "softplus",
    "hard_sigmoid": "hardsigmoid",
    "hard_swish": "hardswish",
    "hard_tanh": "hardtanh relu6",
    "pointwise": "expm1 exp2 log1p log2 log10 tan asin acos atan atan2 sinh cosh asinh acosh atanh erfc erfinv lgamma"
    " digamma sinc hypot lerp addcmul addcdiv threshold hardshrink softshrink log_sigmoid_forward tril triu nan_to_num"
    " logaddexp xlogy copysign signbit bitwise_left_shift bitwise_right_shift polar complex conj_physical _conj"
    " _conj_physical angle i0 special_erfcx special_i0e special_i1 frac rrelu_with_noise heaviside",
    "mean": "mean",
    "sum": "sum nansum",
    "prod": "prod",
    "max": "max amax",
    "min": "min amin",
    "variance": "var",
    "norm": "linalg_vector_norm norm",
    "argmax": "argmax",
    "topk": "topk",
    "sort": "sort",
    "cumsum": "cumsum",
    "any": "any",
    "layer_norm": "native_layer_norm layer_norm",
    "rms_norm": "_fused_rms_norm rms_norm",
    "batch_norm": "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm"
    " batch_norm _batch_norm_no_update _batch_norm_with_update",
    "group_norm": "native_group_norm group_norm",
    "matmul": "mm bmm addmm baddbmm addbmm addmv mv dot matmul linear einsum addr outer mkldnn_linear _grouped_mm",
    "conv": "convolution _convolution mkldnn_convolution conv1d conv2d conv3d",
    "softmax": "_softmax softmax _safe_softmax",
    "log_softmax": "_log_softmax log_softmax",
    "attention": "_scaled_dot_product_flash_attention_for_cpu scaled_dot_product_attention",
    "average_pool": "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d",
    "max_pool": "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d max_pool1d"
    " max_pool2d max_pool3d mkldnn_max_pool2d mkldnn_max_pool3d",
    "resize": "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d"
    " _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d"
    " upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa",
    "recurrent": "gru lstm rnn_tanh rnn_relu mkldnn_rnn_layer",
    "random": "bernoulli native_dropout rand randn randint randperm rand_like randn_like randint_like normal uniform"
    " random exponential geometric cauchy log_normal multinomial poisson normal_functional _fused_dropout dropout",
    "quantize": "quantize_per_tensor quantize_per_channel fake_quantize_per_tensor_affine"
    " fake_quantize_per_channel_affine fake_quantize_per_tensor_affine_cachemask"
    " fake_quantize_per_channel_affine_cachemask",
    "dequantize": "dequantize",
    "constant": "arange linspace logspace full zeros ones eye scalar_tensor empty empty_strided empty_like full_like"
    " zeros_like ones_like new_full new_zeros new_ones new_empty new_empty_strided fill zero tril_indices triu_indices"
    " hann_window",
}

KIND_OF: Final[Mapping[str, str]] = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""Operator to kind, where that does not hang on the arguments."""

LIFTED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "maximum", "minimum"),
        ("other",),
    ),
    **dict.fromkeys(
        ("eq", "ne", "lt", "le", "gt", "ge"),
        ("other",),
    ),
    "where": ("self", "other"),
    "pow": ("self", "exponent"),
    "float_power": ("self", "exponent"),
    "clamp": ("min", "max"),
    "clamp_min": ("min",),
    "clamp_max": ("max",),
    "masked_fill": ("value",),
    "fill": ("value",),
    "full": ("fill_value",),
    "full_like": ("fill_value",),
    "new_full": ("fill_value",),
    "scalar_tensor": ("s",),
    "lerp": ("weight",),
    "addcmul": ("value",),
    "addcdiv": ("value",),
}
"""Operator to the arguments in which a number is a part of the formula."""

ORDER: Final[Mapping[str, tuple[int | None, ...]]] = {
    "clamp_min": (0, 1, None),  # as clamp(self, min, max)
    "clamp_max": (0, None, 1),
    "rsub": (1, 0),  # self is taken from other
    "masked_fill": (1, 2, 0),  # as where(mask, value, self)
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv"), (1, 2, 0)),  # the bias last
    **dict.fromkeys(("_scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention"), (0, 1, 2, 3)),
}
"""Operator to the canonical order of its inputs, where the schema has another; None for one that is absent."""

IMITATED: Final = frozenset(
    "empty_like full_like zeros_like ones_like rand_like randn_like randint_like new_full new_zeros new_ones new_empty"  # noqa: SIM905
    " new_empty_strided".split()
)
"""Operators that look at the shape and dtype of their first argument alone."""

OVERWRITTEN: Final = frozenset(
    "copy_ fill_ zero_ bernoulli_ uniform_ normal_ random_ exponential_ geometric_ cauchy_ log_normal_".split()  # noqa: SIM905
)
"""In-place operators that leave nothing of what was there."""

AIMING: Final = frozenset({"slice", "select", "narrow"})
"""Operators that give a part of their first argument, in the same memory."""

UNINITIALISED: Final = frozenset("empty empty_strided empty_like new_empty new_empty_strided".split())  # noqa: SIM905
"""Operators whose result holds whatever the memory held."""

AUXILIARY: Final = frozenset({"layer_norm", "rms_norm", "batch_norm", "group_norm", "attention", "max_pool"})
"""Kinds whose further outputs serve the backward pass."""


def kind(name: str, arguments: Arguments) -> str:
    """The kind of one call of the operator ``name``; "" where it has none."""
    if name == "_to_copy":
        source, dtype = arguments["self"].dtype, arguments["dtype"]
        return "identity" if dtype is None or dtype == source else "cast"
    if name == "copy":
        return _kind_of_copy(arguments["self"], arguments["src"])
    if name == "elu" and arguments["scale"] != 1:
        return "selu"
    if name in {"convolution", "_convolution"} and arguments["transposed"]:
        return "conv_transpose"
    if name == "add" and isinstance(arguments["self"], torch.Tensor) and arguments["self"].dtype == torch.bool:
        return "logic"
    return KIND_OF.get(name, "")


def attributes(name: str, kind_of_call: str, arguments: Arguments) -> dict[str, Any]:
    """The attributes of one call, JSON values."""
    special = _BY_NAME.get(name) or _BY_KIND.get(kind_of_call)
    return special(arguments) if special else {}


def _kind_of_copy(target: torch.Tensor, source: torch.Tensor) -> str:
    if target.dtype != source.dtype:
        return "cast"
    return "identity" if target.shape == source.shape else "expand"


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence | torch.Size) else [value]


def _transpose(arguments: Arguments) -> dict[str, Any]:
    rank = arguments["self"].ndim
    if "dims" in arguments:
        return {"axes": [axis % rank for axis in arguments["dims"]]}
    axes = list(range(rank))
    first, second = (arguments["dim0"], arguments["dim1"]) if "dim0" in arguments else (0, rank - 1)
    if rank:
        axes[first], axes[second] = axes[second], axes[first]
    return {"axes": axes}


def _reduction(arguments: Arguments) -> dict[str, Any]:
    axes = arguments.get("dim")
    rank = arguments["self"].ndim if isinstance(arguments["self"], torch.Tensor) else 0
    found = {
        "axes": list(range(rank)) if axes is None or axes == [] else _listed(axes),
        "keepdims": bool(arguments.get("keepdim", False)),
    }
    for name in ("correction", "ord", "k", "largest", "descending", "unbiased"):
        if name in arguments:
            found[name] = arguments[name]
    return found


def _axis(arguments: Arguments) -> dict[str, Any]:
    return {"axis": arguments["dim"]} if isinstance(arguments.get("dim"), int) else {}


def _slice(arguments: Arguments) -> dict[str, Any]:
    names = ("dim", "start", "end", "step", "index", "offset", "dim1", "dim2")
    return {name: arguments[name] for name in names if isinstance(arguments.get(name), int)}


def _pad(arguments: Arguments) -> dict[str, Any]:
    found = {"pads": _pads_of_tail(arguments["pad"] if "pad" in arguments else arguments["padding"])}
    if "value" in arguments:
        found["value"] = arguments["value"]
    return found


def _pads_of_tail(pad: Sequence[int]) -> list[int]:
    """PyTorch's pairs, last axis first, as [begin…, end…] of the padded axes."""
    return [*pad[-2::-2], *pad[::-2]]


def _norm_of_tail(arguments: Arguments) -> dict[str, Any]:
    epsilon = arguments["eps"]
    if epsilon is None:
        epsilon = torch.finfo(arguments["input"].dtype).eps
    return {"epsilon": epsilon, "axis": arguments["input"].ndim - len(arguments["normalized_shape"])}


def _batch_norm(arguments: Arguments) -> dict[str, Any]:
    return {"epsilon": arguments["eps"], "training": bool(arguments.get("training", "momentum" not in arguments))}


def _group_norm(arguments: Arguments) -> dict[str, Any]:
    return {
        "epsilon": arguments["eps"],
        "groups": arguments["group"] if "group" in arguments else arguments["num_groups"],
    }


def _conv(arguments: Arguments) -> dict[str, Any]:
    weight = arguments["weight"]
    spatial = weight.ndim - 2
    padding = _stretched(arguments["padding"], spatial)
    return {
        "strides": _stretched(arguments["stride"], spatial),
        "pads": padding * 2,
        "dilations": _stretched(arguments["dilation"], spatial),
        "groups": arguments["groups"],
        **({"output_padding": list(arguments["output_padding"])} if arguments.get("transposed") else {}),
    }


def _stretched(value: Any, count: int) -> list[Any]:
    values = _listed(value)
    return values * count if len(values) == 1 else values


def _pool(arguments: Arguments) -> dict[str, Any]:
    if "kernel_size" not in arguments:
        return _adaptive_pool(arguments)
    spatial = len(arguments["kernel_size"])
    found: dict[str, Any] = {
        "kernel": list(arguments["kernel_size"]),
        "strides": list(arguments["stride"]) or list(arguments["kernel_size"]),
        "pads": _stretched(arguments["padding"], spatial) * 2,
        "ceil_mode": arguments["ceil_mode"],
    }
    if "dilation" in arguments:
        found["dilations"] = _stretched(arguments["dilation"], spatial)
    if "count_include_pad" in arguments:
        found["count_include_pad"] = arguments["count_include_pad"]
        if arguments.get("divisor_override"):
            found["divisor"] = arguments["divisor_override"]
    return found


def _adaptive_pool(arguments: Arguments) -> dict[str, Any]:
    """Of windows that follow from the output's size; they are like those of a plain pool where the sizes divide."""
    output = list(arguments["output_size"])
    lengths = arguments["self"].shape[-len(output) :]
    found: dict[str, Any] = {"output_size": output}
    if all(length % size == 0 for length, size in zip(lengths, output, strict=True)):
        kernel = [length // size for length, size in zip(lengths, output, strict=True)]
        found |= {"kernel": kernel, "strides": kernel, "pads": [0] * 2 * len(kernel), "count_include_pad": False}
    return found


def _resize(mode: str, coordinates: str | None, **more: Any) -> Callable[[Arguments], dict[str, Any]]:
    """``coordinates`` None: those that ``align_corners`` says."""

    def found(arguments: Arguments) -> dict[str, Any]:
        chosen = coordinates or ("align_corners" if arguments["align_corners"] else "half_pixel")
        rounding = {"nearest_mode": "floor"} if mode == "nearest" and chosen == "asymmetric" else {}
        return {"mode": mode, "coordinates": chosen, "antialias": False, **rounding, **more}

    return found


def _attention(arguments: Arguments) -> dict[str, Any]:
    scale = arguments["scale"]
    width = arguments["query"].shape[-1]
    return {"scale": 1 / math.sqrt(width) if scale is None else scale, "causal": bool(arguments["is_causal"])}


def _recurrent(cell: str, **more: Any) -> Callable[[Arguments], dict[str, Any]]:
    def found(arguments: Arguments) -> dict[str, Any]:
        shared = {"layers": arguments["num_layers"], "bidirectional": arguments["bidirectional"]}
        return {"cell": cell, **shared, **more, "batch_first": bool(arguments.get("batch_first", False))}

    return found


def _plain(**canonical: str) -> Callable[[Arguments], dict[str, Any]]:
    """Attributes that are arguments: canonical name to PyTorch's."""

    def found(arguments: Arguments) -> dict[str, Any]:
        return {
            name: arguments[argument]
            for name, argument in canonical.items()
            if isinstance(arguments.get(argument), bool | int | float | str)
        }

    return found


def _scaled(arguments: Arguments) -> dict[str, Any]:
    return {"alpha": arguments["alpha"]} if arguments.get("alpha", 1) != 1 else {}


def _cast(arguments: Arguments) -> dict[str, Any]:
    to = arguments["dtype"] if arguments.get("dtype") is not None else arguments["self"].dtype
    return {"to": str(to).removeprefix("torch.")}


def _product(arguments: Arguments) -> dict[str, Any]:
    """The factors of ``addmm`` and its like, where they are not 1."""
    return {name: arguments[name] for name in ("alpha", "beta") if arguments.get(name, 1) != 1}


def _quantize(arguments: Arguments) -> dict[str, Any]:
    if "quant_min" in arguments:
        return {"bits": math.ceil(math.log2(arguments["quant_max"] - arguments["quant_min"] + 1))}
    return {"bits": 32 if arguments["dtype"] == torch.qint32 else 8}


_BY_KIND: Final[Mapping[str, Callable[[Arguments], dict[str, Any]]]] = {
    "transpose": _transpose,
    **dict.fromkeys(
        ("mean", "sum", "prod", "max", "min", "variance", "norm", "argmax", "topk", "sort", "cumsum", "any"), _reduction
    ),
    "slice": _slice,
    "split": _axis,
    "concat": _axis,
    "pad": _pad,
    "softmax": _axis,
    "log_softmax": _axis,
    "layer_norm": _norm_of_tail,
    "rms_norm": _norm_of_tail,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "conv": _conv,
    "conv_transpose": _conv,
    "average_pool": _pool,
    "max_pool": _pool,
    "attention": _attention,
    "add": _scaled,
    "sub": _scaled,
    "matmul": _product,
    "cast": _cast,
    "quantize": _quantize,
    "selu": _plain(alpha="alpha", gamma="scale"),
    "elu": _plain(alpha="alpha"),
    "celu": _plain(alpha="alpha"),
    "leaky_relu": _plain(alpha="negative_slope"),
    "gelu": _plain(approximate="approximate"),
    "softplus": _plain(beta="beta", threshold="threshold"),
    "hard_tanh": _plain(min="min_val", max="max_val"),
    "clip": _plain(min="min", max="max"),
}

_BY_NAME: Final[Mapping[str, Callable[[Arguments], dict[str, Any]]]] = {
    "div": lambda arguments: {"rounding": arguments["rounding_mode"]} if arguments.get("rounding_mode") else {},
    "floor_divide": lambda _: {"rounding": "floor"},
    "remainder": lambda _: {"rounding": "floor"},
    "fmod": lambda _: {"rounding": "trunc"},
    "gru": _recurrent("gru", linear_before_reset=True),
    "lstm": _recurrent("lstm"),
    "rnn_tanh": _recurrent("rnn", activation="tanh"),
    "rnn_relu": _recurrent("rnn", activation="relu"),
    "mkldnn_rnn_layer": _recurrent("lstm"),
    "upsample_nearest1d": _resize("nearest", "asymmetric"),
    "upsample_nearest2d": _resize("nearest", "asymmetric"),
    "upsample_nearest3d": _resize("nearest", "asymmetric"),
    "_upsample_nearest_exact1d": _resize("nearest", "half_pixel"),
    "_upsample_nearest_exact2d": _resize("nearest", "half_pixel"),
    "_upsample_nearest_exact3d": _resize("nearest", "half_pixel"),
    "upsample_linear1d": _resize("linear", None),
    "upsample_bilinear2d": _resize("linear", None),
    "upsample_trilinear3d": _resize("linear", None),
    "upsample_bicubic2d": _resize("cubic", None, cubic_coefficient=-0.75),
    "_upsample_bilinear2d_aa": _resize("linear", None, antialias=True),
    "_upsample_bicubic2d_aa": _resize("cubic", None, antialias=True, cubic_coefficient=-0.5),
    "threshold": _plain(threshold="threshold", value="value"),
    "tril": _plain(diagonal="diagonal"),
    "triu": _plain(diagonal="diagonal"),
    "hardshrink": _plain(threshold="lambd"),
    "softshrink": _plain(threshold="lambd"),
    "addcmul": _plain(value="value"),
    "glu": _plain(axis="dim"),
}
