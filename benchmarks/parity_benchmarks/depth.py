"""`parity diff` on encoders of more and more layers: its memory must not grow with their number."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from parity_benchmarks.contenders import MODELS, Plain, Run, parity, plain
from parity_benchmarks.processes import python, run
from parity_benchmarks.tables import TIMES, megabytes, memory, seconds, table, within


@dataclass(frozen=True, slots=True)
class Depth:
    """What was measured of one number of layers."""

    layers: int
    torch: Plain
    onnx: Plain
    diff: Run

    def json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def measure(depths: Sequence[int]) -> Iterator[Depth]:
    """Makes an encoder of each depth and runs it plain and compared."""
    for layers in depths:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as made:
            folder = Path(made)
            run(python(MODELS, "bert", made, str(layers)))
            inputs, model, graph = folder / "inputs.npz", f"hf:{folder / 'model'}", str(folder / "clean.onnx")
            yield Depth(layers, plain(model, inputs), plain(graph, inputs), parity(model, graph, inputs))


def tables(depths: Sequence[Depth]) -> Iterator[Table]:
    """What is printed of it."""
    made = table(
        "parity diff by depth (BERT 256 wide, 2 × 64 tokens): beside a plain run of each side",
        *("layers", "verdict", "work", "work ÷ plain passes", "command", "plain torch", "reference"),
        *("plain ONNX", "candidate"),
    )
    for one in depths:
        times, peaks = one.diff.work / (one.torch.forward + one.onnx.forward), one.diff.peaks
        made.add_row(
            str(one.layers),
            one.diff.said["verdict"],
            seconds(one.diff.work),
            within(times, TIMES, f"{times:.1f} ×"),
            memory(peaks["command"], 0),
            megabytes(one.torch.peak),
            memory(peaks["reference"], one.torch.peak),
            megabytes(one.onnx.peak),
            memory(peaks["candidate"], one.onnx.peak),
        )
    yield made
