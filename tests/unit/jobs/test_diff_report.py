"""Several runs made into one verdict."""

import math

import numpy as np
import pytest

from parity.align.alignment import Pair
from parity.align.layout import Layout
from parity.align.regions import Region
from parity.findings import Finding
from parity.jobs.diff_options import DiffOptions
from parity.jobs.diff_report import SHAPE_RULES, make_report
from parity.jobs.diff_run import LayerRow, RunResult
from parity.layerwise.ends import OutputRow
from parity.layerwise.measuring import Layer

PLAIN = Layout.reshaped((2,), (2,))


def finding(rule: str = "weights", severity: str = "error", **more) -> Finding:
    return Finding(rule=rule, severity=severity, message=f"{rule} is wrong.", **more)


def layer(name: str, status: str = "ok") -> Layer:
    region = Region(Pair(name, f"c.{name}", PLAIN, "value", 1.0), (), (), ())
    return Layer(region=region, dtype="float32", propagated=0.0, measure=None, status=status)


def row(excess: float | None) -> LayerRow:
    return LayerRow(
        reference="a",
        candidate="p",
        aligned_by="value",
        confidence=1.0,
        op="Op",
        dtype="float32",
        propagated_error=0.0,
        local_error=0.0,
        excess=excess,
        gap=0.0,
        visible=1e-6,
        status="ok",
        scope="",
    )


def output(relative: float | None) -> OutputRow:
    return OutputRow(name="y", candidate="y", dtype="float32", shape=(2,), max_abs=relative, relative=relative)


def run(*findings: Finding, shape=(2, 8), layers=(), relative=0.0, inconclusive="", sigma=None, notes=(), excess=1.0):
    return RunResult(
        inputs={"x": shape},
        findings=findings,
        layers=layers,
        rows=[row(excess), row(None)],
        outputs=[output(relative)],
        power={"weakest_sigma": sigma},
        coverage={"compared": 2, "untested": 0},
        inconclusive=inconclusive,
        notes=notes,
    )


def report(*results: RunResult, **options):
    return make_report(results, DiffOptions(**options), {"threads": 1})


def test_a_pass() -> None:
    found = report(run(sigma=12.3456, excess=1.5))
    assert (found.verdict, found.findings, found.first_divergence) == ("pass", [], None)
    assert found.summary == (
        "The candidate computes the same function: 2 aligned tensors, none farther off than 1.5 times the rounding "
        "that its type allows; a swapped activation would have stood out by 12.3 standard deviations or more."
    )
    assert found.coverage == {"compared": 2, "untested": 0, "input_sets": 1}
    assert found.environment == {"threads": 1}
    assert "swapped" not in report(run()).summary


def test_a_mismatch_names_the_first_and_counts_the_rest() -> None:
    found = report(run(finding("precision", "note"), finding("weights"), finding("padding"), finding("overflow")))
    assert found.verdict == "mismatch"
    assert found.summary.startswith("The candidate does not compute what the reference computes. weights is wrong.")
    assert found.summary.endswith("2 further findings.")
    assert "further" not in report(run(finding())).summary


def test_errors_come_first_then_warnings_then_notes_each_in_its_order() -> None:
    severities = {"missing-output": "note", "precision": "warning", "shape": "note", "weights": "error"}
    found = report(run(*map(finding, severities, severities.values()), finding("padding"), finding("overflow")),
                   allowed={"overflow": None})  # fmt: skip
    rules = [one.rule for one in found.findings]
    assert rules == ["weights", "padding", "precision", "missing-output", "shape", "overflow"]


@pytest.mark.parametrize("severity", ["note", "warning"])
def test_what_is_no_error_does_not_decide(severity: str) -> None:
    assert report(run(finding(severity=severity))).verdict == "pass"


@pytest.mark.parametrize(
    ("findings", "why", "verdict"),
    [
        ([], "nothing could be compared", "inconclusive"),
        ([finding()], "every input is zero", "mismatch"),
        ([finding("nondeterminism", "warning")], "the reference does not repeat itself", "inconclusive"),
        ([finding("nondeterminism", "warning"), finding()], "the reference does not repeat itself", "inconclusive"),
        ([finding("nondeterminism", "error")], "", "mismatch"),
    ],
)
def test_inconclusive(findings, why: str, verdict: str) -> None:
    found = report(run(*findings, inconclusive=why))
    assert found.verdict == verdict
    if verdict == "inconclusive":
        assert found.summary == f"This run cannot tell: {why}."


# ---- the first divergence


def test_the_place_of_the_first_error() -> None:
    places = [{"reference": {"scope": name}} for name in "abc"]
    found = report(
        run(
            finding(severity="note", location=places[0]),
            finding(location=places[1]),
            finding(location=places[2]),
            layers=[layer("z", "function")],
        )
    )
    assert found.first_divergence == places[1]


def test_else_that_of_the_first_guilty_layer() -> None:
    found = report(run(finding(), layers=[layer("a"), layer("b", "rounding"), layer("c", "function")]))
    assert found.first_divergence == {"reference": "b", "candidate": "c.b"}


# ---- several runs


def test_the_worst_run_is_reported() -> None:
    one, two = run(finding(severity="note"), notes=["n"]), run(finding(), finding("padding"), notes=["n", "m"])
    for runs in ((one, two), (two, one)):
        found = report(*runs)
        assert found.verdict == "mismatch"
        assert len(found.findings) == 2
        assert found.coverage["input_sets"] == 2
        assert sorted(found.notes) == ["m", "n"]


@pytest.mark.parametrize("rule", sorted(SHAPE_RULES))
def test_what_only_another_shape_shows_depends_on_the_shape(rule: str) -> None:
    found = report(run(shape=(2, 8)), run(finding(rule, expected="a", observed="b"), shape=(3, 8)))
    (one,) = found.findings
    assert (one.rule, one.expected, one.observed) == ("batch-dependence", "a", "b")
    assert "x [2, 8]" in one.message
    assert "x [3, 8]" in one.message
    assert f"{rule} is wrong." in one.message
    assert "dynamic" in one.fix
    assert "batch" not in found.summary or found.verdict == "mismatch"


def test_what_any_shape_may_show_keeps_its_rule() -> None:
    found = report(run(shape=(2, 8)), run(finding("activation-variant"), shape=(3, 8)))
    assert [one.rule for one in found.findings] == ["activation-variant"]


def test_of_equal_shapes_or_where_all_runs_differ_nothing_is_said_of_shapes() -> None:
    assert report(run(), run(finding())).findings[0].rule == "weights"
    assert report(run(finding(), shape=(2, 8)), run(finding(), shape=(3, 8))).findings[0].rule == "weights"


# ---- what is allowed


def test_an_allowed_rule_is_a_note() -> None:
    found = report(run(finding(), relative=0.5), allowed={"weights": None})
    assert found.verdict == "pass"
    (one,) = found.findings
    assert one.severity == "note"
    assert one.message == "weights is wrong. Allowed by --allow."


def test_an_allowed_rule_says_what_allows_it() -> None:
    by = {"weights": "parity.toml until 2027-01-31: a new table comes"}
    found = make_report([run(finding(), relative=0.5)], DiffOptions(allowed={"weights": None}, allowed_by=by), {})
    (one,) = found.findings
    assert one.message == "weights is wrong. Allowed by parity.toml until 2027-01-31: a new table comes."
    assert "but for 1 finding allowed" in found.summary


def test_another_rule_is_not() -> None:
    assert report(run(finding("padding")), allowed={"weights": None}).verdict == "mismatch"


@pytest.mark.parametrize(
    ("relative", "verdict"),
    [(0.0, "pass"), (0.01, "pass"), (0.0101, "mismatch"), (math.inf, "mismatch"), (None, "mismatch")],
)
def test_a_rule_that_is_allowed_up_to_an_error(relative: float | None, verdict: str) -> None:
    found = report(run(finding(), relative=relative), allowed={"weights": 0.01})
    assert found.verdict == verdict
    assert "llowed" in found.findings[0].message


def test_nan_is_within_no_limit() -> None:
    assert report(run(finding(), relative=math.nan), allowed={"weights": np.inf}).verdict == "mismatch"


def test_the_severity_of_notes_stays() -> None:
    found = report(run(finding(severity="warning")), allowed={"weights": None})
    assert [one.severity for one in found.findings] == ["warning"]


# ---- several sets of inputs


def test_a_set_that_tells_nothing_does_not_hide_one_that_tells() -> None:
    silent, telling = run(inconclusive="every input is zero"), run(sigma=20.0, shape=(4, 8))
    for results in ((silent, telling), (telling, silent), (silent, telling, silent)):
        found = report(*results)
        assert found.verdict == "pass"
        assert found.power == {"weakest_sigma": 20.0}
        places = [k for k, one in enumerate(results, 1) if one is silent]
        assert found.notes == [f"Input set {k} of {len(results)} could not tell: every input is zero." for k in places]


def test_sets_of_which_none_tells() -> None:
    found = report(run(inconclusive="every input is zero"), run(inconclusive="nothing could be compared"))
    assert (found.verdict, found.notes) == ("inconclusive", [])
    assert found.summary == "This run cannot tell: every input is zero."


def test_a_fault_is_found_whatever_the_other_sets_say() -> None:
    silent = run(inconclusive="every input is zero")
    for results in ((silent, run(finding())), (run(finding()), silent), (run(), silent, run(finding()))):
        assert report(*results).verdict == "mismatch"


def test_a_side_that_does_not_repeat_itself_in_one_set_cannot_be_judged_by_another() -> None:
    unsteady = run(finding("nondeterminism", "warning"), inconclusive="the reference does not repeat itself")
    assert report(run(), unsteady).verdict == report(unsteady, run()).verdict == "inconclusive"


def test_faults_that_only_other_inputs_show_are_told_too() -> None:
    first = run(finding("weights"), finding("padding", "note"))
    second, third = run(finding("weights"), finding("overflow")), run(finding("softmax-axis"), finding("overflow"))
    found = report(first, second, third)
    assert [one.rule for one in found.findings] == ["weights", "overflow", "softmax-axis"]
    assert found.findings[2].message == "With input set 3 of 3: softmax-axis is wrong."
    assert report(first, run(finding("padding"))).findings[0].message == "weights is wrong.", "known as a note"


def test_faults_of_other_inputs_can_be_allowed() -> None:
    found = report(run(finding("weights")), run(finding("overflow")), allowed={"weights": None, "overflow": None})
    assert found.verdict == "pass"
    assert [one.severity for one in found.findings] == ["note", "note"]
