"""``parity diff``."""

import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from parity.cli.output import FORMATS, Output, output_options_in, timeout_option
from parity.cli.progress import bars
from parity.errors import InputError

LEVELS = click.Choice(["none", "basic", "extended", "all"])
DTYPES = click.Choice(["float64", "float32", "float16", "bfloat16"])


@click.command(name="diff")
@click.argument("reference")
@click.argument("candidate")
@click.option(
    "--inputs",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Inputs by name, .npz or .safetensors; repeat it for several sets. Without it they are made.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="How many sets of inputs are made where none are given; the worst is reported.",
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON object of tensor names: the reference's to the candidate's. It goes before what is found.",
)
@click.option("--all-layers", is_flag=True, help="Show every layer, not only the guilty and their neighbours.")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="RULE[=VALUE]",
    help="Allow findings of a rule, or those up to a relative error VALUE of the outputs; the report says so.",
)
@click.option("--reference-optimization", type=LEVELS, help="Level of ONNX Runtime's optimiser; all, as deployed.")
@click.option("--candidate-optimization", type=LEVELS, help="Likewise for the candidate.")
@click.option(
    "--candidate-session-config",
    "config",
    multiple=True,
    metavar="KEY=VALUE",
    help="Entry of the candidate's ONNX Runtime session configuration.",
)
@click.option("--reference-dtype", type=DTYPES, help="Run the reference in this type: its rounding is then agreed.")
@click.option("--candidate-dtype", type=DTYPES, help="Likewise for the candidate.")
@click.option(
    "--candidate-input-perm",
    "input_perms",
    multiple=True,
    metavar="NAME:AXES",
    help="Order of axes in which the candidate takes an input, as in image:0,3,1,2.",
)
@click.option(
    "--candidate-output-perm",
    "output_perms",
    multiple=True,
    metavar="NUMBER:AXES",
    help="Order of axes in which the candidate's output is to be read, as in 0:0,2,3,1.",
)
@click.option(
    "--reference-python", default=sys.executable, metavar="PATH", help="Python of the reference's environment."
)
@click.option(
    "--candidate-python", default=sys.executable, metavar="PATH", help="Python of the candidate's environment."
)
@click.option(
    "--prove",
    is_flag=True,
    help="Put known faults into a copy of the reference, one after the other, and tell which these inputs show.",
)
@click.option(
    "--write-fix",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the ONNX candidate with what can be mended in it to this new file, and compare that too.",
)
@click.option(
    "--repro",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Save in this new folder a small reproduction of each finding, to run without the models.",
)
@click.option("--timing", is_flag=True, help="Show how long each part took, from start-up on.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of the engines.")
@timeout_option(600.0, "When an engine counts as hung.")
@output_options_in(*FORMATS, "html")
def command(
    *,
    reference: str,
    candidate: str,
    files: Sequence[Path],
    map_file: Path | None,
    all_layers: bool,
    timing: bool,
    allowed: Sequence[str],
    config: Sequence[str],
    input_perms: Sequence[str],
    output_perms: Sequence[str],
    output: Output,
    **options: object,
) -> None:
    """Compare CANDIDATE with REFERENCE layer by layer: the verdict, where they first part, why, and what to change.

    \b
    A model is a file (.onnx, .pt2, .pt, .tflite, .keras), a folder (SavedModel, Hugging
    Face, recorded trace), or torch:FILE.py:NAME, jax:FILE.py:NAME, tf:FILE.py:NAME, hf:DIR.

    \b
    parity diff torch:model.py:build model.onnx --inputs batch.npz
    parity diff hf:./bert exported.onnx --candidate-optimization all
    parity diff model.onnx model.onnx --reference-optimization none
    """
    from parity.jobs.diff import DiffOptions, diff  # noqa: PLC0415 – help loads no job
    from parity.report.diff import render  # noqa: PLC0415

    asked = DiffOptions(
        mapped=_read_map(map_file),
        allowed=dict(allowed_rule(one) for one in allowed),
        candidate_session_config=dict(_pair(one, "=", "--candidate-session-config", "KEY=VALUE") for one in config),
        candidate_input_perm=dict(_axes(one, "--candidate-input-perm") for one in input_perms),
        candidate_output_perm={
            _number(name): axes for name, axes in (_axes(one, "--candidate-output-perm") for one in output_perms)
        },
        **options,  # type: ignore[arg-type]
    )
    with bars(shown=output.progress) as progress:
        report = diff(reference, candidate, list(files) or None, options=asked, progress=progress)
    output.emit("diff", report, partial(render, all_layers=all_layers, timing=timing))


def _pair(text: str, sign: str, option: str, form: str) -> tuple[str, str]:
    key, found, value = text.partition(sign)
    if not found or not key or not value:
        raise InputError(f"{option} {text} cannot be read.", hint=f"Write it as {form}.")
    return key, value


def _axes(text: str, option: str) -> tuple[str, tuple[int, ...]]:
    form = "0:0,2,3,1" if option == "--candidate-output-perm" else "NAME:0,3,1,2"
    name, axes = _pair(text, ":", option, form)
    try:
        return name, tuple(int(axis) for axis in axes.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: '{axes}' is no list of axes.", hint=f"Write it as {form}.") from None


def _number(text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"--candidate-output-perm: '{text}' is no number of an output.", hint="The first one is 0.")
    return int(text)


def allowed_rule(text: str) -> tuple[str, float | None]:
    """``RULE`` or ``RULE=VALUE``.

    Raises:
        InputError: There is no such rule, or the value is no limit of an error.
    """
    from parity.findings import RULES  # noqa: PLC0415

    rule, equals, value = text.partition("=")
    if rule not in RULES:
        raise InputError.unknown("rule", rule, RULES)
    hint = "Write it as precision=1e-3."
    try:
        limit = float(value) if equals else None
    except ValueError:
        raise InputError(f"--allow {text}: '{value}' is no number.", hint=hint) from None
    if limit is not None and not 0 <= limit < math.inf:
        raise InputError(f"--allow {text}: '{value}' is no limit of an error.", hint=hint)
    return rule, limit


def _read_map(file: Path | None) -> Sequence[tuple[str, str]]:
    import json  # noqa: PLC0415

    if file is None:
        return ()
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--map {file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise InputError(
            f"--map {file} is no JSON object of names.", hint='Write {"reference tensor": "candidate tensor"}.'
        )
    return list(found.items())
