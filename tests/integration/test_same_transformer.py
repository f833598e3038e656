"""One small transformer in four frameworks: the same, and with the GELU that each of them has by default."""

import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from parity.jobs.diff import diff

MODELS = Path(__file__).parent / "models"

EXPORT = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import transformer_torch
torch.onnx.export(transformer_torch.build(), (torch.zeros(2, 6, 16),), sys.argv[2], dynamo=False, input_names=["x"],
                  output_names=["y"], opset_version=17)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformer")
    for file in MODELS.glob("*.py"):
        shutil.copy(file, folder)
    random = np.random.default_rng(7)
    weights = {}
    for block in ("blocks.0", "blocks.1"):
        for name, shape in (("q", (16, 16)), ("k", (16, 16)), ("v", (16, 16)), ("o", (16, 16)), ("up", (64, 16))):
            weights[f"{block}.{name}.weight"] = random.standard_normal(shape) / 4
            weights[f"{block}.{name}.bias"] = random.standard_normal(shape[0]) / 4
        weights[f"{block}.down.weight"] = random.standard_normal((16, 64)) / 8
        weights[f"{block}.down.bias"] = random.standard_normal(16) / 4
        for name in ("ln1", "ln2"):
            weights[f"{block}.{name}.weight"] = 1 + random.standard_normal(16) / 4
            weights[f"{block}.{name}.bias"] = random.standard_normal(16) / 4
    weights["head.weight"], weights["head.bias"] = random.standard_normal((5, 16)) / 4, random.standard_normal(5)
    np.savez(folder / "weights.npz", **{name: value.astype(np.float32) for name, value in weights.items()})
    command = [sys.executable, "-W", "ignore", "-c", EXPORT, str(folder), str(folder / "model.onnx")]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def inputs():
    return {"x": np.random.default_rng(1).standard_normal((2, 6, 16)).astype(np.float32)}


SAME = {
    "torch": "torch:{}/transformer_torch.py:build",
    "jax": "jax:{}/transformer_jax.py:build",
    "keras": "tf:{}/transformer_tf.py:build",
    "onnx": "{}/model.onnx",
}


@pytest.mark.parametrize(("one", "two"), list(combinations(SAME, 2)))
def test_the_same_weights_are_the_same_model(folder, inputs, one, two):
    report = diff(SAME[one].format(folder), SAME[two].format(folder), inputs)
    assert report.verdict == "pass", report.summary
    assert not report.findings
    assert report.coverage["compared"] >= 10
    assert report.power["weakest_sigma"] > 1000


@pytest.mark.parametrize(
    ("one", "two", "variants"),
    [
        ("torch:{}/transformer_torch.py:build", "jax:{}/transformer_jax.py:build_default", ("gelu_erf", "gelu_tanh")),
        ("tf:{}/transformer_tf.py:build_default", "{}/model.onnx", ("gelu_tanh", "gelu_erf")),
        ("torch:{}/transformer_torch.py:build_tanh", "tf:{}/transformer_tf.py:build", ("gelu_tanh", "gelu_erf")),
    ],
)
def test_a_framework_s_default_gelu_is_found(folder, inputs, one, two, variants):
    report = diff(one.format(folder), two.format(folder), inputs)
    assert report.verdict == "mismatch"
    (finding,) = report.findings
    assert (finding.rule, finding.expected, finding.observed) == ("activation-variant", *variants)
    assert finding.evidence["count"] == 2


def test_defaults_that_agree_are_no_difference(folder, inputs):
    one, two = "jax:{}/transformer_jax.py:build_default", "tf:{}/transformer_tf.py:build_default"
    report = diff(one.format(folder), two.format(folder), inputs)
    assert report.verdict == "pass", report.summary
