"""The probe: which numbers a function is tried on, and in which regime each lies."""

import ml_dtypes
import numpy as np
import pytest

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.inputs import CORE, REGIMES, probe

WIDE, NARROW = ("float64", "float32"), ("float16", "bfloat16")


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("arity", [1, 2])
def test_shape_and_dtype(dtype: str, arity: int) -> None:
    found = probe(dtype, arity)
    assert found.x.dtype == FLOAT_DTYPES[dtype]
    assert found.x.shape[1:] == ((), (2,))[arity - 1]
    places = np.unique(np.concatenate(list(found.regimes.values())))
    np.testing.assert_array_equal(places, np.arange(len(found.x)), "no input is in no regime")


@pytest.mark.parametrize("dtype", NARROW)
def test_sixteen_bits_are_tried_over_every_number(dtype: str) -> None:
    found = probe(dtype)
    bits = found.x[found.regimes["all"]].view(np.uint16)
    np.testing.assert_array_equal(np.sort(bits), np.arange(2**16))
    assert tuple(found.regimes) == REGIMES
    assert found.exhaustive == {"all", "dense", "tails", "subnormal", "special"}
    parts = [found.regimes[name] for name in ("dense", "tails", "subnormal", "special")]
    assert sum(map(len, parts)) == 2**16, "each number is in one regime"


@pytest.mark.parametrize("dtype", WIDE)
def test_wide_dtypes_are_sampled(dtype: str) -> None:
    found = probe(dtype)
    assert tuple(found.regimes) == REGIMES[1:]
    assert found.exhaustive == frozenset()


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_regimes(dtype: str) -> None:
    found = probe(dtype)
    info = ml_dtypes.finfo(FLOAT_DTYPES[dtype])
    with np.errstate(invalid="ignore"):
        x = found.x.astype(np.float64)
    dense, tails, subnormal, special, normal = (
        x[found.regimes[name]] for name in ("dense", "tails", "subnormal", "special", "normal")
    )
    assert np.abs(dense).max() <= CORE
    assert {-CORE, CORE, 1.0, -1.0} <= set(dense)
    assert np.abs(tails).min() > CORE
    assert np.isfinite(tails).all()
    assert np.abs(tails).max() > 1_000
    assert np.abs(subnormal).max() < float(info.smallest_normal)
    assert np.abs(subnormal[subnormal != 0]).min() == float(info.smallest_subnormal)
    assert {0.0, np.inf, -np.inf, float(info.max), -float(info.max)} <= set(special)
    assert np.isnan(special).any()
    assert {True, False} <= set(np.signbit(special[special == 0])), "both zeros"
    assert abs(normal.mean()) < 0.05
    assert normal.std() == pytest.approx(1, abs=0.02)
    for regime in (dense, tails, subnormal):
        assert abs(np.sign(regime).sum()) <= 1, "as many below 0 as above"


def test_probes_are_the_same_each_time_and_differ_by_seed() -> None:
    np.testing.assert_array_equal(probe("float32").x, probe("float32").x)
    assert not np.array_equal(probe("float32", seed=1).x, probe("float32").x)


def test_of_gated_probes_the_gate_has_the_regime() -> None:
    one, two = probe("float16"), probe("float16", 2)
    np.testing.assert_array_equal(two.x[:, 1].view(np.uint16), one.x.view(np.uint16))
    assert np.isfinite(two.x[:, 0]).all()


def test_an_unknown_dtype() -> None:
    with pytest.raises(InputError, match="float8"):
        probe("float8")
