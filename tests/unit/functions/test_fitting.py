"""How well a hypothesis fits: noise, parameters and constants."""

import ml_dtypes
import numpy as np
import pytest

from parity.dtypes import FLOAT_DTYPES
from parity.functions import variant
from parity.functions.fitting import Data, fit, fit_constants, fit_parameters


def data(y_of, dtype: str = "float32", count: int = 2_000) -> Data:
    x = (3 * np.random.default_rng(0).standard_normal(count)).astype(FLOAT_DTYPES[dtype])
    wide = np.sort(x.astype(np.float64))
    return Data.of(wide, y_of(wide).astype(FLOAT_DTYPES[dtype]).astype(np.float64), FLOAT_DTYPES[dtype])


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_a_function_rounded_once_has_no_noise_but_the_last_rounding(dtype: str) -> None:
    found = fit(variant("gelu_erf"), data(variant("gelu_erf").value, dtype))
    assert found.composed < 1e-6
    assert found.rms < 0.3


def test_a_chain_of_steps_has_more() -> None:
    def steps(x: np.ndarray) -> np.ndarray:
        bottom = np.minimum(1 + np.exp(-x), 6e4).astype(np.float16)
        return x.astype(np.float16) * (1 / bottom)

    found = fit(variant("silu"), data(steps, "float16"))
    assert found.composed > 1e-4
    assert found.rms < 2


def test_the_right_hypothesis_has_the_least_deviance() -> None:
    seen = data(variant("mish").value, "bfloat16")
    names = ("mish", "silu", "gelu_erf", "softplus", "relu")
    assert min(names, key=lambda name: fit(variant(name), seen).deviance) == "mish"


@pytest.mark.parametrize(
    ("true", "start"),
    [
        (variant("leaky_relu", negative_slope=0.2), variant("leaky_relu")),
        (variant("leaky_relu", negative_slope=-1.5), variant("leaky_relu")),
        (variant("elu", alpha=0.7), variant("elu")),
        (variant("quick_gelu", alpha=1.5), variant("quick_gelu")),
        (variant("quick_gelu", alpha=1.1), variant("quick_gelu")),
        (variant("softplus", beta=3.0), variant("softplus")),
        (variant("celu", alpha=2.0), variant("celu")),
        (variant("hard_tanh", low=-2.0, high=3.0), variant("hard_tanh")),
    ],
    ids=str,
)
def test_parameters_are_found_as_short_numbers(true, start) -> None:
    seen = data(true.value)
    found = fit_parameters(fit(start, seen), seen)
    assert found is not None
    assert found.variant == true
    assert found.rms < 0.3


def test_a_parameter_that_went_through_a_lower_precision_is_the_short_number() -> None:
    slope = float(np.float32(0.2))
    seen = data(variant("leaky_relu", negative_slope=slope).value, "float64")
    found = fit_parameters(fit(variant("leaky_relu"), seen), seen)
    assert found is not None
    assert found.variant == variant("leaky_relu", negative_slope=0.2)
    assert found.changed["negative_slope"] == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("name", ["relu", "quick_gelu", "leaky_relu", "elu"])
def test_a_parameter_that_is_the_default_earns_nothing(name: str) -> None:
    seen = data(variant(name).value)
    assert fit_parameters(fit(variant(name), seen), seen) is None


@pytest.mark.parametrize("number", [0.0, 1.0, -3.5])
def test_a_constant_determines_no_parameters(number: float) -> None:
    seen = data(lambda x: np.full_like(x, number))
    assert seen.flat
    assert fit_parameters(fit(variant("hard_sigmoid"), seen), seen) is None
    assert fit_constants(fit(variant("laplace"), seen), seen) is None
    assert not data(variant("relu").value).flat


def test_constants_that_are_right_are_not_moved_and_a_swapped_one_is() -> None:
    start = variant("gelu_tanh")
    right = data(start.value)
    found = fit_constants(fit(start, right), right)
    assert found is None or all(
        abs(value / start.formula.constants[name] - 1) < 1e-5 for name, value in found.changed.items()
    )
    wrong = data(lambda x: start.value(x, constants={"cubic": 0.044175}))
    found = fit_constants(fit(start, wrong), wrong)
    assert found is not None
    assert found.changed["cubic"] == pytest.approx(0.044175, rel=1e-5)
    assert found.rms < 0.3 < fit(start, wrong).rms


def test_sizes_of_gated_data() -> None:
    x = np.array([[3.0, 0.5], [2.0, -4.0], [0.1, 0.1]])
    assert Data.of(x, np.zeros(3), np.dtype(ml_dtypes.bfloat16)).size.tolist() == [3.0, 8.0, 1.0]
