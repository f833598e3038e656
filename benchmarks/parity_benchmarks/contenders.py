"""What is run: plain passes, `parity diff` and its peers; each in new processes, each told in the same words."""

import json
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity_benchmarks.processes import Finished, Process, python, run

HERE: Final = Path(__file__).parent
MODELS: Final = HERE / "models.py"
LOOSE: Final = 1e-3
"""The tolerance that people reach for where the default one fails."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A plain run of one side: seconds to start and of one forward pass, and its peak memory in bytes."""

    start_up: float
    forward: float
    peak: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a contender.

    Attributes:
        seconds: Wall time, all of it.
        start_up: Seconds of it before the models are ready; None for tools that do not say.
        peaks: Peak memory in bytes by what a process does.
        own: Likewise, of memory that is no file's.
        said: ``verdict``, ``cause`` and ``place`` in words.
        parts: Seconds by the part of the job, for tools that say.
    """

    seconds: float
    start_up: float | None
    peaks: Mapping[str, int]
    own: Mapping[str, int]
    said: Mapping[str, str]
    parts: Mapping[str, float]

    @property
    def work(self) -> float:
        """Seconds without what is known to be start-up."""
        return self.parts["total"] - (self.start_up or 0.0) if "total" in self.parts else self.seconds


def plain(model: str, inputs: Path, passes: int = 5) -> Plain:
    """A plain run of a side, on one thread."""
    finished = run(python(HERE / "plain.py", model, str(inputs), str(passes)))
    told = json.loads(finished.out)
    return Plain(told["start-up"], told["forward"], finished.peak)


def parity(reference: str, candidate: str, inputs: Path) -> Run:
    """`parity diff`."""
    command = [sys.executable, "-m", "parity", "diff", reference, candidate, "--inputs", str(inputs)]
    finished = run([*command, "--timing", "--format", "json", "--timeout", "3600"], codes=(0, 1, 3))
    report = json.loads(finished.out)
    found = [one for one in report["findings"] if one["severity"] == "error"]
    causes = [" → ".join(filter(None, (one.get("expected"), one.get("observed")))) for one in found]
    said = {
        "verdict": report["verdict"],
        "cause": "; ".join(f"{one['rule']} {cause}".strip() for one, cause in zip(found, causes, strict=True)) or "–",
        "place": "; ".join(_place(one) for one in found) or "–",
    }
    processes = _sides(finished)
    return Run(
        seconds=finished.seconds,
        start_up=report["timing"]["start-up"],
        peaks={name: process.peak for name, process in processes.items()},
        own={name: process.own for name, process in processes.items()},
        said=said,
        parts=report["timing"],
    )


def polygraphy(reference: Path, candidate: Path, inputs: Path) -> Run:
    """Polygraphy, every tensor an output, one side after the other; its own tolerances, and infinities are equal."""
    from polygraphy.json import save_json  # noqa: PLC0415 – the other benchmarks do without it

    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        given, outputs, results = (str(Path(folder) / f"{name}.json") for name in ("inputs", "outputs", "results"))
        save_json([dict(np.load(inputs))], given)
        command = [str(Path(sys.executable).with_name("polygraphy")), "run"]
        how = ["--onnxrt", "--onnx-outputs", "*", "--load-inputs", given]
        first = run([*command, str(reference), *how, "--save-outputs", outputs])
        how += ["--load-outputs", outputs, "--save-accuracy-results", results, "--infinities-compare-equal"]
        second = run([*command, str(candidate), *how], codes=(0, 1))
        (_, (found,)) = json.loads(Path(results).read_text())["lst"][0]["lst"][0]
    failed = {name: one for name, one in found.items() if not (one and one["passed"])}
    shapes = sum(not one for one in failed.values())  # matched by name, and not compared
    far = sum(bool(one) and not one["max_absdiff"] <= LOOSE for one in failed.values())
    said = {
        "verdict": f"{'FAILED' if second.code else 'PASSED'}: {len(failed)} of {len(found)} matched tensors"
        f" ({shapes} of another shape, {far} by more than {LOOSE:g})",
        "cause": "–",
        "place": f"first: {next(iter(failed))}" if failed else "–",
    }
    sides = {"reference": first, "candidate": second}
    return Run(
        seconds=first.seconds + second.seconds,
        start_up=None,
        peaks={name: one.peak for name, one in sides.items()},
        own={name: max(process.own for process in one.processes) for name, one in sides.items()},
        said=said,
        parts={},
    )


def verification(program: Path, model: Path, inputs: Path) -> Run:
    """`torch.onnx.verification` with intermediates; the exporter has done its work before."""
    finished = run(python(HERE / "verification.py", str(program), str(model), str(inputs)))
    told = json.loads(finished.out)
    said = {
        "verdict": f"none: {told['compared']} values, {told['warned']} with a warning",
        "cause": "–",
        "place": f"first: {told['first']}" if told["first"] else "–",
    }
    own = max(process.own for process in finished.processes)
    return Run(finished.seconds, None, {"both sides": finished.peak}, {"both sides": own}, said, {})


def interleaved(
    jobs: Mapping[tuple[str, str], Callable[[], Any]], repeats: int, once: Collection[str] = ()
) -> dict[tuple[str, str], list[Any]]:
    """What each job returned, run in turns, so that a busy machine slows all alike.

    Args:
        jobs: By name and what it is run on.
        repeats: Turns.
        once: Names of those that are run in the first turn only.
    """
    found: dict[tuple[str, str], list[Any]] = {name: [] for name in jobs}
    for turn in range(repeats):
        for name, job in jobs.items():
            if turn and name[0] in once:
                continue
            print(f"{turn + 1}/{repeats} {', '.join(name)}", file=sys.stderr, flush=True)
            found[name].append(job())
    return found


def _sides(finished: Finished) -> dict[str, Process]:
    """The processes of a diff by what they do: its workers are started in order, the reference's first."""
    workers = [process for process in finished.processes if "parity.worker" in process.words]
    named = dict(zip(("reference", "candidate"), workers, strict=False))
    return {"command": finished.processes[0], **named}


def _place(finding: Mapping[str, Any]) -> str:
    place = finding["location"].get("reference") or finding["location"].get("candidate") or {}
    return str(place.get("scope") or place.get("tensor") or place) if isinstance(place, dict) else str(place)
