"""What a user may type for a model, and what is said where it is none."""

from pathlib import Path

import pytest

from parity.errors import InputError
from parity.models import PREFIXES, SUFFIXES, model_reference


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".ONNX", ".Pt2"])
def test_files_by_their_suffix(here: Path, suffix: str) -> None:
    (here / f"m{suffix}").touch()
    found = model_reference(f"m{suffix}")
    assert (found.text, found.adapter) == (f"m{suffix}", SUFFIXES[suffix.lower()])
    assert not found.is_trace


@pytest.mark.parametrize(
    ("marks", "adapter"),
    [
        (["saved_model.pb"], "tensorflow"),
        (["config.json"], "transformers"),
        (["manifest.json"], ""),
        (["manifest.unfinished"], ""),
        (["manifest.json", "config.json"], ""),
        (["saved_model.pb", "config.json"], "tensorflow"),
    ],
)
def test_folders_by_what_is_in_them(here: Path, marks: list[str], adapter: str) -> None:
    (here / "m").mkdir()
    for mark in marks:
        (here / "m" / mark).touch()
    found = model_reference("m")
    assert found.adapter == adapter
    assert found.is_trace == (not adapter)


def test_a_prefix_may_be_the_name_of_an_adapter(here: Path, offer) -> None:
    with pytest.raises(InputError, match="There is no file or folder 'outside:m'"):
        model_reference("outside:m")
    offer("outside")
    found = model_reference("outside:m")
    assert (found.text, found.adapter) == ("outside:m", "outside")


@pytest.mark.parametrize("prefix", ["torch", "jax", "tf", "tensorflow"])
def test_names_in_python_files(here: Path, prefix: str) -> None:
    (here / "m.py").touch()
    for text in (f"{prefix}:m.py:build", f"{prefix}:{here}/m.py:Some.name"):
        assert model_reference(text).adapter == PREFIXES[prefix]
        assert model_reference(text).text == text


def test_a_colon_in_the_path_of_a_python_file(here: Path) -> None:
    (here / "a:b").mkdir()
    (here / "a:b" / "m.py").touch()
    assert model_reference("torch:a:b/m.py:build").adapter == "torch"


@pytest.mark.parametrize("prefix", ["hf", "onnx", "keras"])
def test_prefixes_that_force_an_adapter(here: Path, prefix: str) -> None:
    (here / "m").mkdir()
    assert model_reference(f"{prefix}:m").adapter == PREFIXES[prefix]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no file or folder ''"),
        ("nowhere.onnx", "no file or folder 'nowhere.onnx'"),
        ("nowhere", "no file or folder 'nowhere'"),
        ("pytorch:m.py:build", "no file or folder 'pytorch:m.py:build'"),
        (":m.py:build", "no file or folder"),
        ("empty", "holds no model"),
        (".", "holds no model"),
        ("m.txt", "of no format"),
        ("m.py", "of no format"),
        ("bare", "of no format"),
        ("torch:", "does not say what to call"),
        ("torch:m.py", "does not say what to call"),
        ("torch:m.py:", "does not say what to call"),
        ("torch::build", "does not say what to call"),
        ("torch:nowhere.py:build", "no file 'nowhere.py'"),
        ("torch:empty:build", "no file 'empty'"),
        ("hf:nowhere", "no file or folder 'nowhere'"),
        ("hf:", "no file or folder ''"),
        ("onnx:nowhere.onnx", "no file or folder 'nowhere.onnx'"),
        ("a\0b", "no file or folder"),
    ],
)
def test_what_is_no_model(here: Path, text: str, said: str) -> None:
    (here / "empty").mkdir()
    for name in ("m.txt", "m.py", "bare"):
        (here / name).touch()
    with pytest.raises(InputError) as caught:
        model_reference(text)
    assert said in caught.value.message
    assert caught.value.hint
