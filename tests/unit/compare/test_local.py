"""Local errors: floors, errors and gaps as they are defined, whatever the dtype, the blocks and the odd numbers."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.compare import local
from parity.compare.local import HALF_ULP_RMS, LocalError, dot, local_error, ratio, rms
from parity.dtypes import FLOAT_DTYPES

RANDOM = np.random.default_rng(4)
Z = RANDOM.standard_normal(1000)


def measured(z, twin=None, candidate=None, own=None, dtype: str = "float32") -> LocalError:
    """With the exact numbers where none are given."""
    z = np.asarray(z, np.float64)
    as_dtype = [z if one is None else np.asarray(one) for one in (twin, candidate)]
    return local_error(exact=z, twin=as_dtype[0], candidate=as_dtype[1], candidate_exact=own, dtype=dtype)


def spacing(z: np.ndarray, dtype: str) -> np.ndarray:
    """Distance of each number, cut to its leading bit, to the next one of a dtype."""
    info = ml_dtypes.finfo(FLOAT_DTYPES[dtype])
    leading = np.maximum(2.0 ** np.floor(np.log2(np.abs(z))), float(info.smallest_normal))
    if dtype == "float64":
        return np.spacing(leading)
    narrow = leading.astype(FLOAT_DTYPES[dtype])
    return (np.nextafter(narrow, narrow.dtype.type(math.inf)) - narrow).astype(np.float64)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 300.0])
def test_the_floor_is_half_an_ulp_where_the_twin_is_exact(dtype: str, scale: float) -> None:
    z = Z * scale
    assert measured(z, dtype=dtype).floor == pytest.approx(HALF_ULP_RMS * rms(spacing(z, dtype)), rel=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_below_the_normal_numbers_the_ulp_stays(dtype: str) -> None:
    least = float(ml_dtypes.finfo(FLOAT_DTYPES[dtype]).smallest_normal)
    step = float(ml_dtypes.finfo(FLOAT_DTYPES[dtype]).smallest_subnormal)
    for z in ([least / 3], [least / 1000], [0.0]):
        assert measured(z, dtype=dtype).floor == pytest.approx(HALF_ULP_RMS * step)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rounding_once_is_about_the_floor(dtype: str) -> None:
    rounded = Z.astype(FLOAT_DTYPES[dtype])
    found = measured(Z, rounded, rounded, Z, dtype)
    assert 0.7 < found.floor / (HALF_ULP_RMS * rms(spacing(Z, dtype))) < 1.3
    assert found.excess == pytest.approx(1.0, rel=0.3)
    assert found.rounding_excess == found.excess
    assert found.gap_excess == 0


def test_the_floor_is_the_error_of_the_twin_where_that_is_larger() -> None:
    found = measured(Z, Z + 0.01, Z + 0.02)
    assert found.floor == pytest.approx(0.01)
    assert found.excess == pytest.approx(2.0)


def test_the_numbers_are_those_of_their_definitions() -> None:
    own, candidate = Z + 0.25, Z + 0.25 + RANDOM.standard_normal(1000) * 0.1
    found = measured(Z, None, candidate, own)
    assert found.count == 1000
    assert found.scale == pytest.approx(rms(Z))
    assert found.error == pytest.approx(rms(candidate - Z))
    assert found.gap == pytest.approx(0.25)
    assert found.rounding == pytest.approx(rms(candidate - own))
    assert found.max_abs == pytest.approx(np.abs(candidate - Z).max())
    assert found.max_gap == pytest.approx(0.25 / (spacing(Z, "float32").max() / 2))
    assert found.gap_excess == pytest.approx(0.25 / found.floor)


def test_without_the_candidate_in_float64_nothing_is_said_of_its_function() -> None:
    found = measured(Z, None, Z + 1)
    assert (found.gap, found.rounding, found.max_gap) == (None, None, None)
    assert (found.gap_excess, found.rounding_excess) == (None, None)


def test_the_greatest_difference_shows_a_single_element() -> None:
    own = Z.copy()
    own[17] += 1.0
    found = measured(Z, Z.astype(np.float32), own, own)
    assert found.max_gap > 1e5
    assert found.max_abs == pytest.approx(1.0)
    own[17] -= 2.0
    assert measured(Z, Z.astype(np.float32), own, own).max_abs == pytest.approx(1.0), "downwards as well"


@pytest.mark.parametrize(
    ("z", "candidate", "lost", "gained"),
    [
        ([1.0, 2.0], [1.0, math.inf], 1, 0),
        ([1.0, 2.0], [math.nan, -math.inf], 2, 0),
        ([math.inf, 2.0], [7.0, 2.0], 0, 1),
        ([math.nan, 2.0], [math.nan, 2.0], 0, 0),
        ([math.inf, 2.0], [math.nan, 2.0], 0, 0),
        ([math.inf, 2.0], [math.inf, 2.0], 0, 0),
        ([math.nan, 1.0], [1.0, math.nan], 1, 1),
    ],
)
def test_what_is_not_finite_is_counted_and_left_out(z, candidate, lost: int, gained: int) -> None:
    found = measured(z, None, candidate)
    assert (found.finite_lost, found.finite_gained) == (lost, gained)
    assert found.count == 2
    assert math.isfinite(found.error)
    assert math.isfinite(found.floor)


def test_elements_where_the_twin_overflows_are_left_out() -> None:
    found = measured([1.0, 1e39], [1.0, math.inf], [1.0, math.inf], np.array([1.0, 1e39]))
    assert (found.finite_lost, found.error, found.gap) == (1, 0.0, 0.0)


def test_a_nan_in_the_candidate_in_float64_alone_hides_nothing_else() -> None:
    found = measured([1.0, 2.0], None, [1.5, 2.0], np.array([1.5, math.nan]))
    assert (found.error, found.gap) == (0.5, 0.5)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_of_nothing(shape) -> None:
    none = np.zeros(shape)
    found = measured(none, none, none, none)
    assert found == LocalError(
        count=0,
        scale=0.0,
        floor=0.0,
        error=0.0,
        gap=0.0,
        rounding=0.0,
        max_abs=0.0,
        max_excess=0.0,
        max_gap=0.0,
        finite_lost=0,
        finite_gained=0,
    )
    assert found.excess == 0


def test_all_zeros_are_equal_and_anything_else_is_far_off() -> None:
    zero = np.zeros(5)
    assert measured(zero, zero, zero, zero).excess == 0
    found = measured(zero, zero, zero + 1e-30, zero + 1e-30)
    assert found.excess > 1e10
    assert found.gap_excess > 1e10


def test_nothing_finite_at_all() -> None:
    nan = np.full(3, math.nan)
    found = measured(nan, nan, nan, nan)
    assert (found.count, found.error, found.floor, found.excess) == (3, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("error", "floor", "found"), [(0.0, 0.0, 0.0), (1.0, 0.0, math.inf), (3.0, 2.0, 1.5), (0.0, 2.0, 0.0)]
)
def test_ratio(error: float, floor: float, found: float) -> None:
    assert ratio(error, floor) == found


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 60), st.integers(1, 9), st.integers(0, 2**32), st.booleans())
def test_blocks_are_the_whole(size: int, block: int, seed: int, odd: bool) -> None:
    rng = np.random.default_rng(seed)
    z, twin, candidate, own = (rng.standard_normal(size) for _ in range(4))
    if odd:
        for one in (z, candidate, twin, own):
            one[rng.random(size) < 0.1] = rng.choice([math.nan, math.inf, -math.inf])
    whole = measured(z, twin, candidate, own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "BLOCK", block)
        parts = measured(z, twin, candidate, own)
    for name in LocalError.__slots__:
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12), name


def test_shapes_and_dtypes_of_the_arrays_do_not_matter() -> None:
    plain = measured(Z, Z.astype(np.float32), Z.astype(np.float32), Z)
    shaped = local_error(
        exact=Z.reshape(10, 100),
        twin=Z.astype(np.float32).reshape(1000),
        candidate=Z.astype(np.float32).reshape(100, 10),
        candidate_exact=Z.reshape(2, 5, 100),
        dtype="float32",
    )
    assert shaped == plain


def test_complex_numbers_are_their_parts() -> None:
    parts = measured([1.0, 2.0, 3.0, 4.0], None, [1.0, 2.5, 3.0, 4.0])
    z = np.array([1 + 2j, 3 + 4j])
    assert measured_complex(z, np.array([1 + 2.5j, 3 + 4j])) == parts


def measured_complex(z: np.ndarray, candidate: np.ndarray) -> LocalError:
    return local_error(exact=z, twin=z, candidate=candidate, candidate_exact=None, dtype="float32")


def test_sums_of_products_and_sizes() -> None:
    assert dot(Z, Z) == pytest.approx(float(np.sum(Z * Z)))
    assert rms(np.array([])) == 0
    assert rms(np.zeros(3)) == 0
    assert rms(np.array([3e200, 4e200])) == pytest.approx(math.sqrt(12.5) * 1e200)
    assert rms(np.array([3e-200, 4e-200])) == pytest.approx(math.sqrt(12.5) * 1e-200)
    assert rms(np.array([1.0, math.inf])) == math.inf
