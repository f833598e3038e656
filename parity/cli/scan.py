"""``parity scan``."""

import click

from parity.cli.output import FORMATS, Output, output_options_in
from parity.errors import CONTROLS, InputError


@click.command(name="scan")
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME",
    help="Also say what this runtime or library would compute; repeatable. --target help lists them.",
)
@click.option("--against", metavar="GRAPH", help="A graph, or a folder with one, that has to compute what PATH says.")
@click.option(
    "--library",
    "libraries",
    multiple=True,
    metavar="NAME=VERSION",
    help="The library that is going to run the model, as transformers=4.38; the newest known is assumed.",
)
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--measure", is_flag=True, help="Check what is known of a target by running it, where it is installed.")
@output_options_in(*FORMATS, "html")
def command(
    *,
    paths: tuple[str, ...],
    targets: tuple[str, ...],
    against: str | None,
    libraries: tuple[str, ...],
    strict: bool,
    measure: bool,
    output: Output,
) -> None:
    """Say which function every activation field or subgraph of files computes; nothing in them is executed.

    PATH is a file, a folder that is walked, or - for standard input: config.json of Hugging Face, diffusers, open_clip,
    sentence-transformers, timm and Keras, .keras, .gguf, .onnx, .tflite, SavedModel, .pt2.

    \b
    parity scan config.json --target vllm --target tensorrt-llm
    parity scan config.json --against model.onnx
    """
    from parity.jobs.scan import scan  # noqa: PLC0415 – help loads no job
    from parity.report.scan import render  # noqa: PLC0415
    from parity.scanner.knowledge.targets import target_names  # noqa: PLC0415

    if "help" in targets:
        click.echo("\n".join(target_names()))
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATH…': a file, a folder or - for standard input.")
    report = scan(
        paths, targets, against=against, strict=strict, measure=measure, versions=dict(map(_version, libraries))
    )
    for one in report.coverage["unreadable"]:
        click.echo(f"parity: {one['message']} {one['hint']}".rstrip().translate(CONTROLS), err=True)
    output.emit("scan", report, render, exit_code=report.exit_code)


def _version(text: str) -> tuple[str, str]:
    """``NAME=VERSION``.

    Raises:
        InputError: It is something else.
    """
    name, _, version = text.replace("==", "=").partition("=")
    if not name or not version:
        raise InputError(f"--library {text} is not of the form NAME=VERSION.", hint="For example transformers=4.38.")
    return name, version
