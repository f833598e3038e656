"""``parity identify``."""

import click

from parity.cli.output import Output, output_options, timeout_option


@click.command(name="identify")
@click.argument("target")
@click.option("--adapter", metavar="NAME", help="Whose tensors the function takes, where its package does not tell.")
@click.option(
    "--dtype", default="float32", show_default=True, metavar="NAME", help="Dtype that a function is called with."
)
@timeout_option(300.0, "When a function counts as hung.")
@click.option("--expect", metavar="VARIANT", help="The variant that it has to be; any other ends with exit code 1.")
@output_options
def command(
    *, target: str, adapter: str | None, dtype: str, expect: str | None, timeout: float, output: Output
) -> None:
    """Say which activation function TARGET is, below the rounding if need be.

    \b
    TARGET is one of
      torch.nn.functional:gelu    a function of an installed package
      path/to/file.py:function    a function in a file, which is executed
      samples.npz                 tensors x and y, any float dtype
      samples.safetensors         the same; carries bfloat16
    """
    from parity.jobs.identify import identify  # noqa: PLC0415 – help loads no job
    from parity.report.identify import render  # noqa: PLC0415

    output.emit("identify", identify(target, adapter=adapter, dtype=dtype, expect=expect, timeout=timeout), render)
