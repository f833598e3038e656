"""Options and output that all commands share."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

import parity.cli.output
from parity.cli.output import Output
from parity.errors import InputError
from parity.jobs.doctor import doctor


def emit(output: Output, text: str = "text\n") -> int:
    with pytest.raises(SystemExit) as ended:
        output.emit("doctor", doctor(), lambda _report, **_: text)
    return int(ended.value.code or 0)


def to(file: Path | None, *, form: str = "text", quiet: bool = False) -> Output:
    return Output(form, file, quiet, progress=False)


def test_a_file_is_written_whole_with_the_users_permissions(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        assert emit(to(tmp_path / "out.txt"), "é – new\n") == 0
    finally:
        os.umask(old)
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "é – new\n"
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["out.txt"]


def test_the_old_file_stays_if_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError) as caught:
        to(path).emit("doctor", doctor(), lambda _report, **_: "new")
    assert path.read_text() == "old"
    assert "untouched" in caught.value.hint
    with pytest.raises(InputError, match="No space left on device") as caught:
        to(tmp_path / "other.txt").emit("doctor", doctor(), lambda _report, **_: "new")
    assert "untouched" not in caught.value.hint, "nothing was there"


def test_what_cannot_be_encoded_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    assert emit(to(path), "lone surrogate \udc80\n") == 0
    assert path.read_text() == "lone surrogate ?\n"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert emit(to(pipe), "through\n") == 0
    assert os.read(reader, 100) == b"through\n"
    os.close(reader)
    assert pipe.is_fifo()


def test_what_a_link_points_to_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert emit(to(link), "new\n") == 0
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new\n", 0o640)


def test_a_relative_file_and_one_that_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.txt").write_text("old and much longer than the new")
    assert emit(to(Path("out.txt")), "new\n") == 0
    assert (tmp_path / "out.txt").read_text() == "new\n"


@pytest.mark.parametrize("path", ["missing/out.txt", ".", "file/out.txt"])
def test_what_cannot_be_written_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--output"):
        to(tmp_path / path).check()
    to(tmp_path / "out.txt").check()
    to(None).check()


@pytest.mark.parametrize("verdict", ["pass", "mismatch", "inconclusive", "error"])
def test_the_exit_code_is_that_of_the_verdict(verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        to(None).emit("doctor", replace(doctor(), verdict=verdict), lambda _report, **_: "the report\n")
    assert ended.value.code == {"pass": 0, "mismatch": 1, "inconclusive": 3, "error": 4}[verdict]
    assert capsys.readouterr().out == "the report\n"


def test_no_colour_and_a_wide_page_where_the_output_is_no_terminal(monkeypatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    seen = {}
    with pytest.raises(SystemExit):
        to(None).emit("doctor", doctor(), lambda _report, **options: seen.update(options) or "")
    assert seen == {"colour": False, "width": parity.cli.output.PIPE_WIDTH}


@pytest.mark.parametrize("form", ["text", "json"])
def test_quiet_and_output_leave_both_streams_empty(tmp_path: Path, form: str, capsys) -> None:
    emit(to(tmp_path / "out", form=form, quiet=True))
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "out").stat().st_size > 0


def test_a_summary_gives_the_terminal_no_orders(tmp_path: Path, capsys) -> None:
    report = replace(doctor(), summary="a \x07 name")
    for output in (to(None, quiet=True), to(tmp_path / "out.txt")):
        with pytest.raises(SystemExit):
            output.emit("doctor", report, lambda _report, **_: "")
        assert "a \\x07 name" in "".join(capsys.readouterr())


def test_an_error_gives_the_terminal_no_orders(parity) -> None:
    code, _, err = parity("diff", "no\x07such.onnx", "b.onnx")
    assert code == 2
    assert "no\\x07such.onnx" in err


def test_json_is_json_even_when_quiet(capsys) -> None:
    emit(to(None, form="json", quiet=True))
    assert json.loads(capsys.readouterr().out)["command"] == "doctor"


# ---- several formats of one run


def test_the_action_runs_the_check_once(parity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    action = Path(__file__).parents[3] / "action.yml"
    (line,) = [one for one in action.read_text(encoding="utf-8").splitlines() if "parity check $ARGUMENTS" in one]
    monkeypatch.chdir(tmp_path)
    code, _, err = parity(*line.replace("$ARGUMENTS", "").split()[1:])
    assert (code, "There is no parity.toml" in err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_one_run_writes_every_format_asked_for(parity, tmp_path: Path) -> None:
    asked = [f"--also=json={tmp_path}/a.json", f"--also=sarif={tmp_path}/a.sarif", f"--also=text={tmp_path}/a=b.txt"]
    code, out, err = parity("doctor", *asked)
    assert (code, err) == (0, "")
    assert (tmp_path / "a=b.txt").read_text(encoding="utf-8") == out
    assert json.loads((tmp_path / "a.json").read_text())["command"] == "doctor"
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    code, out, _ = parity("doctor", "--format", "json", f"--output={tmp_path}/b.json", f"--also=junit={tmp_path}/b.xml")
    assert (code, out) == (0, "")
    assert (tmp_path / "b.json").read_text() == (tmp_path / "a.json").read_text()
    assert "<testsuites" in (tmp_path / "b.xml").read_text()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--also", "json"], "FORMAT=FILE with one of text, json, junit, sarif"),
        (["--also", "yaml=a"], "FORMAT=FILE with one of text, json, junit, sarif"),
        (["--also", "json="], "FORMAT=FILE with one of"),
        (["--also", "json=-"], "standard output is for --format"),
        (["--also", "json=missing/a"], "--also json=missing/a cannot be written"),
        (["--also", "json=."], "--also json=. is a folder"),
        (["--also", "json=a", "--output", "./a"], "another report is written to this file"),
        (["--also", "json=a", "--also", "text=a"], "another report is written to this file"),
    ],
)
def test_a_further_format_that_cannot_be_written_is_refused(
    parity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = parity("doctor", *asked)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_one_file_that_fails_keeps_no_other_report_from_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    replace_file = Path.replace

    def full(self: Path, to: Path) -> Path:
        if to.name == "a.json":
            raise OSError(28, "No space left on device")
        return replace_file(self, to)

    monkeypatch.setattr(Path, "replace", full)
    also = [("json", tmp_path / "a.json"), ("sarif", tmp_path / "a.sarif")]
    with pytest.raises(InputError, match="No space left"):
        replace(to(None), also=also).emit("doctor", doctor(), lambda _report, **_: "the report\n")
    assert capsys.readouterr().out == "the report\n"
    assert [one.name for one in tmp_path.iterdir()] == ["a.sarif"]
