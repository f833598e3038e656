"""What ``parity check`` refuses on the command line."""

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "asked",
    [["--prove"], ["--target", "onnxruntime"], ["--candidate", "m.onnx"], ["--fail-on", "error"], ["--keep", "k"]],
)
def test_options_of_one_model_are_not_ignored_where_none_is_named(
    parity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("parity.toml").write_text('[[check]]\nmodel = "m.onnx"\n')
    code, out, err = parity("check", *asked)
    assert (code, out) == (2, "")
    assert f"{asked[0]} is for a MODEL that is named" in err


def test_a_missing_model_of_a_project_is_told_with_its_check(
    parity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("parity.toml").write_text('[[check]]\nmodel = "m.onnx"\n')
    code, out, err = parity("check", "--no-cache", "--no-progress")
    assert (code, out) == (2, "")
    assert "parity.toml, check 1: There is no file or folder 'm.onnx'" in err
