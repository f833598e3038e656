"""The torch adapter: every call against its declared variant, and the facts about PyTorch that the suite reports."""

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from parity.adapter import Adapter, Implementation
from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions import variant

torch = pytest.importorskip("torch")

from parity_adapters.torch import adapter  # noqa: E402 - only after the skip
from parity_adapters.torch.arrays import from_numpy, to_numpy  # noqa: E402

GRID = (np.arange(-768, 768) + 0.5) / 128
"""[-6, 6] in odd multiples of 1/256, so never on a kink; exact in float32."""

VALUE_ULP = {"exact": 1, "kernel": 5, "composed": 5}
"""Measured on torch 2.13 CPU: 0.84, 4.2 (oneDNN's erf) and 2.2 on [-20, 20]."""

GRADIENT_ULP = 16
"""Measured on torch 2.13 CPU: 13.4, in the gated forms."""


@cache
def by_name() -> dict[str, Implementation]:
    return {implementation.name: implementation for implementation in adapter.activations()}


def inputs(implementation: Implementation, dtype: str = "float32") -> np.ndarray:
    x = GRID if implementation.variant.arity == 1 else np.stack([np.roll(GRID, 501), GRID], axis=-1)
    return x.astype(FLOAT_DTYPES[dtype])


def float32_ulp(size: np.ndarray) -> np.ndarray:
    return np.spacing(size.astype(np.float32)).astype(np.float64)


@pytest.mark.parametrize("name", by_name())
def test_value_is_that_of_the_declared_variant(name: str) -> None:
    implementation = by_name()[name]
    x = inputs(implementation)
    exact = implementation.variant.value(x)
    size = np.abs(x).reshape(len(x), -1).prod(axis=1)
    error = np.abs(implementation(x) - exact) / float32_ulp(np.maximum(size, np.abs(exact)))
    assert error.max() <= VALUE_ULP[implementation.accuracy]


@pytest.mark.parametrize("name", by_name())
def test_gradient_is_that_of_the_declared_variant(name: str) -> None:
    implementation = by_name()[name]
    x = inputs(implementation)
    gradient = implementation.derivative(x)
    if gradient is None:
        assert name.startswith("torch._addmm_activation")
        return
    exact = implementation.variant.derivative(x)
    assert gradient.shape == x.shape
    assert (np.abs(gradient - exact) / float32_ulp(np.maximum(np.abs(exact), 1))).max() <= GRADIENT_ULP


@pytest.mark.parametrize("name", by_name())
def test_dtype_and_length_are_kept(name: str) -> None:
    implementation = by_name()[name]
    # One dtype of the compiled rows: each costs seconds.
    for dtype in implementation.dtypes[:1] if "(compile)" in name else implementation.dtypes:
        y = implementation(inputs(implementation, dtype))
        assert (y.dtype, y.shape) == (FLOAT_DTYPES[dtype], GRID.shape)


def test_the_input_is_left_as_it_was() -> None:
    implementation = by_name()["torch.ops.aten.gelu_[approximate=none]"]
    x = inputs(implementation)
    native = implementation.enter(x)
    implementation.function(native)
    assert np.array_equal(implementation.leave(native), x)


def test_names_are_unique_and_defaults_are_calls_without_flags() -> None:
    rows = list(adapter.activations())
    assert len({row.name for row in rows}) == len(rows)
    defaults = [row for row in rows if row.default_of]
    assert {row.name for row in defaults if row.default_of == "gelu"} == {"torch.nn.functional.gelu", "torch.nn.GELU"}
    assert not [row.name for row in defaults if "[" in row.name or "(" in row.name]


def test_every_activation_of_torch_nn_functional_has_a_row() -> None:
    # The activation functions of PyTorch's documentation that act on each element or gate; softmax and its kin do not.
    documented = {"threshold", "relu", "hardtanh", "hardswish", "relu6", "elu", "selu", "celu", "leaky_relu", "prelu"}
    documented |= {
        "rrelu",
        "glu",
        "gelu",
        "logsigmoid",
        "hardshrink",
        "tanhshrink",
        "softsign",
        "softplus",
        "softshrink",
    }
    documented |= {"tanh", "sigmoid", "hardsigmoid", "silu", "mish"}
    measured = {name.partition("[")[0].removeprefix("torch.nn.functional.") for name in by_name()}
    assert documented <= measured


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_pattern_survives_the_round_trip(dtype: str) -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    native = from_numpy(bits.view(FLOAT_DTYPES[dtype]))
    assert native.dtype == getattr(torch, dtype)
    assert np.array_equal(to_numpy(native).view(np.uint16), bits)


def test_arrays_may_be_read_only_strided_or_empty() -> None:
    x = np.arange(8, dtype=ml_dtypes.bfloat16)
    x.flags.writeable = False
    assert np.array_equal(to_numpy(from_numpy(x[::-2])), x[::-2])
    assert to_numpy(from_numpy(x[:0])).shape == (0,)


def test_gelu_of_plus_infinity_depends_on_the_kernel() -> None:
    """NaN from oneDNN (pytorch/pytorch#185770), infinity from the others; measured on torch 2.13 CPU."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of PyTorch has no oneDNN")
    x = np.array([np.inf, 1.0], np.float32)
    name = "torch.nn.functional.gelu[approximate=none]"
    values = {way: by_name()[name + way](x)[0] for way in ("", " (non-contiguous)", " (one element)", " (mkldnn off)")}
    assert np.isnan(values.pop(""))
    assert set(values.values()) == {np.inf}
    assert torch.backends.mkldnn.enabled  # "mkldnn off" has put it back


def test_onednn_is_the_less_accurate_erf() -> None:
    """Measured on torch 2.13 CPU: 1.21e-6 from oneDNN at 3.49, 4.65e-7 from PyTorch's own kernel."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of PyTorch has no oneDNN")
    x = np.linspace(-6, 6, 100_001).astype(np.float32)
    exact = variant("gelu_erf").value(x)
    name = "torch.nn.functional.gelu[approximate=none]"
    assert 9e-7 < np.abs(by_name()[name](x) - exact).max() < 1.5e-6
    assert np.abs(by_name()[f"{name} (mkldnn off)"](x) - exact).max() < 7e-7


def test_hardsigmoid_has_a_float32_slope_in_its_float64_gradient() -> None:
    """Its backward kernel writes 1/6 in float32 whatever the dtype; measured on torch 2.13 CPU."""
    row = by_name()["torch.nn.functional.hardsigmoid"]
    x = np.array([0.5])
    assert row.derivative(x) == np.float32(1 / 6)
    assert row.variant.derivative(x) == 1 / 6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_linear_step_before_the_fast_paths_activation_changes_no_number(dtype: str) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(FLOAT_DTYPES[dtype])
    with np.errstate(invalid="ignore"):  # ml_dtypes looks at signalling NaNs in float32
        x = x[~np.isnan(x)]
    relu = by_name()["torch._addmm_activation[use_gelu=False]"](x)
    exact = by_name()["torch.nn.functional.relu"](x)
    # Processors that multiply bfloat16 themselves (AVX512-BF16) take and make zero in the place of a subnormal number.
    subnormal = np.abs(x.astype(np.float64)) < float(ml_dtypes.finfo(x.dtype).smallest_normal)
    assert np.array_equal(relu[~subnormal], exact[~subnormal])
    assert np.all((relu == exact) | (relu == 0))


def test_encoder_layers_fast_path_is_exact_gelu_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole layer's fast path, rebuilt around its activation as we measure it alone."""
    taken = []
    fast_path = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", lambda *args: taken.append(True) or fast_path(*args))
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation="gelu", batch_first=True).eval()
    with torch.no_grad():
        x = torch.randn(1, 64, 4)
        y = layer(x)
        attended = layer.norm1(x + layer.self_attn(x, x, x, need_weights=False)[0])
        hidden = layer.linear1(attended)

        def rebuilt(activation: str) -> torch.Tensor:
            activated = by_name()[activation].function(hidden.flatten()).reshape(hidden.shape)
            return layer.norm2(attended + layer.linear2(activated))

        assert taken == [True]
        assert (y - rebuilt("torch._addmm_activation[use_gelu=True]")).abs().max() < 1e-5
        assert (y - rebuilt("torch.nn.functional.gelu[approximate=tanh]")).abs().max() > 1e-4


def test_adapter_satisfies_the_protocol_and_refuses_what_it_does_not_read() -> None:
    assert isinstance(adapter, Adapter)
    assert adapter.versions() == {"torch": torch.__version__}
    with pytest.raises(InputError, match="cannot open"):
        adapter.open("model.h5", {})
