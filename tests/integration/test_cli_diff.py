"""``parity diff`` and ``parity record`` on files, engines in processes of their own: reports, exit codes, traces."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.findings import EXIT_CODES

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

KEYS = {
    *("schema", "command", "verdict", "summary", "findings", "coverage", "environment"),
    *("first_divergence", "layers", "outputs", "power"),
}
LAYER_KEYS = {"reference", "candidate", "op", "dtype", "propagated_error", "local_error", "excess", "status"}
X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def save(path: Path, *, approximate: str = "none", suffix: str = "") -> None:
    """Two linear layers with a GELU between."""
    random = np.random.default_rng(1)
    names = {name: f"{name}{suffix}" for name in ("a", "h", "g")}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w1", (8, 16)), ("b1", (16,)), ("w2", (16, 4)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], [names["a"]], "/mlp/fc1/MatMul"),
        helper.make_node("Add", [names["a"], "b1"], [names["h"]], "/mlp/fc1/Add"),
        helper.make_node("Gelu", [names["h"]], [names["g"]], "/mlp/act/Gelu", approximate=approximate),
        helper.make_node("MatMul", [names["g"], "w2"], ["y"], "/mlp/fc2/MatMul"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", k]) for n, k in (("x", 8), ("y", 4))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save(folder / "erf.onnx")
    save(folder / "again.onnx", suffix="_2")
    save(folder / "tanh.onnx", approximate="tanh", suffix="_2")
    np.savez(folder / "x.npz", x=X)
    np.savez(folder / "more.npz", x=X[:2])
    np.savez(folder / "zero.npz", x=X * 0)
    np.savez(folder / "wrong.npz", x=X[:, :5])
    return folder


def run(*arguments: object, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "parity", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def no_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


@pytest.fixture
def diff(parity, models: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs ``parity diff --format json`` on files of `models`: the exit code and the document."""
    monkeypatch.chdir(models)

    def run_json(*arguments: object) -> tuple[int, dict[str, Any]]:
        code, out, err = parity("diff", *arguments, "--format", "json")
        assert err == ""
        document = json.loads(out, parse_constant=no_constant)
        assert set(document) >= KEYS
        assert code == EXIT_CODES[document["verdict"]]
        return code, document

    return run_json


def test_a_mismatch_in_json(models: Path) -> None:
    """By the contract, in a process of its own: standard output is one document and nothing else."""
    code, out, err = run("diff", "erf.onnx", "tanh.onnx", "--inputs", "x.npz", "--format", "json", cwd=models)
    assert (code, err) == (1, "")
    document = json.loads(out, parse_constant=no_constant)
    assert set(document) >= KEYS
    assert (document["schema"], document["command"]) == ("framework-parity/1", "diff")
    assert document["verdict"] == "mismatch"
    (finding,) = document["findings"]
    assert (finding["rule"], finding["severity"]) == ("activation-variant", "error")
    assert (finding["expected"], finding["observed"]) == ("gelu_erf", "gelu_tanh")
    assert finding["fix"]
    assert finding["location"]["reference"]["tensor"] == "g"
    assert finding["location"]["candidate"]["tensor"] == "g_2"
    assert {"excess", "coefficient", "standard_error", "max_abs"} <= set(finding["evidence"])
    assert document["first_divergence"]["reference"] == finding["location"]["reference"]
    assert finding["message"] in document["summary"]
    (impact,) = finding["impact"]["outputs"]
    assert impact["output"] == "y"
    assert impact["share"] > 0.99
    assert all(set(row) >= LAYER_KEYS for row in document["layers"])
    assert {row["reference"]: row["status"] for row in document["layers"]}["g"] == "function"
    (output,) = document["outputs"]
    assert output["name"] == "y"
    assert 1e-5 < output["relative"] < 1e-2
    assert document["coverage"]["compared"] == len(document["layers"])
    assert document["coverage"]["input_sets"] == 1
    assert {"reference (onnxruntime)", "candidate (onnxruntime)"} == set(document["environment"]["adapters"])
    assert document["environment"]["threads"] == 1
    assert document["power"]["weakest_sigma"] > 100


def test_a_pass_in_text(parity, models: Path) -> None:
    code, out, err = parity("diff", models / "erf.onnx", models / "again.onnx", "--inputs", models / "x.npz")
    assert (code, err) == (0, "")
    assert out.startswith("PASS  The candidate computes the same function")
    assert "standard deviations" in out
    assert "output y: off by 0 at most" in out
    assert re.search(r"coverage: \d tensors compared", out)
    assert "power: 1 activation looked at; a swap of gelu_erf for gelu_tanh" in out


def test_samples_and_a_map(diff, tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(json.dumps({"g": "g_2"}))
    code, document = diff("erf.onnx", "again.onnx", "--samples", 2, "--map", tmp_path / "map.json")
    assert code == 0
    assert document["coverage"]["input_sets"] == 2
    assert document["coverage"]["aligned"]["map"] == 1


def test_two_input_files(diff) -> None:
    code, document = diff("erf.onnx", "again.onnx", "--inputs", "x.npz", "--inputs", "more.npz")
    assert code == 0
    assert document["coverage"]["input_sets"] == 2


def test_inputs_that_tell_nothing_are_inconclusive(diff) -> None:
    code, document = diff("erf.onnx", "again.onnx", "--inputs", "zero.npz")
    assert (code, document["verdict"]) == (3, "inconclusive")
    assert "every input is zero" in document["summary"]


def test_random_numbers_are_inconclusive_though_each_run_starts_from_the_same_seed(diff, models: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[n, 8] x) => (float[n, 8] y)'
        "{ r = RandomNormalLike (x) s = Add (x, r) y = Gelu (s) }"
    )
    onnx.save(model, models / "random.onnx")
    code, document = diff("random.onnx", "random.onnx", "--inputs", "x.npz")
    assert (code, document["verdict"]) == (3, "inconclusive")
    (finding,) = [one for one in document["findings"] if "reference" in one["location"]]
    assert (finding["rule"], finding["severity"]) == ("nondeterminism", "warning")
    assert finding["location"]["reference"]["op"] == "RandomNormalLike"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["erf.onnx", "garbage.onnx"], "The candidate (garbage.onnx)"),
        (["garbage.onnx", "erf.onnx"], "The reference (garbage.onnx)"),
        (["erf.onnx", "again.onnx", "--inputs", "wrong.npz"], "erf.onnx|again.onnx"),  # which one is first to say so
        (["erf.onnx", "again.onnx", "--candidate-python", "/nowhere/python"], "/nowhere/python cannot be started"),
    ],
)
def test_what_an_engine_refuses_is_told_with_the_side(parity, models: Path, monkeypatch, arguments, said: str) -> None:
    monkeypatch.chdir(models)
    Path("garbage.onnx").write_bytes(b"hello")
    code, out, err = parity("diff", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("parity: ")
    assert any(one in err for one in said.split("|"))
    assert "Traceback" not in err


# ---- traces


@pytest.fixture(scope="module")
def traces(models: Path) -> Path:
    for name in ("erf", "tanh"):
        code, out, _ = run("record", f"{name}.onnx", "-o", f"{name}.trace", "--inputs", "x.npz", cwd=models)
        assert code == 0
        assert out.startswith("PASS  Recorded")
        assert f"Next: parity diff {name}.trace CANDIDATE" in out
    return models


@pytest.mark.parametrize(
    ("reference", "candidate", "noted"),
    [
        ("erf.trace", "again.onnx", "The reference is a recorded trace"),
        ("again.onnx", "erf.trace", "The candidate is a recorded trace"),
        ("erf.trace", "erf.trace", "Both sides are recorded traces"),
    ],
)
def test_traces_that_agree(diff, traces: Path, reference: str, candidate: str, noted: str) -> None:
    code, document = diff(reference, candidate)
    assert code == 0, document["summary"]
    assert document["coverage"]["compared"] >= 3
    assert any(note.startswith(noted) for note in document["notes"])


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [("erf.trace", "tanh.onnx"), ("erf.onnx", "tanh.trace"), ("erf.trace", "tanh.trace")],
)
def test_traces_that_differ(diff, traces: Path, reference: str, candidate: str) -> None:
    code, document = diff(reference, candidate)
    assert code == 1
    assert [one["rule"] for one in document["findings"]] == ["activation-variant"]


def test_a_mismatch_in_text(parity, traces: Path) -> None:
    two = traces / "erf.trace", traces / "tanh.trace"
    code, out, err = parity("diff", *two, "--all-layers")
    assert (code, err) == (1, "")
    assert out.startswith("MISMATCH  The candidate does not compute what the reference computes: ")
    assert ": activation-variant at 1 place.\noutput y: off by " in out, "what differs and by how much comes first"
    assert "1. activation-variant" in out
    assert "the candidate computes gelu_tanh where the reference computes gelu_erf" in out
    assert "expected: " not in out, "the message has said it"
    assert "fix: " in out
    assert "not shown" not in out
    assert "note: Both sides are recorded traces" in out


def test_quiet_and_output_file(parity, traces: Path, tmp_path: Path) -> None:
    two = traces / "erf.trace", traces / "tanh.trace"
    code, out, err = parity("diff", *two, "--quiet")
    assert (code, err) == (1, "")
    assert out.count("\n") == 1
    assert out.startswith("The candidate does not compute")
    file = tmp_path / "report.json"
    code, out, err = parity("diff", *two, "--output", file, "--format", "json")
    assert (code, out) == (1, "")
    assert err.startswith("MISMATCH  The candidate does not compute")
    assert json.loads(file.read_text())["verdict"] == "mismatch"
    assert parity("diff", *two, "--output", file, "--format", "json", "--quiet")[1:] == ("", "")


def test_what_is_allowed(diff, traces: Path) -> None:
    code, document = diff("erf.trace", "tanh.trace", "--allow", "activation-variant=0.01")
    assert code == 0
    assert [one["severity"] for one in document["findings"]] == ["note"]
    assert "Allowed by --allow" in document["findings"][0]["message"]
    assert diff("erf.trace", "tanh.trace", "--allow", "activation-variant=1e-9")[0] == 1
    assert diff("erf.trace", "tanh.trace", "--allow", "weights")[0] == 1


def test_a_record_in_json(parity, models: Path, tmp_path: Path) -> None:
    code, out, err = parity("record", models / "erf.onnx", "-o", tmp_path / "t", "--format", "json")
    assert (code, err) == (0, "")
    document = json.loads(out, parse_constant=no_constant)
    assert (document["schema"], document["command"], document["verdict"]) == ("framework-parity/1", "record", "pass")
    assert document["trace"] == str(tmp_path / "t")
    assert document["coverage"]["operators"] >= 3
    facts = json.loads((tmp_path / "t" / "manifest.json").read_text())["facts"]
    assert len(facts["model_hash"]) == len(facts["input_hash"]) == 64
    assert facts["versions"]["onnxruntime"]["onnxruntime"]
    assert facts["options"] == {"threads": "1"}


SLOW = """
import time
from pathlib import Path
import torch

class Slow(torch.nn.Module):
    def forward(self, x):
        x = torch.tanh(x)
        if Path("slow").exists():
            Path("pid").write_text(str(__import__("os").getpid()))
            time.sleep(300)
        return torch.tanh(x)

def build():
    return Slow()
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_recording_that_is_killed_half_way(parity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its engine ends with it, its trace is known to be incomplete, and recording again replaces it."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Path("slow.py").write_text(SLOW)
    Path("slow").touch()
    np.savez("x.npz", x=X)
    command = ["record", "torch:slow.py:build", "-o", "t", "--inputs", "x.npz"]
    process = subprocess.Popen([sys.executable, "-m", "parity", *command], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: Path("pid").exists() and Path("pid").read_text() and Path("t").exists())
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    worker = int(Path("pid").read_text())
    assert worker != process.pid
    wait_for(lambda: not alive(worker), 10)
    code, out, err = parity("diff", "t", "t")
    assert (code, out) == (2, "")
    assert "The trace in t is incomplete: its recording was ended before it was done." in err
    assert "parity record" in err
    Path("slow").unlink()
    assert parity(*command)[0] == 0
    assert parity("diff", "t", "t", "--quiet")[0] == 0
