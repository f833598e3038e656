"""The report of a check for a terminal: the verdict, its steps, what was found and what to change."""

from parity.jobs.check_project import ProjectReport
from parity.jobs.check_report import CheckReport
from parity.report.diff import print_finding
from parity.report.terminal import COLOURS, console, new_table, plain, text_of, verdict_line


def render(report: CheckReport, *, colour: bool, width: int) -> str:
    """The whole report.

    Args:
        report: What was found.
        colour: Whether to colour it.
        width: Columns.
    """
    out = console(colour=colour, width=width)
    out.print(verdict_line(report.verdict, report.summary), soft_wrap=True)
    table = new_table()
    for name in ("step", "target", "verdict", "seconds", "what was found"):
        table.add_column(name, justify="right" if name == "seconds" else "left", overflow="fold")
    for step in report.steps:
        table.add_row(
            step.name,
            plain(step.target or ""),
            plain(step.verdict, COLOURS.get(step.verdict, "")),
            f"{step.seconds:.1f}",
            plain(step.summary),
        )
    out.print(table)
    if report.cached:
        out.print(plain("This is the result of an earlier check of the same files, options and versions.", "dim"))
    for place, finding in enumerate(report.findings, 1):
        print_finding(out, place, finding)
    return text_of(out)


def render_project(report: ProjectReport, *, colour: bool, width: int) -> str:
    """The reports of all checks of a project, one after the other, with what came of them at the top."""
    out = console(colour=colour, width=width)
    out.print(verdict_line(report.verdict, report.summary), soft_wrap=True)
    return "\n".join([text_of(out), *(render(one, colour=colour, width=width) for one in report.checks)])
