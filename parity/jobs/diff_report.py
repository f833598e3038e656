"""The report of a diff: several runs made into one verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from parity.diagnose.power import SEEN
from parity.findings import SEVERITIES, Finding, Report, Verdict, counted, sentence
from parity.jobs.diff_options import DiffOptions
from parity.jobs.diff_prove import Proof
from parity.jobs.diff_run import LayerRow, RunResult
from parity.layerwise.ends import OutputRow


@dataclass(frozen=True, slots=True)
class Left:
    """A finding, or some of its places, that could not be mended in the candidate's file.

    Attributes:
        rule: Its kind.
        message: What it says.
        why: Why not, and what to do instead.
    """

    rule: str
    message: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The candidate's file written anew with what could be mended in it, and the diff run again on that.

    Attributes:
        file: Where it was written; None where there was nothing to mend.
        edits: What was changed, as sentences.
        left: What was not.
        verdict: Of the mended file; None where there is none.
        summary: Likewise, one sentence.
        outputs: Likewise, one row an output.
    """

    file: str | None
    edits: Sequence[str]
    left: Sequence[Left]
    verdict: Verdict | None
    summary: str
    outputs: Sequence[OutputRow] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport(Report):
    """What a diff found; the fields are those of the JSON contract.

    Attributes:
        verdict: pass, mismatch, inconclusive or error.
        summary: One sentence.
        findings: Errors, warnings, notes; of each the first one that acts first.
        first_divergence: Where the first tensor differs by its own fault, by side; None where none does.
        layers: One row an aligned tensor.
        outputs: One row an output.
        power: What this run would have seen.
        coverage: How much of both models was compared.
        environment: Versions, threads.
        notes: What else a reader should know, as sentences.
        timing: Seconds that each part took. Those of the two sides run at the same time.
        proof: What became of known faults that were put in; None where that was not asked for.
        repair: What came of mending the candidate's file; None where that was not asked for.
        reference: As the user named it.
        candidate: Likewise.
    """

    verdict: Verdict
    summary: str
    findings: Sequence[Finding]
    first_divergence: Mapping[str, str] | None
    layers: Sequence[LayerRow]
    outputs: Sequence[OutputRow]
    power: Mapping[str, Any]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]
    notes: Sequence[str] = ()
    timing: Mapping[str, float] = field(default_factory=dict)
    proof: Proof | None = None
    repair: Repair | None = None
    reference: str = ""
    candidate: str = ""


def make_report(results: Sequence[RunResult], options: DiffOptions, where: Mapping[str, Any]) -> DiffReport:
    """One report of one or more runs: that of the worst, and whether the shape of the inputs decides.

    Of runs without an error it is the first that could tell; of those that could not, there is a note.
    """
    worst = max(results, key=_weight)
    findings = [_followed(_allowed(one, worst, options), options) for one in worst.findings]
    clean = [one for one in results if not one.differs]
    if clean and worst.differs and any(one.inputs != worst.inputs for one in clean):
        findings = [_by_shape(one, clean[0].inputs, worst.inputs) for one in findings]
    findings += _of_other_sets(results, worst, options)
    findings.sort(key=lambda one: SEVERITIES.index(one.severity))
    verdict = _verdict(findings, worst)
    first = next((layer for layer in worst.layers if layer.guilty), None)
    place = next((one.location for one in findings if one.severity == "error" and one.location), None)
    if place is None and first is not None:
        place = {"reference": first.region.pair.reference, "candidate": first.region.pair.candidate}
    return DiffReport(
        verdict=verdict,
        summary=_summary(verdict, findings, worst),
        findings=findings,
        first_divergence=place,
        layers=worst.rows,
        outputs=worst.outputs,
        power=worst.power,
        coverage={**worst.coverage, "input_sets": len(results)},
        environment=where,
        notes=[*dict.fromkeys(note for one in results for note in one.notes), *_untold(results, worst)],
    )


def _weight(run: RunResult) -> tuple[int, bool, bool]:
    """How much a run says of the two models: a fault, that a side does not repeat itself, that they are the same."""
    errors = sum(finding.severity == "error" for finding in run.findings)
    return errors, any(finding.rule == "nondeterminism" for finding in run.findings), not run.inconclusive


def _of_other_sets(results: Sequence[RunResult], worst: RunResult, options: DiffOptions) -> list[Finding]:
    """Errors of a kind that the worst run does not have: other inputs may show another fault."""
    known = {one.rule for one in worst.findings}
    found = []
    for number, run in enumerate(results, 1):
        new = [one for one in run.findings if one.severity == "error" and one.rule not in known]
        known.update(one.rule for one in new)
        told = [replace(one, message=f"With input set {number} of {len(results)}: {one.message}") for one in new]
        found += [_followed(_allowed(one, run, options), options) for one in told]
    return found


def _untold(results: Sequence[RunResult], worst: RunResult) -> list[str]:
    """Which sets of inputs told nothing, where another one did."""
    if worst.inconclusive:
        return []
    silent = {number: one.inconclusive for number, one in enumerate(results, 1) if one.inconclusive}
    return [f"Input set {number} of {len(results)} could not tell: {why}." for number, why in silent.items()]


def _followed(finding: Finding, options: DiffOptions) -> Finding:
    """A finding without the advice that the user has followed already."""
    fix = finding.fix
    if options.write_fix is not None:
        fix = fix.replace(" parity diff --write-fix FILE.onnx writes the graph so mended.", "")
    if options.repro is not None:
        fix = fix.replace("; parity diff --repro DIR saves both with their inputs.", ".")
    return replace(finding, fix=fix)


def _allowed(finding: Finding, run: RunResult, options: DiffOptions) -> Finding:
    """A finding of an allowed rule as a note."""
    if finding.rule not in options.allowed or finding.severity != "error":
        return finding
    limit = options.allowed[finding.rule]
    worst = max((row.relative for row in run.outputs if row.relative is not None), default=math.inf)
    if limit is not None and not worst <= limit:
        return replace(
            finding, message=f"{finding.message} It is allowed up to {limit:g}; the outputs are {worst:.3g} off."
        )
    by = options.allowed_by.get(finding.rule, "--allow")
    return replace(
        finding,
        severity="note",
        message=f"{finding.message} Allowed by {sentence(by)}",
        evidence={**finding.evidence, "allowed": by},
    )


def is_allowed(finding: Finding) -> bool:
    """Whether a finding is a note only because its rule is allowed."""
    return finding.severity == "note" and "allowed" in finding.evidence


SHAPE_RULES: Final = frozenset({"unexplained", "weights", "pooling-divisor", "shape"})
"""Findings that are of the input's shape where another shape does not show them."""


def _by_shape(finding: Finding, fine: Mapping[str, Any], wrong: Mapping[str, Any]) -> Finding:
    if finding.rule not in SHAPE_RULES:
        return finding
    shapes = [", ".join(f"{name} {list(shape)}" for name, shape in one.items()) for one in (fine, wrong)]
    return replace(
        finding,
        rule="batch-dependence",
        message=f"With inputs of shape {shapes[0]} the two are the same, with {shapes[1]} they are not. "
        f"{finding.message}",
        fix="Export with this dimension dynamic: something that depends on it was computed once, at export.",
        expected=finding.expected or "by the input's size",
        observed=finding.observed or "a size baked in at export",
    )


def _verdict(findings: Sequence[Finding], run: RunResult) -> Verdict:
    if any(finding.rule == "nondeterminism" and finding.severity == "warning" for finding in findings):
        return "inconclusive"
    if any(finding.severity == "error" for finding in findings):
        return "mismatch"
    return "inconclusive" if run.inconclusive else "pass"


def _summary(verdict: Verdict, findings: Sequence[Finding], run: RunResult) -> str:
    if verdict == "mismatch":
        errors = [one for one in findings if one.severity == "error"]
        more = f" {counted(len(errors) - 1, 'further finding')}." if len(errors) > 1 else ""
        return f"The candidate does not compute what the reference computes. {errors[0].message}{more}"
    compared = counted(run.coverage["compared"], "aligned tensor")
    if verdict == "inconclusive":
        return f"This run cannot tell: {run.inconclusive}."
    largest = max((row.excess for row in run.rows if row.excess is not None and row.status == "ok"), default=0.0)
    sigma = run.power.get("weakest_sigma")
    seen = ""
    if sigma is not None:
        seen = f"; a swapped activation would have stood out by {sigma:.3g} standard deviations or more"
        if sigma < SEEN:
            seen = "; these inputs alone could not have shown every swapped activation"
    allowed = sum(map(is_allowed, findings))
    but = f" but for {counted(allowed, 'finding')} allowed" if allowed else ""
    return (
        f"The candidate computes the same function{but}: {compared}, none farther off than {largest:.2g} times "
        f"the rounding that its type allows{seen}."
    )
