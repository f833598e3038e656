"""The HTML reports as documents: they load nothing, and what files hold stays text."""

import json
import re
from html.parser import HTMLParser

import pytest

from parity.errors import InputError
from parity.findings import Finding
from parity.report.html.page import check_installed
from parity.report.html.parts import MOST_CARDS, cards_of

COMMANDS = ("diff", "check", "project", "suite", "scan")


class Document(HTMLParser):
    """What a browser would make of a document: its elements, its text, and the content of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data


@pytest.fixture(params=COMMANDS)
def document(request, documents: dict[str, str]) -> Document:
    return Document(documents[request.param])


def test_a_hostile_name_is_text_and_makes_no_element(document: Document, hostile: str) -> None:
    assert hostile in document.text
    assert document.text.count("alert(1)") == document.text.count(hostile)
    assert "img" not in {tag for tag, _ in document.elements}
    assert not [name for _, attributes in document.elements for name in attributes if name.startswith("on")]


def test_there_are_the_scripts_that_the_policy_names_and_no_other(document: Document) -> None:
    policy = next(one["content"] for _, one in document.elements if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    kinds = [attributes.get("type") for tag, attributes in document.elements if tag == "script"]
    assert kinds == ["application/json", None, None]
    assert policy.count("'sha256-") == 2
    assert "unsafe-eval" not in policy


def test_nothing_is_loaded(document: Document) -> None:
    assert not [one for _, one in document.elements if {"src", "href", "srcset", "data", "action"} & set(one)]
    own = document.text + document.scripts[-1]  # the style sheet is in the text; Plotly's script has its policy
    assert not re.search(r"https?:|@import|url\(|fetch\(|XMLHttpRequest|import\(", own)


def test_every_plot_has_its_data_and_ends_in_no_script(document: Document) -> None:
    figures = json.loads(document.scripts[0])
    places = [attributes["data-figure"] for _, attributes in document.elements if attributes.get("class") == "chart"]
    assert sorted(places) == sorted(figures)
    assert len(set(places)) == len(places) > 0
    assert "<" not in document.scripts[0]


def test_a_check_with_proof_has_the_table_of_a_diff(documents: dict[str, str]) -> None:
    for name, count in (("diff", 1), ("check", 1), ("project", 2)):
        text = Document(documents[name]).text
        assert text.count("0 of 1 known fault put into a copy of the reference caught.") == count
        assert documents[name].count('data-name="fault"') == count


def test_a_project_has_a_row_and_a_section_for_each_check(documents: dict[str, str], hostile: str) -> None:
    text = Document(documents["project"]).text
    assert "1 of 2 checks passed." in text
    assert f"Check 1: {hostile}" in text
    assert f"Check 2: {hostile}" in text
    assert documents["project"].count('data-name="model"') == 2
    assert f"{hostile}: {hostile} is wrong." in text, "a finding names its model"


@pytest.mark.parametrize("missing", ["jinja2", "plotly"])
def test_what_is_not_installed_is_told_with_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch, parity) -> None:
    monkeypatch.setattr("parity.report.html.page.find_spec", lambda name: None if name == missing else object())
    with pytest.raises(InputError, match=missing):
        check_installed()
    code, out, err = parity("diff", "a.onnx", "b.onnx", "--format", "html")
    assert (code, out) == (2, "")
    assert missing in err
    assert "framework-parity[html]" in err


def test_the_command_line_writes_one(parity, tmp_path) -> None:
    pytest.importorskip("plotly", reason="the extra html is not installed")
    config, out = tmp_path / "config.json", tmp_path / "scan.html"
    config.write_text('{"model_type": "bert", "hidden_act": "<i>&"}')
    assert parity("scan", config, "--format", "html", "--output", out)[0] == 0
    document = Document(out.read_text(encoding="utf-8"))
    assert "<i>&" in document.text
    assert "i" not in {tag for tag, _ in document.elements}


def test_the_command_line_writes_one_of_all_checks_of_a_project(
    parity, tmp_path, page_reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly", reason="the extra html is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("parity.jobs.check_project.check", lambda *_, **__: page_reports["check"])
    (tmp_path / "parity.toml").write_text('[[check]]\nmodel = "a"\n[[check]]\nmodel = "b"\n')
    assert parity("check", "--format", "html", "--output", "out.html")[0] == 1
    assert "0 of 2 checks passed." in Document((tmp_path / "out.html").read_text(encoding="utf-8")).text


def test_errors_come_first_and_of_many_findings_the_errors_alone_are_cards(suite) -> None:
    warnings = list(suite.findings)
    assert len(warnings) > MOST_CARDS
    error = Finding(rule="weights", severity="error", message="e")
    cards, (others,) = cards_of([*warnings, error])
    assert [one.rule for one in cards] == ["weights"]
    assert len(others.tables[0].rows) == len(warnings)
    cards, sections = cards_of([warnings[0], error])
    assert [one.severity for one in cards] == ["error", "warning"]
    assert sections == []
