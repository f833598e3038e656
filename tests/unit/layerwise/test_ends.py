"""Inputs and outputs of two models: which belong together, and what is wrong with them at first sight."""

import math

import ml_dtypes
import numpy as np
import pytest

from parity.errors import InputError
from parity.graph import InputSpec
from parity.layerwise.ends import (
    OutputPlace,
    OutputRow,
    candidate_inputs,
    compare_outputs,
    find_ends,
    not_finite,
    output_places,
    production_gap,
    taken_by_order,
)

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 6)).astype(np.float32)
IMAGE = RANDOM.standard_normal((1, 5, 7, 3)).astype(np.float32)


def spec(*shape: int | None, dtype: str = "float32") -> InputSpec:
    return InputSpec(dtype=dtype, shape=shape)


def places(*names: str, arbitrary: bool = False, by_product: bool = False) -> dict[str, OutputPlace]:
    return {name: OutputPlace({"scope": "m", "output": name}, arbitrary, by_product) for name in names}


def compared(ours, theirs, *, named: bool = True, permutations=None, **place):
    return compare_outputs(ours, theirs, named=named, permutations=permutations or {}, places=places(*ours, **place))


# ---- inputs


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.complex64])
def test_numbers_that_are_none_are_told(dtype: type) -> None:
    odd = np.array([1, np.nan, np.inf, -np.inf], np.float32).astype(dtype)
    fine = {"whole": np.arange(4), "flag": np.array([True]), "small": np.ones(2, ml_dtypes.int4)}
    assert not_finite(fine, fine) == []
    assert not_finite({"x": odd}, {}) == ["Input 'x' holds 1 NaN: where they reach, no number could be compared."]
    (said,) = not_finite({"mask": odd[2:]}, {"y": odd})
    assert said.startswith("Output 'y' of the reference holds 1 NaN and 2 infinite of 4 numbers: ")


@pytest.mark.parametrize(
    ("shape", "wanted", "axes"),
    [
        ((1, 5, 7, 3), (1, 3, 5, 7), (0, 3, 1, 2)),
        ((1, 5, 7, 3), (None, 3, None, None), (0, 3, 1, 2)),
        ((1, 3, 5, 7), (1, 5, 7, 3), (0, 2, 3, 1)),
        ((1, 9, 3), (1, 3, 9), (0, 2, 1)),
        ((1, 5, 7, 3), (1, 5, 7, 3), None),
        ((1, 5, 7, 3), (None, None, None, None), None),
        ((1, 5, 7, 3), (1, 5, 7, 4), None),
        ((1, 5, 7, 3), (1, 5, 21), None),
        ((2, 3), (3, 2), None),
        ((1, 5, 7, 3), None, None),
    ],
)
def test_channels_are_moved_where_the_candidate_has_them_elsewhere(shape, wanted, axes) -> None:
    array = RANDOM.standard_normal(shape).astype(np.float32)
    specs = {"x": InputSpec(dtype="float32", shape=wanted)}
    given, moved = candidate_inputs({"x": array}, specs, {})
    assert moved == ({} if axes is None else {"x": axes})
    np.testing.assert_array_equal(given["x"], array if axes is None else array.transpose(axes))
    assert given["x"].flags.c_contiguous


def test_where_names_differ_the_order_tells_the_specification() -> None:
    given, moved = candidate_inputs({"image": IMAGE, "y": X}, {"in0": spec(1, 3, 5, 7), "in1": spec(2, 6)}, {})
    assert moved == {"image": (0, 3, 1, 2)}
    assert list(given) == ["image", "y"]
    assert candidate_inputs({"image": IMAGE}, {"in0": spec(1, 3, 5, 7), "in1": spec(2, 6)}, {})[1] == {}


def test_a_permutation_that_was_asked_for() -> None:
    given, moved = candidate_inputs({"x": IMAGE}, {}, {"x": (3, 0, 1, 2)})
    assert moved == {"x": (3, 0, 1, 2)}
    np.testing.assert_array_equal(given["x"], IMAGE.transpose(3, 0, 1, 2))


@pytest.mark.parametrize("axes", [(0, 1), (0, 1, 2, 4), (0, 0, 1, 2), (0, 1, 2, -1), ()])
def test_a_permutation_that_does_not_fit(axes) -> None:
    with pytest.raises(InputError, match="does not fit its shape"):
        candidate_inputs({"x": IMAGE}, {}, {"x": axes})


def test_a_permutation_of_no_input() -> None:
    with pytest.raises(InputError, match="no input called 'imag'") as caught:
        candidate_inputs({"image": IMAGE}, {}, {"imag": (0, 1, 2, 3)})
    assert "image" in caught.value.hint


# ---- which are one another's


def ends(toy, ours: dict, theirs: dict, moved=None):
    """Of models with inputs and outputs by name; ``named`` says whether outputs are."""
    views = []
    for one in (ours, theirs):
        model = toy(**dict.fromkeys(one["inputs"], (None, 6)))
        for name in one["outputs"]:
            model.gives(model("tanh", one["inputs"][0], to=name))
        model.named = one.get("named", True)
        views.append(model.view(**dict.fromkeys(one["inputs"], X)))
    return find_ends(*views, moved or {})


def test_inputs_by_name_else_by_order(toy) -> None:
    out = {"outputs": ["y"]}
    assert ends(toy, {"inputs": ["a", "b"], **out}, {"inputs": ["b", "a"], **out}).inputs == (("a", "a"), ("b", "b"))
    assert ends(toy, {"inputs": ["a", "b"], **out}, {"inputs": ["p", "q"], **out}).inputs == (("a", "p"), ("b", "q"))
    assert ends(toy, {"inputs": ["a", "b"], **out}, {"inputs": ["b"], **out}).inputs == (("b", "b"),)


def test_outputs_by_name_where_both_name_them(toy) -> None:
    ours, theirs = {"inputs": ["x"], "outputs": ["y", "z"]}, {"inputs": ["x"], "outputs": ["z", "y"]}
    assert ends(toy, ours, theirs).outputs == (("y", "y"), ("z", "z"))
    assert ends(toy, ours, {**theirs, "named": False}).outputs == (("y", "z"), ("z", "y"))


def test_axes_of_moved_inputs_by_the_references_tensor(toy) -> None:
    out = {"outputs": ["y"]}
    moved = {"x": (1, 0)}
    assert ends(toy, {"inputs": ["x"], **out}, {"inputs": ["p"], **out}, moved).permutations == moved
    assert ends(toy, {"inputs": ["a"], **out}, {"inputs": ["x"], **out}, moved).permutations == {"a": (1, 0)}


# ---- outputs


def test_equal_outputs() -> None:
    (row,), findings = compared({"y": X}, {"y": X})
    assert findings == []
    assert (row.name, row.candidate, row.dtype, row.shape) == ("y", "y", "float32", (2, 6))
    assert (row.max_abs, row.relative, row.top1_changes, row.kl) == (0, 0, 0, 0)


def test_how_far_off() -> None:
    other = X.copy()
    other[0] = other[0, ::-1]
    (row,), findings = compared({"y": X}, {"y": other})
    assert findings == []
    assert row.max_abs == pytest.approx(np.abs(X - other).max())
    assert row.relative == pytest.approx(math.sqrt(np.mean((X - other) ** 2)) / X.std(), rel=1e-6)
    assert row.top1_changes == 0.5
    p = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
    q = np.exp(other) / np.exp(other).sum(-1, keepdims=True)
    assert row.kl == pytest.approx(float(np.mean(np.sum(p * np.log(p / q), -1))), rel=1e-5)


@pytest.mark.parametrize("shape", [(6,), (3, 1), ()])
def test_what_can_be_no_scores(shape) -> None:
    array = np.ones(shape, np.float32)
    (row,), _ = compared({"y": array}, {"y": array})
    assert (row.top1_changes, row.kl, row.max_abs) == (None, None, 0)


def test_what_is_not_finite_on_both_sides_is_no_difference() -> None:
    array = X.copy()
    array[0, :3] = math.nan, math.inf, -math.inf
    (row,), _ = compared({"y": array}, {"y": array + 0})
    assert (row.max_abs, row.relative) == (0, 0)


def test_nan_is_never_near() -> None:
    other = X.copy()
    other[0, 0] = math.nan
    (row,), _ = compared({"y": X}, {"y": other})
    assert math.isnan(row.max_abs)
    assert row.relative == math.inf
    assert row.kl is None


def test_a_missing_output() -> None:
    rows, (finding,) = compared({"y": X, "z": X}, {"y": X})
    assert [row.candidate for row in rows] == ["y", None]
    assert (finding.rule, finding.severity) == ("missing-output", "error")
    assert "Output 'z'" in finding.message
    assert "1 output and not 2" in finding.message
    assert (finding.expected, finding.observed) == ("2 outputs", "1 output")
    assert finding.location["reference"]["output"] == "z"
    assert finding.fix


def test_a_missing_by_product_is_worth_a_note() -> None:
    _, (finding,) = compared({"y": X, "z": X}, {"y": X}, by_product=True)
    assert finding.severity == "note"


def test_an_output_of_drawn_weights_is_passed_over() -> None:
    assert compared({"y": X}, {}, arbitrary=True) == ([], [])


def test_further_outputs_of_the_candidate_are_its_own_affair() -> None:
    rows, findings = compared({"y": X}, {"y": X, "more": X})
    assert (len(rows), findings) == (1, [])


def test_outputs_without_names_are_taken_in_order() -> None:
    rows, _ = compared({"a": X, "b": IMAGE}, {"b": X, "a": IMAGE}, named=False)
    assert [(row.candidate, row.max_abs) for row in rows] == [("b", 0), ("a", 0)]


def test_another_layout_is_told_with_the_permutation_that_undoes_it() -> None:
    moved = np.ascontiguousarray(IMAGE.transpose(0, 3, 1, 2))
    (row,), (finding,) = compared({"y": IMAGE}, {"y": moved})
    assert row.max_abs is None
    assert (finding.rule, finding.severity) == ("shape", "error")
    assert (finding.expected, finding.observed) == ("[1, 5, 7, 3]", "[1, 3, 5, 7]")
    assert "the same numbers" in finding.message
    assert "--candidate-output-perm" in finding.fix
    (row,), findings = compared({"y": IMAGE}, {"y": moved}, permutations={0: (0, 2, 3, 1)})
    assert (row.max_abs, findings) == (0, [])


def test_another_shape_of_other_numbers() -> None:
    _, (finding,) = compared({"y": X}, {"y": X[:, :5]})
    assert "the same numbers" not in finding.message
    assert finding.location["candidate"] == "y"


@pytest.mark.parametrize("shapes", [((0, 3), (0, 3)), ((0, 3), (3, 0))])
def test_empty_outputs(shapes) -> None:
    ours, theirs = (np.zeros(shape, np.float32) for shape in shapes)
    (row,), findings = compared({"y": ours}, {"y": theirs})
    assert row.max_abs is None
    assert [one.rule for one in findings] == ([] if shapes[0] == shapes[1] else ["shape"])


@pytest.mark.parametrize("axes", [(0,), (0, 2), (1, 1)])
def test_a_permutation_of_an_output_that_does_not_fit(axes) -> None:
    with pytest.raises(InputError, match="does not fit its shape"):
        compared({"y": X}, {"y": X}, permutations={0: axes})


def test_where_outputs_are_made(toy) -> None:
    model = toy(x=(None, 6))
    model("mul", model("tanh", "x", to="y", scope="head"), model.weight("w", X), to="z")
    model.drawn, model.by_products = ("w",), ("z",)
    found = output_places(model.gives("y", "z").view(x=X))
    assert found["y"].location["scope"] == "head"
    assert found["y"].location["output"] == "y"
    assert [(one.arbitrary, one.by_product) for one in found.values()] == [(False, False), (True, True)]


def test_an_engine_that_makes_another_model_of_it_is_told() -> None:
    y = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)

    def gap(production: float, traced: float) -> str | None:
        row = OutputRow(
            name="y", candidate="z", dtype="float32", shape=y.shape, max_abs=production, relative=production
        )
        found = production_gap([row], {"y": (y, y + np.float32(traced) * y.std())})
        return found and found.rule

    assert gap(1e-3, 0.0) == "graph-optimizer"
    assert gap(1e-4, 0.0) is None  # another order of the same sums
    assert gap(1e-3, 1e-3) is None  # the operators one by one are as far apart
    assert production_gap([], {}) is None


def test_inputs_that_no_side_names_are_said_to_be_taken_by_order() -> None:
    (said,) = taken_by_order({"foo": X}, {"x": spec(2, 6)}, {"input": spec(2, 6)})
    assert said == "No side has an input named 'foo': the inputs were taken in their order."
    assert taken_by_order({"x": X}, {"x": spec(2, 6)}, {"input": spec(2, 6)}) == []
    assert taken_by_order({"foo": X}, {}, {}) == []
