"""Reports as a notebook shows them: the HTML page in a frame of its own, or the text where no page can be made."""

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from importlib import import_module
from typing import Any, Final

from parity.errors import InputError
from parity.jobs.activations import ActivationList
from parity.jobs.check_project import ProjectReport
from parity.jobs.check_report import CheckReport
from parity.jobs.diff_report import DiffReport
from parity.jobs.doctor import DoctorReport
from parity.jobs.identify import IdentifyReport
from parity.jobs.record import RecordReport
from parity.jobs.scan import ScanReport
from parity.jobs.suite import SuiteReport
from parity.report import check, diff, doctor, identify, record, scan, suite

WIDTH: Final = 120
"""Columns of a report as text."""

STYLE: Final = "width: 100%; height: 40em; border: 0; resize: vertical"
"""Of the frame."""

PAGES: Final[Mapping[type, str]] = {
    CheckReport: "check",
    DiffReport: "diff",
    ProjectReport: "check",
    ScanReport: "scan",
    SuiteReport: "suite",
}
"""Commands whose reports are pages, by the report."""

TEXTS: Final[Mapping[type, Callable[..., str]]] = {
    CheckReport: check.render,
    DiffReport: diff.render,
    DoctorReport: doctor.render,
    IdentifyReport: identify.render,
    ProjectReport: check.render_project,
    RecordReport: record.render,
    ScanReport: scan.render,
    SuiteReport: partial(suite.render, everything=False),
    ActivationList: lambda report, **_: str(report),
}
"""What makes the text of each report."""


def html_of(report: Any) -> str:
    """A report as HTML that can stand in a page of somebody else's.

    The frame is sandboxed: neither a name from a model's file nor a style of the page can reach out of it.
    """
    try:
        if (command := PAGES.get(type(report))) is not None:
            page = import_module(f"parity.report.html.{command}").render(command, report)
            return f'<iframe sandbox="allow-scripts" style="{STYLE}" srcdoc="{escape(page)}"></iframe>'
    except InputError:  # what makes pages is not installed
        pass
    return f"<pre>{escape(TEXTS[type(report)](report, colour=False, width=WIDTH))}</pre>"
