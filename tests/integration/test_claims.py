"""Common claims about GELU in frameworks, each held against what the suite measures.

The right values were measured on torch 2.13, TensorFlow 2.21, Keras 3.15, JAX 0.10.2, ONNX Runtime 1.32 and
transformers 5.24 on a CPU. What needs no framework – values, differences and derivatives of the formulas – is in
tests/unit/functions/test_known_facts.py.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from parity.findings import Finding
from parity.jobs.scan import scan
from parity.jobs.suite import SuiteReport, suite

IMPLEMENTATIONS = {
    "numpy": ("0.5*x*(1+erf(x/sqrt(2))) (math.erf)", "0.5*x*erfc(-x/sqrt(2)) (math.erfc)"),
    "torch": ("torch.nn.functional.gelu", "torch.nn.functional.gelu[approximate=none] (non-contiguous)"),
    "tensorflow": (
        "tf.nn.gelu",
        "tf.nn.gelu[approximate=True]",
        "tf.nn.gelu[approximate=True] (xla)",
        "keras.activations.gelu",
        "keras.ops.gelu",
    ),
    "jax": ("jax.nn.gelu", "flax.linen.gelu", "flax.nnx.gelu"),
    "onnxruntime": ("Gelu (level=all)", "com.microsoft.QuickGelu[alpha=1.0] (level=all)"),
    "transformers": ("ACT2FN[gelu]", "ACT2FN[gelu_new]", "ACT2FN[gelu_fast]"),
}
REQUIRED = {"onnxruntime": ("onnx", "onnxruntime"), "jax": ("jax", "flax"), "transformers": ("torch", "transformers")}


def measured(adapter: str) -> SuiteReport:
    if any(find_spec(package) is None for package in REQUIRED.get(adapter, (adapter,))):
        pytest.skip(f"{adapter} is not installed")
    return suite(
        adapters=[adapter], implementations=IMPLEMENTATIONS[adapter], dtypes=["float32", "float16", "bfloat16"]
    )


@pytest.fixture(scope="module")
def reports() -> dict[str, SuiteReport]:
    return {}


def report_of(reports: dict[str, SuiteReport], adapter: str) -> SuiteReport:
    if adapter not in reports:
        reports[adapter] = measured(adapter)
    return reports[adapter]


def evidence(report: SuiteReport, implementation: str, kind: str) -> dict[str, dict[str, float]]:
    """Numbers by dtype of the finding of that kind on that implementation; empty where there is none."""
    found: list[Finding] = [
        finding
        for finding in report.findings
        if finding.location["candidate"].endswith(f": {implementation}") and finding.evidence["kind"] == kind
    ]
    return {key: value for finding in found for key, value in finding.evidence.items() if key != "kind"}


@pytest.mark.parametrize(
    ("adapter", "api", "variant"),
    [
        ("tensorflow", "tf.nn.gelu", "gelu_erf"),  # claimed: approximate=True by default
        ("tensorflow", "keras.activations.gelu", "gelu_erf"),
        ("tensorflow", "keras.ops.gelu", "gelu_tanh"),
        ("torch", "torch.nn.functional.gelu", "gelu_erf"),
        ("jax", "jax.nn.gelu", "gelu_tanh"),
        ("jax", "flax.linen.gelu", "gelu_tanh"),
        ("jax", "flax.nnx.gelu", "gelu_tanh"),
        ("onnxruntime", "Gelu", "gelu_erf"),
    ],
)
def test_claim_1_defaults(reports: dict[str, SuiteReport], adapter: str, api: str, variant: str) -> None:
    assert report_of(reports, adapter).defaults[api] == variant


def test_claim_2_tensorflow_uses_erfc_and_pytorch_does_not(reports: dict[str, SuiteReport]) -> None:
    tensorflow = evidence(report_of(reports, "tensorflow"), "tf.nn.gelu", "loses_the_tail")
    torch = evidence(
        report_of(reports, "torch"), "torch.nn.functional.gelu[approximate=none] (non-contiguous)", "loses_the_tail"
    )
    assert tensorflow["float32"]["x"] < -12
    assert -6 < torch["float32"]["x"] < -5


def test_claim_7_the_gradient_of_pytorch_does_not_vanish_on_the_right(reports: dict[str, SuiteReport]) -> None:
    rows = [row for row in report_of(reports, "torch").results if row.implementation == "torch.nn.functional.gelu"]
    dense = {row.dtype: row.gradient_max_abs for row in rows if row.regime == "dense"}
    assert dense["float32"] is not None
    assert dense["float32"] < 1e-6  # a gradient of 0 at x > 7.1 would be off by 1


@pytest.mark.parametrize(
    ("adapter", "implementation", "first"),
    [
        ("tensorflow", "tf.nn.gelu[approximate=True]", 256),
        ("tensorflow", "tf.nn.gelu[approximate=True] (xla)", 256),
        ("transformers", "ACT2FN[gelu_new]", 147.875),
        ("transformers", "ACT2FN[gelu_fast]", 1211),
        ("torch", "torch.nn.functional.gelu", None),
    ],
)
def test_claim_10_gradients_in_float16_are_finite_near_zero_and_overflow_far_out(
    reports: dict[str, SuiteReport], adapter: str, implementation: str, first: float | None
) -> None:
    report = report_of(reports, adapter)
    assert not evidence(report, implementation, "gradient_not_finite_at_core")
    beyond = evidence(report, implementation, "gradient_overflows_beyond").get("float16")
    assert (beyond and abs(beyond["x"])) == first


def test_claim_11_one_plus_erf_loses_the_negative_tail_and_erfc_keeps_it(reports: dict[str, SuiteReport]) -> None:
    report = report_of(reports, "numpy")
    lost = evidence(report, "0.5*x*(1+erf(x/sqrt(2))) (math.erf)", "loses_the_tail")
    kept = evidence(report, "0.5*x*erfc(-x/sqrt(2)) (math.erfc)", "loses_the_tail")
    assert -6 < lost["float32"]["x"] < -5
    assert "float32" not in kept


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])
def test_claim_13_llama_and_qwen_have_no_gelu(model_type: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert [(use.field, use.variant) for use in scan(tmp_path).activations] == [("hidden_act", "silu")]


def test_claim_15_gelu_and_gelu_new_differ(reports: dict[str, SuiteReport]) -> None:
    identified = {row.implementation: row.identified for row in report_of(reports, "transformers").results}
    assert identified["ACT2FN[gelu]"] == "gelu_erf"
    assert identified["ACT2FN[gelu_new]"] == "gelu_tanh"


def test_gelu_of_infinity_is_nan_on_the_onednn_path(reports: dict[str, SuiteReport]) -> None:
    special = evidence(report_of(reports, "torch"), "torch.nn.functional.gelu", "wrong_at_special")
    wrong = {dtype: dict(numbers)["special"] for dtype, numbers in special.items()}
    nan_at_infinity = {dtype for dtype, cases in wrong.items() if ["+inf", "inf", "NaN"] in cases}
    assert nan_at_infinity == {"float32", "bfloat16"}


def test_quick_gelu_with_alpha_one_is_silu(reports: dict[str, SuiteReport]) -> None:
    rows = report_of(reports, "onnxruntime").results
    name = "com.microsoft.QuickGelu[alpha=1.0] (level=all)"
    assert {row.identified for row in rows if row.implementation == name} == {"silu"}
