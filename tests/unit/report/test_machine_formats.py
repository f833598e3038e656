"""Reports for machines: the published schema, JUnit XML, SARIF, annotations of GitHub Actions."""

import json
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import jsonschema
import pytest

from parity.findings import Finding
from parity.functions import variant
from parity.jobs.check_report import Step, make_report
from parity.jobs.doctor import doctor
from parity.jobs.identify import identify
from parity.jobs.scan import scan
from parity.report import annotations, junit, sarif
from parity.report.json import render

SCHEMA = json.loads(files("parity.report").joinpath("schema.json").read_text())
FINDING = Finding(
    rule="weights",
    severity="error",
    message="not <the> same \x00",
    fix="Export it again: 100%.",
    location={"reference": {"scope": "m", "tensor": "t", "source": "net.py:7"}, "candidate": None},
)


def report(verdict: str = "mismatch", *findings: Finding) -> Any:
    return SimpleNamespace(verdict=verdict, summary="A sentence.", findings=findings, coverage={})


def parsed(text: str) -> Element:
    return fromstring(text)  # noqa: S314 – made here


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_documents_fit_the_schema(tmp_path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "gemma", "hidden_act": "gelu"}')
    reports = {"scan": scan([str(config)], ["sglang"]), "doctor": doctor(), "identify": identify("numpy:tanh")}
    for command, one in reports.items():
        jsonschema.validate(json.loads(render(command, one)), SCHEMA)


@pytest.mark.parametrize(
    "change", [{"verdict": "fine"}, {"findings": [{"rule": "x"}]}, {"schema": "framework-parity/2"}]
)
def test_what_does_not_fit_the_schema(change) -> None:
    document = json.loads(render("doctor", doctor()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | change, SCHEMA)


def test_a_schema_knows_every_command() -> None:
    from parity.cli import COMMANDS

    assert set(SCHEMA["properties"]["command"]["enum"]) == {*COMMANDS, "pytest"}


def test_junit_has_a_case_for_the_verdict_and_one_for_each_error() -> None:
    note = replace(FINDING, severity="note", message="a note")
    root = parsed(junit.render("diff", report("mismatch", FINDING, note)))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "2", "0")
    verdict, error = root.iter("testcase")
    assert verdict.find("failure").get("message") == "A sentence."
    assert error.get("name") == "1. weights"
    assert error.find("failure").get("message") == "not <the> same "
    assert "reference: m (net.py:7)" in error.find("failure").text
    assert "a note" in next(root.iter("system-out")).text


@pytest.mark.parametrize(
    ("verdict", "child"), [("pass", "system-out"), ("inconclusive", "skipped"), ("error", "error")]
)
def test_junit_of_other_verdicts(verdict: str, child: str) -> None:
    (case,) = parsed(junit.render("diff", report(verdict))).iter("testcase")
    assert [one.tag for one in case] == [child]


def test_sarif_says_what_a_rule_is_about() -> None:
    (run,) = json.loads(sarif.render("diff", report("mismatch", FINDING)))["runs"]
    said = {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert said["weights"] == "A weight is not the reference's."
    assert said["unreadable"] == "A file that cannot be read."


def test_sarif_has_the_source_line_of_a_diff() -> None:
    (run,) = json.loads(sarif.render("diff", report("mismatch", FINDING)))["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "weights"
    physical = result["locations"][0]["physicalLocation"]
    assert (physical["artifactLocation"]["uri"], physical["region"]["startLine"]) == ("net.py", 7)


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("hf:./bert", "bert"),
        ("torch:net.py:build", "net.py"),
        ("a b.onnx", "a%20b.onnx"),
        ("{here}/m.onnx", "m.onnx"),
        ("", "parity-check"),
    ],
)
def test_sarif_has_a_file_for_every_finding(model: str, file: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [Step(name="diff", target="t", verdict="mismatch", summary="", findings=[replace(FINDING, location={})])]
    model = model.format(here=tmp_path)
    told = make_report(model, steps, fail_on="error", environment={}, targets={"t": {}})
    for one in (told, replace(told, model="", findings=[replace(told.findings[0], evidence={"model": model})])):
        (run,) = json.loads(sarif.render("check", one))["runs"]
        (result,) = run["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == file


@pytest.mark.parametrize(
    ("reference", "candidate", "file"),
    [
        ("torch:net.py:build", "./m.onnx", "m.onnx"),
        ("torch:net.py:build", "{here}/m.onnx", "m.onnx"),
        ("torch:net.py:build", "hf:bert", "net.py"),
        ("torch:{here}/net.py:build", "torch.nn.modules.linear.Linear", "net.py"),
    ],
)
def test_sarif_of_a_diff_names_the_models_file_where_there_is_no_line(
    reference: str, candidate: str, file: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").mkdir()
    for name in ("net.py", "m.onnx"):
        (tmp_path / name).touch()
    told = report("mismatch", replace(FINDING, location={"reference": "t", "candidate": "t"}))
    told.reference, told.candidate = (one.format(here=tmp_path) for one in (reference, candidate))
    (run,) = json.loads(sarif.render("diff", told))["runs"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == file


def test_sarif_of_identify_names_the_file_of_the_function(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "act.py").write_text("import numpy as np\n\ndef act(x):\n    return np.tanh(x)\n")
    told = identify("act.py:act", adapter="numpy", expect="silu")
    (run,) = json.loads(sarif.render("identify", told))["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "act.py"


ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package"},
    "testcase": {"name", "time", "classname"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
}
"""What Jenkins' schema of JUnit's XML allows of each element."""

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase", "system-out"},
    "testcase": {"skipped", "error", "failure", "system-out"},
}
"""Likewise what it may hold."""


@pytest.mark.parametrize("verdict", ["pass", "mismatch", "inconclusive", "error"])
def test_junit_is_what_a_server_reads(verdict: str) -> None:
    root = parsed(junit.render("diff", report(verdict, FINDING, replace(FINDING, severity="note"))))
    assert root.tag == "testsuites"
    for one in root.iter():
        assert set(one.keys()) <= ATTRIBUTES[one.tag]
        assert {child.tag for child in one} <= CHILDREN.get(one.tag, set())
    (suite,) = root
    cases = list(suite.iter("testcase"))
    assert int(suite.get("tests")) == len(cases)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(name)) == len(list(suite.iter(tag)))


def test_annotations_are_workflow_commands() -> None:
    assert annotations.wanted({"GITHUB_ACTIONS": "true"})
    assert not annotations.wanted({})
    (line,) = annotations.lines([replace(FINDING, message="one\ntwo")])
    assert line == "::error file=net.py,line=7,title=weights::one%0Atwo Export it again: 100%25."
    (line,) = annotations.lines([replace(FINDING, severity="note", location={"file": "a,b", "line": 3})])
    assert line.startswith("::notice file=a%2Cb,line=3,title=weights::")


def test_the_variant_of_a_function_stands_in_the_document() -> None:
    assert json.loads(render("identify", identify("numpy:tanh")))["variant"] == variant("tanh").name
