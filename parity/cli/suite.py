"""``parity suite``."""

from functools import partial
from pathlib import Path

import click

from parity.cli.output import FORMATS, Output, output_options_in, timeout_option

filtered = partial(click.option, multiple=True, metavar="NAME")


@click.command(name="suite")
@filtered("--adapter", "adapters", help="Only this framework. Repeatable, like all filters.")
@filtered(
    "--variant",
    "variants",
    help="Only implementations that declare this variant, as gelu_tanh; * and ? match.",
)
@filtered(
    "--implementation",
    "implementations",
    help="Only this implementation, as 'jax.nn.gelu (jit)'; * and ? match.",
)
@filtered("--dtype", "dtypes", help="Only float64, float32, float16 or bfloat16.")
@filtered("--regime", "regimes", help="Only rows of all, dense, normal, tails, subnormal or special.")
@click.option(
    "--exhaustive",
    is_flag=True,
    help="Also all 2^32 inputs of float32, for what --implementation or --variant choose; hours, but resumable.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where --exhaustive keeps how far it has come; by default in the user's cache folder.",
)
@click.option(
    "--timing",
    is_flag=True,
    help="Also a table of time per element, against the framework's exact GELU and ReLU; minutes.",
)
@click.option("--patterns", type=(int, int), default=(0, 2**32), hidden=True, help="The float32 inputs to try.")
@timeout_option(300.0, "Silence after which a worker counts as hung.")
@click.option(
    "--all", "everything", is_flag=True, help="Name every implementation in the findings, and show the notes."
)
@output_options_in(*FORMATS, "html")
def command(
    *,
    adapters: tuple[str, ...],
    variants: tuple[str, ...],
    implementations: tuple[str, ...],
    dtypes: tuple[str, ...],
    regimes: tuple[str, ...],
    exhaustive: bool,
    state: Path | None,
    timing: bool,
    patterns: tuple[int, int],
    timeout: float,
    everything: bool,
    output: Output,
) -> None:
    """Measure which function every installed framework really computes, under each name and flag, in each dtype.

    Each implementation is compared with the exact function that it declares, value and gradient; float16 and bfloat16
    over every representable input. A function that is not what its name says ends the suite with exit code 1.

    \b
    Examples:
      parity suite
      parity suite --adapter torch --adapter jax --variant 'gelu*'
      parity suite --format json --output suite.json
      parity suite --exhaustive --implementation torch.nn.functional.gelu
    """
    if state and not exhaustive:
        raise click.UsageError("--state is for --exhaustive.")
    from parity.cli.progress import bars  # noqa: PLC0415 – help loads no job
    from parity.jobs.exhaustive import Exhaustive  # noqa: PLC0415
    from parity.jobs.suite import suite  # noqa: PLC0415
    from parity.report.suite import render  # noqa: PLC0415

    try:
        with bars(shown=output.progress) as progress:
            report = suite(
                adapters=adapters,
                variants=variants,
                implementations=implementations,
                dtypes=dtypes,
                regimes=regimes,
                timing=timing,
                exhaustive=Exhaustive(state=state, start=patterns[0], stop=patterns[1]) if exhaustive else None,
                timeout=timeout,
                progress=progress,
            )
    except KeyboardInterrupt:
        if exhaustive:
            click.echo("parity: what was measured of all float32 inputs is kept; the same command goes on.", err=True)
        raise
    output.emit("suite", report, partial(render, everything=everything))
