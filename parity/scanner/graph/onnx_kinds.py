"""ONNX's operators, and those that ONNX Runtime adds, as the shared graph's kinds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from parity.scanner.graph.ir import Inner

Attributes = Mapping[str, Any]

HUGE: Final = 3.4e38
"""Bound from which a clip has none."""

FLOAT_TYPES: Final = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}
"""Number of an element type to its name."""

_BOOL: Final = 9

_PLAIN: Final = {
    "add": ("Add", "Sum"),
    "sub": ("Sub",),
    "mul": ("Mul",),
    "div": ("Div",),
    "pow": ("Pow",),
    "neg": ("Neg",),
    "abs": ("Abs",),
    "maximum": ("Max",),
    "minimum": ("Min",),
    "where": ("Where",),
    "floor": ("Floor",),
    "ceil": ("Ceil",),
    "round": ("Round",),
    "sign": ("Sign",),
    "exp": ("Exp",),
    "log": ("Log",),
    "sqrt": ("Sqrt",),
    "reciprocal": ("Reciprocal",),
    "sin": ("Sin",),
    "cos": ("Cos",),
    "tan": ("Tan",),
    "asin": ("Asin",),
    "acos": ("Acos",),
    "atan": ("Atan",),
    "sinh": ("Sinh",),
    "cosh": ("Cosh",),
    "asinh": ("Asinh",),
    "acosh": ("Acosh",),
    "atanh": ("Atanh",),
    "erf": ("Erf",),
    "relu": ("Relu",),
    "gelu": ("Gelu", "BiasGelu"),
    "mish": ("Mish",),
    "sigmoid": ("Sigmoid", "QLinearSigmoid"),
    "tanh": ("Tanh",),
    "softplus": ("Softplus",),
    "softsign": ("Softsign",),
    "hard_swish": ("HardSwish",),
    "identity": ("Identity", "Dropout", "OptionalGetElement"),
    "quantize": ("QuantizeLinear", "DynamicQuantizeLinear"),
    "dequantize": ("DequantizeLinear",),
    "reshape": ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "ExpandDims"),
    "transpose": ("Transpose",),
    "expand": ("Expand", "Tile"),
    "slice": ("Slice",),
    "gather": ("Gather", "GatherElements"),
    "shape": ("Shape", "Size"),
    "constant": ("Range", "EyeLike"),
    "random": (
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"),
    ),
    "control": ("If", "Loop", "Scan"),
}
_KINDS: Final = {op: kind for kind, ops in _PLAIN.items() for op in ops}

_COMPARISONS: Final = {
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
}
_LOGIC: Final = {"And": "and", "Or": "or", "Xor": "xor", "Not": "not"}

_WITH_NUMBERS: Final[Mapping[str, tuple[str, Mapping[str, tuple[str, float]]]]] = {
    "LeakyRelu": ("leaky_relu", {"alpha": ("alpha", 0.01)}),
    "QLinearLeakyRelu": ("leaky_relu", {"alpha": ("alpha", 0.01)}),
    "Elu": ("elu", {"alpha": ("alpha", 1.0)}),
    "Celu": ("celu", {"alpha": ("alpha", 1.0)}),
    "Selu": ("selu", {"alpha": ("alpha", 1.67326319217681884765625), "gamma": ("gamma", 1.05070102214813232421875)}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": ("slope", 0.2), "beta": ("offset", 0.5)}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": ("threshold", 1.0)}),
    "Shrink": ("shrink", {"lambd": ("threshold", 0.5), "bias": ("bias", 0.0)}),
    "QuickGelu": ("quick_gelu", {"alpha": ("alpha", 1.702)}),
    "Swish": ("quick_gelu", {"alpha": ("alpha", 1.0)}),
    "ScaledTanh": ("scaled_tanh", {"alpha": ("alpha", 1.0), "beta": ("beta", 1.0)}),
}
"""Operator to kind and, by ONNX's name of each number that decides it, ours and its default."""

_FUSING: Final = {"Conv", "FusedConv", "NhwcFusedConv", "FusedGemm", "FusedMatMulActivation", "QLinearConv"}
"""Operators that may apply an activation to what they computed."""

_CELLS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "RNN": (("output",), ("Tanh",)),
    "GRU": (("gates", "candidate"), ("Sigmoid", "Tanh")),
    "LSTM": (("gates", "candidate", "output"), ("Sigmoid", "Tanh", "Tanh")),
    "DynamicQuantizeLSTM": (("gates", "candidate", "output"), ("Sigmoid", "Tanh", "Tanh")),
    "AttnLSTM": (("gates", "candidate", "output"), ("Sigmoid", "Tanh", "Tanh")),
}
"""Recurrent operator to what its activations are for, and the defaults."""

_EXPERTS: Final = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "silu", "tanh": "tanh"}


@dataclass(frozen=True, slots=True)
class Described:
    """What an operator is in the shared graph.

    Attributes:
        kind: Its kind.
        attributes: By our names.
        inputs: Places of the inputs that the kind reads, in its order; None for all of them.
        value: What of the file decides the function.
        inner: Activations inside.
        biased: Place of a bias that is added before; None where there is none.
        after: An activation that the operator applies to its result, as kind and attributes.
    """

    kind: str
    attributes: Attributes = field(default_factory=dict)
    inputs: tuple[int, ...] | None = None
    value: str = ""
    inner: tuple[Inner, ...] = ()
    biased: int | None = None
    after: tuple[str, Attributes] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the file has it: operator, attributes and names of the inputs."""

    op: str
    attributes: Attributes
    inputs: Sequence[str]


def described(op: str, attributes: Attributes, inputs: Sequence[str]) -> Described:
    """An operator by its name, its attributes as the file has them, and its inputs."""
    special = _SPECIAL.get(op)
    if special is not None:
        return special(Call(op, attributes, inputs))
    if op in _WITH_NUMBERS:
        kind, numbers = numbered(op, attributes)
        return Described(kind, numbers, (0,), _said(op, attributes))
    if op in _CELLS:
        return Described("recurrent", inner=_cell(op, attributes))
    kind = _KINDS.get(op, "")
    return Described(kind, {}, (0,) if kind in {"identity", "sigmoid"} else None)


def numbered(op: str, attributes: Attributes) -> tuple[str, dict[str, float]]:
    """Kind and numbers of an operator whose function its attributes decide."""
    kind, names = _WITH_NUMBERS[op]
    return kind, {ours: _number(attributes, theirs, default) for theirs, (ours, default) in names.items()}


def _number(attributes: Attributes, name: str, default: float) -> float:
    value = attributes.get(name, default)
    return float(value) if isinstance(value, int | float) else default


def _said(op: str, attributes: Attributes) -> str:
    said = [
        f"{name}={attributes[name]:.7g}" for name in _WITH_NUMBERS[op][1] if isinstance(attributes.get(name), float)
    ]
    return ", ".join((op, *said)) if said else ""


def _compared(call: Call) -> Described:
    return Described("compare", {"operator": _COMPARISONS[call.op]})


def _of_logic(call: Call) -> Described:
    return Described("logic", {"operator": _LOGIC[call.op]})


def _gelu(call: Call) -> Described:
    form = call.attributes.get("approximate", "none")
    tanh = call.op in {"FastGelu", "GemmFastGelu"} or form == "tanh"
    value = f"{call.op}, approximate={form}" if "approximate" in call.attributes else call.op
    biased = 1 if call.op in {"FastGelu", "BiasGelu"} and len(call.inputs) > 1 and call.inputs[1] else None
    return Described("gelu", {"approximate": "tanh" if tanh else "none"}, (0,), value, biased=biased)


def _clip(call: Call) -> Described:
    bounds = {
        name: call.attributes[name] for name in ("min", "max") if isinstance(call.attributes.get(name), int | float)
    }
    bounds = {name: value for name, value in bounds.items() if abs(value) < HUGE}
    given = [at for at in (1, 2) if at < len(call.inputs) and call.inputs[at]]
    if given:
        bounds["given"] = tuple(("min", "max")[at - 1] for at in given)
    return Described("clip", bounds, (0, *given))


def _prelu(_: Call) -> Described:
    return Described("leaky_relu", {"given": ("alpha",)}, (0, 1))


def _cast(call: Call) -> Described:
    to = call.attributes.get("to", 1)
    if call.op == "CastLike" or to in FLOAT_TYPES:
        return Described("cast", {}, (0,))
    return Described("compare", {"operator": "not_equal", "other": 0.0}, (0,)) if to == _BOOL else Described("trunc")


def _is_nan(_: Call) -> Described:
    return Described("compare", {"operator": "nan"})


def _filled(call: Call) -> Described:
    return Described("constant", {"fill": call.attributes.get("value", 0.0)}, ())


def _quantized_pair(call: Call) -> Described:
    return Described("add" if call.op == "QLinearAdd" else "mul", {"dequantized": ((0, 1, 2), (3, 4, 5))})


def _split_gelu(_: Call) -> Described:
    return Described("", inner=(Inner("GELU of the gate, gating", "gelu"),))


def _group_norm(call: Call) -> Described:
    silu = call.attributes.get("activation") == 1
    return Described("group_norm", inner=(Inner("activation=1 (SiLU)", "silu"),) if silu else ())


def _experts(call: Call) -> Described:
    name = call.attributes.get("activation_type", "relu")
    if name == "identity":
        return Described("")
    kind = _EXPERTS.get(name, "") if isinstance(name, str) else ""
    if name == "swiglu" and _number(call.attributes, "activation_alpha", 1.0) != 1.0:
        return Described(
            "",
            inner=(
                Inner(
                    f"{name} of alpha {call.attributes['activation_alpha']:.7g}, gating",
                    "quick_gelu",
                    {"alpha": call.attributes["activation_alpha"]},
                ),
            ),
        )
    return Described("", inner=(Inner(f"activation_type={name}", kind),))


def _fused(call: Call) -> Described:
    op, attributes = call.op, call.attributes
    name = attributes.get("activation", "")
    kind = "matmul" if op in {"FusedGemm", "FusedMatMulActivation"} else "conv"
    if not name or not isinstance(name, str):
        return Described(kind)
    numbers = attributes.get("activation_params")
    if not isinstance(numbers, list):
        names = ("activation_alpha", "activation_beta")
        numbers = [attributes[one] for one in names if isinstance(attributes.get(one), int | float)]
    return Described(kind, value=f"{op}, activation={name}", after=activation(name, numbers))


def activation(name: str, numbers: Sequence[float] = ()) -> tuple[str, Attributes]:
    """Kind and attributes of an activation that an operator names, with its numbers in ONNX's order."""
    names = {one.lower(): one for one in (*_WITH_NUMBERS, *_KINDS)}
    name = names.get(name.lower(), name)
    if name == "Clip":
        return "clip", dict(zip(("min", "max"), numbers, strict=False))
    if name in _WITH_NUMBERS:
        given = dict(zip(("lambd", "bias") if name == "Shrink" else ("alpha", "beta"), numbers, strict=False))
        return numbered(name, given)
    if name in {"SiLU", "silu"}:
        return "silu", {}
    kind = _KINDS.get(name, "")
    return kind, {}


def _cell(op: str, attributes: Attributes) -> tuple[Inner, ...]:
    parts, defaults = _CELLS[op]
    names = attributes.get("activations")
    names = [str(one) for one in names] if isinstance(names, list) and names else list(defaults)
    alphas, betas = (list(attributes.get(f"activation_{one}") or []) for one in ("alpha", "beta"))
    found: dict[tuple[str, str], None] = {}
    for at, name in enumerate(names[: 2 * len(parts)]):
        numbers = [str(one.pop(0)) for one in (alphas, betas) if one and _takes(name, 2 if one is betas else 1)]
        found[parts[at % len(parts)], " ".join([name, *numbers])] = None
    return tuple(
        Inner(f"{part}: {text}", *activation(text.split()[0], [float(one) for one in text.split()[1:]]))
        for part, text in found
    )


def _takes(name: str, count: int) -> bool:
    names = {one.lower(): len(numbers) for one, (_, numbers) in _WITH_NUMBERS.items()}
    return names.get(name.lower(), 0) >= count


_SPECIAL: Final[Mapping[str, Callable[[Call], Described]]] = {
    **dict.fromkeys(("Gelu", "FastGelu", "BiasGelu", "GemmFastGelu"), _gelu),
    "Clip": _clip,
    "PRelu": _prelu,
    "Cast": _cast,
    "CastLike": _cast,
    "IsNaN": _is_nan,
    "ConstantOfShape": _filled,
    "QLinearAdd": _quantized_pair,
    "QLinearMul": _quantized_pair,
    "BiasSplitGelu": _split_gelu,
    "GroupNorm": _group_norm,
    "SkipGroupNorm": _group_norm,
    "MoE": _experts,
    "QMoE": _experts,
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys(_LOGIC, _of_logic),
    **dict.fromkeys(_FUSING, _fused),
}
