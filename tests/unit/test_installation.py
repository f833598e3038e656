"""What is installed and what is missing, from metadata alone."""

import sys
from pathlib import Path

import numpy as np
import pytest

import parity.installation
from parity.installation import adapter_statuses, name_clashes


@pytest.mark.parametrize(
    ("requires", "missing"),
    [(f"numpy>={np.__version__}", False), ("numpy>=999", True), ("nowhere-to-be-found", True), ("???", False)],
)
def test_what_an_extra_asks_for(offer, requires: str, missing: bool) -> None:
    offer("toy", requires=requires)
    status = adapter_statuses()["toy"]
    assert status.distribution == "outside-toy 1.0"
    assert status.missing == ((requires,) if missing else ())
    assert status.install == ('pip install "outside-toy[toy]"' if missing else "")
    assert status.versions == ({"numpy": np.__version__} if requires.startswith("numpy") and not missing else {})


def test_an_adapter_without_an_extra_needs_nothing(offer) -> None:
    offer("toy")
    assert adapter_statuses()["toy"].missing == ()


@pytest.mark.parametrize(("there", "missing"), [("tensorflow-cpu", False), ("tf-nightly", False), ("keras", True)])
def test_a_distribution_of_the_same_package_serves_as_well(
    offer, monkeypatch: pytest.MonkeyPatch, there: str, missing: bool
) -> None:
    offer("toy", requires="tensorflow>=2.17")

    def version(name: str) -> str:
        if name == there:
            return "2.18.0"
        raise parity.installation.PackageNotFoundError(name)

    monkeypatch.setattr(parity.installation, "version", version)
    status = adapter_statuses()["toy"]
    assert bool(status.missing) is missing
    assert status.versions == ({} if missing else {there: "2.18.0"})


def test_two_distributions_of_one_package_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in ("onnxruntime", "onnxruntime-gpu"):
            return "1.0"
        raise parity.installation.PackageNotFoundError(name)

    monkeypatch.setattr(parity.installation, "version", version)
    clashes = [one for one in name_clashes() if "same package" in one]
    assert clashes == ["onnxruntime and onnxruntime-gpu install the same package over each other; keep one."]


def test_another_package_called_parity_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = name_clashes()
    (tmp_path / "parity").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert name_clashes() == before, "a folder without __init__.py is no package"
    (tmp_path / "parity" / "__init__.py").touch()
    (clash,) = set(name_clashes()) - set(before)
    assert str(tmp_path) in clash


def test_another_command_called_parity_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "parity"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert any(str(command) in clash for clash in name_clashes())
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert not any("on the PATH" in clash for clash in name_clashes())
