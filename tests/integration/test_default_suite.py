"""The default suite over everything that is installed, as a user runs it: one run, many questions."""

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

FRAMEWORKS = ("torch", "tensorflow", "jax", "flax", "onnx", "onnxruntime", "transformers", "scipy")

ROW_KEYS = {
    "adapter",
    "implementation",
    "declared",
    "identified",
    "dtype",
    "regime",
    "exhaustive",
    "count",
    "max_ulp",
    "mean_ulp",
    "max_abs",
    "gradient_max_abs",
    "status",
}

DEFAULTS = {
    "torch.nn.functional.gelu": "gelu_erf",
    "torch.nn.GELU": "gelu_erf",
    "tf.nn.gelu": "gelu_erf",
    "keras.activations.gelu": "gelu_erf",
    "keras.ops.gelu": "gelu_tanh",
    "jax.nn.gelu": "gelu_tanh",
    "flax.linen.gelu": "gelu_tanh",
    "flax.nnx.gelu": "gelu_tanh",
    "Gelu": "gelu_erf",
    "com.microsoft.Gelu": "gelu_erf",
}

VARIANTS = {
    "torch.nn.functional.gelu[approximate=none]": "gelu_erf",
    "torch.nn.functional.gelu[approximate=tanh]": "gelu_tanh",
    "torch.nn.functional.gelu[approximate=tanh] (compile)": "gelu_tanh",
    "tf.nn.gelu[approximate=True] (xla)": "gelu_tanh",
    "tf.nn.gelu[approximate=False] (saved_model)": "gelu_erf",
    "jax.nn.gelu (jit)": "gelu_tanh",
    "jax.nn.gelu[approximate=False]": "gelu_erf",
    "Gelu[approximate=none] (level=all)": "gelu_erf",
    "com.microsoft.FastGelu (level=all)": "gelu_tanh",
    "com.microsoft.QuickGelu[alpha=1.0] (level=all)": "silu",
    "com.microsoft.QuickGelu (level=all)": "quick_gelu",
    "com.microsoft.Gelu (level=all, enable_gelu_approximation)": "gelu_tanh",
    "ACT2FN[gelu_new]": "gelu_tanh",
    "ACT2FN[gelu_10]": "gelu_clipped",
    "ACT2FN[quick_gelu]": "quick_gelu",
    "ACT2FN[laplace]": "laplace",
}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    missing = [name for name in FRAMEWORKS if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    command = [sys.executable, "-m", "parity", "suite", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_healthy_stack_passes_with_warnings(report: dict[str, Any]) -> None:
    assert report["verdict"] == "pass"
    assert not [finding for finding in report["findings"] if finding["severity"] == "error"]
    assert [finding for finding in report["findings"] if finding["severity"] == "warning"]
    assert set(report["coverage"]["adapters"]) == {
        "jax",
        "numpy",
        "onnxruntime",
        "tensorflow",
        "torch",
        "transformers",
    }


def test_rows_keep_the_contract(report: dict[str, Any]) -> None:
    assert report["schema"] == "framework-parity/1"
    assert report["command"] == "suite"
    assert all(row.keys() >= ROW_KEYS for row in report["results"])
    assert not [row for row in report["results"] if row["status"] in ("crashed", "hung", "failed", "unsupported")]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_dtypes_are_tried_over_every_number(report: dict[str, Any], dtype: str) -> None:
    rows = [row for row in report["results"] if row["dtype"] == dtype and row["regime"] == "all"]
    assert {row["adapter"] for row in rows} >= {"jax", "numpy", "onnxruntime", "tensorflow", "torch", "transformers"}
    assert all(row["exhaustive"] and row["count"] == 65_536 for row in rows)


@pytest.mark.parametrize(("api", "variant"), DEFAULTS.items())
def test_defaults(report: dict[str, Any], api: str, variant: str) -> None:
    assert report["defaults"][api] == variant


@pytest.mark.parametrize(("implementation", "variant"), VARIANTS.items())
def test_variants(report: dict[str, Any], implementation: str, variant: str) -> None:
    rows = [row for row in report["results"] if row["implementation"] == implementation]
    assert {row["identified"] for row in rows if row["dtype"] == "float32"} == {variant}


def test_every_key_of_act2fn_is_there(report: dict[str, Any]) -> None:
    code = "from transformers.activations import ACT2FN; print(*ACT2FN)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = {row["implementation"] for row in report["results"] if row["adapter"] == "transformers"}
    assert names == {f"ACT2FN[{key}]" for key in done.stdout.split()}
