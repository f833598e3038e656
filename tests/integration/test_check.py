"""``parity check``: a model that is ready to go out, and models that are not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from parity.errors import InputError
from parity.jobs.check import CheckOptions, check
from parity.jobs.diff import diff

TINY = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 40}
NET = """
import torch
from torch import nn

def build(approximate="none"):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(approximate), nn.LayerNorm(16), nn.Linear(16, 4)).eval()

def wrong():
    return build("tanh")
"""


@pytest.fixture(autouse=True)
def no_cache_of_others(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(3)
    transformers.BertModel(transformers.BertConfig(**TINY)).save_pretrained(folder)
    return folder


@pytest.fixture
def net(tmp_path) -> Path:
    file = tmp_path / "net.py"
    file.write_text(NET)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32))
    return file


def edited(folder: Path, to: Path, act: str) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    config = (folder / "config.json").read_text()
    (to / "config.json").write_text(config.replace('"hidden_act": "gelu"', f'"hidden_act": "{act}"'))
    return to


@pytest.mark.parametrize("prove", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_export_that_is_right_passes_and_comes_from_the_cache_then(bert: Path, tmp_path: Path, prove: bool) -> None:
    options = CheckOptions(targets=["onnxruntime"], prove=prove)
    report = check(str(bert), options=options)
    assert report.verdict == "pass", report.summary
    assert [step.name for step in report.steps] == ["scan", "probe", "export", "diff"]
    assert "as the config says" in report.steps[1].summary
    assert report.coverage["targets"]["onnxruntime"].get("catch_rate") == (1.0 if prove else None)
    assert not report.cached
    again = check(str(bert), options=options)
    assert again.cached
    assert (again.verdict, again.summary) == (report.verdict, report.summary)
    assert not check(str(edited(bert, tmp_path / "other", "relu")), options=options).cached


def test_a_config_that_is_not_the_exports_fails_with_the_line_to_change(bert: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    check(str(bert), options=CheckOptions(targets=["onnxruntime"], keep=kept))
    other = edited(bert, tmp_path / "edited", "gelu_new")
    report = check(str(other), options=CheckOptions(candidate=str(kept / "onnxruntime" / "model.onnx")))
    assert report.verdict == "mismatch"
    (finding,) = [one for one in report.findings if one.severity == "error"]
    assert (finding.rule, finding.expected, finding.observed) == ("activation-variant", "gelu_tanh", "gelu_erf")
    assert len(finding.evidence["places"]) == 2
    line = (other / "config.json").read_text().splitlines().index('  "hidden_act": "gelu_new",') + 1
    assert f"config.json:{line}" in finding.fix
    assert 'write "hidden_act": "gelu" there' in finding.fix


def test_inputs_are_made_for_an_export_that_takes_more_of_them(bert: Path, tmp_path: Path) -> None:
    inputs = {"input_ids": np.arange(32).reshape(2, 16) % 40, "attention_mask": np.ones((2, 16), np.int64)}
    check(str(bert), inputs, options=CheckOptions(targets=["onnxruntime"], keep=tmp_path))
    kept = str(tmp_path / "onnxruntime" / "model.onnx")
    assert diff(str(bert), kept).verdict == "pass"
    report = check(str(bert), options=CheckOptions(candidate=kept, samples=2))
    assert report.verdict == "pass", report.summary
    assert report.steps[-1].report["coverage"]["input_sets"] == 2


def test_inputs_are_made_for_an_export_where_the_model_does_not_tell_what_it_takes(net: Path, tmp_path: Path) -> None:
    inputs = str(net.with_name("x.npz"))
    check(f"torch:{net}:build", inputs, options=CheckOptions(targets=["onnxruntime"], keep=tmp_path))
    options = CheckOptions(candidate=str(tmp_path / "onnxruntime" / "model.onnx"))
    assert check(f"torch:{net}:build", options=options).verdict == "pass"


def test_a_model_that_does_not_say_what_it_takes_is_told_how_to(net: Path) -> None:
    with pytest.raises(InputError, match=r"net.py:build does not say what inputs it takes") as caught:
        check(f"torch:{net}:build")
    assert "example_inputs" in caught.value.hint
    net.write_text(
        f"{NET}\ndef told():\n    net = build()\n    net.example_inputs = (torch.ones(4, 8),)\n    return net\n"
    )
    assert check(f"torch:{net}:told", options=CheckOptions(targets=["onnxruntime"])).verdict == "pass"


def test_several_targets_and_one_that_is_only_scanned(net: Path) -> None:
    options = CheckOptions(targets=["onnxruntime", "torch-export", "vllm"], opset=20)
    report = check(f"torch:{net}:build", str(net.with_name("x.npz")), options=options)
    assert report.verdict == "inconclusive"
    assert set(report.coverage["targets"]) == {"onnxruntime", "torch-export"}
    assert [step.verdict for step in report.steps if step.name == "diff"] == ["pass", "pass"]
    assert "opset_version=20" in report.coverage["targets"]["onnxruntime"]["how"]
    assert report.summary.startswith("vllm was only scanned")


def test_warnings_fail_where_they_are_to(net: Path) -> None:
    options = CheckOptions(candidate=f"torch:{net}:wrong", fail_on="warning")
    report = check(f"torch:{net}:build", str(net.with_name("x.npz")), options=options)
    assert report.verdict == "mismatch"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (CheckOptions(targets=["onnxruntimes"]), "no target called 'onnxruntimes'"),
        (CheckOptions(targets=["onnxruntime"], opset=3), "opset '3' is none"),
    ],
)
def test_what_cannot_be_asked(net: Path, options: CheckOptions, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        check(f"torch:{net}:build", str(net.with_name("x.npz")), options=options)


def test_on_the_command_line(net: Path, parity, monkeypatch) -> None:
    monkeypatch.chdir(net.parent)
    Path("parity.toml").write_text(
        '[[check]]\nmodel = "torch:net.py:build"\ninputs = ["x.npz"]\n'
        '[[check]]\nmodel = "torch:net.py:build"\ncandidate = "torch:net.py:wrong"\ninputs = ["x.npz"]\n'
        '[[check.allow]]\nrule = "activation-variant"\nreason = "known"\nexpires = 2020-01-31\n'
    )
    code, out, _ = parity("check", "--format", "json")
    body = json.loads(out)
    assert (code, body["verdict"]) == (1, "mismatch")
    assert body["coverage"] == {"checks": 2, "passed": 1}
    assert "ended on 2020-01-31: known." in str(body["findings"])
    text = Path("parity.toml").read_text()
    Path("parity.toml").write_text(text.replace('"known"', '"known until 2.0"').replace("2020", "9000"))
    code, out, _ = parity("check")
    assert code == 0
    assert "Allowed by parity.toml until 9000-01-31: known until 2.0." in out


def test_an_onnx_file_is_its_own_export(net: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    inputs = str(net.with_name("x.npz"))
    check(f"torch:{net}:build", inputs, options=CheckOptions(targets=["onnxruntime"], keep=kept))
    report = check(str(kept / "onnxruntime" / "model.onnx"), inputs)
    assert (report.verdict, list(report.coverage["targets"])) == ("pass", ["onnxruntime"])
    assert report.coverage["targets"]["onnxruntime"]["how"].startswith("the file itself")
