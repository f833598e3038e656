"""Results of checks, kept and read again."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from parity.findings import Finding
from parity.jobs.check_cache import Cache
from parity.jobs.check_options import CheckOptions
from parity.jobs.check_report import Step, make_report
from parity.models import ModelReference
from parity.report.check import render

FINDING = Finding(rule="overflow", severity="error", message="Inf", evidence={"excess": math.inf, "max_abs": math.nan})


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelReference:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "m.onnx"
    file.write_bytes(b"model")
    return ModelReference(str(file), "onnxruntime")


def report():
    step = Step(name="diff", target="t", verdict="mismatch", summary="They differ.", findings=[FINDING], report={})
    return make_report("m", [step], fail_on="error", environment={}, targets={"t": {}})


def test_a_result_is_read_as_it_was_written_infinite_numbers_too(model: ModelReference) -> None:
    cache = Cache(model, None, CheckOptions())
    assert cache.read() is None
    cache.write(report())
    known = cache.read()
    assert known is not None
    assert known.cached
    assert render(replace(known, cached=False), colour=False, width=120) == render(report(), colour=False, width=120)


def test_another_file_or_option_is_another_result(model: ModelReference) -> None:
    Cache(model, None, CheckOptions()).write(report())
    assert Cache(model, None, CheckOptions(prove=True)).read() is None
    assert Cache(model, None, CheckOptions(cache=False)).read() is None
    Path(model.text).write_bytes(b"another")
    assert Cache(model, None, CheckOptions()).read() is None


def test_a_damaged_entry_is_none(model: ModelReference, tmp_path: Path) -> None:
    Cache(model, None, CheckOptions()).write(report())
    (entry,) = (tmp_path / "cache").rglob("*.json")
    for text in (
        "{",
        "[]",
        "3",
        '{"steps": [{"findings": [3]}]}',
        '{"steps": [], "findings": [{"evidence": 3}]}',
        "\0",
    ):
        entry.write_text(text)
        assert Cache(model, None, CheckOptions()).read() is None


@pytest.mark.parametrize("folder", ["file/cache", "a" * 300, "locked"])
def test_a_cache_that_cannot_be_used_is_none(
    model: ModelReference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
    cache = Cache(model, None, CheckOptions())
    if folder == "locked":  # whoever runs the tests may be root, to whom nothing is locked
        monkeypatch.setattr(Path, "is_file", refused)
        monkeypatch.setattr(Path, "mkdir", refused)
    cache.write(report())
    assert cache.read() is None


def refused(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_user_without_a_home_has_no_cache(model: ModelReference, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert Cache(model, None, CheckOptions()).read() is None


def homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_full_disk_leaves_nothing_half_written(
    model: ModelReference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "replace", refused)
    Cache(model, None, CheckOptions()).write(report())
    assert not [one for one in (tmp_path / "cache").rglob("*") if one.is_file()]
