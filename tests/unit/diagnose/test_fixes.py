"""What to type, in the words of the candidate's framework."""

import pytest

from parity.diagnose.case import Hypothesis
from parity.diagnose.chains import Chain
from parity.diagnose.fixes import ACTIVATIONS, JAX, ONNX, TENSORFLOW, TORCH, WORDS, activation, fix_of, spelling
from parity.edits import SetAttributes, SetNumbers
from parity.findings import RULES
from parity.functions import variant
from parity.graph import Site

FRAMEWORKS = (TORCH, JAX, TENSORFLOW, ONNX)


def chain(*ops: str) -> Chain:
    sites = [Site(name=f"n{k}", op=op, kind="", scope="", inputs=(), outputs=(f"t{k}",)) for k, op in enumerate(ops)]
    return Chain("x", "y", tuple(sites))


def cause(rule: str, expected: str, observed: str = "other", **more) -> Hypothesis:
    return Hypothesis(rule=rule, message="", expected=expected, observed=observed, fix="As the reference.", **more)


@pytest.mark.parametrize(
    ("framework", "erf", "tanh"),
    [
        (TORCH, 'nn.GELU(approximate="none")', 'nn.GELU(approximate="tanh")'),
        (JAX, "jax.nn.gelu(x, approximate=False)", "jax.nn.gelu(x, approximate=True)"),
        (TENSORFLOW, "keras.activations.gelu(x, approximate=False)", "keras.activations.gelu(x, approximate=True)"),
        (ONNX, 'Gelu(approximate="none")', 'Gelu(approximate="tanh")'),
        ("transformers", 'config.json to "gelu"', 'config.json to "gelu_pytorch_tanh"'),
        ("", "gelu_erf (", "gelu_tanh ("),
    ],
)
def test_a_gelu_in_the_words_of_each_framework(framework: str, erf: str, tanh: str) -> None:
    for name, said, other in (("gelu_erf", erf, tanh), ("gelu_tanh", tanh, erf)):
        told = activation(framework, variant(name), chain("Op"))
        assert said in told
        assert other not in told


def test_every_activation_is_spelt_in_all_frameworks() -> None:
    for name, spelt in ACTIVATIONS.items():
        assert set(spelt) == set(FRAMEWORKS)
        for framework in FRAMEWORKS:
            assert "{" not in spelling(framework, variant(name))


def test_parameters_stand_in_the_spelling() -> None:
    slope = variant("leaky_relu", negative_slope=0.1)
    assert spelling(TORCH, slope) == "torch.nn.functional.leaky_relu(x, negative_slope=0.1)"
    assert "alpha=0.1" in spelling(TENSORFLOW, slope)
    assert spelling(ONNX, slope) == "LeakyRelu(alpha=0.1)"
    assert spelling(JAX, variant("softsign")) == "softsign", "the name, where the spelling is not known"
    assert spelling(TORCH, variant("hard_swish", slope=0.2)) == "hard_swish[slope=0.2]"
    assert "config.json" not in activation("transformers", slope, None), "no config field holds a slope"


def test_a_graph_is_mended_at_its_nodes_or_tensors() -> None:
    erf = variant("gelu_erf")
    assert activation(ONNX, erf, chain("Gelu")).startswith("Set node 'n0' to Gelu(")
    assert "node 'n0', FastGelu (com.microsoft's FastGelu is always" in activation(ONNX, erf, chain("FastGelu"))
    assert "between the tensors 'x' and 'y'" in activation(ONNX, erf, chain("Tanh", "Mul"))
    assert activation(ONNX, variant("relu"), chain("Gelu")).startswith("Put Relu in the place of node 'n0', Gelu,")
    assert "in its place" in activation(ONNX, erf, None)
    fused = Chain("x", "y", (Site(name="BiasGelu", op="BiasGelu", kind="", scope="", inputs=(), outputs=("y",)),))
    assert "what makes the tensor 'y', BiasGelu," in activation(ONNX, variant("gelu_tanh"), fused)


def test_words_are_of_known_rules_and_frameworks() -> None:
    for (rule, _), spelt in WORDS.items():
        assert rule in RULES
        assert set(spelt) <= set(FRAMEWORKS)


@pytest.mark.parametrize(
    ("framework", "one", "said"),
    [
        (TORCH, cause("normalization-epsilon", "1e-12"), "normalisation eps=1e-12"),
        (JAX, cause("normalization-epsilon", "1e-12"), "normalisation epsilon=1e-12"),
        ("transformers", cause("normalization-epsilon", "1e-12"), "layer_norm_eps (or rms_norm_eps)"),
        (TORCH, cause("pooling-divisor", "padding counted"), "count_include_pad=True"),
        (ONNX, cause("pooling-divisor", "padding not counted"), "count_include_pad to 0"),
        (ONNX, cause("recurrent-form", "reset after the matmul"), "linear_before_reset to 1"),
        (TENSORFLOW, cause("recurrent-form", "reset after the matmul"), "reset_after=True"),
        (JAX, cause("rounding-mode", "floor"), "jax.numpy.floor_divide"),
        (ONNX, cause("resize-coordinates", "cubic coefficient -0.75"), "cubic_coeff_a=-0.75"),
        (ONNX, cause("resize-coordinates", "align_corners"), 'Set coordinate_transformation_mode="align_corners" of'),
        (TORCH, cause("resize-coordinates", "half_pixel, antialias"), "align_corners=False, antialias=True"),
        (TENSORFLOW, cause("padding", "1 on each side"), "tf.pad by 1 on each side"),
        (TORCH, cause("softmax-axis", "last axis"), "dim=-1"),
        (ONNX, cause("softmax-axis", "last axis"), "before opset 13"),
        (ONNX, cause("softmax-axis", "axis 1 of 4"), "As the reference."),
        (TORCH, cause("precision", "float32", "tf32"), "set_float32_matmul_precision"),
        (ONNX, cause("precision", "float32", "float16", places={"candidate": ["c"]}), "cast to float16 at 'c'"),
        (ONNX, cause("precision", "float32", "int8", severity="note"), "As the reference."),
        ("", cause("padding", "1 on each side"), "As the reference."),
        (TORCH, cause("weights", "weight"), "As the reference."),
    ],
)
def test_what_mends_a_cause(framework: str, one: Hypothesis, said: str) -> None:
    assert said in fix_of(framework, one)


def test_a_lower_precision_can_be_declared() -> None:
    assert "say parity diff --candidate-dtype float16" in fix_of(TORCH, cause("precision", "float32", "float16"))
    assert "--candidate-dtype" not in fix_of(TORCH, cause("precision", "float32", "tf32")), "no tensor is of that type"


def test_an_epsilon_of_a_graph_is_a_constant_or_an_attribute() -> None:
    numbers = SetNumbers(tensor="eps", numbers=1e-12)
    found = fix_of(ONNX, cause("normalization-epsilon", "1e-12", edits=[numbers]))
    assert found.startswith("Set the constant 'eps' to 1e-12")
    attribute = SetAttributes(output="t", values={"epsilon": 1e-12})
    found = fix_of(ONNX, cause("normalization-epsilon", "1e-12", edits=[attribute], places={"candidate": ["n"]}))
    assert found.startswith("Set the epsilon of node 'n' to 1e-12")


def test_a_graph_that_can_be_mended_says_how() -> None:
    edits = [SetAttributes(output="t", values={"axis": -1})]
    assert "--write-fix FILE.onnx" in fix_of(ONNX, cause("softmax-axis", "last axis", edits=edits))
    assert "--write-fix" not in fix_of(TORCH, cause("softmax-axis", "last axis", edits=edits))
    assert "--write-fix" not in fix_of(ONNX, cause("softmax-axis", "last axis"))
