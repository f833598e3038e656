"""Adapters that crash, hang, or do not load: a status and a reason each, and the rest goes on."""

import time
from typing import Any

import pytest

from parity.findings import Finding
from parity.jobs.suite import SuiteReport, suite

ONLY = ("same.*", "np.tanh")


def run(*adapters: str, timeout: float = 60) -> SuiteReport:
    return suite(adapters=adapters, dtypes=["float32"], implementations=ONLY, timeout=timeout)


def statuses(report: SuiteReport, adapter: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in report.results:
        if row.adapter == adapter:
            found.setdefault(row.implementation, set()).add(row.status)
    return found


def findings(report: SuiteReport, adapter: str) -> list[Finding]:
    return [one for one in report.findings if one.location["candidate"].startswith(adapter)]


DEATHS = {
    "aborts": ("os.abort()", "was killed by SIGABRT"),
    "segfaults": ("ctypes.string_at(0)", "was killed by SIGSEGV"),
    "leaves": ("os._exit(9)", "ended with exit code 9"),
    "exits": ("sys.exit(3)", "ended with exit code 3"),
}

BROKEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "raises": ({"module": "raise RuntimeError('broken here')"}, "failed", "does not load: RuntimeError: broken here"),
    "lacks": ({"module": "import nowhere_to_be_found"}, "failed", "ModuleNotFoundError"),
    "no_python": ({"module": "def f(:"}, "failed", "SyntaxError"),
    "exits_early": ({"module": "import sys; sys.exit(5)"}, "crashed", "ended with exit code 5"),
    "aborts_early": ({"module": "import os; os.abort()"}, "crashed", "was killed by SIGABRT"),
    "offers_none": ({"module": "adapter = None"}, "failed", "lacks methods of parity.adapter.Adapter"),
    "offers_another": ({"module": "class adapter: name = 'x'"}, "failed", "lacks methods of parity.adapter.Adapter"),
    "offers_nothing": ({"target": "nope"}, "failed", "does not load: AttributeError"),
    "raises_later": ({"rows": "1 / 0"}, "failed", "ZeroDivisionError"),
    "no_rows": ({"rows": "None"}, "failed", "TypeError"),
    "odd_rows": ({"rows": "[object()]"}, "failed", "no Implementation"),
}


@pytest.fixture(scope="module")
def report(offer_once) -> SuiteReport:
    """One run of all that goes wrong, beside numpy."""
    rows = ", ".join(f"row('same.{name}', lambda x: {body})" for name, (body, _) in DEATHS.items())
    offer_once("fragile", f"[row('same.first'), {rows}, row('same.last')]")
    for name, (changes, _, _) in BROKEN.items():
        offer_once(name, **changes)
    return run("numpy", "fragile", *BROKEN)


def test_a_crash_in_the_middle_leaves_the_rest_to_a_new_worker(report: SuiteReport) -> None:
    died = {f"same.{name}": {"crashed"} for name in DEATHS}
    assert statuses(report, "fragile") == {"same.first": {"pass"}, "same.last": {"pass"}} | died
    assert report.verdict == "error"
    assert "an engine failed and the rest is reported" in report.summary
    assert sum(row.implementation == "np.tanh" and row.count > 0 for row in report.results) == 5


@pytest.mark.parametrize("name", DEATHS)
def test_a_crash_has_a_row_and_a_finding(report: SuiteReport, name: str) -> None:
    (row,) = [row for row in report.results if row.implementation == f"same.{name}"]
    assert (row.declared, row.dtype) == ("relu", "float32")
    assert DEATHS[name][1] in row.reason
    (finding,) = [one for one in findings(report, "fragile") if f"same.{name} " in one.message]
    assert (finding.rule, finding.severity) == ("unexplained", "warning")
    assert finding.evidence["status"] == "crashed"


@pytest.mark.parametrize("name", BROKEN)
def test_one_broken_adapter_does_not_kill_the_rest(report: SuiteReport, name: str) -> None:
    _, status, said = BROKEN[name]
    assert statuses(report, name) == {"": {status}}
    (finding,) = [one for one in report.findings if one.location["candidate"] == name]
    assert said in finding.message


def test_a_hang_is_ended_and_the_rest_is_measured(offer) -> None:
    offer("slow", "[row('same.first'), row('same.bad', lambda x: time.sleep(600)), row('same.last')]")
    started = time.monotonic()
    report = run("slow", timeout=2)
    assert statuses(report, "slow") == {"same.first": {"pass"}, "same.bad": {"hung"}, "same.last": {"pass"}}
    assert report.verdict == "error"
    assert time.monotonic() - started < 20


def test_one_that_crashes_always_is_given_up(offer) -> None:
    rows = ", ".join(f"row('same.{number}', lambda x: os._exit(1))" for number in range(20))
    offer("hopeless", f"[{rows}]")
    report = run("hopeless")
    crashed = [row for row in report.results if row.status == "crashed"]
    assert 1 < len(crashed) < 20
    assert report.verdict == "error"


def test_a_mismatch_stands_though_an_engine_failed(offer, parity) -> None:
    offer("both", "[row('same.wrong', declared='silu'), row('same.bad', lambda x: os.abort())]")
    assert run("both").verdict == "mismatch"
    code, out, err = parity("suite", "--adapter", "both", "--implementation", "same.*")
    assert code == 1
    assert "SIGABRT" in out
    assert "Traceback" not in out + err


def test_the_exit_code_of_a_failed_engine(offer, parity) -> None:
    offer("fragile", "[row('same.good'), row('same.bad', lambda x: os.abort())]")
    code, out, _ = parity("suite", "--adapter", "fragile")
    assert code == 4
    assert out.splitlines()[-1].startswith("ERROR  ")
    assert "crashed" in out
