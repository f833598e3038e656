"""Options and output that all commands share."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
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
    """Where and how a report is written.

    Attributes:
        form: In which format.
        file: Where to; None for standard output.
        quiet: Only the sentence of verdict.
        progress: Whether bars are shown.
        also: Further formats of the same report, each with its file.
    """

    form: str
    file: Path | None
    quiet: bool
    progress: bool
    also: Sequence[tuple[str, Path]] = ()

    def check(self) -> None:
        """Refuses a format that cannot be made or a file that cannot be written, before work is spent on it.

        Raises:
            InputError: What makes the format is not installed; a file's folder is missing or not writable, it is a
                folder, or it is named twice.
        """
        if "html" in {self.form, *(form for form, _ in self.also)}:
            from parity.report.html.page import check_installed  # noqa: PLC0415 – other formats need none of it

            check_installed()
        told: set[Path] = set()
        for name, file in self._files():
            folder = file.absolute().parent
            if file.is_dir():
                raise InputError(f"{name} is a folder.", hint="Name a file.")
            if not folder.is_dir() or not os.access(folder, os.W_OK):
                raise InputError(f"{name} cannot be written: {folder} is not a folder that can be written to.")
            if file.resolve() in told:
                raise InputError(f"{name}: another report is written to this file.", hint="Name a file for each.")
            told.add(file.resolve())

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Every file that is written, as it was asked for."""
        if self.file is not None:
            yield f"--output {self.file}", self.file
        for form, file in self.also:
            yield f"--also {form}={file}", file

    def emit(
        self,
        command: str,
        report: Any,
        render_text: Callable[..., str],
        *,
        exit_code: int | None = None,
    ) -> None:
        """Writes the report and ends the process; a file that cannot be written keeps no other from being written.

        Args:
            command: Name of the command.
            report: Its report; ``verdict`` and ``summary`` among its fields.
            render_text: Makes the text report; is told ``colour`` and ``width``.
            exit_code: What to end with; None for that of the verdict.

        Raises:
            InputError: A file cannot be written.
        """
        text_of = partial(_text, command, report, render_text)
        to_terminal = self.file is None and sys.stdout is not None and sys.stdout.isatty()
        text = text_of(self.form, colour=to_terminal and "NO_COLOR" not in os.environ)
        if annotations.wanted():
            for line in annotations.lines(report.findings):
                click.echo(line.translate(CONTROLS), err=True)
        said = report.summary.translate(CONTROLS)
        files = [(file, text_of(form)) for form, file in self.also]
        failed = _replace_all([(self.file, text), *files] if self.file else files)
        if self.file:
            if not self.quiet and not failed:
                click.echo(f"{report.verdict.upper()}  {said}", err=True)
        elif self.form != "text":
            click.echo(text, nl=False)
        else:
            click.echo(said if self.quiet else text, nl=self.quiet)
        if failed:
            raise InputError(" ".join(one.message for one in failed), hint=failed[0].hint)
        sys.exit(EXIT_CODES[report.verdict] if exit_code is None else exit_code)


def _text(command: str, report: Any, render_text: Callable[..., str], form: str, *, colour: bool = False) -> str:
    """The report of a command in a format."""
    if form == "json":
        return json.render(command, report)
    if form == "html":
        return str(import_module(f"parity.report.html.{command}").render(command, report))
    if form in {"junit", "sarif"}:
        return str(import_module(f"parity.report.{form}").render(command, report))
    width = max(NARROWEST, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)
    return render_text(report, colour=colour, width=width)


def _replace_all(files: Sequence[tuple[Path, str]]) -> list[InputError]:
    """Writes each file, and returns what went wrong."""
    failed = []
    for file, text in files:
        try:
            _replace(file, text)
        except InputError as error:
            failed.append(error)
    return failed


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


def _also(formats: Sequence[str], context: click.Context, option: click.Parameter, said: Sequence[str]) -> Any:
    """A format and a file for each ``FORMAT=FILE``."""
    found = []
    for one in said:
        form, _, file = one.partition("=")
        if form not in formats or not file:
            raise click.BadParameter(f"{one!r} is not FORMAT=FILE with one of {', '.join(formats)}.", context, option)
        if file == "-":
            raise click.BadParameter("standard output is for --format: name a file.", context, option)
        found.append((form, Path(file)))
    return found


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
        @click.option(
            "--also",
            multiple=True,
            callback=partial(_also, formats),
            metavar="FORMAT=FILE",
            help="Write the same report in this format to a file, too, as sarif=parity.sarif; repeatable.",
        )
        @click.option("--quiet", is_flag=True, help="Only the sentence of verdict.")
        @click.option("--no-progress", is_flag=True, help="No progress bars on standard error.")
        def wrapped(
            *,
            form: str,
            file: Path | None,
            also: Sequence[tuple[str, Path]],
            quiet: bool,
            no_progress: bool,
            **options: Any,
        ) -> None:
            shown = sys.stderr is not None and sys.stderr.isatty() and not no_progress and not quiet
            output = Output(form, None if file == Path("-") else file, quiet, progress=shown, also=also)
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
