"""`parity diff` beside its peers, on real weights: a clean pair, and one with one GELU of six swapped."""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from parity_benchmarks.contenders import MODELS, Plain, Run, interleaved, parity, plain, polygraphy, verification
from parity_benchmarks.processes import python, run
from parity_benchmarks.tables import TIMES, megabytes, memory, seconds, table, within

PARITY: Final = "parity diff, torch → ONNX"
PARITY_ONNX: Final = "parity diff, ONNX → ONNX"
POLYGRAPHY: Final = "Polygraphy, ONNX → ONNX"
VERIFICATION: Final = "torch.onnx.verification"

ONCE: Final = frozenset({VERIFICATION})
"""Contenders that are run once, whatever the repeats: they take minutes."""

SIDES: Final[Mapping[str, tuple[str, str]]] = {
    PARITY: ("torch", "clean"),
    PARITY_ONNX: ("reference", "clean"),
    POLYGRAPHY: ("reference", "clean"),
    VERIFICATION: ("torch", "clean"),
}
"""The plain runs of the sides that a contender compares."""


@dataclass(frozen=True, slots=True)
class Peers:
    """What was measured: plain runs by side, and the runs of each contender on each pair."""

    plain: Mapping[str, Sequence[Plain]]
    runs: Mapping[tuple[str, str], Sequence[Run]]

    def forwards(self, contender: str) -> float:
        """Seconds of one plain forward pass of each side that a contender compares."""
        return sum(statistics.median(one.forward for one in self.plain[side]) for side in SIDES[contender])

    def plain_peak(self, contender: str, process: str) -> int:
        """Peak memory of the plain run of what a process of a contender runs; 0 where it runs no model."""
        first, second = (max(one.peak for one in self.plain[side]) for side in SIDES[contender])
        return {"reference": first, "candidate": second, "both sides": first + second}.get(process, 0)

    def json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "plain": {name: [asdict(one) for one in found] for name, found in self.plain.items()},
            "runs": [
                {"contender": contender, "pair": pair, **asdict(one)}
                for (contender, pair), found in self.runs.items()
                for one in found
            ],
        }


def measure(repeats: int) -> Peers:
    """Makes the models and runs everything."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as made:
        folder = Path(made)
        run(python(MODELS, "minilm", made))
        inputs, model = folder / "inputs.npz", f"hf:{folder / 'model'}"
        files = {name: folder / f"{name}.onnx" for name in ("reference", "clean", "fault")}
        plains: dict[str, Callable[[], Any]] = {
            "torch": partial(plain, model, inputs),
            "reference": partial(plain, str(files["reference"]), inputs),
            "clean": partial(plain, str(files["clean"]), inputs),
        }
        jobs = {("plain", name): job for name, job in plains.items()}
        for pair in ("clean", "fault"):
            graph = folder / f"{pair}-dynamo.onnx"
            jobs |= {
                (PARITY, pair): partial(parity, model, str(files[pair]), inputs),
                (PARITY_ONNX, pair): partial(parity, str(files["reference"]), str(files[pair]), inputs),
                (POLYGRAPHY, pair): partial(polygraphy, files["reference"], files[pair], inputs),
                (VERIFICATION, pair): partial(verification, folder / "clean.pt2", graph, inputs),
            }
        found = interleaved(jobs, repeats, ONCE)
    return Peers(
        plain={name: found.pop(("plain", name)) for name in plains},
        runs=found,
    )


def tables(peers: Peers) -> Iterator[Table]:
    """What is printed of it."""
    yield _said(peers)
    yield _times(peers)
    yield _parts(peers)
    yield _peaks(peers)


def _said(peers: Peers) -> Table:
    made = Table(title="What each says (all-MiniLM-L6-v2, 8 × 128 tokens)", title_justify="left")
    for column in ("", "pair", "verdict", "cause", "place"):
        made.add_column(column, overflow="fold")
    for (contender, pair), runs in peers.runs.items():
        made.add_row(contender, pair, *(runs[0].said[key] for key in ("verdict", "cause", "place")))
    return made


def _times(peers: Peers) -> Table:
    made = table("Time, median", "", "pair", "runs", "whole", "start-up", "work", "plain passes", "work ÷ plain passes")
    for (contender, pair), runs in peers.runs.items():
        work, forwards = statistics.median(one.work for one in runs), peers.forwards(contender)
        starts = [one.start_up for one in runs if one.start_up is not None]
        made.add_row(
            contender,
            pair,
            str(len(runs)),
            seconds(statistics.median(one.seconds for one in runs)),
            seconds(statistics.median(starts) if starts else None),
            seconds(work if starts else None),
            seconds(forwards),
            within(work / forwards, TIMES, f"{work / forwards:.1f} ×") if starts else "–",
        )
    return made


def _parts(peers: Peers) -> Table:
    parts = {key: [one.parts for one in runs] for key, runs in peers.runs.items() if runs[0].parts}
    made = table("Time of the parts of parity diff, median", "", *(f"{name}, {pair}" for name, pair in parts))
    for part in dict.fromkeys(part for found in parts.values() for one in found for part in one):
        values = [statistics.median(one.get(part, 0.0) for one in found) for found in parts.values()]
        made.add_row(part, *map(seconds, values))
    return made


def _peaks(peers: Peers) -> Table:
    made = table("Peak memory", "", "pair", "process", "plain run", "peak")
    for (contender, pair), runs in peers.runs.items():
        for process in runs[0].peaks:
            peak = max(one.peaks[process] for one in runs)
            own = peers.plain_peak(contender, process)
            made.add_row(contender, pair, process, megabytes(own), memory(peak, own))
    return made
