"""``parity diff`` with arguments and files that cannot be used: exit code 2, a message and what to do next."""

import json
from pathlib import Path

import numpy as np
import pytest

from parity.trace.store import MANIFEST, UNFINISHED


@pytest.fixture
def refused(parity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs ``parity diff`` on what is refused before any engine starts: the message."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "b.onnx", "m.py", "readme.txt"):
        (tmp_path / name).touch()
    monkeypatch.setattr("parity.sides.Worker", lambda *_, **__: pytest.fail("an engine was started"))

    def run(*arguments: object, models: tuple[str, ...] = ("a.onnx", "b.onnx")) -> str:
        code, out, err = parity("diff", *models, *arguments)
        assert (code, out) == (2, ""), err
        assert "Traceback" not in err
        return err

    return run


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["--inputs"], "requires an argument", ""),
        (["--samples", "0"], "x>=1", ""),
        (["--samples", "many"], "'many' is not a valid integer", ""),
        (["--threads", "0"], "x>=1", ""),
        (["--timeout", "0"], "x>0", ""),
        (["--timeout", "-3"], "x>0", ""),
        (["--format", "yaml"], "'yaml' is not one of", ""),
        (["--reference-optimization", "O3"], "'O3' is not one of", ""),
        (["--candidate-optimization", "99"], "'99' is not one of", ""),
        (["--reference-dtype", "int8"], "'int8' is not one of", ""),
        (["--candidate-dtype", "half"], "'half' is not one of", ""),
        (["--nonsense"], "No such option", ""),
        (["third.onnx"], "unexpected extra argument", ""),
        (["--allow", "everything"], "no rule called 'everything'", "Known:"),
        (["--allow", "weight"], "no rule called 'weight'", "Did you mean weights?"),
        (["--allow", ""], "no rule called ''", "Known:"),
        (["--allow", "weights="], "'' is no number", "precision=1e-3"),
        (["--allow", "weights=lots"], "'lots' is no number", "precision=1e-3"),
        (["--allow", "weights=nan"], "'nan' is no limit", "precision=1e-3"),
        (["--allow", "weights=-1"], "'-1' is no limit", "precision=1e-3"),
        (["--candidate-session-config", "key"], "key cannot be read", "KEY=VALUE"),
        (["--candidate-session-config", "=1"], "=1 cannot be read", "KEY=VALUE"),
        (["--candidate-session-config", "key="], "key= cannot be read", "KEY=VALUE"),
        (["--candidate-input-perm", "x"], "x cannot be read", "NAME:0,3,1,2"),
        (["--candidate-input-perm", "x:"], "x: cannot be read", "NAME:0,3,1,2"),
        (["--candidate-input-perm", "x:a,b"], "'a,b' is no list of axes", "NAME:0,3,1,2"),
        (["--candidate-input-perm", "x:0,,1"], "'0,,1' is no list of axes", "NAME:0,3,1,2"),
        (["--candidate-input-perm", ":0,1"], ":0,1 cannot be read", "NAME:0,3,1,2"),
        (["--candidate-output-perm", "y:0,1"], "'y' is no number of an output", "first one is 0"),
        (["--candidate-output-perm", "-1:0,1"], "'-1' is no number of an output", "first one is 0"),
        (["--candidate-output-perm", "0:x"], "'x' is no list of axes", "0,2,3,1"),
        (["--map", "nowhere.json"], "--map nowhere.json cannot be read", ""),
        (["--map", "."], "--map . cannot be read", ""),
        (["--map", "readme.txt"], "no JSON object of names", '{"reference tensor": "candidate tensor"}'),
        (["--output", "nowhere/report.txt"], "cannot be written", ""),
        (["--output", "."], "is a folder", "Name a file."),
    ],
)
def test_options(refused, arguments: list[str], said: str, hint: str) -> None:
    err = refused(*arguments)
    assert said in err
    assert hint in err


@pytest.mark.parametrize(
    "content", ["[]", "3", '"x"', "null", "{", "[1, 2]", '{"a": 1}', '{"a": ["b"]}', "\xff", '{"a": null}']
)
def test_a_map_of_something_else(refused, content: str) -> None:
    Path("map.json").write_bytes(content.encode("latin-1"))
    err = refused("--map", "map.json")
    assert "--map map.json is no JSON object of names" in err
    assert '{"reference tensor": "candidate tensor"}' in err


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("", "no file or folder ''"),
        ("nowhere.onnx", "no file or folder 'nowhere.onnx'"),
        ("readme.txt", "of no format that is read here"),
        (".", "holds no model"),
        ("torch:m.py", "does not say what to call"),
        ("torch:nowhere.py:build", "no file 'nowhere.py'"),
        ("hf:nowhere", "no file or folder 'nowhere'"),
        ("nonsense:m.py:build", "no file or folder 'nonsense:m.py:build'"),
        ("x" * 5000, "File name too long"),
    ],
)
@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_models(refused, monkeypatch: pytest.MonkeyPatch, model: str, said: str, side: str) -> None:
    trace = whole_trace(Path("fine"))
    assert said in refused(models=(model, trace) if side == "reference" else (trace, model))


@pytest.mark.parametrize("arguments", [[], ["a.onnx"]])
def test_missing_arguments(parity, arguments: list[str]) -> None:
    code, out, err = parity("diff", *arguments)
    assert (code, out) == (2, "")
    assert "Missing argument" in err


def whole_trace(folder: Path) -> str:
    from parity.graph import Traced
    from parity.trace.store import TraceWriter

    writer = TraceWriter(folder)
    writer.add("x", np.ones(3, np.float32))
    writer.finish(Traced(inputs={"x": "x"}, outputs={"y": "x"}, named_outputs=True), {}, {})
    return str(folder)


def test_traces_that_cannot_be_used(refused) -> None:
    fine = whole_trace(Path("fine"))
    Path("killed").mkdir()
    (Path("killed") / UNFINISHED).touch()
    for name in ("garbage", "future", "lacking"):
        whole_trace(Path(name))
    Path("garbage", MANIFEST).write_text("{")
    body = json.loads(Path("future", MANIFEST).read_text())
    Path("future", MANIFEST).write_text(json.dumps(body | {"format": "framework-parity-trace/9"}))
    Path("lacking", "00000.safetensors").unlink()
    for name, said in (
        ("killed", "incomplete"),
        ("garbage", "damaged"),
        ("future", "framework-parity-trace/9"),
        ("lacking", "lacks 00000.safetensors"),
    ):
        for models in ((name, fine), (fine, name)):
            err = refused(models=models)
            assert said in err
            assert name in err
            assert "ecord it again" in err


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere.npz", "no input file"), ("a.onnx", "neither .npz nor .safetensors"), ("bad.npz", "not a readable .npz")],
)
def test_inputs(refused, name: str, said: str) -> None:
    fine = whole_trace(Path("fine"))
    Path("bad.npz").write_bytes(b"hello")
    err = refused("--inputs", name, models=(fine, fine))
    assert said in err
    assert name in err
