"""Shells complete commands and options, although commands are loaded when they are called."""

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(parity, monkeypatch, shell: str) -> None:
    monkeypatch.setenv("_PARITY_COMPLETE", f"{shell}_source")
    code, out, _ = parity()
    assert code == 0
    assert f"_PARITY_COMPLETE={shell}_complete" in out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("parity sc", ["scan"]),
        ("parity diff --write", ["--write-fix"]),
        ("parity doctor --format j", ["json", "junit"]),
    ],
)
def test_what_is_completed(parity, monkeypatch, words: str, found: list[str]) -> None:
    monkeypatch.setenv("_PARITY_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    code, out, _ = parity()
    assert (code, [line.partition(",")[2] for line in out.splitlines()]) == (0, found)
