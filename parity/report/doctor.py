"""The doctor's report for a terminal."""

from parity.jobs.doctor import DoctorReport
from parity.report.terminal import COLOURS, console, new_table, plain, text_of, verdict_line


def render(report: DoctorReport, *, colour: bool, width: int) -> str:
    """A table of the adapters, what is missing with the command that installs it, clashes, the verdict."""
    out = console(colour=colour, width=width)
    table = new_table()
    for title in ("adapter", "state", "versions", "install"):
        table.add_column(title, overflow="fold")
    for status in report.adapters.values():
        state = (
            plain("ready", COLOURS["pass"])
            if not status.missing
            else plain("missing " + ", ".join(status.missing), COLOURS["warning"])
        )
        versions = ", ".join(f"{name} {version}" for name, version in status.versions.items())
        table.add_row(plain(status.name), state, plain(versions), plain(status.install))
    out.print(table)
    for finding in report.findings:
        if finding.severity == "warning":
            out.print(plain(f"warning: {finding.message}", COLOURS["warning"]))
    found = report.environment
    system = f"Python {found['python']} on {found['platform']}/{found['machine']}, {found['threads']} processors"
    out.print(plain(f"framework-parity {found['framework-parity']}, {system}"))
    out.print(verdict_line(report.verdict, report.summary), soft_wrap=True)
    return text_of(out)
