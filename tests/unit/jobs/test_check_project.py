"""What parity.toml says."""

import datetime as dt
from pathlib import Path

import pytest

from parity.errors import EngineError, InputError
from parity.jobs.check_project import check_project, read_project
from parity.jobs.check_report import CheckReport, Step, make_report

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

ALLOW = '[[check.allow]]\nrule = "precision"\nreason = "why"\nexpires = 2027-01-31\n'


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
        ('[[check]]\nmodel = "m"\nopset = "x"', "opset is 'x', which is no whole number"),
        ('[[check]]\nmodel = "m"\nopset = true', "opset is True, which is no whole number"),
        ('[[check]]\nmodel = "m"\nprove = 1', "prove is 1, which is not true or false"),
        ("[[check]]\nmodel = 3", "model is 3, which is no text"),
        ('[[check]]\nmodel = "m"\nsamples = 0', "samples is 0"),
        ('[[check]]\nmodel = "m"\nallow = "precision"', "allow is 'precision', which is no list of tables"),
        ('[[check]]\nmodel = "m"\nallow = ["precision"]', "which is no list of tables"),
        ('[[checks]]\nmodel = "m"\n[[check]]\nmodel = "m"', "no key of .*'checks'"),
        (f'[[check]]\nmodel = "m"\n{ALLOW}limits = 1', "no key of an allowance of .*'limits'"),
        (f'[[check]]\nmodel = "m"\n{ALLOW}limit = -1', "limit is -1.0, which is no limit"),
        (f'[[check]]\nmodel = "m"\n{ALLOW}limit = nan', "limit is nan, which is no limit"),
        (f'[[check]]\nmodel = "m"\n{ALLOW}limit = "1"', "limit is '1', which is no number"),
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


@pytest.mark.parametrize("text", ["tool = 3", "tool.parity = 3", "tool.parity.check = 3", "[tool.other]"])
def test_a_pyproject_that_asks_for_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"is 3, which is no table|asks for no check"):
        read_project(written(tmp_path, text, "pyproject.toml"))


def test_numbers_and_times_are_as_good_as_fractions_and_days(tmp_path: Path) -> None:
    text = f'[[check]]\nmodel = "m"\n{ALLOW.replace("-31", "-31T10:00:00Z")}limit = 1'
    (allowed,) = read_project(written(tmp_path, text))[0].allowances
    assert (allowed.limit, allowed.expires) == (1.0, dt.date(2027, 1, 31))


def test_a_model_of_an_adapter_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.jobs.check_project.discover", lambda: {"tiny": None})
    (entry,) = read_project(written(tmp_path, '[[check]]\nmodel = "tiny:net"'))
    assert entry.model == f"tiny:{tmp_path}/net"


def done(model: str, *_: object, **__: object) -> CheckReport:
    """A check that passes, or as the model's name says."""
    if "crash" in model:
        raise EngineError("It crashed.", hint="Look.")
    if "missing" in model:
        raise InputError("There is none.", hint="Make one.")
    steps = [Step(name="diff", target="t", verdict="pass", summary="")]
    return make_report(model, steps, fail_on="error", environment={}, targets={"t": {}})


EXPIRED = ALLOW.replace("2027", "2020")


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ('[[check]]\nmodel = "crash"\n[[check]]\nmodel = "m"', ["error", "pass"]),
        (f'[[check]]\nmodel = "m"\n{EXPIRED}', ["pass"]),
        (f'[[check]]\nmodel = "m"\nfail-on = "warning"\n{EXPIRED}', ["mismatch"]),
    ],
)
def test_checks_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, verdicts: list[str]) -> None:
    monkeypatch.setattr("parity.jobs.check_project.check", done)
    report = check_project(written(tmp_path, text))
    assert [one.verdict for one in report.checks] == verdicts
    assert report.verdict == verdicts[0]


def test_what_is_allowed_is_told_with_its_reason_and_its_last_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("parity.jobs.check_project.check", lambda *_, options, **__: asked.append(options) or done("m"))
    allowed = ALLOW.replace("2027", "9000")
    check_project(written(tmp_path, f'[[check]]\nmodel = "m"\n{allowed}{EXPIRED.replace("precision", "weights")}'))
    assert asked[0].allowed == {"precision": None}
    assert asked[0].allowed_by == {"precision": "parity.toml until 9000-01-31: why"}


def test_a_check_that_cannot_be_done_is_told_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.jobs.check_project.check", done)
    file = written(tmp_path, '[[check]]\nmodel = "m"\n[[check]]\nmodel = "missing"')
    with pytest.raises(InputError, match=r"parity.toml, check 2: There is none"):
        check_project(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_project(tmp_path / "parity.toml")
