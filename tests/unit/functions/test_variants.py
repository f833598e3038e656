"""The registry's names, the writing and reading of variants, shapes, dtypes and special values."""

import math
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions import FORMULAS, Variant, parse, variant

UNGATED = [name for name, formula in FORMULAS.items() if formula.arity == 1]
GATED = [name for name, formula in FORMULAS.items() if formula.arity == 2]

LIMITS = {
    "gelu_erf": (0, math.inf),
    "gelu_tanh": (0, math.inf),
    "quick_gelu": (0, math.inf),
    "gelu_clipped": (0, 10),
    "silu": (0, math.inf),
    "relu": (0, math.inf),
    "relu6": (0, 6),
    "relu2": (0, math.inf),
    "leaky_relu": (-math.inf, math.inf),
    "elu": (-1, math.inf),
    "selu": (-1.7580993408473768, math.inf),
    "celu": (-1, math.inf),
    "softplus": (0, math.inf),
    "mish": (0, math.inf),
    "hard_sigmoid": (0, 1),
    "hard_swish": (0, math.inf),
    "sigmoid": (0, 1),
    "tanh": (-1, 1),
    "laplace": (0, 1),
    "sqrt_softplus": (0, math.inf),
    "identity": (-math.inf, math.inf),
    "hard_tanh": (-1, 1),
    "log_sigmoid": (-math.inf, 0),
    "softsign": (-1, 1),
    "tanh_shrink": (-math.inf, math.inf),
    "soft_shrink": (-math.inf, math.inf),
    "hard_shrink": (-math.inf, math.inf),
    "threshold": (0, math.inf),
    "squareplus": (0, math.inf),
    "sparse_plus": (0, math.inf),
    "sparse_sigmoid": (0, 1),
    "xielu": (math.inf, math.inf),
}


def test_names_are_the_keys_and_every_source_is_stated() -> None:
    for name, formula in FORMULAS.items():
        assert formula.name == name
        assert formula.source


@pytest.mark.parametrize("name", FORMULAS)
def test_defaults_are_written_as_the_bare_name(name: str) -> None:
    assert str(variant(name)) == name
    assert parse(name) == variant(name)
    assert variant(name).parameters == tuple(FORMULAS[name].parameters.items())


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (variant("leaky_relu", negative_slope=0.2), "leaky_relu[negative_slope=0.2]"),
        (variant("softplus", threshold=20), "softplus[threshold=20]"),
        (variant("softplus", threshold=20, beta=0.5), "softplus[beta=0.5,threshold=20]"),
        (variant("hard_sigmoid", slope=0.2), "hard_sigmoid[slope=0.2]"),
        (variant("hard_tanh", low=-math.inf), "hard_tanh[low=-inf]"),
        (variant("leaky_relu", negative_slope=-0.0), "leaky_relu[negative_slope=0]"),
    ],
)
def test_written_and_read_back(made: Variant, text: str) -> None:
    assert str(made) == text
    assert parse(text) == made


@settings(deadline=None, max_examples=60)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_parameter_survives_writing(slope: float) -> None:
    made = variant("leaky_relu", negative_slope=slope)
    assert parse(str(made)) == made


def test_equal_variants_are_one_key_and_travel_between_processes() -> None:
    a, b = variant("elu", alpha=2), variant("elu", alpha=2.0)
    assert len({a, b, variant("elu")}) == 2
    assert pickle.loads(pickle.dumps(a)) == b  # noqa: S301
    with pytest.raises(AttributeError):
        a.name = "silu"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("gelu_erff", {}, "Did you mean gelu_erf"),
        ("leaky_relu", {"slope": 0.1}, "parameter of 'leaky_relu' called 'slope'"),
        ("silu", {"alpha": 1.0}, "'silu' has no parameters"),
        ("elu", {"alpha": math.nan}, "must be finite"),
        ("elu", {"alpha": math.inf}, "must be finite"),
        ("celu", {"alpha": 0.0}, "above 0"),
        ("softplus", {"beta": -1.0}, "above 0"),
        ("elu", {"alpha": "1"}, "must be a number"),
        ("elu", {"alpha": True}, "must be a number"),
    ],
)
def test_wrong_names_and_values(name: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        variant(name, **parameters)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gelu[",
        "elu[]",
        "elu[alpha]",
        "elu[alpha=]",
        "elu[alpha=1",
        "elu[alpha=x]",
        "elu[alpha=1,alpha=2]",
        "elu[alpha=nan]",
        "elu[beta=1]",
    ],
)
def test_text_that_names_no_variant(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)


def test_unknown_constant() -> None:
    with pytest.raises(InputError, match="constant of 'gelu_tanh' called 'cubi'"):
        variant("gelu_tanh").value(np.zeros(1), constants={"cubi": 0.04})


@pytest.mark.parametrize("name", UNGATED)
def test_shapes(name: str) -> None:
    v = variant(name)
    x = np.linspace(-3, 3, 24)
    flat = v.value(x)
    for shape in [(), (0,), (0, 3), (2, 0), (4, 6), (2, 3, 4)]:
        part = x[: math.prod(shape)].reshape(shape)
        assert v.value(part).shape == shape
        assert v.derivative(part).shape == shape
    np.testing.assert_array_equal(
        v.value(x.reshape(4, 6)[:, ::-1]).reshape(-1), flat.reshape(4, 6)[:, ::-1].reshape(-1)
    )
    assert flat.dtype == np.float64


@pytest.mark.parametrize("name", GATED)
def test_shapes_of_gated(name: str) -> None:
    v = variant(name)
    assert v.arity == 2
    assert v.value(np.ones((5, 2))).shape == (5,)
    assert v.derivative(np.ones((5, 2))).shape == (5, 2)
    assert v.value(np.ones((0, 2))).shape == (0,)
    assert v.derivative(np.ones((0, 2))).shape == (0, 2)
    for wrong in [np.ones(4), np.ones((2, 3)), np.float64(1)]:
        with pytest.raises(InputError, match="gated"):
            v.value(wrong)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_every_float_dtype_is_taken_exactly(dtype: str) -> None:
    x = np.array([-2.7, -0.1, 0.3, 1.9]).astype(FLOAT_DTYPES[dtype])
    result = variant("gelu_erf").value(x)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, variant("gelu_erf").value(x.astype(np.float64)))
    before = x.copy()
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("x", [np.array([1j]), np.array(["a"]), np.array([None]), np.array([True])])
def test_what_is_no_float_is_refused(x: np.ndarray) -> None:
    with pytest.raises(InputError, match="takes an array of floats"):
        variant("silu").value(x)


@pytest.mark.parametrize("name", UNGATED)
@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 9000])
def test_blocks_do_not_show(name: str, size: int) -> None:
    x = np.random.default_rng(0).normal(size=size) * 20
    x[0] = 1e300
    picked = np.array([0, size // 2, size - 1])
    np.testing.assert_array_equal(variant(name).value(x)[picked], variant(name).value(x[picked]))


@pytest.mark.parametrize("name", LIMITS)
def test_limits_nan_and_the_largest_numbers(name: str) -> None:
    low, high = LIMITS[name]
    v = variant(name)
    np.testing.assert_array_equal(v.value([-np.inf, np.inf, np.nan]), [low, high, np.nan])
    assert np.isnan(v.derivative([np.nan])[0])
    huge = v.value(np.array([-1.7e308, 1.7e308]))
    assert not np.isnan(huge).any()
    assert not np.isnan(v.derivative(np.array([-np.inf, -1.7e308, 1.7e308, np.inf]))).any()
    for limit, got in zip((low, high), huge, strict=True):
        assert math.isinf(limit) or got == pytest.approx(limit, abs=1e-300)


def test_limits_cover_every_ungated_formula() -> None:
    assert set(LIMITS) == set(UNGATED)


@pytest.mark.parametrize(
    "name", ["gelu_erf", "gelu_tanh", "quick_gelu", "silu", "mish", "tanh", "softsign", "elu", "identity"]
)
def test_signed_zero(name: str) -> None:
    zeros = variant(name).value(np.array([0.0, -0.0]))
    np.testing.assert_array_equal(zeros, [0.0, 0.0])
    np.testing.assert_array_equal(np.signbit(zeros), [False, True])


def test_gated_infinities_follow_the_product() -> None:
    pairs = np.array([[np.inf, -np.inf], [np.inf, 1.0], [2.0, np.inf], [2.0, -np.inf], [np.nan, 1.0], [0.0, np.inf]])
    np.testing.assert_array_equal(variant("swiglu").value(pairs), [np.nan, np.inf, np.inf, 0.0, np.nan, np.nan])


KINKS = [
    ("relu", (0.0,), [0.0]),
    ("leaky_relu[negative_slope=0.2]", (0.0,), [0.2]),
    ("elu[alpha=0.7]", (0.0,), [0.7]),
    ("relu6", (0.0, 6.0), [0.0, 0.0]),
    ("hard_sigmoid", (-3.0, 3.0), [0.0, 0.0]),
    ("hard_swish", (-3.0, 3.0), [0.0, 1.0]),
    ("hard_tanh[low=-0.3,high=0.1]", (-0.3, 0.1), [0.0, 0.0]),
    ("soft_shrink[threshold=0.1]", (-0.1, 0.1), [0.0, 0.0]),
    ("hard_shrink[threshold=0.1]", (-0.1, 0.1), [0.0, 0.0]),
    ("threshold[threshold=0.1,value=3]", (0.1,), [0.0]),
    ("sparse_sigmoid", (-1.0, 1.0), [0.0, 0.0]),
    ("softplus[beta=2,threshold=20]", (10.0,), None),
    ("gelu_clipped", (10.0,), None),
    ("selu", (0.0,), [1.7580993408473768]),
    ("xielu", (-1e-6, 0.0), [-0.3, -0.3]),
]


@pytest.mark.parametrize(("text", "kinks", "convention"), KINKS)
def test_kinks_and_the_derivative_there(text: str, kinks: tuple[float, ...], convention: list[float] | None) -> None:
    v = parse(text)
    assert v.kinks == kinks
    if convention is not None:
        np.testing.assert_allclose(v.derivative(np.array(kinks)), convention, rtol=3e-16)


def test_every_declared_kink_is_one_and_smooth_formulas_have_none() -> None:
    for name in UNGATED:
        kinks = np.array(variant(name).kinks)
        left, right = (variant(name).derivative(np.nextafter(kinks, side)) for side in (-np.inf, np.inf))
        assert (np.abs(left - right) > 1e-9).all(), name


@pytest.mark.parametrize("bound", [-0.1, 0.5, 3.0])
def test_kinks_of_clipped_gelu_are_where_it_meets_its_bound(bound: float) -> None:
    kinks = variant("gelu_clipped", low=bound).kinks
    on_bound = [kink for kink in kinks if kink < 9]
    assert len(on_bound) == (2 if bound < 0 else 1)
    np.testing.assert_allclose(variant("gelu_erf").value(on_bound), bound, rtol=1e-15)


def test_a_parameter_is_the_simple_number_that_was_meant() -> None:
    # float(1/6) is 9e-18 below 1/6: 3·(1/6) must be ½ and not the float below it.
    assert variant("hard_sigmoid", offset=0.0).value(np.array([3.0]))[0] == 0.5
    assert variant("leaky_relu", negative_slope=0.2).value(np.array([-5.0]))[0] == -1.0


def test_parameters_of_extreme_size() -> None:
    x = np.array([-1e70, -1e-70])
    np.testing.assert_array_equal(variant("leaky_relu", negative_slope=1e300).value(x), [-np.inf, -1e230])
    np.testing.assert_allclose(variant("leaky_relu", negative_slope=1e-300).value(x), [-1e-230, 0.0], rtol=2e-16)


def test_bfloat16_over_every_input_gives_nan_for_nan_alone() -> None:
    x = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)
    nan = (x.view(np.uint16) & 0x7FFF) > 0x7F80
    for name in ("gelu_erf", "silu", "relu2"):
        # Half of the NaNs are signalling: casting them warns, and warnings are errors here.
        np.testing.assert_array_equal(np.isnan(variant(name).value(x)), nan)
