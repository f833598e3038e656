"""Identification of anything at all: an answer or an `InputError`, the same each time and in each order."""

import math
from dataclasses import fields

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions import FORMULAS, variant
from parity.functions.identify import Identification, identify

BITS = {"float64": np.uint64, "float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16}


@st.composite
def floats(draw: st.DrawFn, count: int) -> np.ndarray:
    """Any bit patterns of any dtype, or numbers of a moderate size in it."""
    dtype = draw(st.sampled_from(sorted(FLOAT_DTYPES)))
    if draw(st.booleans()):
        return draw(hnp.arrays(BITS[dtype], count)).view(FLOAT_DTYPES[dtype])
    return draw(hnp.arrays(np.float32, count, elements=st.floats(-20, 20, width=32))).astype(FLOAT_DTYPES[dtype])


@st.composite
def samples(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """x and y of one shape, unrelated, equal, or related by a variant."""
    count = draw(st.integers(1, 24))
    x = draw(floats(count))
    relation = draw(st.sampled_from(("none", "equal", "variant")))
    if relation == "none":
        return x, draw(floats(count))
    if relation == "equal":
        return x, x
    names = sorted(name for name, formula in FORMULAS.items() if formula.arity == 1)
    with np.errstate(all="ignore"):
        return x, variant(draw(st.sampled_from(names))).value(x).astype(x.dtype)


def outcome(x: np.ndarray, y: np.ndarray) -> Identification | str:
    try:
        return identify(x, y)
    except InputError as error:
        return error.message


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples(), st.randoms(use_true_random=False))
def test_any_arrays_of_equal_shape(data: tuple[np.ndarray, np.ndarray], random) -> None:
    x, y = data
    first = outcome(x, y)
    assert repr(outcome(x.copy(), y.copy())) == repr(first)
    order = list(range(len(x)))
    random.shuffle(order)
    shuffled = outcome(x[order], y[order])
    if isinstance(first, str) or isinstance(shuffled, str):
        assert shuffled == first
        return
    assert shuffled.variant == first.variant
    pairs = np.column_stack([x.astype(float), y.astype(float)])
    distinct = np.unique(pairs[np.isfinite(pairs).all(axis=1)], axis=0)
    assert shuffled.count == first.count <= len(distinct)
    for one in (first, shuffled):
        assert one.variant in (None, one.nearest)
        assert one.reason
        assert one.variant is None or not one.ambiguous
        assert one.count > 0
        for field in fields(one):
            value = getattr(one, field.name)
            if isinstance(value, float):
                assert not math.isnan(value), field.name


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.integers(0, 5))
def test_shapes_that_differ_are_refused(left: int, right: int) -> None:
    x, y = np.ones(left), np.ones(right)
    if left != right or left == 0:
        assert isinstance(outcome(x, y), str)
    else:
        assert isinstance(outcome(x, y), Identification)
