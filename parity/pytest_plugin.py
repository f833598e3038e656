"""The pytest plugin: fixtures for tests that hold one model against another, and a report of all that they compared.

It loads nothing of the rest before a test asks for it, and works under pytest-xdist.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from parity.jobs.diff import DiffOptions, DiffReport

COMPARED: Final = "parity"
"""Under which a test's comparisons go from worker to controller among its user properties."""


TOLD: Final = ("verdict", "summary", "findings", "outputs", "coverage", "environment")
"""Of a comparison, what the session's report has."""


class Comparisons:
    """What the fixture `parity` gives: comparisons that are in the report of the session.

    Args:
        record: Told of each comparison, as JSON values.
    """

    def __init__(self, record: Callable[[dict[str, Any]], None]) -> None:
        self._record = record

    def diff(
        self, reference: Any, candidate: Any, inputs: Any = None, *, options: "DiffOptions | None" = None
    ) -> "DiffReport":
        """As `parity.diff`; nothing fails."""
        from parity.findings import to_json  # noqa: PLC0415 – pytest starts without it
        from parity.jobs.diff import diff  # noqa: PLC0415

        report = diff(reference, candidate, inputs, options=options)
        whole = to_json(report)
        self._record({name: whole[name] for name in TOLD})
        return report

    def assert_same(
        self, reference: Any, candidate: Any, inputs: Any = None, *, options: "DiffOptions | None" = None
    ) -> "DiffReport":
        """As `parity.assert_parity`: the test fails with the report where two models differ, or the run cannot tell.

        Raises:
            AssertionError: The verdict is not ``pass``.
        """
        from parity.assertion import asserted  # noqa: PLC0415

        return asserted(self.diff(reference, candidate, inputs, options=options))


@pytest.fixture
def parity(request: pytest.FixtureRequest) -> Comparisons:
    """Comparisons of models; see `Comparisons`."""
    properties = request.node.user_properties
    return Comparisons(lambda told: properties.append((COMPARED, json.dumps(told))))


@pytest.fixture
def assert_parity(parity: Comparisons) -> Callable[..., Any]:
    """`Comparisons.assert_same` alone."""
    return parity.assert_same


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--parity-report``."""
    group = parser.getgroup("parity", "comparisons of models")
    group.addoption(
        "--parity-report",
        type=Path,
        metavar="FILE",
        help="Write what the tests compared to a file, as JSON.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and collects comparisons where the report is written.

    Raises:
        UsageError: The report cannot be written there; told before any test has run.
    """
    config.addinivalue_line(
        "markers", "parity: holds one model against another; frameworks are loaded, which takes time"
    )
    file: Path | None = config.getoption("--parity-report")
    if file is not None and not hasattr(config, "workerinput"):
        file = file.absolute()  # tests may go elsewhere
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"--parity-report {file} cannot be written: {error.strerror}.") from error
        if file.is_dir():
            raise pytest.UsageError(f"--parity-report {file} is a folder. Name a file.")
        config.pluginmanager.register(_Collector(file), "parity-report")


class _Collector:
    """Writes what all tests compared, those of other processes too."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tests: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            told = [json.loads(str(value)) for name, value in report.user_properties if name == COMPARED]
            self._tests += [{"test": report.nodeid, **one} for one in told]

    def pytest_sessionfinish(self) -> None:
        from parity.findings import SCHEMA, counted  # noqa: PLC0415

        verdicts = [one["verdict"] for one in self._tests]
        worst = next((one for one in ("mismatch", "error", "inconclusive", "pass") if one in verdicts), "inconclusive")
        passed = sum(one == "pass" for one in verdicts)
        document = {
            "schema": SCHEMA,
            "command": "pytest",
            "verdict": worst,
            "summary": f"{passed} of {counted(len(verdicts), 'comparison')} passed.",
            "findings": [{**found, "test": one["test"]} for one in self._tests for found in one["findings"]],
            "coverage": {"comparisons": len(verdicts), "passed": passed},
            "environment": self._tests[-1]["environment"] if self._tests else {},
            "comparisons": self._tests,
        }
        self._file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
