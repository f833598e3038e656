"""Parity as an assertion: of files, of live objects, and as a fixture of pytest."""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import parity

torch = pytest.importorskip("torch")

SCHEMA = json.loads(files("parity.report").joinpath("schema.json").read_text())
X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def network(approximate: str = "none") -> "torch.nn.Module":
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(approximate), torch.nn.Linear(16, 4)).eval()


def test_live_objects_that_agree() -> None:
    report = parity.assert_parity(network(), network(), {"x": X})
    assert report.verdict == "pass"
    assert report.coverage["compared"] == 3


def test_live_objects_that_differ() -> None:
    with pytest.raises(AssertionError) as caught:
        parity.assert_parity(network(), network("tanh"), {"x": X})
    text = str(caught.value)
    assert text.startswith("MISMATCH")
    assert "activation-variant" in text
    assert "fix: " in text
    assert "\x1b" not in text


def test_what_cannot_tell_is_no_pass() -> None:
    with pytest.raises(AssertionError, match="every input is zero"):
        parity.assert_parity(network(), network(), {"x": X * 0})


def test_options_and_several_inputs() -> None:
    options = parity.DiffOptions(allowed={"activation-variant": None})
    report = parity.assert_parity(network(), network("tanh"), [{"x": X}, {"x": X[:2]}], options=options)
    assert report.coverage["input_sets"] == 2
    assert [one.severity for one in report.findings] == ["note"]


def test_bad_input_is_no_failed_assertion() -> None:
    with pytest.raises(parity.InputError, match="no file or folder"):
        parity.assert_parity(network(), "nowhere.onnx")
    with pytest.raises(parity.InputError, match="is no model that is opened here"):
        parity.assert_parity(network(), 3, {"x": X})


def test_a_live_object_against_a_trace(tmp_path: Path) -> None:
    parity.record(network(), tmp_path / "t", {"x": X})
    assert parity.assert_parity(tmp_path / "t", network()).verdict == "pass"
    with pytest.raises(AssertionError, match="activation-variant"):
        parity.assert_parity(tmp_path / "t", network("tanh"))


TESTS = """
import sys
import numpy as np

X = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)

def test_the_fixture_loads_nothing_by_itself(request):
    assert "torch" not in sys.modules
    assert "parity.jobs.diff" not in sys.modules

def test_same(assert_parity):
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    assert assert_parity(model, model, {"x": X}).verdict == "pass"

def test_other(assert_parity):
    import torch
    linear = torch.nn.Linear(3, 4)
    assert_parity(torch.nn.Sequential(linear, torch.nn.GELU()), torch.nn.Sequential(linear, torch.nn.SiLU()), {"x": X})
"""


MORE = """
import pytest

@pytest.mark.parity
def test_a_diff_fails_nothing(parity):
    import torch
    linear = torch.nn.Linear(3, 4)
    tests = torch.nn.Sequential(linear, torch.nn.GELU()), torch.nn.Sequential(linear, torch.nn.GELU("tanh"))
    assert parity.diff(*tests, {"x": X}).verdict == "mismatch"
"""


def test_the_report_of_a_session_has_every_comparison_in_whatever_process(tmp_path: Path) -> None:
    (tmp_path / "test_models.py").write_text(TESTS + MORE)
    options = ["-n", "2", "--strict-markers", "--parity-report=out/parity.json"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_models.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert "1 failed, 3 passed" in done.stdout
    body = json.loads((tmp_path / "out" / "parity.json").read_text())
    assert body["summary"] == "1 of 3 comparisons passed."
    verdicts = {one["test"].partition("::")[2]: one["verdict"] for one in body["comparisons"]}
    assert verdicts == {"test_same": "pass", "test_other": "mismatch", "test_a_diff_fails_nothing": "mismatch"}
    assert {one["observed"] for one in body["findings"]} == {"silu", "gelu_tanh"}
    jsonschema.validate(body, SCHEMA)


@pytest.mark.parametrize(("file", "said"), [(".", "is a folder"), ("test_models.py/x.json", "cannot be written")])
def test_a_report_that_cannot_be_written_is_told_before_any_test(tmp_path: Path, file: str, said: str) -> None:
    (tmp_path / "test_models.py").write_text("def test_one():\n    open('ran', 'w')\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--parity-report={file}", "test_models.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_pytest_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_models.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_models.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    assert "1 failed, 2 passed" in done.stdout
    assert "AssertionError: MISMATCH" in done.stdout
    assert "activation-variant" in done.stdout
    assert "gelu_erf" in done.stdout
