"""The report of a recording for a terminal."""

from parity.jobs.record import RecordReport
from parity.report.terminal import console, plain, text_of, verdict_line


def render(report: RecordReport, *, colour: bool, width: int) -> str:
    """What was recorded, and how to go on."""
    out = console(colour=colour, width=width)
    for note in report.notes:
        out.print(plain(f"note: {note}", "dim"), soft_wrap=True)
    out.print(verdict_line(report.verdict, report.summary), soft_wrap=True)
    out.print(plain(f"Next: parity diff {report.trace} CANDIDATE"), soft_wrap=True)
    return text_of(out)
