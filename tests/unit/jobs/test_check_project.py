"""What parity.toml says."""

import datetime as dt
from pathlib import Path

import pytest

from parity.errors import InputError
from parity.jobs.check_project import read_project

WHOLE = """
[[check]]
model = "hf:bert"
targets = ["onnxruntime", "torch-export"]
inputs = ["batch.npz"]
opset = 20
prove = true
fail-on = "warning"

[[check.allow]]
rule = "precision"
limit = 1e-3
reason = "a half-precision table"
expires = 2027-01-31

[[check]]
model = "torch:models/net.py:build"
candidate = "net.onnx"
"""


def written(folder: Path, text: str, name: str = "parity.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_checks_with_paths_relative_to_the_file(tmp_path: Path) -> None:
    first, second = read_project(written(tmp_path, WHOLE))
    assert first.model == f"hf:{tmp_path}/bert"
    assert first.inputs == [tmp_path / "batch.npz"]
    assert first.options.targets == ["onnxruntime", "torch-export"]
    assert (first.options.opset, first.options.prove, first.options.fail_on) == (20, True, "warning")
    (allowed,) = first.allowances
    assert (allowed.rule, allowed.limit, allowed.expires) == ("precision", 1e-3, dt.date(2027, 1, 31))
    assert second.model == f"torch:{tmp_path}/models/net.py:build"
    assert second.options.candidate == f"{tmp_path}/net.onnx"


def test_pyproject_has_them_under_its_tool_table(tmp_path: Path) -> None:
    text = WHOLE.replace("[[check", "[[tool.parity.check")
    assert len(read_project(written(tmp_path, text, "pyproject.toml"))) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "asks for no check"),
        ("check = 3", "asks for no check"),
        ("[[check]]\nmodel = ", "is no TOML"),
        ("[[check]]\n", "check 1 names no model"),
        ('[[check]]\nmodel = "m"\ntarget = "x"', "no key of .*'target'"),
        ('[[check]]\nmodel = "m"\ntargets = 3', "targets is 3, which is no list of names"),
        ('[[check]]\nmodel = "m"\nopset = "x"', "opset is 'x', which is no int"),
        ('[[check]]\nmodel = "m"\nfail-on = "note"', "fail-on is 'note'"),
        ('[[check]]\nmodel = "m"\n[[check.allow]]\nrule = "precision"', "lacks 'reason'"),
        (
            '[[check]]\nmodel = "m"\n[[check.allow]]\nrule = "no"\nreason = ""\nexpires = 2027-01-31',
            "no rule of .*'no'",
        ),
        (
            '[[check]]\nmodel = "m"\n[[check.allow]]\nrule = "precision"\nreason = ""\nexpires = "soon"',
            "'soon', which is no date",
        ),
    ],
)
def test_what_cannot_be_understood_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_project(written(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_project(tmp_path / "parity.toml")
