"""Every report in a notebook: its page in a sandboxed frame, and its text where no page can be made."""

import re
from html import unescape
from typing import Any

import pytest

import parity
from parity.findings import Report, environment
from parity.jobs.activations import ActivationList
from parity.jobs.record import RecordReport
from parity.report.notebook import PAGES, TEXTS

FRAME = re.compile(r'<iframe sandbox="allow-scripts" style="[^"<>]*" srcdoc="([^"<>]*)"></iframe>')


def test_every_report_is_known() -> None:
    # By name: a data class with slots is made twice.
    assert {one.__name__ for one in TEXTS} == {one.__name__ for one in Report.__subclasses__()}
    assert set(PAGES) < set(TEXTS)


def test_a_page_stands_in_a_frame_that_nothing_gets_out_of(page_reports: dict[str, Any]) -> None:
    pytest.importorskip("jinja2", reason="the extra html is not installed")
    pytest.importorskip("plotly", reason="the extra html is not installed")
    for report in page_reports.values():
        (page,) = FRAME.fullmatch(report._repr_html_()).groups()
        assert unescape(page).startswith("<!DOCTYPE html>")


def test_without_the_extra_it_is_the_text(page_reports: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.report.html.page.find_spec", lambda _name: None)
    for report in page_reports.values():
        shown = report._repr_html_()
        assert shown.startswith("<pre>")
        assert re.findall("<[^>]*>", shown) == ["<pre>", "</pre>"]
        assert report.verdict.upper() in shown


@pytest.mark.parametrize("name", ["doctor", "identify", "record", "activations"])
def test_the_others_are_text(name: str) -> None:
    known = {"findings": (), "coverage": {}, "environment": environment({}, 1)}
    report = {
        "doctor": parity.doctor,
        "identify": lambda: parity.identify("math:tanh"),
        "record": lambda: RecordReport(verdict="pass", summary="<b>", trace="t", notes=[], **known),
        "activations": lambda: ActivationList((), ("<b>",)),
    }[name]()
    shown = report._repr_html_()
    assert re.findall("<[^>]*>", shown) == ["<pre>", "</pre>"]
