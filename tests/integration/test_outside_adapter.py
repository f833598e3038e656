"""The adapter of the documentation, installed as its users would, passes what adapters must and opens models."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.testing import CHECK_NAMES, conformance_checks
from parity.testing.sessions import check_session

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "tinynet"
PAGE = EXAMPLE.parents[1] / "adapters.md"


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The adapter out of the folder into which pip put it, for this process and its children."""
    site = tmp_path_factory.mktemp("site")
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", site, EXAMPLE], check=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]))
        monkeypatch.syspath_prepend(site)
        importlib.invalidate_caches()
        yield importlib.import_module("parity_tinynet").adapter


@pytest.mark.parametrize("check", CHECK_NAMES)
def test_conformance(adapter: Any, check: str) -> None:
    conformance_checks(adapter)[check]()


@pytest.mark.parametrize("file", ["model.json", "other.json"])
def test_a_model_is_a_session(adapter: Any, file: str) -> None:
    x = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    with adapter.open(f"tinynet:{EXAMPLE / file}", {}) as session:
        check_session(session, {"x": x})


def test_models_are_compared(adapter: Any, parity: Callable[..., tuple[int, str, str]]) -> None:
    models = [f"tinynet:{EXAMPLE / file}" for file in ("model.json", "other.json")]
    code, out, _ = parity("diff", *models)
    assert code == 1
    assert "activation-variant  At act: the candidate computes gelu_tanh where the reference computes gelu_erf" in out
    code, out, _ = parity("diff", models[0], models[0], "--quiet")
    assert code == 0


def test_what_is_no_model(adapter: Any, parity: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = parity("diff", "tinynet:none.json", f"tinynet:{EXAMPLE / 'model.json'}")
    assert code == 2
    assert "The tinynet adapter cannot open 'tinynet:none.json'." in err


@pytest.mark.parametrize("file", sorted(str(file.relative_to(EXAMPLE)) for file in EXAMPLE.rglob("parity_*/*.py")))
def test_the_page_shows_the_files(file: str) -> None:
    assert f"`{file}`:\n\n```python\n{(EXAMPLE / file).read_text()}```\n" in PAGE.read_text()
