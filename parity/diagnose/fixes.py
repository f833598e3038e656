"""What to type in the candidate, in the words of its own framework."""

from collections.abc import Callable, Mapping
from typing import Final

from parity.diagnose.case import Hypothesis
from parity.diagnose.chains import Chain
from parity.diagnose.interpolation import COORDINATES, CUBIC, NEAREST
from parity.dtypes import FLOAT_DTYPES
from parity.edits import SetNumbers
from parity.functions import Variant

Spelling = Mapping[str, str]
"""By adapter: how something is written there."""

TORCH, JAX, TENSORFLOW, ONNX, HUGGING_FACE = "torch", "jax", "tensorflow", "onnxruntime", "transformers"

ACTIVATIONS: Final[Mapping[str, Spelling]] = {
    "gelu_erf": {
        TORCH: 'torch.nn.functional.gelu(x, approximate="none") or nn.GELU(approximate="none")',
        JAX: "jax.nn.gelu(x, approximate=False)",
        TENSORFLOW: "keras.activations.gelu(x, approximate=False) or tf.nn.gelu(x, approximate=False)",
        ONNX: 'Gelu(approximate="none")',
    },
    "gelu_tanh": {
        TORCH: 'torch.nn.functional.gelu(x, approximate="tanh") or nn.GELU(approximate="tanh")',
        JAX: "jax.nn.gelu(x, approximate=True)",
        TENSORFLOW: "keras.activations.gelu(x, approximate=True) or tf.nn.gelu(x, approximate=True)",
        ONNX: 'Gelu(approximate="tanh")',
    },
    "quick_gelu": {
        TORCH: "x * torch.sigmoid({alpha} * x)",
        JAX: "x * jax.nn.sigmoid({alpha} * x)",
        TENSORFLOW: "x * tf.sigmoid({alpha} * x)",
        ONNX: "Mul(x, Sigmoid(Mul(x, {alpha})))",
    },
    "silu": {
        TORCH: "torch.nn.functional.silu(x) or nn.SiLU()",
        JAX: "jax.nn.silu(x)",
        TENSORFLOW: "keras.activations.silu(x) or tf.nn.silu(x)",
        ONNX: "Mul(x, Sigmoid(x))",
    },
    "relu": {TORCH: "torch.relu(x) or nn.ReLU()", JAX: "jax.nn.relu(x)", TENSORFLOW: "tf.nn.relu(x)", ONNX: "Relu"},
    "relu6": {
        TORCH: "torch.nn.functional.relu6(x) or nn.ReLU6()",
        JAX: "jax.nn.relu6(x)",
        TENSORFLOW: "tf.nn.relu6(x)",
        ONNX: "Clip(x, 0, 6)",
    },
    "leaky_relu": {
        TORCH: "torch.nn.functional.leaky_relu(x, negative_slope={negative_slope})",
        JAX: "jax.nn.leaky_relu(x, negative_slope={negative_slope})",
        TENSORFLOW: "tf.nn.leaky_relu(x, alpha={negative_slope}) or keras.layers.LeakyReLU({negative_slope})",
        ONNX: "LeakyRelu(alpha={negative_slope})",
    },
    "elu": {
        TORCH: "torch.nn.functional.elu(x, alpha={alpha})",
        JAX: "jax.nn.elu(x, alpha={alpha})",
        TENSORFLOW: "keras.activations.elu(x, alpha={alpha})",
        ONNX: "Elu(alpha={alpha})",
    },
    "hard_swish": {
        TORCH: "torch.nn.functional.hardswish(x) or nn.Hardswish()",
        JAX: "jax.nn.hard_swish(x)",
        TENSORFLOW: "keras.activations.hard_silu(x)",
        ONNX: "HardSwish",
    },
    "hard_sigmoid": {
        TORCH: "torch.clamp({slope} * x + {offset}, 0, 1)",
        JAX: "jax.numpy.clip({slope} * x + {offset}, 0, 1)",
        TENSORFLOW: "tf.clip_by_value({slope} * x + {offset}, 0, 1)",
        ONNX: "HardSigmoid(alpha={slope}, beta={offset})",
    },
    "mish": {
        TORCH: "torch.nn.functional.mish(x) or nn.Mish()",
        JAX: "jax.nn.mish(x)",
        TENSORFLOW: "keras.activations.mish(x)",
        ONNX: "Mish",
    },
    "tanh": {TORCH: "torch.tanh(x)", JAX: "jax.numpy.tanh(x)", TENSORFLOW: "tf.tanh(x)", ONNX: "Tanh"},
    "sigmoid": {TORCH: "torch.sigmoid(x)", JAX: "jax.nn.sigmoid(x)", TENSORFLOW: "tf.sigmoid(x)", ONNX: "Sigmoid"},
}
"""Activations by the name of their formula; parameters stand in braces."""

ANYWHERE: Final[Mapping[str, str]] = {
    "gelu_erf": 'gelu_erf (approximate="none" in PyTorch and ONNX, approximate=False in JAX and Keras)',
    "gelu_tanh": 'gelu_tanh (approximate="tanh" in PyTorch and ONNX, approximate=True in JAX and Keras)',
}
"""Activations where the framework is not known."""

CONFIGS: Final[Mapping[str, str]] = {
    "gelu_erf": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "quick_gelu": "quick_gelu",
    "silu": "silu",
    "relu": "relu",
    "relu6": "relu6",
    "mish": "mish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "leaky_relu": "leaky_relu",
}
"""Activations as a Hugging Face config names them, with the formula's own parameters."""

FUSED: Final[Mapping[str, str]] = {
    "FastGelu": "com.microsoft's FastGelu is always the tanh form",
    "QuickGelu": "com.microsoft's QuickGelu is x * sigmoid(alpha * x)",
}
"""ONNX Runtime's own operators, and why no attribute mends them."""

ATTRIBUTES: Final[Mapping[str, str]] = {"Gelu": "gelu_", "LeakyRelu": "leaky_relu", "Elu": "elu"}
"""ONNX operators with an attribute that chooses among the variants whose names begin so."""


def activation(framework: str, one: Variant, chain: Chain | None) -> str:
    """The sentence that mends an activation of the candidate.

    Args:
        framework: The candidate's adapter; empty where only a trace of it is known.
        one: What the reference computes.
        chain: The candidate's operators that compute something else; None where they are not known one by one.
    """
    if framework == HUGGING_FACE and str(one) in CONFIGS:
        return (
            f'Set the activation of the candidate\'s config.json to "{CONFIGS[str(one)]}" (field hidden_act, '
            "hidden_activation or activation_function)."
        )
    spelt = spelling(TORCH if framework == HUGGING_FACE else framework, one)
    if framework == ONNX:
        return _of_graph(one, spelt, chain)
    return f"Make it {spelt} in the candidate."


def spelling(framework: str, one: Variant) -> str:
    """How a variant is written in a framework; its own name where that is not known."""
    written = ACTIVATIONS.get(one.name, {}).get(framework)
    if written is None or (one.name == "hard_swish" and "[" in str(one)):
        return ANYWHERE.get(str(one), str(one))
    return written.format_map({name: f"{value:.10g}" for name, value in one.parameters})


def _of_graph(one: Variant, spelt: str, chain: Chain | None) -> str:
    again = "or export the model again from the reference's function"
    if chain is None:
        return f"Put {spelt} in its place, {again}."
    last = chain.sites[-1]
    if len(chain.sites) == 1 and one.name.startswith(ATTRIBUTES.get(last.op, "?")):
        return f"Set node '{last.name}' to {spelt}, {again}."
    if len(chain.sites) == 1:
        why = f" ({FUSED[last.op]})" if last.op in FUSED else ""
        if last.name == last.op:  # the optimiser's own, which has no name in the file; its tensor has
            return f"Put {spelt} in the place of what makes the tensor '{chain.target}', {last.op}{why}, {again}."
        return f"Put {spelt} in the place of node '{last.name}', {last.op}{why}, {again}."
    return f"Put {spelt} between the tensors '{chain.source}' and '{chain.target}', {again}."


WORDS: Final[Mapping[tuple[str, str], Spelling]] = {
    ("pooling-divisor", "padding counted"): {
        TORCH: "Give the candidate's average pool count_include_pad=True.",
        ONNX: "Set count_include_pad to 1 in the candidate's AveragePool.",
        TENSORFLOW: "Pad with zeros (tf.pad), then pool with padding='VALID': TensorFlow's own padding is not counted.",
        JAX: "Divide the sum of each window by all of its places (flax: count_include_pad=True).",
    },
    ("pooling-divisor", "padding not counted"): {
        TORCH: "Give the candidate's average pool count_include_pad=False.",
        ONNX: "Set count_include_pad to 0 in the candidate's AveragePool.",
        TENSORFLOW: "Pool with padding='SAME', which counts no padding, or divide by the places inside the image.",
        JAX: "Divide the sum of each window by its places inside the image (flax: count_include_pad=False).",
    },
    ("recurrent-form", "reset after the matmul"): {
        ONNX: "Set linear_before_reset to 1 in the candidate's GRU.",
        TENSORFLOW: "Give the candidate's GRU reset_after=True.",
    },
    ("recurrent-form", "reset before the matmul"): {
        ONNX: "Set linear_before_reset to 0 in the candidate's GRU.",
        TENSORFLOW: "Give the candidate's GRU reset_after=False.",
        TORCH: "Write the cell out: torch.nn.GRU resets after the matmul and knows no other form.",
    },
    ("rounding-mode", "floor"): {
        TORCH: "Divide with // or torch.div(a, b, rounding_mode='floor'), or use torch.floor(x).",
        JAX: "Divide with // or jax.numpy.floor_divide(a, b), or use jax.numpy.floor(x).",
        TENSORFLOW: "Divide with tf.math.floordiv(a, b), or use tf.floor(x).",
        ONNX: "Cast to float, then Div, then Floor: ONNX's Div of whole numbers cuts off towards zero, as Cast does.",
    },
    ("rounding-mode", "towards zero"): {
        TORCH: "Use torch.div(a, b, rounding_mode='trunc') or torch.trunc(x).",
        JAX: "Use jax.lax.div(a, b) or jax.numpy.trunc(x).",
        TENSORFLOW: "Use tf.truncatediv(a, b), or cast to a type of whole numbers.",
        ONNX: "Use Div of whole numbers or Cast, which cut off towards zero, in the place of Floor or Mod.",
    },
    ("normalization-mode", "running statistics"): {
        TORCH: "Call model.eval() on the candidate.",
        JAX: "Use the stored mean and variance (flax: use_running_average=True).",
        TENSORFLOW: "Call the candidate with training=False.",
        ONNX: "Call model.eval(), then export again to BatchNormalization: an InstanceNormalization holds no mean and "
        "variance.",
    },
    ("normalization-form", "scale 1 + w"): dict.fromkeys(
        (TORCH, JAX, TENSORFLOW, ONNX), "Multiply by 1 + w: add 1 to the candidate's scale."
    ),
    ("normalization-form", "scale w"): dict.fromkeys(
        (TORCH, JAX, TENSORFLOW, ONNX), "Multiply by w alone: 1 is in the weights already, or was added twice."
    ),
    ("attention-mask", "causal"): {
        TORCH: "Mask what comes after each query (is_causal=True in scaled_dot_product_attention).",
        JAX: "Mask what comes after each query (is_causal=True in jax.nn.dot_product_attention).",
        TENSORFLOW: "Mask what comes after each query (use_causal_mask=True in keras.layers.MultiHeadAttention).",
    },
}
"""By rule and what the reference has: what to do in a framework."""

LOWER: Final[Mapping[str, str]] = {
    "torch": 'torch.set_float32_matmul_precision("highest") turns TF32 and bfloat16 off',
    "jax": 'jax.config.update("jax_default_matmul_precision", "highest") turns TF32 and bfloat16 off',
    "tensorflow": "tf.config.experimental.enable_tensor_float_32_execution(False) turns TF32 off",
    "onnxruntime": "use_tf32=0 (CUDA provider) or NVIDIA_TF32_OVERRIDE=0 turns TF32 off",
}
"""How an engine is told to compute in the precision of the tensors."""

RESIZE: Final[Mapping[str, str]] = {
    "antialias": "antialias=1",
    "no antialias": "antialias=0",
    "outside excluded": "exclude_outside=1",
    "border repeated": "exclude_outside=0",
    **{mode: f'mode="{mode}"' for mode in ("nearest", "linear", "cubic")},
    **{mode: f'nearest_mode="{mode}"' for mode in NEAREST},
    **{mode: f'coordinate_transformation_mode="{mode}"' for mode in COORDINATES},
    **{f"cubic coefficient {value:g}": f"cubic_coeff_a={value:g}" for value in CUBIC},
}
"""Attributes of ONNX's Resize by the words for conventions."""

INTERPOLATE: Final[Mapping[str, str]] = {
    "align_corners": "align_corners=True",
    "half_pixel": "align_corners=False",
    "antialias": "antialias=True",
    "no antialias": "antialias=False",
}
"""Likewise arguments of PyTorch's interpolate."""

PADDING: Final[Spelling] = {
    TORCH: "Pad with torch.nn.functional.pad by {0}, and give the operator padding=0.",
    JAX: "Give padding=((before, after), …) to the operator: {0}.",
    TENSORFLOW: "Pad with tf.pad by {0}, and give the operator padding='VALID'.",
    ONNX: "Set pads=[begins…, ends…] of the operator, auto_pad=NOTSET: {0}.",
}
"""How an image is padded by so much."""

AXES: Final[Spelling] = {TORCH: "dim={0}", JAX: "axis={0}", TENSORFLOW: "axis={0}", ONNX: "axis={0}"}
"""How a softmax is told its axis."""

LAST: Final = "last axis"


def fix_of(framework: str, one: Hypothesis) -> str:
    """What mends a cause in the candidate.

    Args:
        framework: The candidate's adapter; empty where only a trace of it is known.
        one: The cause.
    """
    code = TORCH if framework == HUGGING_FACE else framework
    told = WORDS.get((one.rule, one.expected), {}).get(code)
    if told is None and one.rule in _FIXES and one.severity == "error":
        told = _FIXES[one.rule](framework, one)
    told = told or one.fix
    if framework == ONNX and one.edits:
        told += " parity diff --write-fix FILE.onnx writes the graph so mended."
    return told


def _epsilon(framework: str, one: Hypothesis) -> str:
    if framework == ONNX:
        constant = next((edit.tensor for edit in one.edits if isinstance(edit, SetNumbers)), "")
        where = f"constant '{constant}'" if constant else f"epsilon of node '{one.places['candidate'][0]}'"
        return f"Set the {where} to {one.expected}, or export again with that epsilon."
    if framework == HUGGING_FACE:
        return f"Set layer_norm_eps (or rms_norm_eps) of the candidate's config.json to {one.expected}."
    argument = "eps" if framework == TORCH else "epsilon"
    return f"Give the candidate's normalisation {argument}={one.expected}."


def _precision(framework: str, one: Hypothesis) -> str:
    narrow = one.observed if one.observed in FLOAT_DTYPES else ""
    declared = f" If {narrow} is meant, say parity diff --candidate-dtype {narrow}." if narrow else ""
    if casts := one.places.get("candidate"):
        return f"Compute in {one.expected}: take out the cast to {one.observed} at '{casts[0]}'.{declared}"
    how = f": {LOWER[framework]}" if framework in LOWER else ""
    return f"Compute in {one.expected}{how}.{declared}"


def _resize(framework: str, one: Hypothesis) -> str:
    table = {ONNX: RESIZE, TORCH: INTERPOLATE}.get(framework)
    if table is None:
        return ""
    words = ", ".join(table.get(word, word) for word in one.expected.split(", "))
    return f"Set {words} of the candidate's Resize." if framework == ONNX else f"Give interpolate {words}."


def _padding(framework: str, one: Hypothesis) -> str:
    return PADDING[framework].format(one.expected) if framework in PADDING else ""


def _softmax(framework: str, one: Hypothesis) -> str:
    if framework not in AXES or one.expected != LAST:
        return ""
    older = " (before opset 13 ONNX flattens all axes from `axis` on)" if framework == ONNX else ""
    return f"Give the candidate's softmax {AXES[framework].format(-1)}{older}."


_FIXES: Final[Mapping[str, Callable[[str, Hypothesis], str]]] = {
    "normalization-epsilon": _epsilon,
    "precision": _precision,
    "resize-coordinates": _resize,
    "padding": _padding,
    "softmax-axis": _softmax,
}
"""By rule: what makes the sentence; it is empty where the cause's own is as good."""
