"""``parity doctor``: what is installed, what is missing and how to get it. Loads no framework."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from parity.findings import Finding, Report, Verdict, environment
from parity.installation import AdapterStatus, adapter_statuses, name_clashes


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport(Report):
    """What is installed; ``adapters`` by name, besides the fields that every report has."""

    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]
    adapters: Mapping[str, AdapterStatus]


def doctor() -> DoctorReport:
    """Looks at the installed adapters, their requirements, the processors and names that are taken twice."""
    adapters = adapter_statuses()
    ready = [name for name, status in adapters.items() if not status.missing]
    findings = [
        Finding(
            rule="unexplained",
            severity="note",
            message=f"The adapter '{status.name}' is not usable: {', '.join(status.missing)} missing.",
            fix=status.install,
            location={"candidate": status.name},
        )
        for status in adapters.values()
        if status.missing
    ]
    findings += [Finding(rule="unexplained", severity="warning", message=clash) for clash in name_clashes()]
    summary = f"{len(ready)} of {len(adapters)} adapters can be used: {', '.join(ready) or 'none'}."
    return DoctorReport(
        verdict="pass" if ready else "inconclusive",
        summary=summary,
        findings=tuple(findings),
        coverage={"adapters": ready},
        environment={"framework-parity": version("framework-parity")}
        | environment({name: status.versions for name, status in adapters.items()}, threads=os.cpu_count() or 1),
        adapters=adapters,
    )
