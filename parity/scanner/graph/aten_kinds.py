"""PyTorch's aten operators as the shared graph's kinds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from parity.scanner.graph.ir import Inner

Attributes = Mapping[str, Any]

_PLAIN: Final = {
    "identity": "detach alias lift lift_fresh lift_fresh_copy clone contiguous positive dropout native_dropout"
    " alpha_dropout feature_dropout fake_quantize_per_tensor_affine fake_quantize_per_channel_affine",
    "quantize": "quantize_per_tensor quantize_per_channel",
    "dequantize": "dequantize dequantize_per_tensor dequantize_per_channel",
    "reshape": "view _unsafe_view reshape squeeze unsqueeze flatten unflatten",
    "transpose": "t transpose permute movedim numpy_T",
    "slice": "slice select narrow",
    "gather": "index index_select gather",
    "expand": "expand repeat repeat_interleave tile broadcast_to expand_as",
    "mul": "mul multiply",
    "pow": "pow float_power",
    "neg": "neg negative",
    "abs": "abs",
    "maximum": "maximum fmax",
    "minimum": "minimum fmin",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round",
    "trunc": "trunc fix",
    "sign": "sign sgn",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "logaddexp": "logaddexp",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "square": "square",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "erf": "erf special_erf",
    "erfc": "erfc special_erfc",
    "relu": "relu",
    "silu": "silu",
    "mish": "mish",
    "sigmoid": "sigmoid special_expit",
    "log_sigmoid": "log_sigmoid log_sigmoid_forward",
    "tanh": "tanh",
    "softsign": "softsign",
    "hard_sigmoid": "hardsigmoid",
    "hard_swish": "hardswish",
    "shape": "sym_size size numel",
    "constant": "arange linspace empty empty_like new_empty eye",
    "random": "bernoulli rand randn randint randperm rand_like randn_like normal uniform multinomial",
    "where": "where",
}
_KINDS: Final = {name: kind for kind, names in _PLAIN.items() for name in names.split()}

_COMPARISONS: Final = {
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
    "isnan": "nan",
}
_LOGIC: Final = {
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "logical_not": "not",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_not": "not",
}

_NUMBERS: Final[Mapping[str, tuple[str, Mapping[str, tuple[str, float]]]]] = {
    "add": ("add", {"alpha": ("alpha", 1.0)}),
    "sub": ("sub", {"alpha": ("alpha", 1.0)}),
    "leaky_relu": ("leaky_relu", {"negative_slope": ("alpha", 0.01)}),
    "elu": ("elu", {"alpha": ("alpha", 1.0), "scale": ("scale", 1.0), "input_scale": ("input_scale", 1.0)}),
    "selu": ("selu", {}),
    "celu": ("celu", {"alpha": ("alpha", 1.0)}),
    "softplus": ("softplus", {"beta": ("beta", 1.0), "threshold": ("threshold", 20.0)}),
    "softshrink": ("soft_shrink", {"lambd": ("threshold", 0.5)}),
    "hardshrink": ("hard_shrink", {"lambd": ("threshold", 0.5)}),
    "threshold": ("thresholded_relu", {"threshold": ("threshold", 0.0), "value": ("value", 0.0)}),
    "hardtanh": ("hard_tanh", {"min_val": ("min", -1.0), "max_val": ("max", 1.0)}),
}
"""Operator to kind and, by PyTorch's name of each number that decides it, ours and its default."""

_RECURRENT: Final[Mapping[str, tuple[Inner, ...]]] = {
    "lstm": (Inner("gates: Sigmoid", "sigmoid"), Inner("candidate and output: Tanh", "tanh")),
    "gru": (Inner("gates: Sigmoid", "sigmoid"), Inner("candidate: Tanh", "tanh")),
    "rnn_tanh": (Inner("output: Tanh", "tanh"),),
    "rnn_relu": (Inner("output: Relu", "relu"),),
    "glu": (Inner("gate: Sigmoid", "sigmoid"),),
}
_RECURRENT_CELLS: Final = {
    "lstm_cell": "lstm",
    "gru_cell": "gru",
    "rnn_tanh_cell": "rnn_tanh",
    "rnn_relu_cell": "rnn_relu",
}


@dataclass(frozen=True, slots=True)
class Described:
    """What an operator is in the shared graph.

    Attributes:
        kind: Its kind.
        attributes: By our names.
        reads: Names of the arguments that the kind reads, in its order; None for those that are tensors.
        value: What decides the function.
        inner: Activations inside.
    """

    kind: str
    attributes: Attributes = field(default_factory=dict)
    reads: Sequence[str] | None = None
    value: str = ""
    inner: tuple[Inner, ...] = ()


_BOTH: Final = ("self", "other")


def described(name: str, arguments: Mapping[str, Any], *, floating: bool) -> Described:
    """An operator by its name without overload, and its arguments.

    Args:
        name: As in ``aten.gelu.default``: ``gelu``; in-place ones like the others.
        arguments: Numbers and texts by name; of tensors nothing but that they are there.
        floating: Whether the result is of a floating-point type.
    """
    if name in _FIXED:
        return _FIXED[name]
    if name in _NUMBERS:
        return _with_numbers(name, arguments)
    if name in _BY_ARGUMENTS:
        return _BY_ARGUMENTS[name](name, arguments)
    if name in _CASTS:
        return Described("cast" if floating else "trunc", reads=("self",))
    kind = _KINDS.get(name, "")
    return Described(kind, {}, ("self",) if kind in {"identity", "quantize", "dequantize"} else _ORDER.get(name))


def _gelu(_: str, arguments: Mapping[str, Any]) -> Described:
    form = str(arguments.get("approximate", "none"))
    return Described("gelu", {"approximate": form}, ("self",), f"gelu, approximate={form}")


def _div(name: str, arguments: Mapping[str, Any]) -> Described:
    rounding = "floor" if name == "floor_divide" else str(arguments.get("rounding_mode") or "")
    return Described("div", {"rounding": rounding}, _BOTH)


def _filled(name: str, arguments: Mapping[str, Any]) -> Described:
    number = 0.0 if "zeros" in name else 1.0 if "ones" in name else arguments.get("fill_value")
    return Described("constant", {"fill": number} if isinstance(number, int | float) else {}, ())


_ORDER: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("mul", "multiply", "maximum", "minimum", "fmax", "fmin", "logaddexp"), _BOTH),
    **dict.fromkeys(("pow", "float_power"), ("self", "exponent")),
    "where": ("condition", "self", "other"),
}

_CASTS: Final = frozenset({"_to_copy", "to", "type_as", "convert_element_type"})

_FIXED: Final[Mapping[str, Described]] = {
    **{
        name: Described("compare", {"operator": one}, _BOTH[: 1 if one == "nan" else 2])
        for name, one in _COMPARISONS.items()
    },
    **{name: Described("logic", {"operator": one}) for name, one in _LOGIC.items()},
    **{name: Described("recurrent", inner=inner) for name, inner in _RECURRENT.items()},
    **{name: Described("recurrent", inner=_RECURRENT[cell]) for name, cell in _RECURRENT_CELLS.items()},
    "rsub": Described("sub", reads=("other", "self")),
    "relu6": Described("clip", {"min": 0.0, "max": 6.0}, ("self",)),
    "prelu": Described("leaky_relu", {"given": ("alpha",)}, ("self", "weight")),
    "_prelu_kernel": Described("leaky_relu", {"given": ("alpha",)}, ("self", "weight")),
    "masked_fill": Described("where", reads=("mask", "value", "self")),
    "rrelu": Described("leaky_relu", {"alpha": (1 / 8 + 1 / 3) / 2}, ("self",), "rrelu at inference"),
}


def _with_numbers(name: str, arguments: Mapping[str, Any]) -> Described:
    kind, names = _NUMBERS[name]
    given = {theirs: arguments.get(theirs) for theirs in names}
    numbers = {
        ours: float(value) if isinstance(value := given[theirs], int | float) else default
        for theirs, (ours, default) in names.items()
    }
    said = [f"{theirs}={value:.7g}" for theirs, value in given.items() if isinstance(value, int | float)]
    reads = _BOTH if name in {"add", "sub"} else ("self",)
    return Described(kind, numbers, reads, ", ".join((name, *said)) if said else "")


def _clamp(name: str, arguments: Mapping[str, Any]) -> Described:
    bounds: dict[str, Any] = {}
    given = []
    for bound in ("min", "max"):
        value = arguments.get(bound)
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float):
            bounds[bound] = float(value)
        else:
            given.append(bound)
    if given:
        bounds["given"] = tuple(given)
    said = ", ".join(f"{bound}={bounds[bound]:.7g}" for bound in ("min", "max") if bound in bounds)
    return Described("clip", bounds, ("self", *given), f"{name}, {said}" if said else "")


_BY_ARGUMENTS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], Described]]] = {
    "gelu": _gelu,
    **dict.fromkeys(("div", "true_divide", "divide", "floor_divide"), _div),
    **dict.fromkeys(("clamp", "clip", "clamp_min", "clamp_max"), _clamp),
    **dict.fromkeys(("full", "full_like", "new_full"), _filled),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"), _filled),
}
"""Operators whose arguments say what they are."""
