"""What a swap of an activation would have done to this run."""

import math

import numpy as np
import pytest

from parity.align.alignment import Pair
from parity.align.layout import Layout
from parity.align.regions import Region
from parity.compare.local import LocalError
from parity.diagnose.chains import Prober
from parity.diagnose.power import LOOKED_AT, NEIGHBOURS, SwapPower, _sample, swaps, told
from parity.functions import variant
from parity.layerwise.measuring import Layer

X = np.random.default_rng(0).standard_normal((50, 20)).astype(np.float32)


def measured(floor: float = 1e-7, rounding: float | None = 0.0) -> LocalError:
    return LocalError(
        count=1000,
        scale=1.0,
        floor=floor,
        error=floor,
        gap=0.0,
        rounding=rounding,
        max_abs=floor,
        max_excess=1.0,
        max_gap=0.0,
        finite_lost=0,
        finite_gained=0,
    )


def powers(toy, x: np.ndarray = X, *, kind: str = "gelu", measure: LocalError | None = None, tensor: str = "act"):
    model = toy(x=(None, 20))
    model("matmul", model(kind, "x", to="act", scope="mlp.act"), model.weight("w", np.eye(20)), to="y")
    view = model.gives("y").view(x=x)
    plain = Layout.reshaped(x.shape, x.shape)
    region = Region(Pair(tensor, tensor, plain, "value", 1.0), (), (), ())
    layer = Layer(region=region, dtype="float32", propagated=0.0, measure=measure)
    return swaps(view, [layer], Prober(view, None).activations())


def test_the_standard_deviations_by_which_a_swap_stands_out(toy) -> None:
    (found,) = powers(toy, measure=measured(1e-4))
    assert (found.reference, found.scope) == ("act", "mlp.act")
    assert (found.variant, found.alternative) == ("gelu_erf", "gelu_tanh")
    x = X.astype(np.float64)
    step = variant("gelu_tanh").value(x) - variant("gelu_erf").value(x)
    assert found.sigma == pytest.approx(math.sqrt(float(np.sum(step * step))) / 1e-4)


def test_noise_is_the_larger_of_floor_and_rounding(toy) -> None:
    (one,), (two,) = powers(toy, measure=measured(1e-4, 1e-3)), powers(toy, measure=measured(1e-3))
    assert one.sigma == pytest.approx(two.sigma)
    assert powers(toy, measure=measured(1e-4, None))[0].sigma == pytest.approx(10 * one.sigma)


def test_without_noise_it_cannot_be_missed(toy) -> None:
    assert powers(toy, measure=measured(0.0))[0].sigma == math.inf


def test_a_run_of_much_noise_or_of_inputs_that_separate_nothing(toy) -> None:
    (found,) = powers(toy, measure=measured(1.0))
    assert 0 < found.sigma < 0.01
    assert powers(toy, X / 100 + 15, measure=measured()) == [], "from these inputs nobody knows what it is"


def test_what_was_not_measured_has_no_power_to_tell(toy) -> None:
    assert powers(toy) == []
    assert powers(toy, measure=measured(), tensor="elsewhere") == []


def test_every_neighbour_is_a_variant() -> None:
    for name, other in NEIGHBOURS.items():
        assert variant(name) != variant(other)


def test_the_sample_is_bounded_and_finite() -> None:
    assert _sample(np.array([1.0, math.nan, math.inf])).tolist() == [1.0]
    assert LOOKED_AT <= _sample(np.zeros(1_000_000, np.float32)).size < 2 * LOOKED_AT
    assert _sample(np.zeros((0, 3))).size == 0


def test_what_the_report_holds() -> None:
    one = SwapPower(reference="a", scope="", variant="relu", alternative="gelu_erf", sigma=7.0)
    two = SwapPower(reference="b", scope="", variant="relu", alternative="gelu_erf", sigma=5.0)
    assert told([one, two]) == {"activation_swaps": [one, two], "weakest_sigma": 5.0}
    assert told([]) == {"activation_swaps": [], "weakest_sigma": None}
