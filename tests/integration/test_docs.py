"""The documentation is built of what is there, every link of it leads somewhere, and nothing comes from the network."""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import parity
from parity.cli import COMMANDS
from parity.rules import RULES

ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the documentation with the pages that are made."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("rules", "reference"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    run("make_docs.py", "--docs", folder / "docs")
    return folder / "docs"


def test_every_rule_has_a_page_that_the_list_links_to(docs: Path) -> None:
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (docs / "rules" / "index.md").read_text())
    assert set(listed) == set(RULES) == {page.stem for page in (docs / "rules").glob("*.md")} - {"index"}
    page = (docs / "rules" / "precision.md").read_text()
    for text in (RULES["precision"].meaning, RULES["precision"].mending):
        assert text in page


def test_the_reference_has_every_command_and_every_public_name(docs: Path) -> None:
    commands = (docs / "reference" / "cli.md").read_text()
    assert re.findall(r"^## parity (\w+)$", commands, re.MULTILINE) == sorted(COMMANDS)
    assert "--write-fix FILE" in commands
    names = re.findall(r"^### (\w+)$", (docs / "reference" / "api.md").read_text(), re.MULTILINE)
    assert names[: len(parity.__all__)] == parity.__all__


def test_the_arguments_of_a_function_become_a_list(docs: Path) -> None:
    page = (docs / "reference" / "api.md").read_text()
    scan = page[page.index("## parity.jobs.scan\n") : page.index("## parity.jobs.scan_live\n")]
    assert "\n    strict: bool = False,\n" in scan
    assert "\n- `strict` – Whether warnings count as errors.\n" in scan
    assert " at 0x" not in page


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed; the dependency group docs has it")
def test_the_site_builds_without_a_broken_link_or_anything_from_the_network(docs: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", docs.parent / "mkdocs.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = list((docs.parent / "build" / "site").rglob("*.html"))
    assert len(pages) > len(RULES)
    loaded = re.compile(r"""(?:src|<link[^>]*href)=["'](?:https?:)?//[^"']*""")
    assert [found for page in pages for found in loaded.findall(page.read_text())] == []


def test_every_claim_names_a_test_that_there_is() -> None:
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", (ROOT / "docs" / "claims.md").read_text())
    assert len(named) > 15
    assert [(file, name) for file, name in named if f"def {name}(" not in (ROOT / file).read_text()] == []


def test_the_table_of_frameworks_tells_what_decides(tmp_path: Path) -> None:
    def row(name: str, identified: str, error: float, dtype: str = "float32") -> dict[str, object]:
        said = {"adapter": "onnxruntime", "implementation": name, "identified": identified, "regime": "dense"}
        return {**said, "dtype": dtype, "scaled_ulp": error}

    report = {
        "environment": {"machine": "m", "platform": "linux", "python": "3", "adapters": {"x": {"onnx_x": "1.2"}}},
        "families": {"gelu": {"Gelu": "gelu_erf"}, "relu": {"Relu": "relu"}},
        "results": [
            row("Gelu (level=all)", "gelu_erf", 1.0),
            row("Gelu (level=none)", "gelu_erf", 1.5),
            row("Gelu (level=none)", "gelu_erf", 0.5, "float16"),
            row("FastGelu (level=all)", "gelu_erf", 1.0),
            row("FastGelu (level=all, approximation)", "gelu_tanh", 2.0),
            row("Relu (level=all)", "relu", 0.0),
        ],
    }
    (tmp_path / "suite.json").write_text(json.dumps(report))
    run("make_rosetta.py", tmp_path / "suite.json", "--output", tmp_path / "rosetta.md")
    page = (tmp_path / "rosetta.md").read_text()
    assert "onnx-x 1.2" in page
    assert "| `Gelu` | `gelu_erf` |\n" in page
    assert "| onnxruntime | `Gelu` | `gelu_erf` | 1.5 | 0.5 | – |\n" in page
    assert "| onnxruntime | `FastGelu` | `gelu_erf` | 1 | – | – |\n" in page
    assert "| onnxruntime | `FastGelu (approximation)` | `gelu_tanh` | 2 | – | – |\n" in page
    assert "Relu" not in page.replace("Leaky ReLU", "")
