"""Verdicts, and dataclasses as JSON."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from parity.findings import EXIT_CODES, Finding, environment, to_json, worst_verdict


def finding(severity) -> Finding:
    return Finding(rule="precision", severity=severity, message="off")


@pytest.mark.parametrize(
    ("severities", "failed", "compared", "verdict"),
    [
        ([], False, 1, "pass"),
        (["warning", "note"], False, 1, "pass"),
        (["note", "error"], False, 1, "mismatch"),
        (["error"], True, 1, "mismatch"),
        (["error"], False, 0, "mismatch"),
        ([], True, 1, "error"),
        (["warning"], True, 0, "error"),
        ([], False, 0, "inconclusive"),
        (["warning"], False, 0, "inconclusive"),
    ],
)
def test_what_findings_add_up_to(severities: list[str], failed: bool, compared: int, verdict: str) -> None:
    assert worst_verdict(map(finding, severities), engine_failed=failed, compared=compared) == verdict


def test_the_exit_codes_of_the_contract() -> None:
    assert EXIT_CODES == {"pass": 0, "mismatch": 1, "inconclusive": 3, "error": 4}


@dataclass(frozen=True, slots=True)
class Inner:
    value: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (1.5, 1.5),
        (True, True),
        (None, None),
        ((1, 2), [1, 2]),
        ({1: math.nan}, {"1": "nan"}),
        (Inner(math.inf), {"value": "inf"}),
        ([Inner(0.5)], [{"value": 0.5}]),
        (frozenset({3}), [3]),
        (np.float64("nan"), "nan"),
        (np.float64(0.5), 0.5),
        (1 + 2j, "(1+2j)"),
    ],
)
def test_plain_values(value: object, expected: object) -> None:
    got = to_json(value)
    assert got == expected
    json.dumps(got, allow_nan=False)


def test_a_finding_has_the_fields_of_the_contract() -> None:
    assert set(to_json(finding("note"))) == {
        "rule", "severity", "message", "fix", "location", "expected", "observed", "evidence", "impact",
    }  # fmt: skip


def test_the_environment() -> None:
    found = environment({"torch": {"torch": "2.13"}}, threads=2)
    assert found["adapters"] == {"torch": {"torch": "2.13"}}
    assert found["threads"] == 2
    assert found["python"].count(".") == 2
