"""JSON reports: one valid document by the contract."""

import json
import math
from dataclasses import dataclass

from parity.report.json import render


@dataclass(frozen=True)
class Report:
    verdict: str = "pass"
    number: float = math.nan
    name: str = 'f[a] "–" ü\n\x1b'


def refuse(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def test_a_document() -> None:
    text = render("doctor", Report())
    assert text.endswith("}\n")
    assert json.loads(text, parse_constant=refuse) == {
        "schema": "framework-parity/1", "command": "doctor", "verdict": "pass", "number": "nan",
        "name": 'f[a] "–" ü\n\x1b',
    }  # fmt: skip
    assert list(json.loads(text))[:2] == ["schema", "command"]
