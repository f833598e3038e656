"""Places, in the words of either side."""

from pathlib import Path

import pytest

from parity.graph import Site
from parity.layerwise.location import MOST_NAMES, common_scope, location, module, near, words


def site(name: str, scope: str = "", source: str | None = None, labels: tuple[str, ...] = ()) -> Site:
    return Site(
        name=name,
        op="Op",
        kind="",
        scope=scope,
        inputs=("x",),
        outputs=(f"{name}.out", ""),
        source=source,
        labels=labels,
    )


def test_of_some_operators() -> None:
    found = location([site("a", "layers.0.mlp.fc", "m.py:1", ("/a",)), site("b", "layers.0.mlp.act")], "b.out")
    assert found == {
        "scope": "layers.0.mlp",
        "site": "b",
        "op": "Op",
        "tensor": "b.out",
        "source": "m.py:1",
        "names": ["a", "/a", "a.out", "b", "b.out"],
    }
    assert words(found) == "layers.0.mlp (m.py:1)"


def test_of_no_operator_is_the_tensor() -> None:
    assert location([], "x") == {"tensor": "x"}
    assert words(location([], "x")) == "x"


def test_what_is_not_known_is_left_out() -> None:
    assert "source" not in location([site("a")], "a.out")


def test_names_are_bounded() -> None:
    assert len(location([site(f"s{k}") for k in range(100)], "t")["names"]) == MOST_NAMES


@pytest.mark.parametrize(
    ("scopes", "shared"),
    [
        ([], ""),
        (["a.b"], "a.b"),
        (["a.b", "a.c"], "a"),
        (["a.b", "a.b.c"], "a.b"),
        (["a", ""], ""),
        (["layer.1", "layer.10"], "layer"),
    ],
)
def test_the_innermost_module_of_all(scopes: list[str], shared: str) -> None:
    assert common_scope([site(str(k), scope) for k, scope in enumerate(scopes)]) == shared


def test_a_place_without_a_module_is_its_operator() -> None:
    assert module({"scope": "", "site": "s", "tensor": "t"}) == "s"
    assert module({"tensor": "t"}) == "t"
    assert module({}) == ""


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"scope": "0.act", "source": "m.py:1"}, "0.act (m.py:1)"),
        ({"scope": "0", "source": "m.py:1"}, "module 0 (m.py:1)"),
        ({"scope": "", "site": "mul_2", "source": "m.py:1"}, "m.py:1 (mul_2)"),
        ({"site": "node"}, "node"),
        ({"output": "y"}, "y"),
        ({}, ""),
    ],
)
def test_a_place_in_words(place: dict[str, str], said: str) -> None:
    assert words(place) == said


def test_a_file_below_here_is_told_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert near(f"{tmp_path}/models/m.py:12") == "models/m.py:12"
    assert near("/elsewhere/m.py:12") == "/elsewhere/m.py:12"
    assert near("transformers/activations.py:89") == "transformers/activations.py:89"
    assert near("") == ""
