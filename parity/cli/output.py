"""Options and output that all commands share."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from parity.errors import CONTROLS, InputError
from parity.findings import EXIT_CODES
from parity.report import annotations, json

PIPE_WIDTH = 160
"""Columns where the output is no terminal and COLUMNS is not set: wide enough that names are not broken."""

FORMATS = ("text", "json", "junit", "sarif")
"""In which every command can write its report."""

NARROWEST = 60
"""Columns below which a table cannot be read."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where and how a report is written."""

    form: str
    file: Path | None
    quiet: bool
    progress: bool

    def check(self) -> None:
        """Refuses a format that cannot be made or a file that cannot be written, before work is spent on it.

        Raises:
            InputError: What makes the format is not installed; the file's folder is missing or not writable, or it is
                a folder.
        """
        if self.form == "html":
            from parity.report.html.page import check_installed  # noqa: PLC0415 – other formats need none of it

            check_installed()
        if self.file is None:
            return
        folder = self.file.absolute().parent
        if self.file.is_dir():
            raise InputError(f"--output {self.file} is a folder.", hint="Name a file.")
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InputError(
                f"--output {self.file} cannot be written: {folder} is not a folder that can be written to."
            )

    def emit(
        self,
        command: str,
        report: Any,
        render_text: Callable[..., str],
        *,
        others: Mapping[str, Callable[[str, Any], str]] = MappingProxyType({}),
        exit_code: int | None = None,
    ) -> None:
        """Writes the report and ends the process.

        Args:
            command: Name of the command.
            report: Its report; ``verdict`` and ``summary`` among its fields.
            render_text: Makes the text report; is told ``colour`` and ``width``.
            others: By name, what makes the report in a further format of this command.
            exit_code: What to end with; None for that of the verdict.
        """
        to_terminal = self.file is None and sys.stdout is not None and sys.stdout.isatty()
        if self.form == "json":
            text = json.render(command, report)
        elif self.form == "html":
            text = import_module(f"parity.report.html.{command}").render(command, report)
        elif self.form in others:
            text = others[self.form](command, report)
        elif self.form in {"junit", "sarif"}:
            text = import_module(f"parity.report.{self.form}").render(command, report)
        else:
            colour = to_terminal and "NO_COLOR" not in os.environ
            width = max(NARROWEST, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)
            text = render_text(report, colour=colour, width=width)
        if annotations.wanted():
            for line in annotations.lines(report.findings):
                click.echo(line.translate(CONTROLS), err=True)
        said = report.summary.translate(CONTROLS)
        if self.file:
            _replace(self.file, text)
            if not self.quiet:
                click.echo(f"{report.verdict.upper()}  {said}", err=True)
        elif self.form != "text":
            click.echo(text, nl=False)
        else:
            click.echo(said if self.quiet else text, nl=self.quiet)
        sys.exit(EXIT_CODES[report.verdict] if exit_code is None else exit_code)


def _replace(path: Path, text: str) -> None:
    """Writes the file whole or not at all: what was there stays until the new text is on the disk.

    A device or a pipe is written to as it is, and what a link points to is replaced, not the link.

    Raises:
        InputError: It cannot be written.
    """
    path = path.resolve()
    old = path.exists()
    new = path.with_name(f".parity-{os.getpid()}.part")
    try:
        if old and not path.is_file():
            path.write_text(text, encoding="utf-8", errors="replace")
            return
        new.write_text(text, encoding="utf-8", errors="replace")
        if old:
            shutil.copymode(path, new)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        hint = "What was there is untouched." if old else "Name a file elsewhere, or make room there."
        raise InputError(f"{path} cannot be written: {error.strerror}.", hint=hint) from error


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `Output`, which the command is given as ``output``."""
    return output_options_in(*FORMATS)(command)


def output_options_in(*formats: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Likewise for a command whose report can be written in these formats."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--format",
            "form",
            type=click.Choice(formats),
            default="text",
            show_default=True,
            help="What to write.",
        )
        @click.option(
            "--output",
            "file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write to a file instead of standard output; '-' is standard output.",
        )
        @click.option("--quiet", is_flag=True, help="Only the sentence of verdict.")
        @click.option("--no-progress", is_flag=True, help="No progress bars on standard error.")
        def wrapped(*, form: str, file: Path | None, quiet: bool, no_progress: bool, **options: Any) -> None:
            shown = sys.stderr is not None and sys.stderr.isatty() and not no_progress and not quiet
            output = Output(form, None if file == Path("-") else file, quiet, progress=shown)
            output.check()
            command(output=output, **options)

        wrapped.__name__ = command.__name__
        wrapped.__doc__ = command.__doc__
        # The command's own options stand before the common ones in its help.
        own = getattr(command, "__click_params__", [])
        wrapped.__click_params__ = own + wrapped.__click_params__  # type: ignore[attr-defined]
        return wrapped

    return add


def timeout_option(default: float, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds ``--timeout SECONDS``, which the command is given as ``timeout``.

    Args:
        default: Seconds.
        text: Its help: who counts as hung after that.
    """
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )
