"""Reports as SARIF 2.1.0, which code hosts and editors show at the line of a file."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

from parity.findings import Finding, to_json
from parity.jobs.scan import ScanReport

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

RULES: Final[Mapping[str, str]] = {
    "activation-variant": "A graph computes another function than its config says.",
    "config-conflict": "Two fields for the same activation disagree, or a key stands twice.",
    "config-unknown-activation": "A field names no activation that is known.",
    "config-ignored-field": "A field that nothing reads.",
    "target-differs": "A deployment target computes another function than the model.",
    "optimizer-risk": "A setting of the runtime would change what the graph computes.",
    "unreadable": "A file that cannot be read.",
}
"""What each rule of a scan is about."""


def render(command: str, report: ScanReport) -> str:  # noqa: ARG001 – as for JSON
    """The findings and unreadable files of a scan."""
    unreadable = [
        Finding(rule="unreadable", severity="error", message=one["message"], fix=one["hint"], location=one)
        for one in report.coverage["unreadable"]
    ]
    run = {
        "tool": {
            "driver": {
                "name": "framework-parity",
                "version": version("framework-parity"),
                "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in (*report.findings, *unreadable)],
        "invocations": [{"executionSuccessful": not unreadable}],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    text = f"{finding.message} {finding.fix}".rstrip()
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": list(RULES).index(finding.rule),
        "level": finding.severity,
        "message": {"text": text},
    }
    file = finding.location.get("file")
    if file:
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(str(file).replace("\\", "/"))}}
        if finding.location.get("line"):
            place["region"] = {"startLine": finding.location["line"]}
        where: dict[str, Any] = {"physicalLocation": place}
        if finding.location.get("path"):
            where["logicalLocations"] = [{"fullyQualifiedName": finding.location["path"]}]
        result["locations"] = [where]
    if finding.evidence:
        result["properties"] = to_json(finding.evidence)
    return result
