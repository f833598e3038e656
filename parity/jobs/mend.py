"""``--write-fix``: the candidate's file with what can be mended in it, and the diff once more on that."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from parity.adapter import load_adapter
from parity.diagnose.diagnosis import Fault
from parity.edits import Edit, Outcome, joined, pack
from parity.errors import InputError, ParityError
from parity.findings import Finding
from parity.jobs.diff_options import DiffOptions
from parity.jobs.diff_report import DiffReport, Left, Repair
from parity.jobs.diff_run import RunResult
from parity.measure import mending
from parity.models import ModelReference
from parity.sides import found_model
from parity.worker import Worker

MENDED: Final = frozenset({"onnxruntime"})
"""Adapters that write mended models."""


def check_write_fix(candidate: Any, options: DiffOptions) -> None:
    """Sees to it that a mended candidate can be written where it is to be, before anything is run.

    Raises:
        InputError: It cannot.
    """
    file = options.write_fix
    if file is None:
        return
    found = found_model(candidate)
    adapter = found.adapter if isinstance(found, ModelReference) else found[1]
    if adapter not in MENDED:
        raise InputError(
            "--write-fix mends ONNX models, and the candidate is none.",
            hint="Leave it out: each finding's `fix` says what to change by hand.",
        )
    if file.suffix != ".onnx":
        raise InputError(f"--write-fix {file}: the name has to end in .onnx.", hint="As in --write-fix mended.onnx.")
    for one in (file, file.with_name(f"{file.name}.data")):
        if one.exists() or one.is_symlink():
            raise InputError(
                f"--write-fix {file}: '{one}' is there already.", hint="Nothing is overwritten; name another."
            )
    if not file.parent.is_dir():
        raise InputError(f"--write-fix {file}: there is no folder '{file.parent}'.", hint="Make it first.")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise InputError(
            f"--write-fix {file}: nothing can be written to '{file.parent}'.", hint="Name a file elsewhere."
        )


@dataclass
class _Plan:
    """What is to be mended, and what cannot be.

    Attributes:
        edits: Each with the finding that it mends.
        left: What there is no edit for.
    """

    edits: list[tuple[Edit, Finding]] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    def add(self, finding: Finding, faults: Sequence[Fault]) -> None:
        """Takes in a finding of the graph as the file has it."""
        without = sum(not fault.hypothesis.edits for fault in faults)
        if without:
            where = "" if without == len(faults) else f"At {without} of its {len(faults)} places: "
            self.left.append(
                _left(finding, f"{where}it is not known how to mend that in the file. {finding.fix}".strip())
            )
        for edit in (edit for fault in faults for edit in fault.hypothesis.edits):
            self._add(edit, finding)

    def _add(self, edit: Edit, finding: Finding) -> None:
        for k, (other, first) in enumerate(self.edits):
            both = joined(other, edit)
            if both is not None:
                self.edits[k] = (both, first)
                return
        self.edits.append((edit, finding))


def with_repair(
    report: DiffReport,
    results: Sequence[RunResult],
    candidate: Any,
    options: DiffOptions,
    again: Callable[[Path], DiffReport],
) -> DiffReport:
    """The report with what came of mending the candidate.

    Args:
        report: Of the candidate as it is.
        results: Of each set of inputs.
        candidate: As the user named it.
        options: With the file to write.
        again: Compares the model of that file as the candidate was compared.

    Raises:
        InputError: The file cannot be written.
        EngineError: The worker that writes it died.
    """
    assert options.write_fix is not None  # noqa: S101 – otherwise nobody asks
    file = options.write_fix.absolute()
    plan = _plan(report, results)
    outcomes = _mend(candidate, [edit for edit, _ in plan.edits], file, options) if plan.edits else []
    done = list(dict.fromkeys(one.told for one in outcomes if one.done))
    failed = [_left(finding, one.told) for (_, finding), one in zip(plan.edits, outcomes, strict=True) if not one.done]
    left = list(dict.fromkeys([*plan.left, *failed]))
    if not done:
        found = "Nothing that was found can be mended in the candidate's file" if left else "There is nothing to mend"
        return replace(
            report, repair=Repair(file=None, edits=[], left=left, verdict=None, summary=f"{found}: none was written.")
        )
    try:
        second = again(file)
    except ParityError as error:
        repair = Repair(file=str(options.write_fix), edits=done, left=left, verdict="error", summary=error.message)
        return replace(report, repair=repair)
    repair = Repair(
        file=str(options.write_fix),
        edits=done,
        left=left if second.verdict != "pass" else [],  # what they told of was a consequence, or the optimiser's
        verdict=second.verdict,
        summary=second.summary,
        outputs=second.outputs,
    )
    return replace(report, repair=repair)


def _plan(report: DiffReport, results: Sequence[RunResult]) -> _Plan:
    """What to mend: the faults that the candidate has without its optimiser, on whichever inputs they showed."""
    plan = _Plan()
    allowed = {one.rule for one in report.findings if one.severity == "note"}
    for result in results:
        plain = result.plain or result
        known = {id(finding) for finding, _ in plain.faults}
        for finding, faults in plain.faults:
            if finding.severity == "error" and finding.rule not in allowed:
                plan.add(finding, faults)
        for finding in _others(plain.findings, known):
            plan.left.append(_left(finding, f"No edit of the file mends that. {finding.fix}".strip()))
        for finding in result.findings:
            if finding.rule == "graph-optimizer" and finding.severity == "error":
                plan.left.append(_left(finding, f"The file has no part in it. {finding.fix}"))
    return plan


def _others(findings: Iterable[Finding], known: set[int]) -> Iterator[Finding]:
    """Errors that no fault of an operator is behind."""
    yield from (one for one in findings if one.severity == "error" and id(one) not in known)


def _left(finding: Finding, why: str) -> Left:
    return Left(finding.rule, finding.message, why)


def _mend(candidate: Any, edits: Sequence[Edit], file: Path, options: DiffOptions) -> list[Outcome]:
    """Has the candidate's adapter make the edits, in a process of its own but for live objects."""
    packed = pack(edits)
    arguments = {"edits": list(packed.data), "file": str(file)}
    found = found_model(candidate)
    if isinstance(found, ModelReference):
        with Worker(found.adapter, timeout=options.timeout, python=options.candidate_python) as worker:
            job = f"{mending.__name__}:{mending.mend.__name__}"
            (told,) = worker.call(job, {"model": found.text, **arguments}, packed.arrays)
    else:
        model, adapter = found
        (told,) = mending.mend(load_adapter(adapter), model, packed.data, str(file), **packed.arrays)
    return [Outcome(done=done, told=text) for done, text in told.data["outcomes"]]
