"""The words in which a session tells of the model that it opened: operator calls, tensors, inputs.

An adapter translates its framework's operators into the *kinds* of this module, because a cause (an epsilon, a softmax
axis, another activation) is looked for in the same way on both sides, whatever the two frameworks call the operator.
An operator of no kind here is as good as any other in a comparison; only its inside cannot be diagnosed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LAYOUT: Final = frozenset({"identity", "reshape", "transpose"})
"""Kinds that move numbers and change none: every element of the input is once in the output.

``identity`` is also dropout and similar at inference. ``transpose`` has the attribute ``axes`` (list of int).
"""

SELECTION: Final = frozenset({"slice", "split", "concat", "gather", "expand", "pad", "scatter", "embedding"})
"""Kinds that choose, repeat or join numbers. ``embedding`` reads rows of a weight; ``pad`` may have ``value``."""

POINTWISE: Final = frozenset(
    {
        # arithmetic; `div` may have the attribute `rounding`: "floor" or "trunc". `pow` is base, exponent.
        *("add", "sub", "mul", "div", "mod", "pow", "neg", "abs", "maximum", "minimum", "clip", "where", "compare"),
        *("logic", "cast", "floor", "ceil", "round", "trunc", "sign"),
        # functions
        *("exp", "log", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "erf"),
        # activations by themselves; a leaky ReLU has `alpha`, GELU has `approximate`: "none" or "tanh", …
        *("relu", "leaky_relu", "prelu", "elu", "selu", "celu", "gelu", "quick_gelu", "silu", "mish", "sigmoid"),
        *("tanh", "softplus", "softsign", "hard_sigmoid", "hard_swish", "hard_tanh"),
        "pointwise",  # any other, fused ones among them (bias and GELU)
    }
)
"""Kinds whose every output element depends on the elements at the same place of their inputs, broadcast."""

REDUCTIONS: Final = frozenset(
    {"mean", "sum", "prod", "max", "min", "variance", "norm", "argmax", "topk", "sort", "cumsum", "any"}
)
"""Kinds that fold an axis; attributes ``axes`` (list of int, negative allowed) and ``keepdims`` where they apply."""

NORMALIZATIONS: Final = frozenset({"layer_norm", "rms_norm", "batch_norm", "instance_norm", "group_norm"})
"""Kinds with the attribute ``epsilon``; ``axis`` (first normalised one) for layer and RMS norm, ``groups``.

Inputs are x, scale, bias and, for batch norm, mean and variance; an absent one is an empty name.
"""

KINDS: Final = frozenset(
    {
        *LAYOUT,
        *SELECTION,
        *POINTWISE,
        *REDUCTIONS,
        *NORMALIZATIONS,
        "matmul",  # any product of matrices, with or without a bias: MatMul, Gemm, addmm, dot_general, einsum;
        # attribute `activation`, where there is one inside: as `parity.functions.parse` reads it, if it can
        "conv",  # attributes `strides`, `pads` ([begin…, end…]), `dilations`, `groups`, `activation`
        "conv_transpose",
        "softmax",  # attribute `axis`; `flattened`: true where all axes from `axis` on are one (ONNX before opset 13)
        "log_softmax",
        "attention",  # fused: q, k, v, mask; attributes `scale`, `causal`
        "average_pool",  # attributes `kernel`, `strides`, `pads` ([begin…, end…]), `count_include_pad`
        "max_pool",
        "resize",  # attributes `mode`, `coordinates` as ONNX names them, `cubic_coefficient`, `antialias`
        "recurrent",  # attributes `cell`: "gru", "lstm", "rnn"; `linear_before_reset`
        "rotary",  # attribute `interleaved`
        "random",  # whatever differs from run to run: dropout in training mode, samplers
        "quantize",  # to integers by a scale; attribute `bits`
        "dequantize",
        "control",  # a branch or loop that is one site
        "constant",  # made from no data: ranges, fills
        "shape",  # reads the shape of a tensor, not its numbers
    }
)
"""Every kind there is; the empty string stands for none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One operator call in a model.

    Attributes:
        name: Unique name within the session: scope, operator and a number where that is not enough.
        op: The operator's name in its framework.
        kind: One of `KINDS`, or "".
        scope: Module path or name scope, outermost first, joined by ``.``; empty for the whole model.
        inputs: Names of the tensors that it reads, in order; an absent optional one is "". Numbers that stand in a
            formula (the 0.044715 of a GELU, an epsilon that is added) are tensors too, weights of shape ().
        outputs: Names of the tensors that it makes; an absent one is "".
        attributes: By canonical name where `KINDS` has one, by the framework's otherwise; JSON values.
        source: ``file:line`` of the call where it is known.
        labels: Further names by which a user may know this call: the node of the ONNX file, the layer, the fx node.
    """

    name: str
    op: str
    kind: str
    scope: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """What one input of a model takes.

    Attributes:
        dtype: NumPy's name, or ``bfloat16``.
        shape: None for a dimension that may be any number; None as a whole where even the rank is unknown.
        limit: For whole numbers: the numbers of the vocabulary, where known, so that 0 <= x < limit.
        optional: The model runs without it.
    """

    dtype: str
    shape: tuple[int | None, ...] | None
    limit: int | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What a traced run was, beside the sites that its sink was told.

    Attributes:
        inputs: Input name to tensor name.
        outputs: Output name to tensor name, in the model's order.
        named_outputs: The model itself names its outputs; otherwise they are called "0", "1", …
        notes: What a reader of the report should know of this run, as sentences: a production run that fuses what was
            traced operator by operator, a branch that these inputs did not take.
        drawn: Weights that the model's files lack and that were drawn at random: what depends on them says nothing.
        by_products: Outputs beside the result that exports leave out by habit: a pooler's, hidden states, caches.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    named_outputs: bool
    notes: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    by_products: tuple[str, ...] = ()
