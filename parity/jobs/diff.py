"""``parity diff``: where two models part, why, and whether this run could have seen it."""

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from parity.findings import environment
from parity.jobs.diff_optimizer import blamed_on_optimizer, is_optimized, plain_options
from parity.jobs.diff_options import DiffOptions, Progress
from parity.jobs.diff_prove import check_prove, prove
from parity.jobs.diff_report import DiffReport, make_report
from parity.jobs.diff_run import RunResult, Task, compare, empty_result, run_once, watch_both
from parity.jobs.diff_sides import Opened, made_sets, open_candidate, open_sides
from parity.jobs.mend import check_write_fix, with_repair
from parity.jobs.reproduction import check_repro
from parity.model_inputs import given_sets
from parity.stopwatch import Stopwatch

__all__ = ["DiffOptions", "DiffReport", "diff"]


def diff(
    reference: Any,
    candidate: Any,
    inputs: Any = None,
    *,
    options: DiffOptions | None = None,
    progress: Progress = lambda _name, _done, _total: None,
) -> DiffReport:
    """Compares two models layer by layer.

    Args:
        reference: The trusted side: a model reference as on the command line, or a live object (a torch module, an ONNX
            model, a Keras model, a JAX callable).
        candidate: The side on trial, likewise.
        inputs: Arrays by name in call order, a file of them, or a list of either; None to have them made.
        options: What else is asked.
        progress: Told a name, how much of it is done, and of how much.

    Raises:
        InputError: A model or the inputs cannot be used.
        EngineError: An engine crashed or hung.
    """
    options = options or DiffOptions()
    check_write_fix(candidate, options)
    check_repro(options)
    asked = given_sets(inputs)  # read before any model is opened
    watch = Stopwatch()
    with watch("total"):
        with ExitStack() as stack:
            with watch("start-up"):
                ours, theirs = open_sides(reference, candidate, options, stack)
            if options.prove:
                check_prove(ours)
            sets = asked or made_sets(ours, theirs, options.samples)
            results, proof = [], None
            for number, given in enumerate(sets):
                if (empty := empty_result(given)) is not None:
                    results.append(empty)
                    continue
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
                told = progress if len(sets) == 1 else _numbered(progress, number)
                task = Task(given, folder, told, watch)
                both = watch_both(ours, theirs, task, options)
                result = compare(both, task, options)
                if options.prove and not number:
                    with watch("proof"):
                        proof = prove(both, result, task, options)
                if theirs.side is not None and result.differs and is_optimized(theirs.side.adapter, options):
                    result = _without_optimizer(result, ours, candidate, task, options)
                results.append(result)
            versions = {
                f"{role} ({one.side.adapter})": dict(one.side.versions)
                for role, one in (("reference", ours), ("candidate", theirs))
                if one.side is not None
            }
        report = make_report(results, options, environment(versions, options.threads))
        report = replace(report, proof=proof, reference=ours.text, candidate=theirs.text)
        if options.write_fix is not None:
            plain = replace(options, write_fix=None, repro=None)
            again = partial(diff, reference, inputs=sets, options=plain, progress=progress)
            with watch("write-fix"):
                report = with_repair(report, results, candidate, options, again)
    return replace(report, timing=watch.seconds)


def _without_optimizer(result: RunResult, ours: Opened, candidate: Any, task: Task, options: DiffOptions) -> RunResult:
    """The result with what only the candidate's graph optimiser does told so."""
    plain = plain_options(options)
    folder = task.folder / "plain"
    folder.mkdir()
    with ExitStack() as stack:
        theirs = open_candidate(candidate, plain, stack)
        with task.watch("without the optimiser"):
            again = run_once(ours, theirs, Task(task.given, folder, task.progress, impact=False), plain)
    return blamed_on_optimizer(result, again, options)


def _numbered(progress: Progress, number: int) -> Progress:
    return lambda name, done, total: progress(f"{name} {number + 1}", done, total)
