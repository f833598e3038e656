"""Calling what a user named, in the worker."""

import sys
from pathlib import Path

import numpy as np
import pytest

from parity.errors import InputError
from parity.measure.callables import evaluate


class Native:
    """NumPy as a framework: tensors are lists."""

    name = "lists"

    def versions(self) -> dict[str, str]:
        return {"lists": "1.0"}

    def enter(self, x: np.ndarray) -> list[float]:
        return x.tolist()

    def leave(self, native: list[float]) -> np.ndarray:
        return np.array(native, dtype=np.float32)


X = np.array([-1.0, 2.0], dtype=np.float32)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def call(source: str, name: str, tmp_path: Path) -> np.ndarray:
    path = tmp_path / "mine.py"
    path.write_text(source)
    (message,) = evaluate(Native(), str(path), name, str(tmp_path), X)
    assert message.data == {"versions": {"lists": "1.0"}}
    return message.arrays["y"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def f(x): return [2 * one for one in x]", "f"),
        ("class F:\n    def __call__(self, x): return [2 * one for one in x]", "F"),
        ("class F:\n    def g(self, x): return [2 * one for one in x]\nf = F()", "f.g"),
        ("from functools import partial\nf = partial(lambda k, x: [k * one for one in x], 2)", "f"),
    ],
)
def test_the_callable_is_given_the_adapters_tensors(tmp_path: Path, source: str, name: str) -> None:
    np.testing.assert_array_equal(call(source, name, tmp_path), 2 * X)


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        ("f = 3", "f", "is a int and cannot be called"),
        ("def f(x): return x[:1]", "f", r"returned shape \(1,\)"),
        ("def f(x): raise KeyError('k')", "f", "adapter 'lists': KeyError: 'k'"),
        ("def f(x): raise SystemExit(3)", "f", "SystemExit: 3"),
        ("class F:\n    def __init__(self, n): pass", "F", "missing 1 required"),
        ("class F: pass", "F", "not callable"),
        ("def f(x): return x", "g", "There is no name in"),
        ("raise SystemExit", "f", "does not run: SystemExit"),
    ],
)
def test_what_cannot_be_called(tmp_path: Path, source: str, name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        call(source, name, tmp_path)


def test_an_attribute_of_a_module_stands_for_a_module(tmp_path: Path) -> None:
    (tmp_path / "lib_of_mine.py").write_text("class nn:\n    twice = staticmethod(lambda x: [2 * one for one in x])\n")
    (message,) = evaluate(Native(), "lib_of_mine.nn", "twice", str(tmp_path), X)
    np.testing.assert_array_equal(message.arrays["y"], 2 * X)


@pytest.mark.parametrize(
    ("source", "said"),
    [("raise ValueError('broken')", "ValueError: broken"),
     ("raise SystemExit(2)", "SystemExit: 2"), ("import nope_nope", "nope_nope")],
)  # fmt: skip
def test_a_module_that_does_not_import(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "broken_of_mine.py").write_text(source)
    with pytest.raises(InputError, match=said):
        list(evaluate(Native(), "broken_of_mine", "f", str(tmp_path), X))
