"""Properties that any two arrays have: agreement with the definitions, with any cut into blocks, with any layout."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.compare import compare, native, onepass, ulp, ulp_distance
from parity.dtypes import FLOAT_DTYPES

BITS = {"float64": np.uint64, "float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16}
SUMMED = ("mean_ulp", "rms", "bias", "cosine", "snr_db", "sums")
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan)


@pytest.fixture(autouse=True, scope="module", params=["native", "numpy"])
def backend(request):
    """Runs the properties with the kernel in C, where it was built, and once more without it."""
    if request.param == "native" and not native.available():
        pytest.skip("the native kernel was not built")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(native, "available", lambda: False)
        yield


@st.composite
def pairs(draw, names=tuple(FLOAT_DTYPES), same=None):
    """Two arrays of a length up to 40: unrelated bit patterns, neighbours, equal ones and special values mixed."""
    name = draw(st.sampled_from(names))
    other = name if draw(st.booleans()) or same else draw(st.sampled_from(names))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(0, 40))

    def bits(kind):
        patterns = rng.integers(0, np.iinfo(BITS[kind]).max, size, dtype=BITS[kind], endpoint=True)
        return patterns.view(FLOAT_DTYPES[kind])

    reference, candidate = bits(name), bits(other)
    with np.errstate(all="ignore"):
        if draw(st.booleans()):
            reference = rng.standard_normal(size).astype(reference.dtype)
        near = rng.random(size) < draw(st.sampled_from([0.0, 0.5, 1.0]))
        close = reference.astype(np.float64) * (1 + rng.integers(-2, 3, size) * 2.0**-10)
        candidate[near] = close[near].astype(candidate.dtype)
        for side in (reference, candidate):
            special = rng.random(size) < draw(st.sampled_from([0.0, 0.2]))
            side[special] = rng.choice(SPECIAL, size)[special].astype(side.dtype)
    return reference, candidate


def steps(value):
    """Place of a number among those of its type, counted from 0."""
    width = value.dtype.itemsize * 8
    bits = int(np.asarray(value).reshape(1).view(f"u{width // 8}")[0])
    sign, magnitude = bits >> (width - 1), bits & (2 ** (width - 1) - 1)
    return -magnitude if sign else magnitude


def naive(reference, candidate):
    """The exact statistics by their definitions, one position at a time."""
    both = list(zip(reference, candidate, strict=True))
    r, c = [float(x) for x in reference], [float(x) for x in candidate]
    finite = [i for i in range(len(r)) if math.isfinite(r[i]) and math.isfinite(c[i])]
    agree = [i for i in range(len(r)) if (math.isnan(r[i]) and math.isnan(c[i])) or r[i] == c[i]]
    bad = [i for i in range(len(r)) if i not in finite and i not in agree]
    errors = {i: abs(float(np.subtract(c[i], r[i]))) for i in finite}
    top = max(errors.values(), default=None)
    relative = [float(np.divide(errors[i], abs(r[i]))) for i in finite if r[i]]
    largest = float(np.finfo(np.float64).max)
    if reference.dtype == candidate.dtype:
        ulps = [abs(steps(both[i][0]) - steps(both[i][1])) for i in finite]
    else:
        units = ulp(r, candidate.dtype)
        ulps = [min(float(np.divide(errors[i], units[i])), largest) for i in finite]
    worst = min((i for i in finite if top and errors[i] == top), default=None)
    return {
        "count": len(r),
        "finite_count": len(finite),
        "differing": len(r) - len(agree),
        "max_abs": None if top is None else min(top, largest),
        "max_rel": min(max(relative), largest) if relative else None,
        "zero_reference": sum(1 for i in finite if not r[i] and c[i]),
        "worst_index": (bad[0],) if bad else None if worst is None else (worst,),
        "max_ulp": max(ulps, default=None),
        "nonfinite_differences": len(bad),
        "first_nonfinite_difference": (bad[0],) if bad else None,
        "over_limit": sum(1 for i in finite if errors[i] > 1e-3) + len(bad),
        "reference_nan": sum(map(math.isnan, r)),
        "candidate_nan": sum(map(math.isnan, c)),
        "reference_inf": sum(map(math.isinf, r)),
        "candidate_inf": sum(map(math.isinf, c)),
        "ulp_histogram": histogram(ulps),
    }


def histogram(ulps):
    bins = [0 if not u else 1 if u <= 1 else 1 + ceil_log2(u) for u in ulps]
    return tuple(bins.count(k) for k in range(max(bins) + 1)) if bins else ()


def ceil_log2(u):
    """Exact: an int by its bits, a float by its exponent."""
    if isinstance(u, int):
        return (u - 1).bit_length()
    mantissa, exponent = math.frexp(u)
    return exponent - 1 if mantissa == 0.5 else exponent


@settings(deadline=None, max_examples=100)
@given(pairs())
def test_averages_are_those_of_the_definitions_within_rounding(pair):
    with np.errstate(invalid="ignore"):  # signalling NaN
        reference, candidate = (side.astype(np.float64) for side in pair)
    fit = (np.abs(reference) < 1e100) & (np.abs(candidate) < 1e100)  # squares stay in range
    reference, candidate = pair[0][fit], pair[1][fit]
    found = compare(reference, candidate)
    if not found.finite_count:
        assert found.rms is found.bias is found.cosine is found.snr_db is found.mean_ulp is None
        return
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    d = c - r
    assert found.rms == pytest.approx(math.sqrt(math.fsum(d * d) / d.size), rel=1e-13)
    assert found.bias == pytest.approx(math.fsum(d) / d.size, rel=0, abs=1e-14 * float(np.abs(d).sum()))
    norm = math.sqrt(math.fsum(r * r)) * math.sqrt(math.fsum(c * c))
    assert (found.cosine is None) == (norm == 0)
    if norm:
        assert found.cosine == pytest.approx(math.fsum(r * c) / norm, abs=1e-13)
    if found.snr_db is not None:
        decades = math.log10(math.fsum(r * r)) - math.log10(math.fsum(d * d))  # their quotient may overflow
        assert found.snr_db == pytest.approx(10 * decades, abs=1e-9)


def exact_part(comparison):
    return replace(comparison, **dict.fromkeys(SUMMED))


def assert_same(a, b):
    """Everything exact is equal; sums agree within their rounding."""
    assert exact_part(a) == exact_part(b)
    for name in ("reference", "candidate", "product", "error", "difference", "ulp"):
        scale = math.sqrt(a.sums.reference * a.sums.candidate) if name == "product" else 0.0
        if name == "difference" and a.max_abs is not None:
            scale = a.max_abs * a.finite_count
        left, right = getattr(a.sums, name), getattr(b.sums, name)
        if math.isfinite(left) and math.isfinite(scale):
            assert right == pytest.approx(left, rel=1e-12, abs=1e-12 * scale)


@settings(deadline=None, max_examples=200)
@given(pairs(), st.lists(st.integers(0, 40), max_size=6))
def test_blocks_merge_to_the_whole(pair, cuts):
    bounds = [0, *sorted(min(cut, pair[0].size) for cut in cuts), pair[0].size]
    merged = None
    for low, high in pairwise(bounds):
        part = compare(pair[0][low:high], pair[1][low:high], limit=1e-3)
        merged = part if merged is None else merged.merge(part)
    assert_same(compare(*pair, limit=1e-3), merged)


def set_block(patch, elements):
    patch.setattr(onepass, "BLOCK", elements)
    patch.setattr(onepass, "_NATIVE_BLOCK", elements)


@settings(deadline=None, max_examples=100)
@given(pairs(), st.integers(1, 9), st.integers(1, 3))
def test_block_size_and_threads_do_not_matter(pair, block, threads):
    whole = compare(*pair, limit=1e-3)
    with pytest.MonkeyPatch.context() as patch:
        set_block(patch, block)
        assert_same(whole, compare(*pair, limit=1e-3, threads=threads))


@settings(deadline=None, max_examples=100)
@given(pairs(), st.data())
def test_layout_does_not_matter(pair, data):
    size = pair[0].size - pair[0].size % 6
    shape = data.draw(st.sampled_from([(size // 6, 3, 2), (2, size // 6, 3), (6, size // 6), (size,)]))
    plain = [side[:size].reshape(shape) for side in pair]
    order = data.draw(st.permutations(range(len(shape))))
    inverse = np.argsort(order)

    def laid_out(array):
        layout = data.draw(st.sampled_from(["permuted", "reversed", "strided", "plain"]))
        if layout == "permuted":
            return np.ascontiguousarray(array.transpose(order)).transpose(inverse)
        if layout == "reversed":
            return np.ascontiguousarray(array[::-1])[::-1]
        if layout == "strided":
            spread = np.zeros((*shape, 2), array.dtype)
            spread[..., 0] = array
            return spread[..., 0]
        return array

    with pytest.MonkeyPatch.context() as patch:
        set_block(patch, data.draw(st.sampled_from([1, 4, 8192])))
        assert_same(compare(*plain), compare(*(laid_out(side) for side in plain)))


@settings(deadline=None, max_examples=100)
@given(pairs(same=True))
def test_distance_is_the_number_of_neighbours_between(pair):
    distances = ulp_distance(*pair)
    for a, b, distance in zip(*pair, distances, strict=True):
        nan = math.isnan(a), math.isnan(b)
        if any(nan):
            assert distance == (0 if all(nan) else np.iinfo(distances.dtype).max)
        else:
            assert int(distance) == abs(steps(a) - steps(b))
