"""``parity check``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import click
from click.core import ParameterSource

from parity.cli.diff import allowed_rule
from parity.cli.output import FORMATS, Output, output_options_in, timeout_option
from parity.cli.progress import bars


@click.command(name="check")
@click.argument("model", metavar="[MODEL]", required=False)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Where the model is to be deployed; repeatable. By default the first that its framework exports to.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="parity.toml or pyproject.toml with the checks to do where no MODEL is named; by default that of this folder.",
)
@click.option("--candidate", metavar="FILE", help="An export that you have, in place of one made here.")
@click.option(
    "--inputs",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Inputs by name, .npz or .safetensors; repeatable. Without, they are made from the model's signature.",
)
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="How many inputs are made.")
@click.option("--opset", type=int, metavar="N", help="Of ONNX; the exporter's default otherwise.")
@click.option("--prove", is_flag=True, help="Inject known faults first, and say how many of them this run catches.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="The least severity that fails the check.",
)
@click.option(
    "--allow", "allowed", multiple=True, metavar="RULE[=VALUE]", help="As for parity diff; the report says so."
)
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep the exports in this folder.")
@click.option("--no-cache", is_flag=True, help="Check again what was checked before.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of the engines.")
@timeout_option(600.0, "When an engine counts as hung.")
@output_options_in(*FORMATS, "html")
def command(
    *,
    model: str | None,
    config: Path | None,
    targets: Sequence[str],
    candidate: str | None,
    files: Sequence[Path],
    samples: int,
    opset: int | None,
    prove: bool,
    fail_on: Literal["error", "warning"],
    allowed: Sequence[str],
    keep: Path | None,
    no_cache: bool,
    threads: int,
    timeout: float,
    output: Output,
) -> None:
    """The gate before export: scan MODEL's config, probe it, export it to each target, and compare.

    Without MODEL, the checks of parity.toml, or of [tool.parity] in pyproject.toml, are done.

    \b
    parity check hf:./bert --target onnxruntime --prove
    parity check torch:model.py:build --target onnxruntime --target torch-export --inputs batch.npz
    parity check hf:./bert --candidate model.onnx
    """
    from parity.jobs.check import CheckOptions, check  # noqa: PLC0415 – help loads no job
    from parity.jobs.check_project import check_project  # noqa: PLC0415
    from parity.report.check import render, render_project  # noqa: PLC0415

    options = CheckOptions(
        targets=targets,
        candidate=candidate,
        opset=opset,
        prove=prove,
        fail_on=fail_on,
        samples=samples,
        allowed=dict(allowed_rule(one) for one in allowed),
        keep=keep,
        cache=not no_cache,
        threads=threads,
        timeout=timeout,
    )
    with bars(shown=output.progress) as progress:
        if model is None and (given := _given()):
            raise click.UsageError(
                f"{given} is for a MODEL that is named: without one, it stands in parity.toml for each check."
            )
        if model is None:
            project = check_project(config, options=options, progress=progress)
            output.emit("check", project, render_project)
        elif config is not None:
            raise click.UsageError("--config is for a check without MODEL.")
        report = check(model, list(files) or None, options=options, progress=progress)
    output.emit("check", report, render)


OF_PROJECT: Final = frozenset(
    {"model", "config", "no_cache", "threads", "timeout", "form", "file", "also", "quiet", "no_progress"}
)
"""Parameters that hold for the checks of a project, too."""


def _given() -> str:
    """The first option on the command line that is of one model alone; empty for none."""
    context = click.get_current_context()
    for one in context.command.params:
        told = context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        if told and one.name not in OF_PROJECT:
            return one.opts[0]
    return ""
