"""``parity suite`` with what cannot be used: exit code 2, a message for a person, nothing on standard output."""

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--adapter", "nope"], "There is no adapter called 'nope'"),
        (["--adapter", "nunpy"], "Did you mean numpy?"),
        (["--adapter", "numpy", "--dtype", "float8"], "float8"),
        (["--adapter", "numpy", "--regime", "nowhere"], "nowhere"),
        (["--adapter", "numpy", "--variant", "nope"], "nope"),
        (["--adapter", "numpy", "--implementation", "nope"], "Nothing is left to measure"),
        (["--format", "nope"], "'nope' is not one of 'text', 'json'"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "-1"], "--timeout"),
        (["--timeout", "soon"], "'soon' is not a valid float"),
        (["--nonsense"], "No such option"),
        (["extra"], "unexpected extra argument"),
    ],
)
def test_a_name_or_number_that_cannot_be_used(parity, arguments: list[str], said: str) -> None:
    code, out, err = parity("suite", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("target", ["missing/folder/out.json", "."])
def test_an_output_that_cannot_be_written_is_refused_before_work(parity, tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    code, out, err = parity("suite", "--adapter", "numpy", "--output", path)
    assert (code, out) == (2, "")
    assert str(path) in err


@pytest.mark.parametrize("command", [["nope"], []])
def test_no_such_command(parity, command: list[str]) -> None:
    code, out, err = parity(*command)
    assert code == 2
    assert "Traceback" not in out + err
