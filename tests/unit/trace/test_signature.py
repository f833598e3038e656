"""Signatures: the same in every order of the same numbers, and far apart where the numbers are others."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.trace.signature import Signature, Signatures, signature

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", ml_dtypes.bfloat16, "int64", "int8", "uint32", "uint8", "bool"]
)
def test_of_every_dtype(dtype) -> None:
    array = (RANDOM.standard_normal((5, 7)) * 4).astype("int64").astype(dtype)
    wide = array.astype(np.float64)
    found = signature(array)
    assert (found.count, found.finite) == (35, 35)
    assert found.mean == pytest.approx(wide.mean())
    assert found.rms == pytest.approx(math.sqrt(np.square(wide).mean()))
    assert (found.low, found.high) == (wide.min(), wide.max())
    assert found.spread == pytest.approx(wide.std())


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_summed_block_by_block(dtype) -> None:
    array = RANDOM.standard_normal(200_001).astype(dtype)
    wide = array.astype(np.float64)
    found = signature(array)
    assert found.mean == pytest.approx(wide.mean(), rel=1e-9)
    assert found.rms == pytest.approx(math.sqrt(np.square(wide).mean()), rel=1e-12)
    assert (found.low, found.high) == (wide.min(), wide.max())
    array[150_000] = np.inf
    assert (signature(array).count, signature(array).finite) == (200_001, 200_000)


def test_of_complex_numbers_are_their_parts() -> None:
    array = np.array([1 + 2j, 3 - 4j], np.complex64)
    assert signature(array) == signature(np.array([1, 2, 3, -4], np.float32))


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_of_nothing(shape) -> None:
    assert signature(np.zeros(shape, np.float32)) == Signature(0, 0, 0.0, 0.0, 0.0, 0.0)


def test_of_a_single_number() -> None:
    found = signature(np.float32(-2.5).reshape(()))
    assert found == Signature(1, 1, -2.5, 2.5, -2.5, -2.5)
    assert found.spread == 0


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    found = signature(np.array([math.nan, math.inf, -math.inf, 1.0, 3.0], np.float32))
    assert found == Signature(5, 2, 2.0, pytest.approx(math.sqrt(5)), 1.0, 3.0)
    assert signature(np.array([math.nan], np.float32)).finite == 0
    assert signature(np.array([math.inf, -math.inf], np.float32)).finite == 0


@pytest.mark.parametrize("size", [3e38, 1e-40])
def test_neither_overflow_nor_underflow_shows(size: float) -> None:
    array = np.full(70_000, size, np.float32)
    found = signature(array)
    assert found.mean == pytest.approx(float(array[0]))
    assert found.rms == pytest.approx(float(array[0]))


@settings(deadline=None, max_examples=50)
@given(st.permutations(range(3)), st.integers(0, 2**32))
def test_the_order_of_the_elements_does_not_matter(order, seed: int) -> None:
    array = np.random.default_rng(seed).standard_normal((3, 4, 5)).astype(np.float32)
    one, two = signature(array), signature(array.transpose(order))
    assert one.distance(two) < 1e-12
    assert (one.low, one.high) == (two.low, two.high)


def test_distance() -> None:
    array = RANDOM.standard_normal(1000).astype(np.float32)
    one = signature(array)
    assert one.distance(one) == 0
    assert one.distance(signature(array + 0.1)) == pytest.approx(0.1, rel=0.1)
    assert one.distance(signature(array[:-1])) == math.inf
    assert one.distance(signature(np.where(array > 3, np.nan, array).astype(np.float32))) == math.inf
    constant = signature(np.full(8, 4.0))
    assert constant.distance(signature(np.full(8, 5.0))) == pytest.approx(0.2)
    assert signature(np.zeros(8)).distance(signature(np.zeros(8))) == 0


def signatures_of_few(count: int = 60) -> list[Signature]:
    """Some with the same numbers, some that are constant, zero, not finite or of one finite element less."""
    made = [RANDOM.standard_normal(12) * 10.0 ** RANDOM.integers(-3, 3) + RANDOM.integers(0, 2) for _ in range(count)]
    made += [np.zeros(12), np.zeros(12), np.full(12, 3.0), np.full(12, np.nan), np.full(12, np.inf), -made[0], made[0]]
    made += [np.where(np.arange(12) == 4, np.nan, made[0])]
    return [signature(array) for array in made]


def test_one_against_many_is_as_each_alone() -> None:
    many = signatures_of_few()
    columns = Signatures(many)
    for one in many:
        np.testing.assert_allclose(columns.distances(one), [one.distance(other) for other in many], rtol=1e-12)


def test_one_against_none() -> None:
    assert Signatures([]).distances(signature(np.ones(3))).tolist() == []


@pytest.mark.parametrize("dtype", ["float32", "float64", ml_dtypes.bfloat16, "int32"])
def test_it_is_the_same_however_the_numbers_lie(dtype) -> None:
    array = (RANDOM.standard_normal((6, 10, 4)) * 100).astype(dtype)
    found = signature(array)
    for other in (array.T, array.transpose(1, 0, 2), np.asfortranarray(array), array[::-1], array[:, ::-1].T):
        moved = signature(other)
        assert (moved.count, moved.finite, moved.low, moved.high) == (found.count, found.finite, found.low, found.high)
        assert (moved.mean, moved.rms) == (pytest.approx(found.mean), pytest.approx(found.rms))
    assert signature(array.T) == found, "nothing but the numbers as they lie is looked at"
