"""The command line: one file a command, imported when it is called."""

import errno
import os
import signal
import sys
from io import TextIOWrapper

import click

from parity.errors import CONTROLS, ParityError

COMMANDS = {
    "check": "The gate before export: scan, probe, export to each target, compare.",
    "diff": "Compare two models layer by layer: where they part, why, and what to change.",
    "doctor": "Show what is installed, what is missing and how to get it.",
    "identify": "Say which activation function a callable or a table of samples is.",
    "record": "Record a run of a model, for a diff with what cannot be run here.",
    "scan": "Say which function every activation of configs and graphs means, from the files alone.",
    "suite": "Measure the activations of every installed framework against the exact functions.",
}
"""Name and one line of help of each command; the rest of it is loaded when it is called."""


class LazyGroup(click.Group):
    """A group whose commands are modules of this package with a function ``command``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 – click's signature
        """All commands, without loading any."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 – click's signature
        """Loads one command."""
        if name not in COMMANDS:
            return None
        from importlib import import_module  # noqa: PLC0415 – `parity --help` needs none

        command: click.Command = import_module(f"parity.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 – click's signature
        """The list of commands in ``parity --help``, from `COMMANDS` alone."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="framework-parity")
def group() -> None:
    """Find out whether a model computes the same thing in two frameworks, runtimes or exports.

    \b
    Exit codes: 0 pass, 1 mismatch found, 2 bad usage or input, 3 inconclusive or nothing
    comparable, 4 an engine failed, 130 interrupted.
    """


INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


def _terminated(_signal: int, _frame: object) -> None:
    """Ends as with Ctrl-C: workers are ended and temporary folders removed."""
    raise KeyboardInterrupt


def main() -> None:
    """The entry point of the command ``parity``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a dash is no reason to fail
    _end_in_order()
    try:
        group.main(prog_name="parity", standalone_mode=False)
    except ParityError as error:
        click.echo(f"parity: {error.message.translate(CONTROLS)}", err=True)
        if error.hint:
            click.echo(f"  {error.hint.translate(CONTROLS)}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("parity: interrupted.", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone, as after `| head`; the interpreter must not find that out again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _tell(error)
        sys.exit(ParityError.exit_code)


def _end_in_order() -> None:
    """Has the signals that end a process end it as Ctrl-C does, but for those that `nohup` has ignored."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminated)


def _tell(error: OSError) -> None:
    what = f"{error.filename}: ".translate(CONTROLS) if error.filename else ""
    click.echo(f"parity: {what}{error.strerror or error}.", err=True)
    if error.errno == errno.ENOSPC:
        click.echo("  Free some space, or set TMPDIR to a folder with room for the recorded tensors.", err=True)
