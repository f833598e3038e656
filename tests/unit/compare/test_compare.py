import json
import math
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from parity.compare import compare
from parity.compare.onepass import BLOCK
from parity.errors import InputError

pytestmark = pytest.mark.usefixtures("backend")


def test_one_small_case_by_hand():
    found = compare(np.array([1.0, 2.0, -4.0, 0.0]), np.array([1.0, 2.5, -5.0, 0.25]), limit=0.5)
    assert (found.count, found.finite_count, found.differing, found.over_limit) == (4, 4, 3, 1)
    assert (found.max_abs, found.worst_index) == (1.0, (2,))
    assert (found.max_rel, found.zero_reference) == (0.25, 1)
    assert found.rms == math.sqrt((0.25 + 1 + 0.0625) / 4)
    assert found.bias == (0.5 - 1 + 0.25) / 4
    assert found.cosine == pytest.approx(26 / math.sqrt(21 * 32.3125), rel=1e-15)
    assert found.snr_db == pytest.approx(10 * math.log10(21 / 1.3125), rel=1e-15)


def test_equal_arrays():
    x = np.linspace(-3, 3, 101, dtype=np.float32)
    found = compare(x, x.copy(), limit=0.0)
    assert (found.differing, found.max_abs, found.max_rel, found.max_ulp, found.over_limit) == (0, 0.0, 0.0, 0, 0)
    assert (found.ulp_histogram, found.worst_index, found.cosine, found.rms) == ((101,), None, 1.0, 0.0)
    assert found.snr_db is None


def test_nan_against_a_number_is_a_difference_and_outranks_the_largest():
    reference = np.zeros((3, 4), np.float32)
    candidate = reference.copy()
    candidate[0, 1], candidate[2, 3] = 1e30, np.nan
    found = compare(reference, candidate, limit=1e38)
    assert found.worst_index == found.first_nonfinite_difference == (2, 3)
    assert (found.max_abs, found.nonfinite_differences, found.candidate_nan, found.over_limit) == (
        float(np.float32(1e30)), 1, 1, 1,
    )  # fmt: skip
    assert (found.differing, found.finite_count) == (2, 11)


def test_nan_and_equal_infinities_agree_apart_from_the_sums():
    both = np.array([np.nan, np.inf, -np.inf, 2.0])
    found = compare(both, both)
    assert (found.differing, found.nonfinite_differences, found.finite_count) == (0, 0, 1)
    assert (found.reference_nan, found.candidate_nan, found.reference_inf, found.candidate_inf) == (1, 1, 2, 2)
    assert (found.sums.reference, found.max_abs) == (4.0, 0.0)


@pytest.mark.parametrize(("r", "c"), [(np.inf, -np.inf), (np.inf, 1.0), (1.0, np.inf), (np.nan, np.inf), (0.0, np.nan)])
def test_non_finite_differences(r, c):
    found = compare(np.array([r]), np.array([c]))
    assert (found.nonfinite_differences, found.differing, found.finite_count) == (1, 1, 0)
    assert found.max_abs is found.max_ulp is found.rms is found.max_rel is None


def test_signed_zeros_are_equal():
    found = compare(np.array([0.0, -0.0, 1.0], np.float32), np.array([-0.0, 0.0, 1.0], np.float32))
    assert (found.differing, found.max_ulp, found.ulp_histogram, found.zero_reference) == (0, 0, (3,), 0)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_empty_arrays(shape):
    found = compare(np.empty(shape, np.float32), np.empty(shape, np.float32), limit=1.0)
    assert (found.count, found.finite_count, found.differing, found.over_limit) == (0, 0, 0, 0)
    assert found.ulp_histogram == ()
    assert found.max_abs is found.max_rel is found.max_ulp is found.cosine is found.rms is found.worst_index is None


def test_scalars():
    found = compare(np.float32(1), np.float32(2))
    assert (found.shape, found.worst_index, found.max_abs) == ((), (), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_an_exact_reference_is_measured_in_ulp_of_the_candidate(dtype):
    eps = float(ml_dtypes.finfo(dtype).eps)
    found = compare(np.array([1.0, 1.0 + 0.25 * eps]), np.array([1.0 + eps, 1.0], dtype))
    assert found.ulp_dtype == np.dtype(dtype).name
    assert (found.max_ulp, found.mean_ulp, found.ulp_histogram) == (1.0, 0.625, (0, 2))


def test_the_unit_can_be_chosen():
    reference, candidate = np.array([1.0], np.float32), np.array([1.0 + 2.0**-8], np.float32)
    assert compare(reference, candidate).max_ulp == 2**15
    found = compare(reference, candidate, dtype="bfloat16")
    assert (found.ulp_dtype, found.max_ulp) == ("bfloat16", 0.5)


def test_integers_and_booleans_are_taken_as_float64():
    found = compare(np.array([1, 2, 2**53]), np.array([1.0, 2.5, 2.0**53]))
    assert (found.ulp_dtype, found.max_abs, found.worst_index) == ("float64", 0.5, (1,))
    assert compare(np.array([True, False]), np.array([1, 1], np.int8)).differing == 1


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_float64_cannot_hold_are_refused(dtype):
    large = np.array([0, 2**53 + 1], dtype)
    with pytest.raises(InputError, match=r"reference holds .* beyond 2\^53"):
        compare(large, large)


@pytest.mark.parametrize("array", [np.array([1j]), np.array(["1"]), np.array([object()]), np.ones(1, np.longdouble)])
def test_other_types_are_refused(array):
    with pytest.raises(InputError, match="candidate has dtype"):
        compare(np.ones(1), array)


def test_shapes_must_be_equal():
    with pytest.raises(InputError, match=r"\(3,\), the candidate \(1, 3\)"):
        compare(np.ones(3), np.ones((1, 3)))


@pytest.mark.parametrize("options", [{"limit": -1.0}, {"limit": math.nan}, {"threads": 0}, {"dtype": "int8"}])
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        compare(np.ones(3), np.ones(3), **options)


def test_byte_order_does_not_matter():
    x = np.linspace(0, 1, 9)
    assert compare(x.astype(">f4"), x.astype("<f4")) == compare(x.astype("<f4"), x.astype("<f4"))


def test_float64_overflow_is_saturated_or_undefined_but_never_infinite():
    found = compare(np.array([1e308, 5e-324]), np.array([-1e308, 1.0]))
    assert found.max_abs == found.max_rel == np.finfo(np.float64).max
    assert found.rms is found.bias is found.snr_db is found.cosine is None
    assert found.max_ulp > 2**63
    json.dumps(found.to_dict(), allow_nan=False)


def test_dict_is_json():
    values = compare(np.array([1.0, np.nan]), np.array([1.5, 2.0]), limit=1.0).to_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert values["worst_index"] == [1]
    assert "sums" not in values


def noisy(count, dtype=np.float32):
    """Normal data, and the same off by up to two ulp."""
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(count).astype(dtype)
    factor = 1 + rng.integers(-2, 3, count) * float(ml_dtypes.finfo(dtype).eps)
    return reference, (reference * factor).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_short_cuts_give_what_the_general_way_gives(dtype, monkeypatch):
    reference, candidate = noisy(5 * BLOCK + 7, dtype)
    candidate[:BLOCK] = reference[:BLOCK]
    quick = compare(reference, candidate, limit=1e-7)
    monkeypatch.setattr("parity.compare.native.available", lambda: False)
    monkeypatch.setattr("parity.compare.kernel.Kernel._add_equal", lambda *_: False)
    monkeypatch.setattr("parity.compare.kernel.Kernel._add_close", lambda *_: False)
    slow = compare(reference, candidate, limit=1e-7)
    for name, value in slow.to_dict().items():
        wanted = value if not isinstance(value, float) or "max" in name else pytest.approx(value, rel=1e-10, abs=1e-15)
        assert quick.to_dict()[name] == wanted, name


@pytest.mark.parametrize("position", [0, BLOCK - 1, BLOCK, 3 * BLOCK + 5, 5 * BLOCK - 1])
@pytest.mark.parametrize("value", [9.0, np.nan])
def test_one_wrong_element_is_found_in_any_block_by_any_thread(position, value):
    reference, candidate = noisy(5 * BLOCK)
    candidate[position] = value
    found = compare(reference, candidate, threads=3)
    assert found.worst_index == (position,)


def test_the_first_of_equal_differences_is_reported():
    reference, candidate = np.zeros((300, 300), np.float32), np.zeros((300, 300), np.float32)
    candidate[[7, 2, 280], [1, 299, 5]] = 1.0
    assert compare(reference, candidate, threads=2).worst_index == (2, 299)
    assert compare(np.asfortranarray(reference), np.asfortranarray(candidate), threads=2).worst_index == (2, 299)


def test_merge_refuses_what_does_not_fit():
    a = compare(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(InputError, match="first axis"):
        a.merge(compare(np.ones((2, 4)), np.ones((2, 4))))
    with pytest.raises(InputError, match="limit"):
        a.merge(compare(np.ones((2, 3)), np.ones((2, 3)), limit=1.0))
    with pytest.raises(InputError, match="ulp_dtype"):
        a.merge(compare(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)))
    with pytest.raises(InputError, match="first axis"):
        compare(1.0, 1.0).merge(compare(1.0, 1.0))


@pytest.mark.parametrize("layout", ["contiguous", "fortran", "mixed", "strided", "memmap", "general"])
def test_memory_does_not_grow_with_the_arrays(layout, tmp_path):
    shape = (2048, 1024)  # 8 MiB a side
    reference, candidate = (side.reshape(shape) for side in noisy(shape[0] * shape[1]))
    if layout == "fortran":
        reference, candidate = np.asfortranarray(reference), np.asfortranarray(candidate)
    elif layout == "mixed":
        candidate = np.asfortranarray(candidate)
    elif layout == "strided":
        reference, candidate = reference[::2, ::2], candidate[::2, ::2]
    elif layout == "memmap":
        reference.tofile(tmp_path / "reference")
        reference = np.memmap(tmp_path / "reference", np.float32, "r", shape=shape)
    elif layout == "general":
        candidate[::3, ::5] = np.nan
    tracemalloc.start()
    try:
        compare(reference, candidate, threads=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20
