"""Impact: the share of each cause in the error of the outputs, on models where it is known."""

import json

import numpy as np
import pytest

from parity.align.layout import distance
from parity.errors import EngineError
from parity.jobs import diff_impact
from parity.jobs.diff import diff
from parity.jobs.record import record
from parity.report.diff import render
from parity.report.json import render as to_json
from parity.sides import Side

pytestmark = pytest.mark.usefixtures("toys_open")

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((32, 8)).astype(np.float32)
WA, WB, WC = (RANDOM.standard_normal((8, 8)) for _ in range(3))


def branches(toy, a: float = 1.0, b: float = 1.0):
    """The sum of two linear branches, each with its factor: both errors add up in the output."""
    made = toy(x=(None, 8))
    one = made("matmul", "x", made.weight("wa", WA * a), to="a", scope="left")
    two = made("matmul", "x", made.weight("wb", WB * b), to="b", scope="right")
    return made.gives(made("add", one, two, to="y", scope="sum"))


def impacts(report) -> dict[str, dict]:
    """Impact on the one output by the module of the cause."""
    return {
        one.location["reference"]["scope"]: one.impact["outputs"][0]
        for one in report.findings
        if one.impact.get("outputs")
    }


def outputs(model, x=X):
    values = {"x": x}
    for call in model.calls:
        read = [values[name] if name in values else model.weights[name] for name in call.site.inputs]
        values[call.site.outputs[0]] = call.function(*read, **call.site.attributes)
    return values[model.outputs[0]]


def test_with_one_of_two_causes_mended_the_error_of_the_other_is_left(toy) -> None:
    one, two = branches(toy), branches(toy, 1.3, 1.1)
    found = impacts(diff(one, two, {"x": X}))
    whole, only_a, only_b = (
        distance(outputs(one), outputs(model)) for model in (two, branches(toy, a=1.3), branches(toy, b=1.1))
    )
    assert set(found) == {"left", "right"}
    for scope, left in (("left", only_b), ("right", only_a)):
        assert found[scope]["relative_error"] == pytest.approx(whole)
        assert found[scope]["mended_relative_error"] == pytest.approx(left, rel=1e-4)
        assert found[scope]["share"] == pytest.approx(1 - left / whole, abs=1e-4)


def test_an_only_cause_is_all_of_it(toy) -> None:
    (one,) = impacts(diff(branches(toy), branches(toy, a=1.3), {"x": X})).values()
    assert one["output"] == "y"
    assert one["share"] == pytest.approx(1, abs=1e-5)
    assert one["top1_changes"] > one["mended_top1_changes"] == 0
    assert one["kl"] > one["mended_kl"]


def test_a_cause_at_several_places_is_mended_at_all_of_them(toy) -> None:
    def model(approximate: str):
        made = toy(x=(None, 8))
        at = "x"
        for k, w in enumerate((WA, WB, WC)):
            hidden = made("matmul", at, made.weight(f"w{k}", w), to=f"h{k}", scope=f"block.{k}")
            at = made("gelu", hidden, to=f"act{k}", approximate=approximate, scope=f"block.{k}")
        return made.gives(at)

    (finding,) = diff(model("none"), model("tanh"), {"x": X}).findings
    assert finding.evidence["count"] == 3
    assert finding.impact["outputs"][0]["share"] == pytest.approx(1, abs=1e-3)


def test_two_causes_in_one_region_are_mended_by_their_own_repairs(toy) -> None:
    def model(a: float, b: float):
        made = toy(x=(None, 8))
        weights = made.weight("wa", WA * a), made.weight("wb", WB * b)
        return made.gives(made("matmul", "x", *weights, to="y", function=lambda x, wa, wb: x @ wa + x @ wb))

    reference = model(1, 1)
    report = diff(reference, model(1.3, 1.1), {"x": X})
    assert [row.status for row in report.layers] == ["function"], "one region"
    found = {one.location["candidate"]["names"][0]: one.impact["outputs"][0] for one in report.findings}
    assert set(found) == {"wa", "wb"}
    for name, alone in (("wa", model(1, 1.1)), ("wb", model(1.3, 1))):
        left = distance(outputs(reference), outputs(alone))
        assert found[name]["mended_relative_error"] == pytest.approx(left, rel=1e-4)


def test_two_like_faults_in_one_region_are_one_cause_and_all_of_it(toy) -> None:
    def model(factor: float):
        made = toy(x=(None, 8))
        weights = made.weight("wa", WA * factor), made.weight("wb", WB * factor)
        return made.gives(made("matmul", "x", *weights, to="y", function=lambda x, wa, wb: x @ wa + x @ wb))

    (finding,) = diff(model(1), model(1.1), {"x": X}).findings
    assert finding.impact["outputs"][0]["share"] == pytest.approx(1, abs=1e-4)


def test_in_another_layout(toy) -> None:
    """The candidate keeps its channels first; what the reference makes there is moved to where the candidate has it."""
    image = RANDOM.standard_normal((2, 5, 7, 3)).astype(np.float32)

    def model(*, first: bool, scale: float = 1.0, shift: float = 1.0):
        made = toy(x=(None, 5, 7, 3))
        shape = (3, 1, 1) if first else (3,)
        scales = made.weight("scale", np.array([0.5, 1.0, 2.0]).reshape(shape) * scale)
        shifts = made.weight("shift", np.array([3.0, 1.0, -2.0]).reshape(shape) * shift)
        at = made("transpose", "x", to="nchw", axes=[0, 3, 1, 2]) if first else "x"
        at = made("tanh", made("mul", at, scales, to="scaled", scope="one"), to="t")
        at = made("add", at, shifts, to="shifted", scope="two")
        at = made("transpose", at, to="nhwc", axes=[0, 2, 3, 1]) if first else at
        return made.gives(made("exp", at, to="y", scope="three"))

    reference, candidate = model(first=False), model(first=True, scale=1.2, shift=1.1)
    found = impacts(diff(reference, candidate, {"x": image}))
    left = distance(outputs(reference, image), outputs(model(first=True, shift=1.1), image))
    assert found["one"]["mended_relative_error"] == pytest.approx(left, rel=1e-4)
    left = distance(outputs(reference, image), outputs(model(first=True, scale=1.2), image))
    assert found["two"]["mended_relative_error"] == pytest.approx(left, rel=1e-4)


def test_regions_that_lie_between_one_anothers_operators(toy) -> None:
    """The candidate spells its activations out, and both have read their inputs before the first is done."""

    def start(toy):
        made = toy(x=(None, 8))
        pairs = enumerate((WA, WB))
        return made, [made("matmul", "x", made.weight(f"w{k}", w), to=f"h{k}", scope=f"b{k}") for k, w in pairs]

    fused, hidden = start(toy)
    acts = [fused("gelu", one, to=f"g{k}", scope=f"b{k}", approximate="none") for k, one in enumerate(hidden)]
    fused.gives(fused("add", *acts, to="y"))

    spelt, hidden = start(toy)
    halves = [spelt("mul", one, 0.5, to=f"half{k}", scope=f"b{k}") for k, one in enumerate(hidden)]
    cubes = [
        spelt("mul", spelt("pow", one, 3.0), 0.044715, to=f"cube{k}", scope=f"b{k}") for k, one in enumerate(hidden)
    ]
    sums = [spelt("add", *two, to=f"sum{k}", scope=f"b{k}") for k, two in enumerate(zip(hidden, cubes, strict=True))]
    acts = []
    for k in (0, 1):
        tanh = spelt("tanh", spelt("mul", sums[k], float(np.sqrt(2 / np.pi))), to=f"tanh{k}", scope=f"b{k}")
        acts.append(spelt("mul", halves[k], spelt("add", tanh, 1.0), to=f"g{k}", scope=f"b{k}"))
    spelt.gives(spelt("add", *acts, to="y"))

    (finding,) = diff(fused, spelt, {"x": X}).findings
    assert finding.evidence["count"] == 2
    assert finding.impact["outputs"][0]["share"] == pytest.approx(1, abs=1e-3)


def test_a_difference_that_only_a_probe_shows_has_no_impact(toy) -> None:
    made = []
    for approximate in ("none", "tanh"):
        model = toy(x=(None, 8))
        model.gives(model("gelu", model("add", "x", 0.0, to="h"), to="y", approximate=approximate))
        made.append(model)
    (finding,) = diff(*made, {"x": np.abs(X) + 15}).findings
    assert finding.impact == {}


def test_a_difference_of_whole_numbers_alone(toy) -> None:
    def model(shift: float):
        made = toy(x=(None, 8))
        return made.gives(made("argmax", "x", to="y", function=lambda x: (x + shift * np.arange(8)).argmax(-1)))

    (finding,) = diff(model(0.0), model(1.0), {"x": X}).findings
    assert finding.impact["outputs"][0]["share"] == pytest.approx(1)


@pytest.mark.parametrize("traced", ["reference", "candidate"])
def test_a_trace_on_either_side_has_none(toy, tmp_path, traced: str) -> None:
    models = {"reference": branches(toy), "candidate": branches(toy, a=1.3)}
    record(models[traced], tmp_path / "trace", {"x": X})
    models[traced] = tmp_path / "trace"
    report = diff(models["reference"], models["candidate"])
    assert report.verdict == "mismatch"
    assert all(finding.impact == {} for finding in report.findings)


def chain(toy, wrong: int):
    """Products of which the first ``wrong`` are each scaled by another factor."""
    made = toy(x=(None, 8))
    at = "x"
    for k in range(diff_impact.MOST + 3):
        scale = 1.1 + 0.01 * k if k < wrong else 1.0
        at = made("matmul", at, made.weight(f"w{k}", WA / 4 * scale), to=f"h{k}", scope=f"block.{k}")
        at = made("tanh", at, to=f"t{k}", scope=f"block.{k}")
    return made.gives(at)


def test_of_many_causes_the_first_are_computed(toy) -> None:
    many = diff_impact.MOST + 2
    report = diff(chain(toy, 0), chain(toy, many), {"x": X})
    assert len(report.findings) == many
    assert [bool(one.impact) for one in report.findings] == [True] * diff_impact.MOST + [False] * 2


def test_in_both_reports(toy) -> None:
    report = diff(branches(toy), branches(toy, 1.3, 1.1), {"x": X})
    text = render(report, colour=False, width=120)
    assert text.count("   impact: output y is off by ") == 2
    document = json.loads(to_json("diff", report))
    for finding in document["findings"]:
        (impact,) = finding["impact"]["outputs"]
        assert set(impact) >= {"output", "relative_error", "mended_relative_error", "share"}
        assert 0 < impact["share"] < 1
    assert json.loads(to_json("diff", diff(branches(toy), branches(toy), {"x": X})))["findings"] == []


def test_a_model_that_cannot_go_on_with_other_numbers_has_a_reason_and_no_impact(toy, monkeypatch) -> None:
    evaluate = Side.evaluate

    def fails(side, sites, given, wanted, precision="float64"):
        if side.role == "candidate" and precision == "native" and "y" in wanted:
            raise EngineError("Out of paper.")
        return evaluate(side, sites, given, wanted, precision)

    monkeypatch.setattr(Side, "evaluate", fails)
    report = diff(branches(toy), branches(toy, a=1.3), {"x": X})
    (finding,) = report.findings
    assert set(finding.impact) == {"reason"}
    assert "impact: not computed. Out of paper." in render(report, colour=False, width=200)
