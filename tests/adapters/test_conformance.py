"""Every installed adapter passes the public conformance suite."""

import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points

import pytest

from parity.testing import CHECK_NAMES, conformance_checks

BUILT_IN = ("numpy", "torch", "tensorflow", "jax", "onnxruntime", "transformers")


@cache
def checks_of(name: str) -> dict[str, Callable[[], None]]:
    """The checks bound to the adapter called ``name``; skips where its framework is not installed."""
    (entry_point,) = entry_points(group="parity.adapters", name=name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a framework says while it is imported is not the adapter's doing
            adapter = entry_point.load()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("parity"):
            raise
        pytest.skip(f"the {name} adapter needs {error.name}, which is not installed")
    return conformance_checks(adapter)


def test_all_built_in_adapters_are_entry_points() -> None:
    assert {e.name for e in entry_points(group="parity.adapters")} >= set(BUILT_IN)


@pytest.mark.parametrize("check", CHECK_NAMES)
@pytest.mark.parametrize("name", BUILT_IN)
def test_conformance(name: str, check: str) -> None:
    checks_of(name)[check]()
