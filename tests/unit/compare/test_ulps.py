import ml_dtypes
import numpy as np
import pytest

from parity.compare import ulp, ulp_distance
from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError


@pytest.mark.parametrize(
    ("x", "dtype", "exponent"),
    [
        (1.0, "float64", -52),
        (1.0, "float32", -23),
        (1.0, "float16", -10),
        (1.0, "bfloat16", -7),
        (-1.999, "float32", -23),
        (2.0, "float32", -22),
        (0.0, "float64", -1074),
        (0.0, "float32", -149),
        (0.0, "float16", -24),
        (0.0, "bfloat16", -133),
        (1e-300, "float32", -149),
        (2.0**-126, "float32", -149),
        (2.0**-125, "float32", -148),
        (5e-324, "float64", -1074),
        (65504.0, "float16", 5),
        (1e300, "float16", 5),
        (1.7976931348623157e308, "float64", 971),
    ],
)
def test_spacing(x, dtype, exponent):
    assert ulp(x, dtype) == 2.0**exponent


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_spacing_is_the_gap_to_the_next_number_for_every_number(name):
    finite = np.arange(2**16, dtype=np.uint16).view(FLOAT_DTYPES[name])
    with np.errstate(invalid="ignore"):  # signalling NaN
        finite = np.unique(finite[np.isfinite(finite)].astype(np.float64))
    positive = finite[finite >= 0]
    np.testing.assert_array_equal(ulp(positive[:-1], name), np.diff(positive))
    np.testing.assert_array_equal(ulp(-positive[:-1], name), np.diff(positive))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spacing_agrees_with_numpy(dtype):
    x = np.logspace(-40, 38, 1000).astype(dtype)
    np.testing.assert_array_equal(ulp(x, dtype), np.spacing(x).astype(np.float64))


def test_spacing_keeps_the_shape_and_is_nan_where_there_is_none():
    assert ulp(3.0, "float32").shape == ()
    assert ulp(np.ones((2, 3)), "float32").shape == (2, 3)
    assert np.isnan(ulp([np.inf, -np.inf, np.nan], "float32")).all()


@pytest.mark.parametrize("dtype", ["float8", "int32", np.complex64, np.longdouble, "no such type", object])
def test_other_types_have_no_spacing(dtype):
    with pytest.raises(InputError):
        ulp(1.0, dtype)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES.values(), ids=FLOAT_DTYPES)
def test_distance(dtype):
    tiny, eps, largest = (getattr(ml_dtypes.finfo(dtype), n) for n in ("smallest_subnormal", "eps", "max"))
    a = np.array([0, 0, tiny, 1, 1, largest, np.nan, np.nan, np.inf], dtype)
    b = np.array([-0.0, tiny, -tiny, 1 + eps, 1 - eps, np.inf, np.nan, 1, np.inf], dtype)
    b[4] = np.asarray(1, dtype) - eps  # two steps down: the binade below is twice as fine
    distance = ulp_distance(a, b)
    assert distance.dtype == np.dtype(f"u{dtype.itemsize}")
    assert distance.tolist() == [0, 1, 2, 1, 2, 1, 0, np.iinfo(distance.dtype).max, 0]
    assert ulp_distance(b, a).tolist() == distance.tolist()


def test_distance_from_end_to_end_does_not_wrap():
    largest = np.finfo(np.float64).max
    assert int(ulp_distance(largest, -largest)) == 2 * 0x7FEF_FFFF_FFFF_FFFF
    assert int(ulp_distance(np.float16(65504), np.float16(-65504))) == 2 * 0x7BFF


def test_distance_ignores_byte_order():
    assert ulp_distance(np.ones(1, ">f4"), np.nextafter(np.ones(1, ">f4"), np.float32(2)).astype(">f4")).tolist() == [1]


def test_distance_needs_one_type():
    with pytest.raises(InputError, match="float32 and float16"):
        ulp_distance(np.float32(1), np.float16(1))
    with pytest.raises(InputError):
        ulp_distance(1, 2)
