"""What several kinds of tests share: adapters of other people, and the command line in this process."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parity.cli import main

os.environ.pop("COLUMNS", None)  # pytest-xdist tells its workers the terminal's width; reports are made for none


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case of many bytes by its argument.

    The bytes of an archive hold the time of day, so that two processes would collect differently named tests.
    """
    return argname if isinstance(val, bytes) and len(val) > 16 else None


ADAPTER = """
import ctypes, os, sys, time

import numpy as np

from parity.adapter import Implementation
from parity.functions import variant


def same(x):
    return x


def relu(x):
    return np.maximum(x, x.dtype.type(0))


def exact(declared):
    def function(x):
        with np.errstate(all="ignore"):
            return variant(declared).value(x).astype(x.dtype)
    return function


def row(name, function=relu, declared="relu", dtypes=("float32",), **more):
    return Implementation(
        name=name, variant=variant(declared), dtypes=dtypes, enter=same, function=function, leave=same, **more
    )


class Outside:
    name = "{name}"

    def versions(self):
        return {{"{name}": "1.0"}}

    def activations(self):
        return rows()

    def enter(self, x):
        return x

    def leave(self, x):
        return x

    def open(self, model, options):
        raise NotImplementedError


adapter = Outside()


"""
"""Head of an adapter's module; ``rows()`` comes after it."""

Offer = Callable[..., None]


def _offering(site: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.syspath_prepend(site)

    def install(
        name: str, rows: str = "[row('same.relu')]", *, module: str = "", target: str = "adapter", requires: str = ""
    ) -> None:
        source = module or ADAPTER.format(name=name) + f"def rows():\n    return {rows}\n"
        (site / f"outside_{name}.py").write_text(source)
        info = site / f"outside_{name}-1.0.dist-info"
        info.mkdir()
        needs = f"Provides-Extra: {name}\nRequires-Dist: {requires}; extra == '{name}'\n" if requires else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: outside-{name}\nVersion: 1.0\n{needs}")
        (info / "entry_points.txt").write_text(f"[parity.adapters]\n{name} = outside_{name}:{target}\n")
        importlib.invalidate_caches()

    return install


@pytest.fixture
def offer(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Installs an adapter for this process and its children: ``offer(name, rows=…)`` or ``offer(name, module=…)``.

    A folder with a module and the metadata of a distribution is all that an installed package is.
    """
    return _offering(tmp_path_factory.mktemp("site"), monkeypatch)


@pytest.fixture(scope="module")
def offer_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offer]:
    """The same for all tests of a module that look at one run."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield _offering(tmp_path_factory.mktemp("site"), monkeypatch)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def parity(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``parity ARGUMENT…`` in this process: its exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["parity", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run
