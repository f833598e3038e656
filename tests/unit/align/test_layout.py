"""Layouts: whatever one framework does to the axes of a tensor is found by its numbers, and its inverse undoes it."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from parity.align import layout as layouts
from parity.align.layout import Layout, arrangements, distance, find_layout, likely_layout, sampled_distance


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@st.composite
def moved(draw) -> tuple[np.ndarray, np.ndarray]:
    """A tensor, and what another framework may hold instead: an axis split, all permuted, two neighbours merged.

    Of a split axis at least one part is an axis of the result, as heads are.
    """
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    split = list(shape)
    parts = set()
    if draw(st.booleans()):
        axis = draw(st.integers(0, len(split) - 1))
        split[axis : axis + 1] = [split[axis], draw(st.integers(2, 4))]
        shape[axis] *= split[axis + 1]
        parts = set(split[axis : axis + 2])
    order = draw(st.permutations(range(len(split))))
    whole = random(*shape)
    other = whole.reshape(split).transpose(order)
    if draw(st.booleans()) and other.ndim > 1:
        axis = draw(st.integers(0, other.ndim - 2))
        merged = list(other.shape)
        merged[axis : axis + 2] = [merged[axis] * merged[axis + 1]]
        other = other.reshape(merged)
    assume(not parts or parts & set(other.shape) - {1} or 1 in parts)
    return whole, np.ascontiguousarray(other)


@settings(deadline=None, max_examples=50)
@given(moved())
def test_any_split_permute_and_merge_is_found_and_undone(case) -> None:
    whole, other = case
    assume(whole.size > 1)
    found = find_layout(whole, other, 1e-6)
    assert found is not None
    layout, gap = found
    assert gap == 0
    np.testing.assert_array_equal(layout.apply(whole), other)
    np.testing.assert_array_equal(layout.inverse.apply(other), whole)
    assert layout.inverse.inverse.apply(whole).tobytes() == other.tobytes()


@settings(deadline=None, max_examples=50)
@given(moved())
def test_a_layout_survives_json(case) -> None:
    whole, other = case
    for layout in arrangements(whole.shape, other.shape)[:8]:
        assert Layout.of(layout.as_json()) == layout
        moved_there = layout.apply(whole)
        assert moved_there.shape == other.shape
        np.testing.assert_array_equal(layout.inverse.apply(moved_there), whole)


@settings(deadline=None, max_examples=40)
@given(moved(), st.floats(1e-6, 0.01))
def test_an_error_that_is_small_does_not_hide_the_layout(case, size: float) -> None:
    whole, other = case
    assume(whole.size > 8)
    noisy = other + size * random(*other.shape, seed=1)
    found = find_layout(whole, noisy.astype(np.float32), 0.1)
    assert found is not None
    np.testing.assert_array_equal(found[0].apply(whole), other)
    assert found[1] < 10 * size


@pytest.mark.parametrize(
    ("source", "split", "axes", "shape"),
    [
        ((2, 5, 7, 3), (2, 5, 7, 3), (0, 3, 1, 2), (2, 3, 5, 7)),  # NHWC to NCHW
        ((2, 6, 12), (2, 6, 4, 3), (0, 2, 1, 3), (2, 4, 6, 3)),  # heads split off
        ((2, 4, 6, 3), (2, 4, 6, 3), (0, 2, 1, 3), (2, 6, 12)),  # heads merged
        ((2, 4, 6, 3), (2, 4, 6, 3), (0, 2, 1, 3), (12, 12)),  # … and the batch folded in
        ((2, 6, 12), (2, 6, 4, 3), (0, 2, 1, 3), (8, 6, 3)),  # heads split off, batch folded in
        ((5, 7), (5, 7), (1, 0), (7, 5)),  # transposed
        ((4, 4), (4, 4), (1, 0), (4, 4)),  # transposed, with no hint in the shape
        ((3, 3, 3), (3, 3, 3), (2, 0, 1), (3, 3, 3)),
    ],
)
def test_what_frameworks_do(source, split, axes, shape) -> None:
    whole = random(*source)
    other = whole.reshape(split).transpose(axes).reshape(shape)
    found = find_layout(whole, other, 0.01)
    assert found is not None
    np.testing.assert_array_equal(found[0].apply(whole), other)


def test_a_large_tensor_is_told_by_samples() -> None:
    whole = random(8, 16, 16, 12)
    other = np.ascontiguousarray(whole.transpose(0, 3, 1, 2))
    assert whole.size > layouts.SAMPLES
    layout, gap = find_layout(whole, other, 0.01)
    assert gap == 0
    np.testing.assert_array_equal(layout.apply(whole), other)


@pytest.mark.parametrize(("one", "two"), [((2, 3), (3, 3)), ((4,), (5,)), ((0,), (1,))])
def test_tensors_of_other_sizes_have_no_layout(one, two) -> None:
    assert arrangements(one, two) == ()
    assert find_layout(random(*one), random(*two), 1.0) is None


def test_other_numbers_have_no_layout() -> None:
    assert find_layout(random(6, 8), random(8, 6, seed=1), 0.1) is None


def test_the_plain_arrangement_comes_first_and_wins_where_all_fit() -> None:
    constant = np.full((3, 3), 2.0, np.float32)
    layout, gap = find_layout(constant, constant, 0.1)
    assert layout.trivial
    assert gap == 0
    assert arrangements((2, 3), (3, 2))[0].axes == (0, 1)


def test_nothing_has_the_trivial_layout() -> None:
    empty = np.zeros((0, 3), np.float32)
    layout, gap = find_layout(empty, empty, 0.1)
    assert (layout.trivial, gap) == (True, 0.0)


def test_zero_dimensional_tensors() -> None:
    one = np.float32(2).reshape(())
    assert find_layout(one, one, 0.1)[0].trivial
    layout, _ = find_layout(one, one.reshape(1, 1), 0.1)
    assert layout.apply(one).shape == (1, 1)
    assert layout.inverse.apply(one.reshape(1, 1)).shape == ()


@pytest.mark.parametrize(
    ("layout", "trivial", "words"),
    [
        (Layout.reshaped((2, 3), (2, 3)), True, ""),
        (Layout.reshaped((2, 3), (6,)), False, "reshaped"),
        (Layout((2, 3), (2, 3), (1, 0), (3, 2)), False, "axes 1, 0"),
        (Layout((3, 3), (3, 3), (1, 0), (3, 3)), False, "axes 1, 0"),
    ],
)
def test_words(layout: Layout, trivial: bool, words: str) -> None:
    assert (layout.trivial, layout.words()) == (trivial, words)


def test_the_likely_layout_of_other_numbers() -> None:
    whole = random(4, 6, 5) + np.arange(6)[:, None]
    other = whole.transpose(0, 2, 1) + 0.5 * random(4, 5, 6, seed=1)
    assert likely_layout(whole, other).axes == (0, 2, 1)
    assert likely_layout(random(3, 5), random(3, 5, 1, seed=1)) is None


def test_chance_is_no_reason_for_an_odd_layout() -> None:
    for seed in range(1, 20):
        assert likely_layout(random(16, 8), random(2, 8, 8, seed=seed)) == Layout.reshaped((16, 8), (2, 8, 8))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 300), st.integers(0, 1000), st.floats(0.01, 100), st.floats(-100, 100))
@example(40_000, 0, 1.0, 0.0)
def test_distance_is_the_error_in_units_of_the_spread(count: int, seed: int, scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal(count) * scale + shift, rng.standard_normal(count) * scale + shift
    spread = a.std() if a.std() > 1e-6 * math.sqrt(np.mean(a * a)) else math.sqrt(np.mean(a * a)) or 1.0
    assert distance(a, b) == pytest.approx(math.sqrt(np.mean((a - b) ** 2)) / spread, rel=1e-6)
    assert distance(a, a) == 0


def test_distance_of_blocks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = random(1000), random(1000, seed=1)
    whole = distance(a, b)
    monkeypatch.setattr(layouts, "BLOCK", 7)
    assert distance(a, b) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "gap"),
    [
        ([], [], 0.0),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [3.0, 3.0], 3.0),
        ([5.0, 5.0], [5.0, 6.0], pytest.approx(math.sqrt(0.5) / 5)),
        ([math.nan, 1.0, 2.0], [math.nan, 1.0, 2.0], 0.0),
        ([math.nan, 1.0, 2.0], [0.0, 1.0, 2.0], math.inf),
        ([0.0, 1.0], [math.nan, 1.0], math.inf),
        ([math.inf, 1.0, 2.0], [math.inf, 1.0, 2.0], 0.0),
        ([math.inf, 1.0], [-math.inf, 1.0], math.inf),
        ([math.inf, 1.0], [math.nan, 1.0], math.inf),
        ([math.nan], [math.nan], 0.0),
        ([True, False], [True, True], pytest.approx(math.sqrt(2))),
        ([1, 2, 3], [1, 2, 3], 0.0),
    ],
)
def test_distance_of_odd_numbers(a, b, gap) -> None:
    dtype = None if a and isinstance(a[0], bool | int) else np.float32
    assert distance(np.array(a, dtype), np.array(b, dtype)) == gap


def test_sampled_distance_is_that_of_the_arranged_tensors() -> None:
    whole, other = random(4, 5), random(5, 4, seed=1)
    layout = Layout((4, 5), (4, 5), (1, 0), (5, 4))
    assert sampled_distance(layout, whole, other) == pytest.approx(distance(layout.apply(whole), other))


@settings(deadline=None)
@given(moved(), st.sampled_from([1e-4, 0.02, 0.5]), st.floats(0, 2), st.integers(0, 3))
def test_the_glance_refuses_nothing_that_fits(pair, limit: float, size: float, seed: int) -> None:
    whole, other = pair
    noisy = (other + size * limit * other.std() * random(*other.shape, seed=seed)).astype(np.float32)
    with_glance = find_layout(whole, noisy, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "FLOATS", frozenset())
        assert find_layout(whole, noisy, limit) == with_glance


@pytest.mark.parametrize("fill", [-1e9, -np.inf, np.nan, 60_000.0])
def test_the_glance_does_not_stumble_over_what_masks_fill_in(fill: float) -> None:
    whole = random(4, 6, 50)
    whole[:, :, 20:] = fill
    fit = find_layout(whole, whole.transpose(0, 2, 1), 1e-4)
    assert fit is not None
    assert fit[0].axes == (0, 2, 1)


def test_a_few_outliers_hide_no_counterpart() -> None:
    """Differences that are small beside the spread may be large beside most of the elements."""
    whole = random(64, 64) * 1e-3
    whole[::9, ::9] *= 1e5
    other = whole + 0.01 * whole.std() * random(64, 64, seed=1)
    fit = find_layout(whole, other.astype(np.float32), 0.02)
    assert fit is not None
    assert fit[1] < 0.02
