"""``parity suite``."""

from functools import partial

import click

from parity.cli.output import Output, output_options

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
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Silence after which a worker counts as hung.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Name every implementation in the findings, and show the notes."
)
@output_options
def command(
    *,
    adapters: tuple[str, ...],
    variants: tuple[str, ...],
    implementations: tuple[str, ...],
    dtypes: tuple[str, ...],
    regimes: tuple[str, ...],
    timeout: float,
    everything: bool,
    output: Output,
) -> None:
    r"""Measure which function every installed framework really computes, under each name and flag, in each dtype.

    Each implementation is compared with the exact function that it declares, value and gradient; float16 and bfloat16
    over every representable input. A function that is not what its name says ends the suite with exit code 1.

    \b
    Examples:
      parity suite
      parity suite --adapter torch --adapter jax --variant 'gelu*'
      parity suite --format json --output suite.json
    """
    from parity.cli.progress import bars  # noqa: PLC0415 – help loads no job
    from parity.jobs.suite import suite  # noqa: PLC0415
    from parity.report.suite import render  # noqa: PLC0415

    with bars(shown=output.progress) as progress:
        report = suite(
            adapters=adapters,
            variants=variants,
            implementations=implementations,
            dtypes=dtypes,
            regimes=regimes,
            timeout=timeout,
            progress=progress,
        )
    output.emit("suite", report, partial(render, everything=everything))
