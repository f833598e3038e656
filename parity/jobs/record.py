"""``parity record``: a run of one model on disk, for a later diff."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from parity.errors import InputError
from parity.findings import Finding, Report, Verdict, counted, environment
from parity.jobs.diff_options import Progress
from parity.model_inputs import given_inputs, make_inputs
from parity.models import ModelReference
from parity.sides import Side, SideOptions, found_model
from parity.trace.store import clear_unfinished, is_trace

BLOCK: Final = 2**20
"""Bytes of a file hashed at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """How the model is to be run.

    Attributes:
        dtype: Type in which it runs; None for its own.
        optimization: Level of the engine's optimiser; None for its default.
        threads: That the engine may use.
        timeout: Seconds of silence after which it counts as hung.
        python: The interpreter of its environment.
    """

    dtype: str | None = None
    optimization: str | None = None
    threads: int = 1
    timeout: float = 600.0
    python: str = sys.executable


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReport(Report):
    """What was recorded.

    Attributes:
        verdict: Always pass: what could not be recorded is an error.
        summary: One sentence.
        findings: None.
        trace: The folder.
        coverage: Operators, tensors, bytes.
        environment: Versions, threads.
        notes: What a reader of the trace should know, as sentences.
    """

    verdict: Verdict
    summary: str
    findings: Sequence[Finding]
    trace: str
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]
    notes: Sequence[str]


def record(
    model: Any,
    folder: str | Path,
    inputs: Any = None,
    *,
    options: RecordOptions | None = None,
    progress: Progress = lambda _name, _done, _total: None,
) -> RecordReport:
    """Records one run.

    Args:
        model: A model reference as on the command line, or a live object.
        folder: Where; made if need be. What an ended recording left there is replaced, a whole trace is not.
        inputs: Arrays by name in call order, or a file of them; None to have them made.
        options: How to run it.
        progress: Told a name, how much of it is done, and of how much.

    Raises:
        InputError: The model, the inputs or the folder cannot be used.
        EngineError: The engine crashed or hung.
    """
    options = options or RecordOptions()
    folder = Path(folder)
    _check(folder)
    found = found_model(model)
    if isinstance(found, ModelReference) and found.is_trace:
        raise InputError(f"{found.text} is a recorded trace already.", hint="Name the model that it is to be made of.")
    asked = {"dtype": options.dtype, "optimization": options.optimization, "threads": str(options.threads)}
    given = {key: value for key, value in asked.items() if value is not None}
    how = SideOptions(options=given, threads=options.threads, timeout=options.timeout, python=options.python)
    with Side("model", found, how) as side:
        arrays = _inputs(inputs, side)
        progress("recording", 0, 1)
        facts = {"model": side.text, "model_hash": model_hash(side.text), "adapter": side.adapter, "options": given}
        trace = side.record(arrays, folder, facts).trace
        progress("recording", 1, 1)
        versions = {side.adapter: dict(side.versions)}
    size = sum(one.stat().st_size for one in folder.iterdir())
    operators, tensors = counted(len(trace.sites), "operator"), counted(len(trace.tensors), "tensor")
    return RecordReport(
        verdict="pass",
        summary=f"Recorded {operators} and {tensors} of {side.text} in {folder}, {size / 1e6:.3g} MB.",
        findings=(),
        trace=str(folder),
        coverage={"operators": len(trace.sites), "tensors": len(trace.tensors), "bytes": size},
        environment=environment(versions, options.threads),
        notes=trace.ends.notes,
    )


def _check(folder: Path) -> None:
    """Refuses a folder that holds something else, and clears what an ended recording left."""
    if not folder.exists() or clear_unfinished(folder):
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder.", hint="Name a new folder for the trace.")
    if is_trace(folder):
        raise InputError(f"{folder} already holds a recorded trace.", hint="Name another folder, or remove this one.")
    if any(folder.iterdir()):
        raise InputError(f"{folder} is not empty.", hint="Name a new folder for the trace.")


def _inputs(inputs: Any, side: Side) -> dict[str, Any]:
    return make_inputs(side.specs, models=[side.text]) if inputs is None else given_inputs(inputs)


def model_hash(text: str) -> str | None:
    """SHA-256 of a model's file, or of a folder's files in the order of their names; None for a live object.

    Of ``torch:FILE.py:NAME`` and the like it is that of the file.
    """
    path = Path(text)
    if not path.exists() and text.count(":"):
        rest = text.partition(":")[2]
        path = Path(rest) if Path(rest).exists() else Path(rest.rpartition(":")[0])
    if not path.exists() or not path.name:
        return None
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    total = hashlib.sha256()
    for one in files:
        with one.open("rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    return total.hexdigest()
