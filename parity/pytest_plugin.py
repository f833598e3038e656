"""The pytest plugin: a fixture for tests that hold one model against another."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def assert_parity() -> Callable[..., Any]:
    """`parity.assert_parity`: fails the test with the report of ``parity diff`` where two models differ."""
    from parity.assertion import assert_parity as asserted  # noqa: PLC0415 – pytest starts without it

    return asserted
