"""`parity diff` on a decoder larger than its memory should be: float16 weights, mapped from the disk."""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from parity_benchmarks.contenders import MODELS, Plain, Run, parity, plain
from parity_benchmarks.processes import python, run
from parity_benchmarks.tables import megabytes, memory, seconds, table


@dataclass(frozen=True, slots=True)
class Large:
    """What was measured; ``weights`` are the bytes of the files."""

    weights: int
    plain: Plain
    diff: Run

    def json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def measure(parameters: float, folder: str | None) -> Large:
    """Makes a decoder and its twin with another activation, runs one plain, and compares them.

    Args:
        parameters: About how many.
        folder: Where to make them; None for the system's temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=folder) as made:
        run(python(MODELS, "llama", made, str(parameters)))
        reference, candidate, inputs = (Path(made) / name for name in ("reference", "candidate", "inputs.npz"))
        weights = sum(shard.stat().st_size for shard in reference.glob("*.safetensors"))
        alone = plain(f"hf:{reference}", inputs, passes=1)
        return Large(weights, alone, parity(f"hf:{reference}", f"hf:{candidate}", inputs))


def tables(large: Large) -> Iterator[Table]:
    """What is printed of it."""
    diff = large.diff
    said = table(f"Decoder of {megabytes(large.weights)} of float16 weights, against another activation", "", "")
    said.add_row("verdict", diff.said["verdict"])
    said.add_row("cause", diff.said["cause"])
    said.add_row("place", diff.said["place"])
    said.add_row("plain forward pass", seconds(large.plain.forward))
    for part, value in diff.parts.items():
        said.add_row(part, seconds(value))
    yield said
    peaks = table("Peak memory", "process", "plain run", "peak, mapped files included", "peak, without")
    for process, peak in diff.peaks.items():
        own = 0 if process == "command" else large.plain.peak
        peaks.add_row(process, megabytes(own), memory(peak, own), megabytes(diff.own[process]))
    yield peaks
