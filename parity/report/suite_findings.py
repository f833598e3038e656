"""The findings of a suite for a terminal: many implementations share a few faults, so each fault is told once."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from parity.findings import Finding, counted
from parity.report.terminal import COLOURS, plain

EXAMPLES: Final = 3
"""Implementations that are quoted with their own numbers, where these differ."""

NAMES: Final = 8
"""Names listed under a fault."""

_NUMBER: Final = re.compile(r"(?<![\w^])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def write(out: Console, findings: Sequence[Finding], *, everything: bool) -> None:
    """Errors one by one; warnings by what they say, most shared first; notes as counts.

    Args:
        out: Where to.
        findings: Of all severities.
        everything: Every finding in full instead.
    """
    by_severity = {one: [finding for finding in findings if finding.severity == one] for one in COLOURS}
    for severity in ("error", "warning", "note"):
        found = by_severity[severity]
        if not found:
            continue
        out.print(plain(counted(len(found), severity), COLOURS[severity]))
        if severity == "error" or everything:
            for finding in found:
                out.print(_in_full(finding))
        else:
            _by_fault(out, found, quoted=severity == "warning")
        out.print()


def _by_fault(out: Console, findings: Sequence[Finding], *, quoted: bool) -> None:
    shared: dict[str, list[tuple[Finding, str]]] = {}
    for finding in findings:
        for phrase in _phrases(finding):
            shared.setdefault(_NUMBER.sub("…", phrase), []).append((finding, phrase))
    for fault, group in sorted(shared.items(), key=lambda item: -len(item[1])):
        phrases = {phrase for _, phrase in group}
        names = list(dict.fromkeys(_name(finding) for finding, _ in group))
        calls = list(dict.fromkeys(name.partition(" (")[0] for name in names))
        said = phrases.pop() if len(phrases) == 1 else fault
        rest = f" and {len(calls) - NAMES} more" if len(calls) > NAMES else ""
        head = Text.assemble(f"{len(names)} × ", (said, "bold"), f" – {', '.join(calls[:NAMES])}{rest}")
        out.print(Padding(head, (0, 0, 0, 2)))
        for fix in dict.fromkeys(finding.fix for finding, _ in group if quoted and finding.fix):
            out.print(Padding(plain(f"→ {fix}"), (0, 0, 0, 8)))
        if quoted and said == fault and "…" in fault:
            examples = {_name(finding).partition(" (")[0]: finding.message for finding, _ in reversed(group)}
            for message in list(reversed(examples.values()))[:EXAMPLES]:
                out.print(Padding(plain(message), (0, 0, 0, 8)))
    out.print(plain("  --all shows each in full."))


def _phrases(finding: Finding) -> list[str]:
    """What a finding says of its implementation, without the dtypes."""
    predicate = finding.message.removeprefix(_name(finding)).strip().removesuffix(".")
    return list(dict.fromkeys(part.rpartition(" in ")[0] or part for part in predicate.split("; ")))


def _name(finding: Finding) -> str:
    """The implementation without its adapter."""
    return str(finding.location.get("candidate", "")).partition(": ")[2]


def _in_full(finding: Finding) -> Text:
    where: Mapping[str, str] = finding.location
    text = Text.assemble("  ", (where.get("candidate", "").partition(": ")[0], "dim"), "  ", plain(finding.message))
    if finding.fix:
        text.append(f"\n      fix: {finding.fix}")
    return text
