"""``parity doctor``."""

import click

from parity.cli.output import Output, output_options


@click.command(name="doctor")
@output_options
def command(*, output: Output) -> None:
    """Show which adapters are installed, which extras are missing and the command that installs them.

    No framework is loaded.
    """
    from parity.jobs.doctor import doctor  # noqa: PLC0415 – help loads no job
    from parity.report.doctor import render  # noqa: PLC0415

    output.emit("doctor", doctor(), render)
