"""Identification: every variant in every dtype, below the rounding, and what is no variant at all."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions import Variant, variant
from parity.functions.identify import RANGE, SEPARATION, Identifier, identify

BFLOAT16 = ml_dtypes.bfloat16
ERF, TANH = variant("gelu_erf"), variant("gelu_tanh")
DTYPES = tuple(FLOAT_DTYPES)


def normal(dtype: object, count: int = 2_000, *, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng(seed).standard_normal(count)).astype(dtype)


def rounded_once(one: Variant, x: np.ndarray, dtype: object = None) -> np.ndarray:
    return one.value(x.astype(np.float64)).astype(dtype or x.dtype)


def tanh_form(x: np.ndarray, *, cubic: float = 0.044715, scale: float = math.sqrt(2 / math.pi)) -> np.ndarray:
    x = x.astype(np.float64)
    return 0.5 * x * (1 + np.tanh(scale * (x + cubic * x**3)))


LABELLED = [
    variant("gelu_erf"),
    variant("gelu_tanh"),
    variant("quick_gelu"),
    variant("quick_gelu", alpha=1.5),
    variant("silu"),
    variant("mish"),
    variant("relu"),
    variant("relu6"),
    variant("leaky_relu"),
    variant("leaky_relu", negative_slope=0.2),
    variant("elu"),
    variant("elu", alpha=0.7),
    variant("celu", alpha=1.3),
    variant("selu"),
    variant("softplus"),
    variant("softplus", beta=2.0),
    variant("hard_swish"),
    variant("sigmoid"),
    variant("tanh"),
    variant("softsign"),
    variant("identity"),
    variant("gelu_clipped"),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("one", LABELLED, ids=str)
def test_samples_rounded_once_are_identified_with_their_parameters(one: Variant, dtype: str) -> None:
    x = normal(FLOAT_DTYPES[dtype], scale=4.0)
    found = identify(x, rounded_once(one, x))
    assert found.variant == one
    assert found.ambiguous == ()
    assert found.residual_ulp < 0.3, "rounding once leaves at most 1/sqrt(12) of an ulp"
    assert found.margin > SEPARATION
    distinct = np.unique(x.astype(np.float64))
    assert found.count == np.sum((np.abs(distinct) >= RANGE[0]) & (np.abs(distinct) <= RANGE[1]))


@pytest.mark.parametrize(
    "one", [variant("geglu_erf"), variant("geglu_tanh"), variant("swiglu"), variant("glu")], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gated_samples_are_identified(one: Variant, dtype: str) -> None:
    x = normal(FLOAT_DTYPES[dtype], 6_000, scale=2.0).reshape(-1, 2)
    found = identify(x, rounded_once(one, x))
    assert found.variant == one
    assert found.count > 2_990


@pytest.mark.parametrize("alpha", [0.5, 1.5, 1.6])
def test_a_parameter_that_is_near_the_constant_of_another_formula(alpha: float) -> None:
    """ELU has the form of SELU with other constants."""
    x = normal(np.float32)
    assert identify(x, rounded_once(variant("elu", alpha=alpha), x)).variant == variant("elu", alpha=alpha)
    assert identify(x, rounded_once(variant("selu"), x)).variant == variant("selu")


@pytest.mark.parametrize(
    ("one", "plainer"),
    [("celu", "elu"), ("threshold", "relu"), ("gelu_clipped", "gelu_erf"), ("relu6", "relu")],
)
def test_of_variants_that_coincide_the_plainer_is_named_or_the_one_asked_about(one: str, plainer: str) -> None:
    x = normal(np.float32)
    y = rounded_once(variant(one), x)
    assert identify(x, y).variant == variant(plainer)
    assert identify(x, y, extra=[variant(one)]).variant == variant(one)


@pytest.mark.parametrize(("right", "wrong"), [(ERF, TANH), (TANH, ERF)], ids=str)
def test_below_the_rounding(right: Variant, wrong: Variant) -> None:
    """1,000 bfloat16 elements of N(0, 1): no tolerance separates erf and tanh, the projection does, 50 times of 50."""
    coefficients = []
    for seed in range(50):
        x = normal(BFLOAT16, 1_000, seed=seed)
        y = rounded_once(right, x)
        wide, exact = y.astype(np.float64), x.astype(np.float64)
        of_right, of_wrong = (np.abs(wide - one.value(exact)).max() for one in (right, wrong))
        assert of_wrong < 1.2 * of_right, "the largest errors of the two hypotheses are alike"
        found = identify(x, y)
        assert found.variant == right
        assert found.runner_up == wrong
        assert found.margin > 5 * SEPARATION
        assert 0 < found.standard_error < 0.05
        coefficients.append(found.coefficient / found.standard_error)
    # The stated standard error is that of the coefficient: 50 draws of a variable with mean 0 and deviation 1.
    assert abs(np.mean(coefficients)) < 0.6
    assert 0.6 < np.std(coefficients) < 1.4


def test_a_chain_of_rounded_steps_is_never_taken_for_the_other_variant() -> None:
    def step(value: np.ndarray) -> np.ndarray:
        return value.astype(BFLOAT16).astype(np.float64)

    def composed(x: np.ndarray) -> np.ndarray:
        inner = step(x + step(step(0.044715 * step(x * x)) * x))
        return step(step(0.5 * x) * step(1 + step(np.tanh(step(0.7978845608 * inner)))))

    found = []
    for seed in range(10):
        x = normal(BFLOAT16, 4_000, seed=seed, scale=2.0)
        found.append(identify(x, composed(x.astype(np.float64)).astype(BFLOAT16)))
    assert {one.variant for one in found} <= {TANH, None}
    assert all(TANH in (one.nearest, *one.ambiguous) and (one.variant or one.undecided) for one in found)


def table_in_half(x: np.ndarray) -> np.ndarray:
    """ggml's GELU: a table over every float16 number, of float16 numbers."""
    half = x.astype(np.float16)
    return TANH.value(half.astype(np.float64)).astype(np.float16)


NULL: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[str, ...], str]] = {
    "a float16 table": (table_in_half, ("float64", "float32"), "nothing fits: the nearest, gelu_tanh, is off by"),
    "0.044175": (lambda x: tanh_form(x, cubic=0.044175), DTYPES, "the form of gelu_tanh with another constant"),
    "0.44715": (lambda x: tanh_form(x, cubic=0.44715), DTYPES, "the form of gelu_tanh with another constant"),
    "the mean of both": (
        lambda x: (ERF.value(x.astype(np.float64)) + TANH.value(x.astype(np.float64))) / 2, DTYPES, "nothing fits"),
    "noise": (lambda x: np.random.default_rng(9).standard_normal(len(x)), DTYPES, "nothing fits"),
    "zeros": (np.zeros_like, DTYPES, "nothing fits"),
    "ones": (np.ones_like, DTYPES, "nothing fits"),
    "a constant": (lambda x: np.full(len(x), -2.5), DTYPES, "nothing fits"),
    "the square": (lambda x: x.astype(np.float64) ** 2, DTYPES, "nothing fits"),
    "the sign turned": (lambda x: -ERF.value(x.astype(np.float64)), DTYPES, "nothing fits"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "dtype"), [(case, dtype) for case, (_, dtypes, _) in NULL.items() for dtype in dtypes]
)
def test_what_is_no_variant(case: str, dtype: str) -> None:
    function, _, said = NULL[case]
    x = normal(FLOAT_DTYPES[dtype])
    found = identify(x, function(x).astype(x.dtype))
    assert found.variant is None
    assert said in found.reason


def test_a_half_precision_table_is_seen_by_its_bits() -> None:
    x = normal(np.float32)
    found = identify(x, table_in_half(x).astype(np.float32))
    assert found.nearest == TANH
    assert 10.5 < found.effective_bits < 12.5
    assert identify(x, rounded_once(TANH, x)).effective_bits == pytest.approx(24, abs=0.1)


def test_a_swapped_coefficient_is_named_with_its_value() -> None:
    x = normal(np.float32)
    found = identify(x, tanh_form(x, cubic=0.044175).astype(np.float32))
    assert found.nearest == TANH
    assert "cubic 0.044175 in place of 0.044715" in found.reason
    assert found.constants["cubic"] == pytest.approx(0.044175 / 0.044715 - 1, rel=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("constants",
                         [{"scale": 0.7978845608}, {"scale": 0.79788}, {"scale": 0.7979}, {"cubic": 0.0447}],
                         ids=str)  # fmt: skip
def test_a_truncated_constant_is_the_same_variant(constants: dict[str, float], dtype: str) -> None:
    x = normal(FLOAT_DTYPES[dtype])
    assert identify(x, tanh_form(x, **constants).astype(x.dtype)).variant == TANH


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_constant_rounded_to_the_dtype_is_the_same_variant(dtype: str) -> None:
    x = normal(FLOAT_DTYPES[dtype])
    cubic = float(np.asarray(0.044715).astype(x.dtype))
    assert cubic != 0.044715
    assert identify(x, tanh_form(x, cubic=cubic).astype(x.dtype)).variant == TANH


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_inputs_that_tell_nothing_are_inconclusive(dtype: str) -> None:
    x = np.random.default_rng(0).uniform(8, 12, 1_000).astype(FLOAT_DTYPES[dtype])
    found = identify(x, rounded_once(ERF, x))
    assert found.variant is None
    assert {"relu", "gelu_erf", "gelu_tanh"} <= {one.name for one in (found.nearest, *found.ambiguous)}
    assert found.reason.startswith("these inputs cannot tell gelu_erf from ")
    assert len(found.reason) < 150


def test_zeros_tell_nothing() -> None:
    found = identify(np.zeros(100, np.float32), np.zeros(100, np.float32))
    assert found.variant is None
    assert {"relu", "silu", "identity"} <= {one.name for one in found.ambiguous}
    assert math.isinf(found.standard_error)


@pytest.mark.parametrize("count", [1, 2, 5, 20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_few_elements_are_identified_or_left_open_but_never_wrong(dtype: str, count: int) -> None:
    for seed in range(5):
        x = normal(FLOAT_DTYPES[dtype], count, seed=seed)
        found = identify(x, rounded_once(ERF, x))
        assert found.count == count
        assert found.variant == ERF or (found.variant is None and ERF in (found.nearest, *found.ambiguous))
        if dtype in ("float32", "float64") and count == 20:
            assert found.variant == ERF


def test_nan_and_infinities_are_left_out() -> None:
    x = np.linspace(-4, 4, 2_000, dtype=np.float32)
    y = rounded_once(ERF, x)
    x[::5], y[1::5], y[2::5] = np.nan, np.inf, np.nan
    found = identify(x, y)
    assert found.variant == ERF
    assert found.count == 800


def test_one_wild_element_is_not_rounding_and_one_elements_weight_is_bounded() -> None:
    x = normal(np.float32)
    y = rounded_once(ERF, x)
    y[7] += 1.0
    found = identify(x, y)
    assert found.nearest == ERF
    assert found.variant is None
    assert found.max_residual_ulp > 1e6
    assert found.worst_x == x[7]


@pytest.mark.parametrize("shape", [(), (2_000,), (40, 50), (10, 2, 100), (1_000, 2)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    x = normal(np.float32, int(np.prod(shape))).reshape(shape)
    assert identify(x, rounded_once(ERF, x)).nearest == ERF


def test_the_coarser_dtype_sets_the_rounding() -> None:
    x = normal(BFLOAT16)
    assert identify(x, rounded_once(ERF, x, np.float32)).variant == ERF
    x = normal(np.float32)
    assert identify(x, rounded_once(ERF, x, BFLOAT16)).variant == ERF


def test_foreign_byte_order() -> None:
    x = normal(">f4")
    assert identify(x, rounded_once(ERF, x)).variant == ERF


def test_the_order_of_elements_does_not_matter() -> None:
    x = normal(BFLOAT16, 20_000)
    y = rounded_once(TANH, x)
    order = np.random.default_rng(1).permutation(len(x))
    assert identify(x, y) == identify(x[order], y[order])


def test_an_identifier_serves_many_outputs_with_different_holes() -> None:
    x = np.linspace(-4, 4, 2_000, dtype=np.float32)
    known = Identifier(x)
    for one, hole in ((ERF, 10), (TANH, 20), (variant("relu"), 0)):
        y = rounded_once(one, x)
        y[:hole] = np.nan
        found = known.identify(y)
        assert found == identify(x, y)
        assert found.variant == one
        assert found.count == len(x) - hole


def test_a_large_array_takes_no_more_than_a_sample_of_it() -> None:
    tracemalloc = pytest.importorskip("tracemalloc")
    x = normal(np.float32, 2**22)
    y = np.maximum(x, 0)
    tracemalloc.start()
    try:
        found = identify(x, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.variant == variant("relu")
    assert peak < 128 * 2**20


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (np.zeros(3), np.zeros(4), "shape"),
        (np.zeros((3, 3)), np.zeros(3), "shape"),
        (np.zeros(0), np.zeros(0), "empty"),
        (np.zeros((0, 2)), np.zeros(0), "empty"),
        (np.zeros(3, int), np.zeros(3), "'x' has dtype int64"),
        (np.zeros(3), np.zeros(3, complex), "'y' has dtype complex128"),
        (np.zeros(3), np.array(["a", "b", "c"]), "'y' has dtype"),
        (np.zeros(3), np.array([None] * 3), "'y' has dtype object"),
        (np.full(3, np.nan), np.zeros(3), "finite"),
        (np.zeros(3), np.full(3, np.inf), "finite"),
    ],
)
def test_what_cannot_be_used(x: np.ndarray, y: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said):
        identify(x, y)


NEARLY = {
    "shifted output": lambda x: ERF.value(x) + 1e-3,
    "shifted input": lambda x: ERF.value(x + 1e-3),
    "1.01 erf": lambda x: 1.01 * ERF.value(x),
    "erf of 1.01 x": lambda x: ERF.value(1.01 * x),
    "1.005 silu": lambda x: 1.005 * variant("silu").value(x),
    "1.003 relu": lambda x: 1.003 * variant("relu").value(x),
    "0.998 tanh": lambda x: 0.998 * np.tanh(x),
    "a tenth of quick": lambda x: 0.9 * ERF.value(x) + 0.1 * variant("quick_gelu").value(x),
    "shifted sigmoid": lambda x: x / (1 + np.exp(-1.702 * x - 0.01)),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("function", NEARLY.values(), ids=NEARLY)
def test_a_function_less_than_an_ulp_away_is_no_variant(
    function: Callable[[np.ndarray], np.ndarray], dtype: str
) -> None:
    x = normal(FLOAT_DTYPES[dtype], 8000)
    y = function(x.astype(np.float64)).astype(x.dtype)
    assert identify(x, y).variant is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["gelu_erf", "gelu_tanh", "quick_gelu", "silu", "mish", "sigmoid", "leaky_relu", "selu"]
)
def test_rounding_once_leaves_nothing_smooth(name: str, dtype: str) -> None:
    x = normal(FLOAT_DTYPES[dtype], 8000)
    found = identify(x, rounded_once(variant(name), x))
    assert found.variant == variant(name)
    assert found.smooth_share < 0.05
