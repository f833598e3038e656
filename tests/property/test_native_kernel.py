"""The kernel in C gives what the NumPy kernel gives."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.compare import compare, native, onepass
from parity.compare.local import local_error

pytestmark = pytest.mark.skipif(not native.available(), reason="the native kernel was not built")

SPECIAL = np.array(
    [
        0x00000000, 0x80000000,  # zeros
        0x00000001, 0x80000001, 0x007FFFFF,  # subnormal: least of either sign, largest
        0x00800000, 0x80800000,  # least normal
        0x7F7FFFFF, 0xFF7FFFFF,  # largest
        0x7F800000, 0xFF800000,  # infinities
        0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF,  # NaN: quiet, signalling, all bits
        0x3F800000, 0xBF800000, 0x3F800001,  # about 1
    ],
    np.uint32,
)  # fmt: skip
LENGTHS = st.one_of(st.integers(0, 70), st.sampled_from([2047, 2048, 2049, 4096, 6151]))
"""Around the lengths of vectors, and of the pieces in which the kernel works."""


@st.composite
def pairs(draw):
    """Flat float32 arrays, each at any address: unrelated bits, steps of any size, sign flips, special values."""
    size = draw(LENGTHS)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    reference = rng.integers(0, 2**32, size, dtype=np.uint32)
    if draw(st.booleans()):
        reference = rng.standard_normal(size).astype(np.float32).view(np.uint32)
    steps = rng.integers(0, 2 ** draw(st.integers(1, 31)), size, dtype=np.uint32, endpoint=True)
    candidate = reference + steps * (rng.random(size) < draw(st.sampled_from([0.0, 0.01, 1.0])))
    candidate ^= np.uint32(2**31) * (rng.random(size) < draw(st.sampled_from([0.0, 0.1])))
    for side in (reference, candidate):
        special = rng.random(size) < draw(st.sampled_from([0.0, 0.001, 0.5]))
        side[special] = rng.choice(SPECIAL, size)[special]
    return tuple(
        at_address(side.astype(np.uint32).view(np.float32), draw(st.integers(0, 7))) for side in (reference, candidate)
    )


def at_address(array, offset):
    """A copy that starts ``offset`` bytes behind a multiple of 16; aligned for float32 only at 0 and 4."""
    memory = np.empty(array.nbytes + offset, np.uint8)
    moved = memory[offset:].view(np.float32)
    moved[:] = array
    return moved


def both_ways(reference, candidate, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "available", lambda: False)
        wanted = compare(reference, candidate, limit=limit)
    return compare(reference, candidate, limit=limit), wanted


EXACT = (
    "count", "finite_count", "differing", "max_abs", "max_rel", "zero_reference", "worst_index", "max_ulp",
    "ulp_histogram", "reference_nan", "reference_inf", "candidate_nan", "candidate_inf", "nonfinite_differences",
    "first_nonfinite_difference", "over_limit", "mean_ulp",
)  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(pairs(), st.sampled_from([None, 0.0, 1e-45, 1e-6, 0.5, 3.5e38, 1e300, math.inf]))
def test_native_and_numpy_agree(pair, limit):
    found, wanted = both_ways(*pair, limit)
    for name in EXACT:
        assert getattr(found, name) == getattr(wanted, name), name
    assert found.sums.ulp == wanted.sums.ulp
    r, c = (side.astype(np.float64) for side in drop_nonfinite(*pair))
    terms = {"reference": r * r, "candidate": c * c, "product": r * c, "error": (c - r) ** 2, "difference": c - r}
    for name, values in terms.items():
        # The bound in the docstring of Comparison, without block or count above these.
        bound = (onepass.BLOCK + 1) * 2.0**-53 * math.fsum(np.abs(values))
        assert abs(getattr(found.sums, name) - math.fsum(values)) <= bound, name


def drop_nonfinite(reference, candidate):
    finite = np.isfinite(reference) & np.isfinite(candidate)
    return reference[finite], candidate[finite]


def two_pieces(first, second):
    """Zeros, but for a pair (r, c) in each of two pieces that the kernel takes one after the other."""
    reference, candidate = np.zeros((2, 4096), np.float32)
    (reference[5], candidate[5]), (reference[4000], candidate[4000]) = first, second
    return reference, candidate


def test_a_later_difference_may_be_larger_by_less_than_float32_can_tell():
    found, wanted = both_ways(*two_pieces((0.0, 1.0), (-(2.0**-30), 1.0)), None)
    assert found.max_abs == wanted.max_abs == 1 + 2.0**-30
    assert found.worst_index == wanted.worst_index == (4000,)


def test_a_difference_may_be_over_the_limit_by_less_than_float32_can_tell():
    found, wanted = both_ways(*two_pieces((0.0, 5.0), (-(2.0**-30), 1.0)), 1.0)
    assert found.over_limit == wanted.over_limit == 2


def test_relative_differences_may_be_beyond_the_range_of_float32():
    tiny = 2.0**-149
    found, wanted = both_ways(*two_pieces((tiny, 1e-3), (tiny, 1.0)), None)
    assert found.max_rel == wanted.max_rel == 2.0**149


@st.composite
def local_arrays(draw):
    """z, twin, candidate and the candidate in float64, of any scale, with or without what is not finite."""
    size = draw(st.sampled_from([1, 7, 4096, 40_000]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    z = rng.standard_normal(size) * 10.0 ** draw(st.integers(-42, 30))
    twin, candidate = ((z * (1 + 1e-7 * rng.standard_normal(size))).astype(dtype) for _ in range(2))
    own = z * (1 + 1e-9 * rng.standard_normal(size)) if draw(st.booleans()) else None
    odd = rng.random(size) < draw(st.sampled_from([0.0, 0.0, 0.01]))
    candidate[odd] = rng.choice([np.inf, -np.inf, np.nan], size)[odd]
    return {"exact": z, "twin": twin, "candidate": candidate, "candidate_exact": own, "dtype": dtype}


@given(local_arrays())
@settings(max_examples=60, deadline=None)
def test_local_errors_are_the_same(arrays):
    fast = local_error(**arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "available", lambda: False)
        slow = local_error(**arrays)
    for name in (field.name for field in fields(fast)):
        one, two = getattr(fast, name), getattr(slow, name)
        assert (one is None) == (two is None), name
        assert one is None or one == pytest.approx(two, rel=1e-9, abs=0.0), name
