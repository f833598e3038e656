"""The labelled samples of fixtures/identify, each through the command line as a user gives it."""

import json
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "fixtures" / "identify"
INDEX = json.loads((SAMPLES / "index.json").read_text())


@pytest.mark.parametrize("file", sorted(INDEX))
def test_sample(parity, file: str) -> None:
    code, out, _ = parity("identify", SAMPLES / file, "--format", "json")
    report = json.loads(out)
    assert report["variant"] == INDEX[file]["variant"]
    assert code == (0 if INDEX[file]["variant"] else 1)


def test_every_sample_has_a_label() -> None:
    assert {file.name for file in SAMPLES.glob("*.safetensors")} == set(INDEX)
