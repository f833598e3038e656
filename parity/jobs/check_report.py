"""The report of a check: its steps in order, and one verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from parity.findings import Finding, Report, Verdict, counted

StepName = Literal["scan", "probe", "export", "diff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a check.

    Attributes:
        name: Which.
        target: The deployment target that it is about; None where it is about all.
        verdict: Of this part alone.
        summary: One sentence.
        findings: What it found.
        seconds: That it took.
        report: The whole report of the command that it is, as JSON values; empty for other steps.
    """

    name: StepName
    target: str | None
    verdict: Verdict
    summary: str
    findings: Sequence[Finding] = ()
    seconds: float = 0.0
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Report):
    """What a check found; the fields are those of the JSON contract.

    Attributes:
        verdict: The worst of all steps.
        summary: One sentence.
        findings: Of all steps; ``evidence`` names the step, and the target where there is one.
        steps: In the order in which they were done.
        coverage: ``targets`` that were compared, with the share of known faults that was caught where that was tried.
        environment: Versions, threads.
        model: As the user named it.
        cached: Whether this is the result of an earlier check of the same.
    """

    verdict: Verdict
    summary: str
    findings: Sequence[Finding]
    steps: Sequence[Step]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]
    model: str
    cached: bool = False


def make_report(
    model: str, steps: Sequence[Step], *, fail_on: str, environment: Mapping[str, Any], targets: Mapping[str, Any]
) -> CheckReport:
    """One report of all steps; with ``fail_on`` "warning", warnings count as errors."""
    findings = _graded([_of_step(one, step) for step in steps for one in step.findings], fail_on)
    verdict = _verdict(steps, findings)
    return CheckReport(
        verdict=verdict,
        summary=_summary(model, verdict, steps, findings, targets),
        findings=findings,
        steps=steps,
        coverage={"targets": dict(targets)},
        environment=environment,
        model=model,
    )


def with_findings(report: CheckReport, more: Sequence[Finding], fail_on: str) -> CheckReport:
    """A report with findings that are of no step, as if they had been found."""
    findings = [*report.findings, *_graded(more, fail_on)]
    verdict = _verdict(report.steps, findings)
    summary = _summary(report.model, verdict, report.steps, findings, report.coverage["targets"])
    return replace(report, verdict=verdict, summary=summary, findings=findings)


def _graded(findings: Sequence[Finding], fail_on: str) -> list[Finding]:
    """The findings; warnings as errors where they are to fail."""
    worse = fail_on == "warning"
    return [replace(one, severity="error") if worse and one.severity == "warning" else one for one in findings]


def _of_step(finding: Finding, step: Step) -> Finding:
    told = {"step": step.name} | ({"target": step.target} if step.target else {})
    return replace(finding, evidence={**told, **finding.evidence})


def _verdict(steps: Sequence[Step], findings: Sequence[Finding]) -> Verdict:
    if any(one.severity == "error" for one in findings):
        return "mismatch"
    verdicts = {step.verdict for step in steps}
    compared = any(step.name == "diff" for step in steps)
    if "error" in verdicts:
        return "error"
    return "inconclusive" if "inconclusive" in verdicts or not compared else "pass"


def _summary(
    model: str, verdict: Verdict, steps: Sequence[Step], findings: Sequence[Finding], targets: Mapping[str, Any]
) -> str:
    proved = [one["catch_rate"] for one in targets.values() if one.get("catch_rate") is not None]
    caught = f" {min(proved):.0%} of the known faults that were injected would have been caught." if proved else ""
    if verdict == "pass":
        return f"{model} computes the same on {_listed(list(targets))}.{caught}"
    if verdict == "mismatch":
        errors = counted(sum(one.severity == "error" for one in findings), "error")
        return f"{model} is not ready to go out: {errors}. {_first(findings)}{caught}"
    failed = next(step for step in steps if step.verdict == verdict) if steps else None
    return failed.summary if failed is not None else "Nothing was compared."


def _first(findings: Sequence[Finding]) -> str:
    return next(one.message for one in findings if one.severity == "error")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
