"""Reports of every command in which each name that a file could hold is hostile."""

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from parity.diagnose.power import SwapPower
from parity.findings import Finding, to_json
from parity.jobs.check_project import ProjectReport
from parity.jobs.check_report import CheckReport, Step
from parity.jobs.diff_prove import Injected, Proof
from parity.jobs.diff_report import DiffReport
from parity.jobs.diff_run import LayerRow
from parity.jobs.scan import ScanReport
from parity.jobs.suite import SuiteReport
from parity.layerwise.ends import OutputRow
from parity.measure.activation import Row
from parity.scanner.knowledge.targets import Answer
from parity.scanner.model import ActivationUse
from parity.scanner.rules.target_differs import TargetRow

HOSTILE = """<b>'"</script><script>alert(1)</script><img src=x onerror=alert(2)>%{x}&lt;\u202e\x1b[31m"""

LONG = "_scaled_dot_product_flash_attention_for_cpu"

ENVIRONMENT = {
    "python": "3.11", "platform": "linux", "machine": "x86_64", "threads": 1, "adapters": {HOSTILE: {HOSTILE: "1"}},
}  # fmt: skip

STATUSES = ("ok", "ok", "function", "ok", "untested", "overflow", *["ok"] * 6)
"""Of the layers of the diff."""


def layer(number: int, status: str) -> LayerRow:
    known = status != "untested"
    return LayerRow(
        reference=f"{number} {HOSTILE}", candidate=f"{LONG}/{HOSTILE}", aligned_by="value", confidence=1.0,
        op=f"aten.{LONG} {HOSTILE}", dtype="float32", propagated_error=(0.0, math.inf, 1e-4)[number % 3],
        local_error=1e-7 if known else None,
        excess=None if not known else 1.0 if status == "ok" else 1e3, gap=None, visible=1e-7 if known else None,
        status=status, scope=HOSTILE,
    )  # fmt: skip


def finding(**changes: Any) -> Finding:
    return Finding(
        **(
            {
                "rule": "activation-variant", "severity": "error", "message": f"{HOSTILE} is wrong.", "fix": HOSTILE,
                "location": {"reference": {"scope": HOSTILE, "tensor": HOSTILE}, "candidate": HOSTILE},
                "expected": "gelu_erf", "observed": "gelu_tanh",
                "evidence": {"sweep": {"x": [-1.0, 0.0, 2.0], "error": [1e-4, 0.0, -2e-4]}},
            }
            | changes
        )
    )  # fmt: skip


def diff_report() -> DiffReport:
    return DiffReport(
        verdict="mismatch", summary=HOSTILE, findings=[finding(), finding(severity="note", expected=HOSTILE)],
        first_divergence=None, layers=[layer(k, status) for k, status in enumerate(STATUSES)],
        outputs=[
            OutputRow(name=HOSTILE, candidate=HOSTILE, dtype="float32", shape=(2,), max_abs=1e-3, relative=1e-3)
        ],
        power={
            "activation_swaps": [
                SwapPower(reference=HOSTILE, scope="", variant="gelu_erf", alternative="gelu_tanh", sigma=9e4)
            ]
        },
        coverage={
            "compared": 11, "untested": 1, "reference_tensors": 12, "candidate_tensors": 12, "aligned": {"value": 12},
        },
        environment=ENVIRONMENT, notes=[HOSTILE], timing={HOSTILE: 1.0},
        proof=Proof(
            injected=[
                Injected(
                    kind=HOSTILE, place=HOSTILE, change=1.0, caught=False, named=False, placed=False, found=(HOSTILE,),
                    advice=HOSTILE,
                )
            ],
            catch_rate=0.0, absent=[HOSTILE], failed=[HOSTILE],
        ),
    )  # fmt: skip


def check_report() -> CheckReport:
    report = diff_report()
    step = Step(
        name="diff", target=HOSTILE, verdict="mismatch", summary=HOSTILE, findings=report.findings,
        report=to_json(report),
    )  # fmt: skip
    return CheckReport(
        verdict="mismatch", summary=HOSTILE, findings=report.findings, steps=[step],
        coverage={"targets": {HOSTILE: {"catch_rate": 0.5}}},
        environment=ENVIRONMENT, model=HOSTILE, cached=True,
    )  # fmt: skip


def project_report() -> ProjectReport:
    checks = [check_report(), replace(check_report(), verdict="pass", findings=[], cached=False)]
    found = [replace(one, evidence={"model": HOSTILE, **one.evidence}) for one in checks[0].findings]
    return ProjectReport(
        verdict="mismatch", summary=HOSTILE, findings=found, checks=checks, coverage={"checks": 2, "passed": 1},
        environment=ENVIRONMENT,
    )  # fmt: skip


def suite_report() -> SuiteReport:
    rows = [
        Row(
            adapter="toy", implementation=f"{name} {HOSTILE}", declared="gelu_erf", identified="gelu_erf", dtype=dtype,
            regime=regime, count=9, scaled_ulp=ulp, status="pass",
        )
        for name, dtype, regime, ulp in (
            ("a", "float32", "dense", 0.7), ("a", "float32", "normal", 3.0), ("a", "float32", "tails", 1e9),
            ("a", "float16", "dense", 0.5), ("b", "float32", "dense", 1e7),
        )
    ]  # fmt: skip
    return SuiteReport(
        verdict="pass", summary=HOSTILE, findings=tuple(finding(severity="warning") for _ in range(13)),
        results=(*rows, Row(adapter=HOSTILE, implementation="", declared="", dtype="", reason=HOSTILE)),
        defaults={}, families={HOSTILE: {f"a {HOSTILE}": "gelu_erf", f"b {HOSTILE}": None}}, environment=ENVIRONMENT,
        coverage={"measurements": 3, "inputs": 9, "unsupported": 0},
    )  # fmt: skip


def scan_report() -> ScanReport:
    use = ActivationUse(
        file=HOSTILE, path=HOSTILE, field=HOSTILE, value=HOSTILE, variant="gelu_erf", basis="config", reason=HOSTILE
    )
    answer = Answer(
        target=HOSTILE, status="differs", variant="gelu_tanh", version="1", evidence="source read", note=HOSTILE,
        fix=HOSTILE,
    )  # fmt: skip
    found = finding(location={"file": HOSTILE, "line": 3, "path": HOSTILE}, evidence={"places": 6})
    return ScanReport(
        verdict="mismatch", summary=HOSTILE, findings=(found,), activations=(use,) * 7,
        targets=(TargetRow(file=HOSTILE, path=HOSTILE, model="gelu_erf", answer=answer),),
        coverage={"files": {"config": 1}, "unreadable": ({"file": HOSTILE, "message": HOSTILE, "hint": HOSTILE},)},
        environment=ENVIRONMENT,
    )  # fmt: skip


MAKERS = {
    "diff": diff_report, "check": check_report, "project": project_report, "suite": suite_report, "scan": scan_report,
}  # fmt: skip

COMMANDS = {name: "check" if name == "project" else name for name in MAKERS}
"""That make the reports."""


@pytest.fixture(scope="session")
def documents() -> dict[str, str]:
    """The HTML of every command."""
    pytest.importorskip("jinja2", reason="the extra html is not installed")
    pytest.importorskip("plotly", reason="the extra html is not installed")
    return {
        name: import_module(f"parity.report.html.{COMMANDS[name]}").render(COMMANDS[name], maker())
        for name, maker in MAKERS.items()
    }


@pytest.fixture
def page_reports() -> dict[str, Any]:
    """The reports of `documents`."""
    return {name: maker() for name, maker in MAKERS.items()}


@pytest.fixture
def hostile() -> str:
    """The name that stands everywhere in `documents`, as a reader has to see it."""
    return HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")


@pytest.fixture
def layers() -> list[LayerRow]:
    return diff_report().layers


@pytest.fixture
def suite() -> SuiteReport:
    return suite_report()
