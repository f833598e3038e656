"""The report of a diff as text: what comes first, in which words, and which layers are shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from parity.diagnose.power import SwapPower
from parity.findings import Finding, Verdict
from parity.jobs.diff_report import DiffReport
from parity.jobs.diff_run import LayerRow
from parity.layerwise.ends import OutputRow
from parity.report.diff import MOST_GUILTY, facts_of, render, shortened, shown


def rows(*statuses: str) -> list[LayerRow]:
    """The earlier, the larger the excess."""
    return [
        LayerRow(
            reference=f"t{k}",
            candidate=f"c{k}",
            aligned_by="value",
            confidence=1.0,
            op="Op",
            dtype="float32",
            propagated_error=0.0,
            local_error=None,
            excess=None if status == "untested" else 10.0 - k,
            gap=None,
            visible=1e-6,
            status=status,
            scope="",
        )
        for k, status in enumerate(statuses)
    ]


@pytest.mark.parametrize(
    ("statuses", "places"),
    [
        ([], []),
        (["ok"], [0]),
        (["ok"] * 9, [0, 1, 2]),
        (["ok"] * 6 + ["function"] + ["ok"] * 3, [0, 1, 2, 5, 6, 7]),
        (["ok"] * 6 + ["untested"] * 3, [0, 1, 2]),
        (["overflow", *["ok"] * 8], [0, 1, 2]),
        (["ok"] * 8 + ["rounding"], [0, 1, 2, 7, 8]),
    ],
)
def test_the_guilty_their_neighbours_and_the_worst_others(statuses: list[str], places: list[int]) -> None:
    assert shown(rows(*statuses)) == places


def test_a_place_in_a_file_is_told_by_its_line() -> None:
    location = {"file": "config.json", "line": 8, "path": "hidden_act", "candidate": {"file": "m.onnx", "path": "Erf"}}
    found = Finding(rule="activation-variant", severity="error", message="m", location=location, evidence={"places": 6})
    assert list(facts_of(found)) == [("at", "config.json:8, hidden_act"), ("candidate", "m.onnx, Erf")]


# ---- the text


FINDING = Finding(
    rule="activation-variant",
    severity="error",
    message="At act and at 2 further places: the candidate computes gelu_tanh where the reference computes gelu_erf.",
    fix="Make it jax.nn.gelu(x, approximate=False) in the candidate.",
    location={
        "reference": {"scope": "act", "site": "act/gelu", "op": "aten.gelu", "tensor": "act/gelu", "source": "m.py:3"},
        "candidate": {"site": "mul_2", "op": "mul", "tensor": "mul_2:0", "source": "port.py:9"},
    },
    expected="gelu_erf",
    observed="gelu_tanh",
    evidence={
        "excess": 4312.0,
        "function_gap": 4310.0,
        "relative_error": 1.65e-4,
        "coefficient": 1.0,
        "standard_error": 4.5e-6,
        "share": 1.0,
        "places": ["act", "b"],
        "count": 3,
    },
    impact={"outputs": []},
)


def output(max_abs: float | None = 3e-4, relative: float | None = 2e-4, top1: float | None = 0.0) -> OutputRow:
    return OutputRow(
        name="y",
        candidate="y",
        dtype="float32",
        shape=(2, 4),
        max_abs=max_abs,
        relative=relative,
        top1_changes=top1,
        kl=None if top1 is None else 1e-7,
    )


def text(
    *findings: Finding,
    outputs: Sequence[OutputRow] = (output(),),
    layers: Sequence[LayerRow] = (),
    power: Mapping[str, Any] | None = None,
    verdict: Verdict | None = None,
) -> str:
    errors = any(one.severity == "error" for one in findings)
    report = DiffReport(
        verdict=verdict or ("mismatch" if errors else "pass"),
        summary="The summary.",
        findings=findings,
        first_divergence=None,
        layers=layers,
        outputs=outputs,
        power=power or {},
        coverage={
            "compared": 3,
            "untested": 0,
            "reference_tensors": 3,
            "candidate_tensors": 5,
            "aligned": {"input": 1, "value": 3},
        },
        environment={},
    )
    return render(report, colour=False, width=120)


def impact(error: float, mended: float, top1: float | None = None) -> Finding:
    one = {
        "output": "y",
        "relative_error": error,
        "mended_relative_error": mended,
        "share": 1 - mended / error,
        "top1_changes": top1,
        "mended_top1_changes": None if top1 is None else 0.0,
    }
    return replace(FINDING, impact={"outputs": [one]})


def test_a_mismatch_begins_with_what_where_and_by_how_much() -> None:
    lines = text(FINDING).splitlines()
    assert lines[:5] == [
        "MISMATCH  The candidate does not compute what the reference computes: activation-variant at 3 places.",
        "output y: off by 0.0003 at most, 0.0002 of its spread; as scores, no row has another first, KL 1e-07",
        "A test with an absolute tolerance of 0.001 would pass these outputs.",
        "",
        f"1. activation-variant  {FINDING.message}",
    ]
    assert "   reference: act (m.py:3), aten.gelu, tensor act/gelu" in lines
    assert "   candidate: port.py:9 (mul_2), mul, tensor mul_2:0" in lines
    assert "   places: act, b (3 in all)" in lines
    assert f"   fix: {FINDING.fix}" in lines
    assert "The summary." not in lines[0], "the finding says it in full"


def test_what_is_no_error_is_told_so() -> None:
    notes = [replace(FINDING, severity=severity) for severity in ("warning", "note")]
    lines = text(FINDING, *notes).splitlines()
    heads = [line.partition("  ")[0] for line in lines if line[:2] in {"1.", "2.", "3."}]
    assert heads == ["1. activation-variant", "2. activation-variant (warning)", "3. activation-variant (note)"]


def test_kinds_of_several_findings_are_counted() -> None:
    other = replace(FINDING, rule="weights", evidence={})
    assert ": activation-variant at 3 places, weights at 2 places." in text(FINDING, other, other)


def test_evidence_in_words() -> None:
    said = text(FINDING)
    assert (
        "its own error is 4,310 times what rounding makes; as large in float64, so it is no matter of precision" in said
    )
    assert "100.0% of it goes away with this mended" in said
    assert "±" not in said
    unseen = {"excess": 0.95, "coefficient": 0.98, "standard_error": 0.016, "seen_by": "probe"}
    said = text(replace(FINDING, evidence=unseen))
    assert "the error is 0.980 ± 0.016 times the difference of the two functions" in said
    assert "impact: with these inputs no more than rounding makes" in said


def test_an_overflow_is_told_without_ratios() -> None:
    found = {"excess": math.inf, "relative_error": math.nan, "not_finite": 1}
    said = text(replace(FINDING, rule="overflow", evidence=found), outputs=[output(math.nan, math.inf, None)])
    assert "evidence: 1 number there is infinite or NaN" in said
    assert "output y: NaN or infinite on one side and not on the other" in said
    assert "inf " not in said
    assert "nan" not in said


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (
            impact(0.2, 0.002, 0.25),
            "and by 0.002 with this alone mended: 99.0% of it comes from here; rows with another",
        ),
        (impact(2.3e-7, 2.3e-7, 0.0), "as much with this alone mended: none of it comes from here"),
        (impact(0.2, 0.3), "the causes partly cancel"),
        (impact(math.inf, 2e-7), "output y is not finite, and off by 2e-07 of its spread with this alone mended"),
    ],
)
def test_impact_in_words(finding: Finding, said: str) -> None:
    assert said in text(finding)


@pytest.mark.parametrize(
    ("verdict", "largest", "said"),
    [
        ("mismatch", 3e-6, "tolerance of 1e-05 would pass these"),
        ("mismatch", 0.02, ""),
        ("mismatch", 0.0, ""),
        ("mismatch", None, ""),
        ("pass", 0.02, "tolerance of 0.01 would fail them, by rounding alone"),
        ("pass", 9e-6, ""),
        ("pass", math.nan, ""),
        ("inconclusive", 0.02, ""),
    ],
)
def test_what_a_fixed_tolerance_would_have_said(verdict: Verdict, largest: float | None, said: str) -> None:
    lines = text(*[FINDING] * (verdict == "mismatch"), outputs=[output(largest)], verdict=verdict)
    assert said in lines
    assert ("absolute tolerance" in lines) == bool(said)


def test_where_a_finding_was_allowed_rounding_alone_is_not_blamed() -> None:
    allowed = replace(FINDING, severity="note", evidence={**FINDING.evidence, "allowed": "--allow"})
    said = text(allowed, outputs=[output(0.02, top1=0.33)])
    assert "tolerance of 0.01 would fail them, by what --allow lets pass or by rounding." in said
    assert "near ties" not in said
    other = text(replace(FINDING, severity="note"), outputs=[output(0.02, top1=0.33)])
    assert "by rounding alone" in other
    assert "near ties" in other


def test_of_a_pass_changed_ranks_are_near_ties() -> None:
    said = "33.00% of rows have another first"
    assert f"{said} (rounding decides near ties)" in text(outputs=[output(top1=0.33)])
    assert f"{said}, KL" in text(FINDING, outputs=[output(top1=0.33)])


def test_long_joined_names_are_cut_beside_a_finding() -> None:
    joined = ";".join(f"model/layer_{k}/Gelu/mul" for k in range(20))
    place = {"op": "GELU", "tensor": joined, "site": joined, "scope": "model.layer_0"}
    said = text(replace(FINDING, location={"reference": place, "candidate": {**place, "tensor": "t" * 300}}))
    assert "   reference: model.layer_0, GELU, tensor model/layer_0/Gelu/mul;…\n" in said
    assert max(map(len, said.splitlines())) < 200
    assert "tensor a;b\n" in text(replace(FINDING, location={"reference": {**place, "tensor": "a;b"}}))


@pytest.mark.parametrize(
    ("sigma", "said"),
    [
        (204_123.0, "a swap of relu for gelu_erf at act would have stood out by 204,000 standard deviations"),
        (0.0, "at act could not have been seen by these inputs alone"),
    ],
)
def test_power_in_words(sigma: float, said: str) -> None:
    swap = SwapPower(reference="t", scope="act", variant="relu", alternative="gelu_erf", sigma=sigma)
    assert said in text(power={"activation_swaps": [swap]})


def test_what_stands_before_the_first_guilty_layer() -> None:
    said = text(FINDING, layers=rows("ok", "ok", "function", "ok"))
    assert "Before the first of these 2 tensors agree; those marked ok after it only inherit their error." in said
    assert "absolute: in the tensor's own units" in said
    assert "Before the first of these 1 tensor agrees; " in text(FINDING, layers=rows("ok", "function"))
    assert "Before the first" not in text(layers=rows("ok"))


def test_only_so_many_guilty_layers_are_shown() -> None:
    assert len(shown(rows(*["function"] * 40))) == MOST_GUILTY + 1


def test_a_long_name_keeps_its_end() -> None:
    assert shortened("layers.11.mlp.act_fn/gelu", 16) == "layer…ct_fn/gelu"
    assert shortened("layers.0", 16) == "layers.0"
