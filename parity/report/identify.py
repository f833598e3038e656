"""The report of an identification for a terminal."""

from rich.table import Table

from parity.jobs.identify import IdentifyReport
from parity.report.terminal import COLOURS, console, number, plain, text_of, verdict_line


def render(report: IdentifyReport, *, colour: bool, width: int) -> str:
    """The numbers behind the identification, then the verdict."""
    out = console(colour=colour, width=width)
    table = Table.grid(padding=(0, 2))
    changed = ", ".join(f"{name} {change:+.3g}" for name, change in report.constants.items())
    residual = f"{number(report.residual_ulp)} ulp (rms), {number(report.max_residual_ulp)} at most"
    coefficient = f"{report.coefficient:.4f} ± {number(report.standard_error, 2)}"
    lines = {
        "variant": report.variant or "none",
        "nearest": report.nearest,
        "residual": f"{residual}, at x = {number(report.worst_x, 6)}",
        "runner-up": report.runner_up,
        "elements": f"{report.coverage['elements']} of {report.coverage['of']}",
    }
    if report.variant:
        lines |= {
            "runner-up": f"{report.runner_up}, {number(report.margin)} standard errors away",
            "coefficient": f"{coefficient} (0 is {report.nearest}, 1 is {report.runner_up})",
            "constants": f"relative change fitted: {changed}" if changed else "as in the formula",
            "precision": f"{report.effective_bits:.1f} significant bits",
        }
    for name, value in lines.items():
        table.add_row(plain(name, "bold"), plain(value))
    out.print(table)
    out.print()
    for finding in report.findings:
        if report.verdict == "pass":
            out.print(plain(f"{finding.severity}: {finding.message}", COLOURS[finding.severity]))
        elif finding.fix:
            out.print(plain(finding.fix))
    out.print(verdict_line(report.verdict, report.summary), soft_wrap=True)
    return text_of(out)
