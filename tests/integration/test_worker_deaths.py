"""Engines that die, hang or fail while two of them work at once: one clear error, no waiting, nothing left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import EngineError, InputError
from parity.jobs.diff import DiffOptions, diff
from parity.report.diff import render
from parity.sides import Side

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

X = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)


def save(path: Path, *, approximate: str = "none", layers: int = 12) -> None:
    """Linear layers and GELUs, more of them than one batch of the quick look."""
    random = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(random.standard_normal((8, 8)).astype(np.float32) / 2, f"w{k}") for k in range(layers)
    ]
    nodes, at = [], "x"
    for k in range(layers):
        last = k == layers - 1
        nodes.append(helper.make_node("MatMul", [at, f"w{k}"], [f"h{k}"], f"/{k}/MatMul"))
        nodes.append(helper.make_node("Gelu", [f"h{k}"], ["y" if last else f"g{k}"], approximate=approximate))
        at = f"g{k}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save(folder / "erf.onnx")
    save(folder / "tanh.onnx", approximate="tanh")
    np.savez(folder / "x.npz", x=X)
    (folder / "broken.py").write_text("def build():\n    raise RuntimeError('out of paper')\n")
    (folder / "slow.py").write_text(
        "from time import sleep\nfrom pathlib import Path\nfrom tempfile import mkstemp\n"
        "mkstemp()\nPath('slow').touch()\nsleep(300)\n"
    )
    return folder


def children() -> set[int]:
    """Processes that this one started and that are alive."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(stat.parent.name))
    return found


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever happens in a test, no process and no file of it is left."""
    before = children()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 60, "somebody waited"
    assert children() == before
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch):
    """Has the worker of one side killed once a job is under way, or as it begins."""

    def kill(role: str, wanted: str, *, after: int) -> list[str]:
        call, killed = Side._call, []

        def wrapped(side: Side, job: str, *arguments: Any, **named: Any) -> Iterator[Any]:
            mine = (side.role, job) == (role, wanted)
            if mine and not after:
                killed.append(job)
                side.kill()
            for number, message in enumerate(call(side, job, *arguments, **named), 1):
                yield message
                if mine and number == after:
                    killed.append(job)
                    side.kill()

        monkeypatch.setattr(Side, "_call", wrapped)
        return killed

    return kill


@pytest.mark.parametrize(
    ("role", "job", "after"),
    [
        ("candidate", "open_model", 0),
        ("reference", "run", 0),
        ("candidate", "trace", 0),
        ("candidate", "force", 1),
        ("reference", "measure", 1),
        ("reference", "evaluate_regions", 1),
        ("candidate", "evaluate_regions", 0),
    ],
)
def test_a_worker_that_is_killed_in_a_job(files: Path, kills, role: str, job: str, after: int) -> None:
    killed = kills(role, job, after=after)
    with pytest.raises(EngineError) as caught:
        diff(files / "erf.onnx", files / "tanh.onnx", files / "x.npz")
    assert set(killed) == {job}
    assert caught.value.message.startswith(f"The {role} (")
    assert "was killed by SIGKILL" in caught.value.message


def test_one_that_is_killed_while_impact_is_computed_leaves_the_findings(files: Path, monkeypatch) -> None:
    evaluate = Side.evaluate

    def dies(side: Side, sites, given, wanted, precision="float64"):
        if (side.role, precision) == ("reference", "native"):  # its operators in the place of the candidate's
            side.kill()
        return evaluate(side, sites, given, wanted, precision)

    monkeypatch.setattr(Side, "evaluate", dies)
    report = diff(
        files / "erf.onnx", files / "tanh.onnx", files / "x.npz", options=DiffOptions(candidate_optimization="none")
    )
    assert report.verdict == "mismatch"
    assert [one.rule for one in report.findings] == ["activation-variant"]
    assert "was killed by SIGKILL" in report.findings[0].impact["reason"]


def test_one_that_is_killed_while_known_faults_are_put_in_leaves_the_verdict(files: Path, kills) -> None:
    assert kills("reference", "mutate", after=0) == []
    report = diff(files / "erf.onnx", files / "erf.onnx", files / "x.npz", options=DiffOptions(prove=True))
    assert (report.verdict, report.proof.catch_rate) == ("pass", None)
    assert len(report.proof.failed) == 4
    assert all("was killed by SIGKILL" in one for one in report.proof.failed)
    text = render(report, colour=False, width=200)
    assert "none of the known faults could be put in" in text
    assert text.count("was killed by SIGKILL") == 4


@pytest.mark.parametrize("order", [1, -1])
def test_a_side_that_fails_does_not_wait_for_the_other_one(
    files: Path, monkeypatch, tmp_path: Path, order: int
) -> None:
    """The other one would take five minutes to open."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    pair = [f"torch:{files}/broken.py:build", f"torch:{files}/slow.py:build"][::order]
    with pytest.raises(InputError) as caught:
        diff(*pair)
    role = "reference" if order == 1 else "candidate"
    assert caught.value.message.startswith(f"The {role} (torch:")
    assert "out of paper" in caught.value.message


def test_of_two_sides_that_fail_one_is_told(files: Path) -> None:
    broken = files / "no.onnx"
    broken.write_bytes(b"hello")
    with pytest.raises(InputError, match=r"^The (reference|candidate) \("):
        diff(broken, broken)


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_end_while_both_sides_are_at_work_leaves_nothing(files: Path, tmp_path: Path, how: str) -> None:
    pytest.importorskip("torch")
    command = ["diff", f"torch:{files}/slow.py:build", f"torch:{files}/slow.py:build", "--no-progress"]
    number = getattr(signal, how)
    before = signal.signal(number, signal.SIG_DFL)  # a child inherits what a background job or `nohup` ignores
    process = subprocess.Popen(
        [sys.executable, "-m", "parity", *command],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path / "temporary")},
    )
    signal.signal(number, before)
    end = time.monotonic() + 60
    while not (tmp_path / "slow").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in said
