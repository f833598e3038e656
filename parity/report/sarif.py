"""Reports as SARIF 2.1.0, which code hosts and editors show at the line of a file."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from parity.findings import SCAN_RULES, Finding, to_json
from parity.models import PREFIXES
from parity.report.annotations import near, place
from parity.rules import RULES

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

UNREADABLE: Final = "unreadable"
"""The rule of files that cannot be read, which are no findings elsewhere."""

SUMMARIES: Final[Mapping[str, str]] = {
    **{name: rule.summary for name, rule in RULES.items()},
    UNREADABLE: "A file that cannot be read.",
}
"""What each rule is about."""


def render(command: str, report: Any) -> str:
    """The findings of a report, and of a scan the files that could not be read.

    Each has a file, that of the model where nothing nearer is known: GitHub refuses a document with one that has none.
    """
    unreadable = [
        Finding(rule=UNREADABLE, severity="error", message=one["message"], fix=one["hint"], location=one)
        for one in report.coverage.get("unreadable", ())
    ]
    findings = [*report.findings, *unreadable]
    rules = list(dict.fromkeys([*SCAN_RULES, UNREADABLE, *(one.rule for one in findings)]))
    run = {
        "tool": {
            "driver": {
                "name": "framework-parity",
                "version": version("framework-parity"),
                "rules": [{"id": name, "shortDescription": {"text": SUMMARIES[name]}} for name in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules, _model_file(command, report, finding)) for finding in findings],
        "invocations": [{"executionSuccessful": not unreadable}],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _model_file(command: str, report: Any, finding: Finding) -> str:
    """The file of the model that a finding is about; the name of the command where the report does not tell.

    Of the two of a diff that is the candidate's, and the reference's where only that one is a file.
    """
    named = [getattr(report, "model", "") or finding.evidence.get("model", "")]
    named += [getattr(report, side, "") for side in ("candidate", "reference")]
    if command == "identify":
        named.append(finding.location.get("candidate", ""))
    paths = [path for path in map(_path_of, named) if path]
    return next((path for path in paths if Path(path).is_file()), paths[0] if paths else f"parity-{command}")


def _path_of(model: Any) -> str:
    """The path in a model reference, or in the name of a function in a file; "" for none."""
    text = str(model)
    prefix, colon, rest = text.partition(":")
    path = rest if colon and prefix in PREFIXES else text
    if ".py:" in path:
        path = path.rpartition(":")[0]
    return Path(path).as_posix() if path else ""


def _result(finding: Finding, rules: Sequence[str], otherwise: str) -> dict[str, Any]:
    text = f"{finding.message} {finding.fix}".rstrip()
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.severity,
        "message": {"text": text},
    }
    file, line = place(finding.location)
    if not file:
        file, line = otherwise, 1
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(near(file).replace("\\", "/"))}}
    if line:
        physical["region"] = {"startLine": line}
    where: dict[str, Any] = {"physicalLocation": physical}
    if finding.location.get("path"):
        where["logicalLocations"] = [{"fullyQualifiedName": finding.location["path"]}]
    result["locations"] = [where]
    if finding.evidence:
        result["properties"] = to_json(finding.evidence)
    return result
