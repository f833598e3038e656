"""Functions that are polynomials between their kinks.

At a kink the derivative is a convention; here it is that of the flat side, as in torch.
"""

from typing import Final

import numpy as np

from parity.functions.double_double import Bool, DoubleDouble, clip, maximum, where
from parity.functions.formula import Formula

# slope·x + offset is 0 or 1 at a kink up to the last of its 106 bits; closer than this is at the kink.
_AT_KINK: Final = 2.0**-95


def identity(x: DoubleDouble) -> DoubleDouble:
    """The number itself."""
    return x


def identity_derivative(x: DoubleDouble) -> DoubleDouble:
    """1."""
    return DoubleDouble(np.ones_like(x.hi), np.zeros_like(x.hi))


def relu(x: DoubleDouble) -> DoubleDouble:
    """max(x, 0)."""
    return maximum(x, 0)


def relu_derivative(x: DoubleDouble) -> DoubleDouble:
    """1 where x > 0, else 0."""
    return where(x > 0, 1.0, 0.0)


def relu6(x: DoubleDouble, *, cap: DoubleDouble) -> DoubleDouble:
    """``x`` held between 0 and cap."""
    return clip(x, 0, cap)


def relu6_derivative(x: DoubleDouble, *, cap: DoubleDouble) -> DoubleDouble:
    """1 where 0 < x < cap, else 0."""
    return where((x > 0) & (x < cap.rounded()), 1.0, 0.0)


def relu2(x: DoubleDouble) -> DoubleDouble:
    """max(x, 0)²."""
    return where(x > 0, x * x, 0.0)


def relu2_derivative(x: DoubleDouble) -> DoubleDouble:
    """2·max(x, 0)."""
    return where(x > 0, 2 * x, 0.0)


def leaky_relu(x: DoubleDouble, *, negative_slope: DoubleDouble) -> DoubleDouble:
    """``x`` where x > 0, else negative_slope·x."""
    return where(x > 0, x, negative_slope * x)


def leaky_relu_derivative(x: DoubleDouble, *, negative_slope: DoubleDouble) -> DoubleDouble:
    """1 where x > 0, else negative_slope."""
    return where(x > 0, 1.0, negative_slope)


def _inside(line: DoubleDouble) -> Bool:
    return (line > _AT_KINK) & (line < 1 - DoubleDouble.of(_AT_KINK))


def hard_sigmoid(x: DoubleDouble, *, slope: DoubleDouble, offset: DoubleDouble) -> DoubleDouble:
    """slope·x + offset held between 0 and 1."""
    return clip(slope * x + offset, 0, 1)


def hard_sigmoid_derivative(x: DoubleDouble, *, slope: DoubleDouble, offset: DoubleDouble) -> DoubleDouble:
    """Slope where 0 < slope·x + offset < 1, else 0."""
    return where(_inside(slope * x + offset), slope, 0.0)


def hard_swish(x: DoubleDouble, *, slope: DoubleDouble, offset: DoubleDouble) -> DoubleDouble:
    """x·hard_sigmoid(x)."""
    return x * hard_sigmoid(x, slope=slope, offset=offset)


def hard_swish_derivative(x: DoubleDouble, *, slope: DoubleDouble, offset: DoubleDouble) -> DoubleDouble:
    """2·slope·x + offset where 0 < slope·x + offset < 1, else the 0 or 1 of hard_sigmoid."""
    line = slope * x + offset
    return where(_inside(line), line + slope * x, where(line > 0.5, 1.0, 0.0))


def _hard_kinks(*, slope: float, offset: float) -> tuple[float, ...]:
    return () if slope == 0 else tuple(sorted((-offset / slope, (1 - offset) / slope)))


def hard_tanh(x: DoubleDouble, *, low: DoubleDouble, high: DoubleDouble) -> DoubleDouble:
    """``x`` held between low and high."""
    return clip(x, low, high)


def hard_tanh_derivative(x: DoubleDouble, *, low: DoubleDouble, high: DoubleDouble) -> DoubleDouble:
    """1 where low < x < high, else 0."""
    return where((x > low.rounded()) & (x < high.rounded()), 1.0, 0.0)


def soft_shrink(x: DoubleDouble, *, threshold: DoubleDouble) -> DoubleDouble:
    """``x`` moved towards 0 by threshold, 0 within it."""
    return where(x > threshold, x - threshold, where(x < -threshold, x + threshold, 0.0))


def hard_shrink(x: DoubleDouble, *, threshold: DoubleDouble) -> DoubleDouble:
    """``x`` where |x| > threshold, else 0."""
    return where(abs(x) > threshold.rounded(), x, 0.0)


def shrink_derivative(x: DoubleDouble, *, threshold: DoubleDouble) -> DoubleDouble:
    """1 where |x| > threshold, else 0: of soft_shrink and of hard_shrink."""
    return where(abs(x) > threshold.rounded(), 1.0, 0.0)


def threshold(x: DoubleDouble, *, threshold: DoubleDouble, value: DoubleDouble) -> DoubleDouble:
    """``x`` where x > threshold, else value."""
    return where(x > threshold.rounded(), x, value)


def threshold_derivative(x: DoubleDouble, *, threshold: DoubleDouble, value: DoubleDouble) -> DoubleDouble:  # noqa: ARG001
    """1 where x > threshold, else 0."""
    return where(x > threshold.rounded(), 1.0, 0.0)


def sparse_plus(x: DoubleDouble) -> DoubleDouble:
    """0 up to -1, (x + 1)²/4 up to 1, then x."""
    return where(x <= -1, 0.0, where(x >= 1, x, (x + 1) * (x + 1) * 0.25))


def sparse_sigmoid(x: DoubleDouble) -> DoubleDouble:
    """0 up to -1, (x + 1)/2 up to 1, then 1: the derivative of sparse_plus."""
    return clip((x + 1) * 0.5, 0, 1)


def sparse_sigmoid_derivative(x: DoubleDouble) -> DoubleDouble:
    """½ where |x| < 1, else 0."""
    return where(abs(x) < 1, 0.5, 0.0)


_MOBILENET_V3: Final = "Howard et al., Searching for MobileNetV3, arXiv:1905.02244"
_FENCHEL_YOUNG: Final = "Blondel, Martins & Niculae, Learning with Fenchel-Young Losses, arXiv:1901.02324"

FORMULAS: Final = (
    Formula(name="identity", value=identity, derivative=identity_derivative, source="ONNX Identity"),
    Formula(
        name="relu",
        value=relu,
        derivative=relu_derivative,
        source="Nair & Hinton, Rectified Linear Units, ICML 2010",
        kinks=lambda: (0.0,),
    ),
    Formula(
        name="relu6",
        value=relu6,
        derivative=relu6_derivative,
        source="Krizhevsky, Convolutional Deep Belief Networks on CIFAR-10, 2010",
        constants={"cap": 6.0},
        kinks=lambda *, cap: (0.0, cap),
    ),
    Formula(
        name="relu2",
        value=relu2,
        derivative=relu2_derivative,
        source="So et al., Primer, arXiv:2109.08668: squared ReLU",
    ),
    Formula(
        name="leaky_relu",
        value=leaky_relu,
        derivative=leaky_relu_derivative,
        source="Maas, Hannun & Ng, Rectifier Nonlinearities Improve Acoustic Models, ICML 2013",
        parameters={"negative_slope": 0.01},
        kinks=lambda *, negative_slope: () if negative_slope == 1 else (0.0,),
    ),
    Formula(
        name="hard_sigmoid",
        value=hard_sigmoid,
        derivative=hard_sigmoid_derivative,
        source=_MOBILENET_V3,
        parameters={"slope": 1 / 6, "offset": 0.5},
        kinks=_hard_kinks,
    ),
    Formula(
        name="hard_swish",
        value=hard_swish,
        derivative=hard_swish_derivative,
        source=_MOBILENET_V3,
        parameters={"slope": 1 / 6, "offset": 0.5},
        kinks=_hard_kinks,
    ),
    Formula(
        name="hard_tanh",
        value=hard_tanh,
        derivative=hard_tanh_derivative,
        source="Collobert, Large Scale Machine Learning, 2004; ONNX Clip",
        parameters={"low": -1.0, "high": 1.0},
        unbounded=("low", "high"),
        kinks=lambda *, low, high: (low, high),
    ),
    Formula(
        name="soft_shrink",
        value=soft_shrink,
        derivative=shrink_derivative,
        source="Donoho, De-noising by soft-thresholding, IEEE Trans. Inf. Theory 41, 1995",
        parameters={"threshold": 0.5},
        kinks=lambda *, threshold: (-threshold, threshold),
    ),
    Formula(
        name="hard_shrink",
        value=hard_shrink,
        derivative=shrink_derivative,
        source="Donoho & Johnstone, Ideal spatial adaptation by wavelet shrinkage, Biometrika 81, 1994",
        parameters={"threshold": 0.5},
        kinks=lambda *, threshold: (-threshold, threshold),
    ),
    Formula(
        name="threshold",
        value=threshold,
        derivative=threshold_derivative,
        source="torch.nn.Threshold",
        parameters={"threshold": 0.0, "value": 0.0},
        kinks=lambda *, threshold, **_: (threshold,),
    ),
    Formula(name="sparse_plus", value=sparse_plus, derivative=sparse_sigmoid, source=_FENCHEL_YOUNG),
    Formula(
        name="sparse_sigmoid",
        value=sparse_sigmoid,
        derivative=sparse_sigmoid_derivative,
        source=_FENCHEL_YOUNG,
        kinks=lambda: (-1.0, 1.0),
    ),
)
