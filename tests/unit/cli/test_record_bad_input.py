"""``parity record`` with arguments that cannot be used: exit code 2 and a message, and nothing is written."""

from pathlib import Path

import pytest

from parity.trace.store import MANIFEST


@pytest.fixture
def refused(parity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").touch()
    monkeypatch.setattr("parity.sides.Worker", lambda *_, **__: pytest.fail("an engine was started"))

    def run(*arguments: object) -> str:
        before = sorted(tmp_path.rglob("*"))
        code, out, err = parity("record", *arguments)
        assert (code, out) == (2, ""), err
        assert "Traceback" not in err
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument"),
        (["m.onnx"], "Missing option"),
        (["m.onnx", "-o"], "requires an argument"),
        (["m.onnx", "-o", "t", "--dtype", "int4"], "'int4' is not one of"),
        (["m.onnx", "-o", "t", "--optimization", "9"], "'9' is not one of"),
        (["m.onnx", "-o", "t", "--threads", "0"], "x>=1"),
        (["m.onnx", "-o", "t", "--timeout", "0"], "x>0"),
        (["m.onnx", "n.onnx", "-o", "t"], "unexpected extra argument"),
        (["nowhere.onnx", "-o", "t"], "no file or folder 'nowhere.onnx'"),
        (["torch:m.onnx", "-o", "t"], "does not say what to call"),
        (["m.onnx", "-o", "m.onnx"], "m.onnx is not a folder"),
        (["m.onnx", "-o", "."], ". is not empty"),
    ],
)
def test_arguments(refused, arguments: list[str], said: str) -> None:
    assert said in refused(*arguments)


def test_a_folder_that_holds_a_trace(refused, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / MANIFEST).write_text("{}")
    err = refused("m.onnx", "-o", "t")
    assert "already holds a recorded trace" in err
    assert "Name another folder" in err


def test_a_trace_as_the_model(refused, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / MANIFEST).write_text("{}")
    assert "is a recorded trace already" in refused("t", "-o", "u")
