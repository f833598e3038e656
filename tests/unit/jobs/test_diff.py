"""``parity.diff`` as a whole, on models without a framework: verdicts, options, several inputs, odd runs."""

import json

import numpy as np
import pytest

from parity.errors import EngineError, InputError
from parity.jobs.diff import DiffOptions, diff
from parity.report.diff import render
from parity.report.json import render as to_json

pytestmark = pytest.mark.usefixtures("toys_open")

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((6, 8)).astype(np.float32)


def network(toy, *, approximate: str = "none", scale: float = 1.0, outputs=("y",), dtype: str = "float32", **faults):
    """Two linear layers with a GELU between; ``faults`` are options of that."""
    made = toy(dtype, x=(None, 8))
    weights = np.random.default_rng(1).standard_normal((8, 8))
    hidden = made("matmul", "x", made.weight("w1", weights), to="fc1", scope="mlp.fc1")
    act = made("gelu", hidden, to="act", scope="mlp.act", approximate=approximate, **faults)
    made("matmul", act, made.weight("w2", weights.T * scale), to="y", scope="mlp.fc2")
    return made.gives(*outputs)


def rules(report) -> list[tuple[str, str]]:
    return [(one.rule, one.severity) for one in report.findings]


def test_a_pass_says_what_it_could_have_seen(toy) -> None:
    report = diff(network(toy), network(toy), {"x": X})
    assert (report.verdict, rules(report), report.first_divergence) == ("pass", [], None)
    assert [row.status for row in report.layers] == ["ok"] * 3
    assert report.coverage["compared"] == 3
    assert report.power["weakest_sigma"] > 100
    assert {swap.variant for swap in report.power["activation_swaps"]} == {"gelu_erf"}
    assert set(report.environment["adapters"]) == {"reference (toy)", "candidate (toy)"}


def test_another_activation(toy) -> None:
    report = diff(network(toy), network(toy, approximate="tanh"), {"x": X})
    assert rules(report) == [("activation-variant", "error")]
    (finding,) = report.findings
    assert (finding.expected, finding.observed) == ("gelu_erf", "gelu_tanh")
    assert finding.evidence["coefficient"] == pytest.approx(1, abs=0.01)
    assert finding.evidence["share"] > 0.99
    assert finding.evidence["excess"] > 100
    assert [row.status for row in report.layers] == ["ok", "function", "ok"]
    assert report.first_divergence["reference"]["scope"] == "mlp.act"


def test_a_wrong_weight_is_the_weights_fault(toy) -> None:
    report = diff(network(toy), network(toy, scale=1.01), {"x": X})
    assert rules(report) == [("weights", "error")]
    assert "scaled by 1.01" in report.findings[0].message
    assert report.first_divergence["candidate"]["scope"] == "mlp.fc2"


def test_a_narrow_kernel_under_wide_tensors(toy) -> None:
    from parity.functions import variant

    def half(x, approximate):
        return variant("gelu_erf").value(x).astype(np.float16).astype(x.dtype)

    report = diff(network(toy), network(toy, native=half), {"x": X})
    assert rules(report) == [("precision", "error")]
    assert report.findings[0].evidence["effective_bits"] == pytest.approx(11, abs=1)


def test_an_overflow(toy) -> None:
    def overflows(x, approximate):
        return np.where(x > 1, np.inf, x).astype(x.dtype)

    report = diff(network(toy), network(toy, native=overflows), {"x": X})
    assert rules(report)[0] == ("overflow", "error")


def test_a_model_that_never_repeats_itself(toy) -> None:
    rng = np.random.default_rng(0)

    def noisy(x, approximate):
        return x + rng.standard_normal(x.shape).astype(x.dtype)

    report = diff(network(toy), network(toy, native=noisy), {"x": X})
    assert report.verdict == "mismatch"
    assert rules(report)[0] == ("nondeterminism", "error")
    assert report.findings[0].location["candidate"]["site"] == "site:act"
    report = diff(network(toy, native=noisy), network(toy), {"x": X})
    assert report.verdict == "inconclusive"
    assert rules(report)[0] == ("nondeterminism", "warning")
    assert "does not repeat itself" in report.summary


def test_inputs_of_zeros_tell_nothing(toy) -> None:
    report = diff(network(toy), network(toy), {"x": X * 0})
    assert report.verdict == "inconclusive"
    assert "every input is zero" in report.summary


def test_no_inputs_and_no_finite_outputs_tell_nothing(toy) -> None:
    def refuses(x, approximate):
        raise ValueError("no empty batch")

    report = diff(network(toy), network(toy, native=refuses), {"x": X[:0]})
    assert (report.verdict, report.summary) == ("inconclusive", "This run cannot tell: the inputs hold no numbers.")
    assert "coverage: 0 tensors compared" in render(report, colour=False, width=120)
    report = diff(network(toy), network(toy), {"x": X * np.float32("nan")})
    assert (report.verdict, "outputs is finite" in report.summary) == ("inconclusive", True)
    some = X.copy()
    some[0] = np.nan
    report = diff(network(toy), network(toy), {"x": some})
    assert report.verdict == "pass"
    assert "Input 'x' holds 8 NaN: where they reach, no number could be compared." in report.notes
    assert any(note.startswith("Output 'y' of the reference holds 8 NaN of 48 numbers: ") for note in report.notes)


def test_a_difference_that_the_inputs_do_not_show(toy) -> None:
    """Both GELUs are the identity at 15; the probe sees it."""
    made = []
    for approximate in ("none", "tanh"):
        model = toy(x=(None, 8))
        model.gives(model("gelu", model("add", "x", 0.0, to="h"), to="y", approximate=approximate))
        made.append(model)
    report = diff(*made, {"x": np.abs(X) + 15})
    assert rules(report) == [("activation-variant", "error")]
    assert "these inputs do not" in report.findings[0].message


def test_missing_outputs_and_shapes(toy) -> None:
    report = diff(network(toy, outputs=("y", "act")), network(toy), {"x": X})
    assert rules(report) == [("missing-output", "error")]
    other = network(toy, outputs=())
    other.gives(other("transpose", "y", to="moved", axes=[1, 0]))
    other.named = False
    report = diff(network(toy), other, {"x": X})
    assert rules(report) == [("shape", "error")]
    report = diff(network(toy), other, {"x": X}, options=DiffOptions(candidate_output_perm={0: (1, 0)}))
    assert (report.verdict, rules(report)) == ("pass", [])


def test_an_input_in_another_layout(toy) -> None:
    models = []
    for shape, axes in (((None, 8, 3), [0, 1, 2]), ((None, 3, 8), [0, 2, 1])):
        made = toy(x=shape)
        made.gives(made("tanh", made("transpose", "x", axes=axes), to="y"))
        models.append(made)
    x = RANDOM.standard_normal((2, 8, 3)).astype(np.float32)
    assert diff(*models, {"x": x}).verdict == "pass", "told by what the candidate takes"
    models[1].inputs = {"x": None}
    asked = DiffOptions(candidate_input_perm={"x": (0, 2, 1)})
    assert diff(*models, {"x": x}, options=asked).verdict == "pass"
    with pytest.raises(InputError, match="no input called 'z'"):
        diff(*models, {"x": x}, options=DiffOptions(candidate_input_perm={"z": (0,)}))


def test_inputs_are_made_where_none_are_given(toy) -> None:
    report = diff(network(toy), network(toy), options=DiffOptions(samples=3))
    assert (report.verdict, report.coverage["input_sets"]) == ("pass", 3)


def test_several_inputs_and_the_worst_is_told(toy) -> None:
    def by_batch(x, approximate):
        return x * x.dtype.type(1.5) if x.shape[0] == 6 else x

    one, two = network(toy, function=lambda x, approximate: x), network(toy, function=by_batch)
    report = diff(one, two, [{"x": X[:3]}, {"x": X}])
    assert report.verdict == "mismatch"
    assert report.coverage["input_sets"] == 2
    assert "batch-dependence" in {one.rule for one in report.findings}


def test_files_of_inputs(toy, tmp_path) -> None:
    np.savez(tmp_path / "x.npz", x=X)
    for given in (tmp_path / "x.npz", str(tmp_path / "x.npz"), [tmp_path / "x.npz", {"x": X}]):
        report = diff(network(toy), network(toy), given)
        assert report.coverage["input_sets"] == (2 if isinstance(given, list) else 1)


def test_a_map_goes_before_what_is_found(toy) -> None:
    report = diff(network(toy), network(toy), {"x": X}, options=DiffOptions(mapped=[("act", "act")]))
    assert report.coverage["aligned"]["map"] == 1
    assert report.verdict == "pass"


@pytest.mark.parametrize("pair", [("no", "act"), ("act", "nowhere")])
def test_a_map_of_what_there_is_not_is_refused(toy, pair) -> None:
    with pytest.raises(InputError) as refusal:
        diff(network(toy), network(toy), {"x": X}, options=DiffOptions(mapped=[pair]))
    assert refusal.value.hint


def test_what_is_allowed(toy) -> None:
    allowed = DiffOptions(allowed={"activation-variant": 0.01})
    report = diff(network(toy), network(toy, approximate="tanh"), {"x": X}, options=allowed)
    assert (report.verdict, rules(report)) == ("pass", [("activation-variant", "note")])
    assert report.reference.endswith(".Toy"), "what was compared is told"
    assert report.candidate.endswith(".Toy")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_models_of_other_types(toy, dtype: str) -> None:
    assert diff(network(toy, dtype=dtype), network(toy, dtype=dtype)).verdict == "pass"
    report = diff(network(toy, dtype=dtype), network(toy, approximate="tanh", dtype=dtype))
    assert rules(report) == [("activation-variant", "error")]


def test_a_half_precision_candidate_is_no_worse_than_its_twin(toy) -> None:
    report = diff(network(toy), network(toy, dtype="float16"), {"x": X})
    assert report.verdict == "pass", report.summary
    assert {row.dtype for row in report.layers} == {"float16"}


def test_single_numbers_and_empty_tensors(toy) -> None:
    made = toy(x=(None, 8))
    made("mean", "x", to="loss", axes=[0, 1], keepdims=False)
    made("slice", "x", to="none", start=0, end=0)
    made("tanh", "loss", to="z")
    made("tanh", "x", to="y")
    report = diff(made.gives("y", "z", "none"), made, {"x": X})
    assert report.verdict == "pass"


def test_a_model_that_fails(toy) -> None:
    def fails(x, approximate):
        raise RuntimeError("out of paper")

    with pytest.raises(EngineError, match=r"The candidate .*out of paper"):
        diff(network(toy), network(toy, function=fails), {"x": X})


def test_progress_is_told(toy) -> None:
    told = []
    diff(network(toy), network(toy), {"x": X}, progress=lambda name, done, total: told.append((name, done, total)))
    assert ("runs", 2, 2) in told
    assert ("layers", 3, 3) in told


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_both_reports_of_it_can_be_read(toy, approximate: str) -> None:
    report = diff(network(toy), network(toy, approximate=approximate), {"x": X})
    text = render(report, colour=False, width=120, all_layers=True)
    for row in report.layers:
        assert row.reference in text
    for said in [one.message for one in report.findings] or [report.summary]:
        assert said in text.replace("\n", " ")
    document = json.loads(to_json("diff", report))
    assert document["verdict"] == report.verdict
    assert len(document["layers"]) == 3


def test_the_time_of_each_part(toy) -> None:
    report = diff(network(toy), network(toy, approximate="tanh"), {"x": X}, options=DiffOptions(prove=True))
    parts = {f"{role}, {run}" for role in ("reference", "candidate") for run in ("plain run", "recorded run")}
    parts |= {"start-up", "alignment", "candidate, forced", "reference, exact", "closer look", "diagnosis", "impact"}
    assert set(report.timing) >= {*parts, "proof", "total"}
    assert report.timing["total"] == max(report.timing.values())
    assert "seconds" not in render(report, colour=False, width=120)
    text = render(report, colour=False, width=120, timing=True)
    for part in report.timing:
        assert part in text


def test_what_the_engines_say_of_their_runs_names_the_side(toy) -> None:
    ours, theirs = network(toy), network(toy)
    ours.notes, theirs.notes = ("It is fused, 1e-7 off.", "It is slow."), ("It is fused, 2e-7 off.", "It is slow.")
    assert diff(ours, theirs, {"x": X}).notes == [
        "Both sides: It is slow.",
        "Reference: It is fused, 1e-7 off.",
        "Candidate: It is fused, 2e-7 off.",
    ]


def test_advice_that_was_followed_is_not_given_again(toy, tmp_path) -> None:
    def squared(power: float):
        made = toy(x=(None, 8))
        return made.gives(made("gather", "x", to="y", function=lambda x: (np.abs(x) ** power).astype(x.dtype)))

    for options in (DiffOptions(), DiffOptions(repro=tmp_path / "repro")):
        report = diff(squared(2.0), squared(2.1), {"x": X}, options=options)
        assert rules(report) == [("unexplained", "error")]
        assert ("--repro DIR" in report.findings[0].fix) == (options.repro is None)
        assert report.findings[0].fix.startswith("Compare these operators")


def test_a_trace_in_place_of_either_side(toy, tmp_path) -> None:
    from parity.jobs.record import record

    record(network(toy), tmp_path / "one", {"x": X})
    record(network(toy, approximate="tanh"), tmp_path / "two", {"x": X})
    for one, two in ((tmp_path / "one", network(toy)), (network(toy), tmp_path / "one"), (tmp_path / "one",) * 2):
        report = diff(one, two)
        assert report.verdict == "pass", report.summary
        assert any("trace" in note for note in report.notes)
    for one, two in (
        (tmp_path / "one", network(toy, approximate="tanh")),
        (network(toy), tmp_path / "two"),
        (tmp_path / "one", tmp_path / "two"),
    ):
        assert rules(diff(one, two)) == [("activation-variant", "error")]


def test_scores_next_to_a_masks_filling_are_looked_at(toy) -> None:
    """Beside a billion every score is less than half a unit in the last place, and its error must not be."""

    def masked(scale: float):
        made = toy(x=(None, 8))
        scores = made("matmul", "x", made.weight("w", np.random.default_rng(2).standard_normal((8, 8)) * scale), to="s")
        fill = made.weight("fill", np.where(np.arange(8) > 5, -1e9, 0.0))
        return made.gives(made("add", scores, fill, to="y"))

    assert diff(masked(1.0), masked(1.0), {"x": X}).verdict == "pass"
    assert diff(masked(1.0), masked(1.01), {"x": X}).verdict == "mismatch"


def test_what_only_moves_numbers_after_the_last_operator_is_held_against_the_reference(toy) -> None:
    def reversed_rows(function):
        made = toy(x=(None, 8))
        act = made("tanh", "x", to="act")
        return made.gives(made("gather", act, to="y", function=function))

    report = diff(reversed_rows(lambda x: x), reversed_rows(lambda x: x[::-1].copy()), {"x": X})
    assert report.verdict == "mismatch"
