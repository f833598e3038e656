"""``parity diff``: where two models part, why, and whether this run could have seen it."""

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.adapter import Array
from parity.align.view import GraphView
from parity.findings import environment
from parity.jobs.diff_optimizer import blamed_on_optimizer, is_optimized, plain_options
from parity.jobs.diff_options import DiffOptions, Progress
from parity.jobs.diff_report import DiffReport, make_report
from parity.jobs.diff_run import Opened, RunResult, Task, run_once, specs_of
from parity.model_inputs import given_inputs, make_inputs
from parity.models import ModelReference
from parity.sides import Side, SideOptions, found_model
from parity.trace.store import read_trace

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
    given_sets = _given_sets(inputs)
    with ExitStack() as stack:
        ours = _open("reference", reference, options, stack)
        theirs = _open("candidate", candidate, options, stack)
        sets = given_sets or _made_sets(ours, theirs, options)
        results = []
        for number, given in enumerate(sets):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
            told = progress if len(sets) == 1 else _numbered(progress, number)
            task = Task(given, folder, told)
            result = run_once(ours, theirs, task, options)
            if theirs.side is not None and result.differs and is_optimized(theirs.side.adapter, options):
                result = _without_optimizer(result, ours, candidate, task, options)
            results.append(result)
        versions = {
            f"{role} ({one.side.adapter})": dict(one.side.versions)
            for role, one in (("reference", ours), ("candidate", theirs))
            if one.side is not None
        }
    return make_report(results, options, environment(versions, options.threads))


def _without_optimizer(result: RunResult, ours: Opened, candidate: Any, task: Task, options: DiffOptions) -> RunResult:
    """The result with what only the candidate's graph optimiser does told so."""
    plain = plain_options(options)
    folder = task.folder / "plain"
    folder.mkdir()
    with ExitStack() as stack:
        theirs = _open("candidate", candidate, plain, stack)
        return blamed_on_optimizer(result, run_once(ours, theirs, replace(task, folder=folder), plain), options)


def _numbered(progress: Progress, number: int) -> Progress:
    return lambda name, done, total: progress(f"{name} {number + 1}", done, total)


def _open(role: str, model: Any, options: DiffOptions, stack: ExitStack) -> Opened:
    of_reference = role == "reference"
    dtype = options.reference_dtype if of_reference else options.candidate_dtype
    found = found_model(model)
    if isinstance(found, ModelReference) and found.is_trace:
        return Opened(None, GraphView(read_trace(Path(found.text))), found.text, dtype)
    level = options.reference_optimization if of_reference else options.candidate_optimization
    asked = {"dtype": dtype, "optimization": level}
    if not of_reference:
        asked |= {f"session_config.{key}": value for key, value in options.candidate_session_config.items()}
    asked["threads"] = str(options.threads)
    python = options.reference_python if of_reference else options.candidate_python
    side = Side(
        role,
        found,
        SideOptions(
            options={key: value for key, value in asked.items() if value is not None},
            python=python,
            threads=options.threads,
            timeout=options.timeout,
        ),
    )
    stack.enter_context(side)
    return Opened(side, None, side.text, dtype)


def _given_sets(inputs: Any) -> list[dict[str, Array]]:
    """The sets of inputs that the user gave, read before any model is opened."""
    given = inputs if isinstance(inputs, list) else [] if inputs is None else [inputs]
    return [given_inputs(one) for one in given]


def _made_sets(ours: Opened, theirs: Opened, options: DiffOptions) -> list[dict[str, Array]]:
    """Inputs of a recorded trace, or made from the signature of the side that has one."""
    for one in (ours, theirs):
        if one.view is not None:
            trace = one.view.trace
            return [{name: trace.array(tensor) for name, tensor in trace.ends.inputs.items()}]
    specs = specs_of(ours) or specs_of(theirs)
    return [make_inputs(specs, number) for number in range(options.samples)]
