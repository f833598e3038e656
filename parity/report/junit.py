"""Reports as JUnit XML, which CI servers show as tests: one case a finding that fails, and one for the verdict."""

from collections.abc import Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from parity.errors import CONTROLS
from parity.findings import Finding
from parity.layerwise.location import words

LOST: Final = dict.fromkeys((*range(9), 11, 12, *range(14, 32)))
"""Characters that XML cannot hold."""


def render(command: str, report: Any) -> str:
    """The report of a command: ``verdict``, ``summary`` and ``findings`` among its fields.

    The first case is the verdict itself. A mismatch is a failure, an engine that failed an error, and a run that cannot
    tell is skipped. Each error among the findings is a failure of a case of its own; warnings and notes are in the
    suite's output.
    """
    errors = [one for one in report.findings if one.severity == "error"]
    others = [one for one in report.findings if one.severity != "error"]
    counts = {
        "tests": 1 + len(errors),
        "failures": (report.verdict == "mismatch") + len(errors),
        "errors": int(report.verdict == "error"),
        "skipped": int(report.verdict == "inconclusive"),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    in_all = {name: count for name, count in numbers.items() if name != "skipped"}  # schemas know it of suites alone
    root = Element("testsuites", {"name": "framework-parity", **in_all})
    suite = SubElement(root, "testsuite", {"name": f"parity {command}", **numbers, "time": "0"})
    _verdict(SubElement(suite, "testcase", _case(command, "verdict")), report.verdict, report.summary)
    for number, finding in enumerate(errors, 1):
        case = SubElement(suite, "testcase", _case(command, f"{number}. {finding.rule}"))
        SubElement(case, "failure", {"message": _text(finding.message), "type": finding.rule}).text = _told(finding)
    if others:
        SubElement(suite, "system-out").text = "\n\n".join(f"{one.severity}: {_told(one)}" for one in others)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _case(command: str, name: str) -> dict[str, str]:
    return {"classname": f"parity.{command}", "name": _text(name), "time": "0"}


def _verdict(case: Element, verdict: str, summary: str) -> None:
    kind = {"mismatch": "failure", "error": "error", "inconclusive": "skipped"}.get(verdict)
    if kind is None:
        SubElement(case, "system-out").text = _text(summary)
        return
    told = {"message": _text(summary)} | ({} if kind == "skipped" else {"type": verdict})
    SubElement(case, kind, told)


def _told(finding: Finding) -> str:
    places = [f"{side}: {_where(place)}" for side, place in finding.location.items() if place]
    told = [f"{finding.rule}: {finding.message}", *places, *([f"fix: {finding.fix}"] if finding.fix else [])]
    return _text("\n".join(told))


def _where(place: Any) -> str:
    return words(place) if isinstance(place, Mapping) else str(place)


def _text(text: str) -> str:
    return text.translate(LOST).translate({code: said for code, said in CONTROLS.items() if code > 126})
