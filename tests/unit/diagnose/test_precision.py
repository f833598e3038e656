"""Numbers rounded to a lower precision, and how many bits an error leaves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.diagnose.precision import _correlation, effective_bits, narrow_sites, rounded_to
from parity.dtypes import FLOAT_DTYPES

X = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
BITS = {"tf32": 11, "float16": 11, "bfloat16": 8}


@pytest.mark.parametrize("name", BITS)
def test_it_rounds_to_the_nearest_with_as_many_bits(name: str) -> None:
    rounded = rounded_to(X, name)
    assert rounded.dtype == np.float64
    wide = X.astype(np.float64)
    ulp = 2.0 ** (np.floor(np.log2(np.abs(wide))) - BITS[name] + 1)
    assert (np.abs(rounded - wide) <= ulp / 2).all()
    assert np.abs(rounded - wide).max() > 0.4 * ulp[np.abs(rounded - wide).argmax()]
    np.testing.assert_array_equal(rounded_to(rounded, name), rounded)


@given(st.floats(width=32, min_value=-(2.0**127), max_value=2.0**127))
def test_tf32_drops_thirteen_bits_and_keeps_the_sign(x: float) -> None:
    (found,) = rounded_to(np.array([x]), "tf32")
    assert np.float32(found).view(np.uint32) & 0x1FFF == 0
    assert math.copysign(1, found) == math.copysign(1, x)
    assert abs(found - x) <= 2.0**-11 * max(abs(x), 2.0**-125)


def test_known_roundings() -> None:
    one = 1.0
    assert rounded_to(np.array([one + 2.0**-11]), "tf32")[0] == one + 2.0**-10, "half way is away from zero"
    assert rounded_to(np.array([one + 2.0**-12]), "tf32")[0] == one
    assert rounded_to(np.array([one + 2.0**-8]), "bfloat16")[0] == one, "half way is to even"
    assert rounded_to(np.array([70_000.0]), "float16")[0] == math.inf
    assert rounded_to(np.array([math.inf, -math.inf]), "tf32").tolist() == [math.inf, -math.inf]


@pytest.mark.parametrize(("name", "bits"), [*BITS.items(), ("float32", 24)])
def test_effective_bits_of_a_rounding(name: str, bits: int) -> None:
    wide = np.random.default_rng(1).uniform(1, 2, 10_000)
    error = (rounded_to(wide, name) if name == "tf32" else wide.astype(FLOAT_DTYPES[name]).astype(np.float64)) - wide
    scale, size = (math.sqrt(float(np.mean(one * one))) for one in (wide, error))
    assert effective_bits(scale, size) == pytest.approx(bits, abs=0.7)


def test_effective_bits_of_nothing() -> None:
    assert effective_bits(1.0, 0.0) == math.inf
    assert effective_bits(0.0, 1.0) == math.inf


def test_operators_that_make_16_bit_tensors(toy) -> None:
    from parity.diagnose.case import Part

    model = toy(x=(None,))
    model("cast", "x", to="half", function=lambda x: x.astype(np.float16))
    model("cast", "half", to="back", function=lambda x: x.astype(np.float32))
    model("cast", "x", to="brain", function=lambda x: x.astype(FLOAT_DTYPES["bfloat16"]))
    view = model.view(x=X[:8])
    part = Part(view, None, view.trace.sites, {}, "back")
    assert narrow_sites(part) == ["site:half", "site:brain"]


def test_correlation() -> None:
    a = np.random.default_rng(2).standard_normal(1000)
    assert _correlation(a, 2 * a) == pytest.approx(1)
    assert _correlation(a, -a) == pytest.approx(-1)
    assert abs(_correlation(a, np.random.default_rng(3).standard_normal(1000))) < 0.2
    assert _correlation(a, 0 * a) == 0
    assert _correlation(np.append(a, math.nan), np.append(a, 1.0)) == pytest.approx(1)
