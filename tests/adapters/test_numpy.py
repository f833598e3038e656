"""The NumPy adapter: rows with and without SciPy, arithmetic in the array's own dtype, silence."""

import importlib.util
import math
import sys

import ml_dtypes
import numpy as np
import pytest

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions import FORMULAS, variant
from parity_adapters.numpy import adapter
from parity_adapters.numpy.arrays import from_numpy, to_numpy

ROWS = {row.name: row for row in adapter.activations()}
MATH_ERF = "0.5*x*(1+erf(x/sqrt(2))) (math.erf)"
MATH_ERFC = "0.5*x*erfc(-x/sqrt(2)) (math.erfc)"
HAS_SCIPY = importlib.util.find_spec("scipy") is not None
needs_scipy = pytest.mark.skipif(not HAS_SCIPY, reason="SciPy is not installed")

WITHOUT_HAND_WRITTEN_ROW = {
    *("log_sigmoid", "tanh_shrink", "soft_shrink", "hard_shrink", "threshold", "squareplus", "sparse_plus"),
    *("sparse_sigmoid", "xielu", "glu"),
}


def ulp(x, dtype):
    """Distance of neighbouring numbers of ``dtype`` at ``x``, as float64."""
    limits = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(np.abs(x), float(limits.smallest_normal))))
    return np.exp2(exponent - limits.nmant)


@pytest.fixture
def without_scipy(monkeypatch):
    monkeypatch.setattr("parity_adapters.numpy.find_spec", lambda _: None)
    monkeypatch.setattr("parity_adapters.numpy.activations.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "scipy", None)


def test_hand_written_rows_do_not_need_scipy(without_scipy):
    rows = adapter.activations()
    assert {row.variant.name for row in rows} == set(FORMULAS) - WITHOUT_HAND_WRITTEN_ROW
    assert not [row.name for row in rows if "scipy" in row.name]
    assert "scipy" not in adapter.versions()
    for row in rows:
        x = np.ones((3, 2) if row.variant.arity == 2 else 3, np.float32)
        assert np.isfinite(row(x)).all(), row.name


@needs_scipy
def test_scipy_adds_rows_and_a_version():
    assert {"x*scipy.stats.norm.cdf(x)", "x*scipy.special.ndtr(x)", "scipy.special.expit"} <= set(ROWS)
    assert "scipy" in adapter.versions()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_each_step_is_rounded_to_the_arrays_dtype(dtype):
    kind = FLOAT_DTYPES[dtype].type
    x = kind(0.7)
    inner = kind(math.erf(kind(x / kind(math.sqrt(2)))))
    by_hand = kind(kind(kind(0.5) * x) * kind(kind(1) + inner))
    got = ROWS[MATH_ERF](np.array([x]))
    assert got.dtype == FLOAT_DTYPES[dtype]
    assert got[0] == by_hand


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_results_have_the_dtype_of_the_input(dtype):
    for row in ROWS.values():
        if dtype in row.dtypes:
            x = np.linspace(-2, 2, 6).reshape((3, 2) if row.variant.arity == 2 else 6)
            assert row(x.astype(FLOAT_DTYPES[dtype])).dtype == FLOAT_DTYPES[dtype], row.name


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_whole_range_is_evaluated_in_silence(dtype):
    """Overflow in exp is part of the formulas; warnings are errors in this test run."""
    kind = FLOAT_DTYPES[dtype]
    if kind.itemsize == 2:
        x = np.arange(2**16, dtype=np.uint16).view(kind)
    else:
        top = ml_dtypes.finfo(kind).max
        x = np.array([-np.inf, -top, -1000, -0.0, 0, 1e-40, 1000, top, np.inf, np.nan], kind)
    for row in ROWS.values():
        if dtype in row.dtypes:
            y = row(np.stack([x, x[::-1]], axis=1) if row.variant.arity == 2 else x)
            assert y.shape == x.shape, row.name


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_finite_where_the_exact_result_is(dtype):
    x = np.linspace(-20, 20, 4001).astype(FLOAT_DTYPES[dtype])
    for row in ROWS.values():
        if dtype in row.dtypes:
            assert np.isfinite(row(np.stack([x, x[::-1]], axis=1) if row.variant.arity == 2 else x)).all(), row.name


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_rows_called_exact_are_rounded_once(dtype):
    x = np.linspace(-20, 20, 10_001).astype(FLOAT_DTYPES[dtype])
    exact_rows = [row for row in ROWS.values() if row.accuracy == "exact"]
    assert {row.variant.name for row in exact_rows} == {"relu", "relu6", "relu2", "hard_tanh", "identity"}
    for row in exact_rows:
        z = row.variant.value(x)
        assert (np.abs(row(x).astype(np.float64) - z) <= 0.5 * ulp(z, FLOAT_DTYPES[dtype])).all(), row.name


def test_one_plus_erf_loses_the_negative_tail_and_erfc_keeps_it():
    x = np.array([-7.0])
    exact = variant("gelu_erf").value(x)
    error = {name: abs(ROWS[name](x)[0] / exact[0] - 1) for name in (MATH_ERF, MATH_ERFC)}
    assert 1e-6 < error[MATH_ERF] < 1e-5
    assert error[MATH_ERFC] < 1e-14


def test_arrays_go_through_without_a_copy():
    x = np.ones(3, FLOAT_DTYPES["bfloat16"])
    assert np.shares_memory(to_numpy(from_numpy(x)), x)
    assert type(to_numpy(from_numpy(x))) is np.ndarray


def test_comparisons_stay_boolean():
    assert (from_numpy(np.ones(3, np.float16)) > 0).dtype == bool


def test_refuses_what_it_does_not_read():
    with pytest.raises(InputError, match="cannot open"):
        adapter.open("model.onnx", {})
