"""``parity.record``: what a trace holds, which folders are taken, and the hash of a model."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from parity.errors import EngineError, InputError
from parity.jobs.record import RecordOptions, model_hash, record
from parity.report.record import render
from parity.trace.store import UNFINISHED, TraceWriter, read_trace

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


@pytest.fixture
def model(toy, toys_open):
    made = toy(x=(None, 3))
    made.notes = ("A branch was not taken.",)
    return made.gives(made("tanh", made("add", "x", 1.0, to="a"), to="y"))


def test_a_recording(model, tmp_path: Path) -> None:
    told = []
    report = record(model, tmp_path / "t", {"x": X}, progress=lambda *step: told.append(step))
    trace = read_trace(tmp_path / "t")
    np.testing.assert_array_equal(trace.array("y"), np.tanh(X + 1))
    np.testing.assert_array_equal(trace.array("x"), X)
    assert trace.array("a.1") == 1
    assert (report.verdict, report.findings, report.trace) == ("pass", (), str(tmp_path / "t"))
    assert report.coverage["operators"] == 2
    assert report.coverage["tensors"] == 3
    assert report.coverage["bytes"] == sum(path.stat().st_size for path in (tmp_path / "t").iterdir())
    assert report.summary.startswith("Recorded 2 operators and 3 tensors of ")
    assert report.environment["adapters"] == {"toy": {"toy": "1.0"}}
    assert told == [("recording", 0, 1), ("recording", 1, 1)]
    text = render(report, colour=False, width=200)
    assert "A branch was not taken." in text
    assert f"parity diff {tmp_path / 't'} CANDIDATE" in text


def test_what_the_trace_says_of_itself(model, tmp_path: Path) -> None:
    record(model, tmp_path / "t", {"x": X}, options=RecordOptions(dtype="float16", threads=3))
    facts = read_trace(tmp_path / "t").facts
    assert facts["adapter"] == "toy"
    assert facts["options"] == {"dtype": "float16", "threads": "3"}
    assert facts["versions"] == {"toy": {"toy": "1.0"}}
    assert facts["model_hash"] is None
    same = record(model, tmp_path / "u", {"x": X.copy()})
    assert read_trace(Path(same.trace)).facts["input_hash"] == facts["input_hash"]
    other = record(model, tmp_path / "v", {"x": X + 1})
    assert read_trace(Path(other.trace)).facts["input_hash"] != facts["input_hash"]


def test_inputs_are_made_or_read(model, tmp_path: Path) -> None:
    record(model, tmp_path / "made")
    assert read_trace(tmp_path / "made").array("x").shape == (2, 3)
    np.savez(tmp_path / "x.npz", x=X)
    record(model, tmp_path / "read", tmp_path / "x.npz")
    np.testing.assert_array_equal(read_trace(tmp_path / "read").array("x"), X)


def test_new_empty_and_unfinished_folders_are_taken(model, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    TraceWriter(tmp_path / "unfinished").add("old", X)
    for name in ("empty", "unfinished", "deep/er/new"):
        record(model, tmp_path / name, {"x": X})
        assert "old" not in read_trace(tmp_path / name).tensors
        assert not (tmp_path / name / UNFINISHED).exists()


def test_other_folders_are_left_as_they_are(model, tmp_path: Path) -> None:
    record(model, tmp_path / "whole", {"x": X})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    for name, said in (("whole", "already holds"), ("full", "is not empty"), ("file", "is not a folder")):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(InputError, match=said) as caught:
            record(model, tmp_path / name, {"x": X})
        assert caught.value.hint
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_folder_is_looked_at_before_the_model(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is not a folder"):
        record("nowhere.onnx", tmp_path / "file")


def test_a_trace_is_no_model(model, tmp_path: Path) -> None:
    record(model, tmp_path / "t", {"x": X})
    with pytest.raises(InputError, match="is a recorded trace already"):
        record(tmp_path / "t", tmp_path / "u")


def test_a_run_that_fails_leaves_no_whole_trace_and_can_be_repeated(toy, toys_open, tmp_path: Path) -> None:
    def fails(x):
        raise RuntimeError("out of paper")

    made = toy(x=(None, 3))
    made("tanh", "x", to="a")
    broken = made("exp", "a", to="y", function=fails)
    with pytest.raises(EngineError, match="out of paper"):
        record(made.gives(broken), tmp_path / "t", {"x": X})
    with pytest.raises(InputError, match="incomplete"):
        read_trace(tmp_path / "t")
    made.calls[-1].native = np.exp
    record(made, tmp_path / "t", {"x": X})
    assert "y" in read_trace(tmp_path / "t")


def sha(*contents: bytes) -> str:
    return hashlib.sha256(b"".join(contents)).hexdigest()


def test_hashes_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_bytes(b"code")
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "b").write_bytes(b"2")
    (tmp_path / "d" / "a").write_bytes(b"1")
    (tmp_path / "d" / "e" / "c").write_bytes(b"3")
    for text in ("m.py", "torch:m.py:build", f"jax:{tmp_path}/m.py:f"):
        assert model_hash(text) == sha(b"code")
    for text in ("d", "hf:d"):
        assert model_hash(text) == sha(b"1", b"2", b"3")
    for text in ("torch.nn.Linear", "", "a:b", "torch:nowhere.py:f"):
        assert model_hash(text) is None


@pytest.mark.parametrize("prefix", ["onnx", "keras"])
def test_hashes_of_models_behind_a_prefix(tmp_path: Path, prefix: str) -> None:
    (tmp_path / "m").write_bytes(b"code")
    assert model_hash(f"{prefix}:{tmp_path}/m") == sha(b"code")
