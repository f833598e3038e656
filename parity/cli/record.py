"""``parity record``."""

from pathlib import Path

import click

from parity.cli.diff import DTYPES, LEVELS
from parity.cli.output import Output, output_options, timeout_option
from parity.cli.progress import bars


@click.command(name="record")
@click.argument("model")
@click.option("-o", "--trace", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Where.")
@click.option(
    "--inputs", "inputs", type=click.Path(path_type=Path), metavar="FILE", help="Inputs, .npz or .safetensors."
)
@click.option("--dtype", type=DTYPES, help="Run the model in this type.")
@click.option("--optimization", type=LEVELS, help="Level of ONNX Runtime's optimiser; all, as deployed.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of the engine.")
@timeout_option(600.0, "When the engine counts as hung.")
@output_options
def command(
    *,
    model: str,
    folder: Path,
    inputs: Path | None,
    dtype: str | None,
    optimization: str | None,
    threads: int,
    timeout: float,
    output: Output,
) -> None:
    """Record a run of MODEL into a folder, for a diff with what cannot be run here.

    The trace holds every tensor of the run, the operators, versions, options, and hashes of inputs and model. A
    recording that was ended before it was done leaves a folder that says so, and is replaced by the next one.

    \b
    parity record torch:model.py:build -o trace --inputs batch.npz
    parity diff trace model.onnx
    """
    from parity.jobs.record import RecordOptions, record  # noqa: PLC0415 – help loads no job
    from parity.report.record import render  # noqa: PLC0415

    asked = RecordOptions(dtype=dtype, optimization=optimization, threads=threads, timeout=timeout)
    with bars(shown=output.progress) as progress:
        report = record(model, folder, inputs, options=asked, progress=progress)
    output.emit("record", report, render)
