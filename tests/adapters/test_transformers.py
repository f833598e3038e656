"""The transformers adapter: every key of ``ACT2FN`` against its declared variant."""

from functools import cache

import numpy as np
import pytest

from parity.adapter import Adapter, Implementation
from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError

pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers.activations import ACT2FN

from parity_adapters.transformers import adapter
from parity_adapters.transformers.activations import DECLARED

GRID = (np.arange(-768, 768) + 0.5) / 128
"""[-6, 6] in odd multiples of 1/256, so never on a kink; exact in float32."""

VALUE_ULP = {"exact": 1, "kernel": 5, "composed": 5}
"""Measured on transformers 5.24 with torch 2.13 CPU: 0.84, 4.2 and 2.4 on [-20, 20]."""

GRADIENT_ULP = 16
"""Measured likewise: 8.7."""


@cache
def by_key() -> dict[str, Implementation]:
    return {row.name.removeprefix("ACT2FN[").removesuffix("]"): row for row in adapter.activations()}


def float32_ulp(size: np.ndarray) -> np.ndarray:
    return np.spacing(size.astype(np.float32)).astype(np.float64)


def test_every_key_has_one_row() -> None:
    assert [row.name for row in adapter.activations()] == [f"ACT2FN[{key}]" for key in ACT2FN]
    assert set(ACT2FN) <= set(DECLARED)


@pytest.mark.parametrize("key", by_key())
def test_value_is_that_of_the_declared_variant(key: str) -> None:
    implementation, x = by_key()[key], GRID.astype(np.float32)
    exact = implementation.variant.value(x)
    size = np.maximum(np.abs(x), np.abs(exact))
    if key == "laplace":
        size = np.maximum(size, 0.707107)  # x - 0.707107 rounds at that size
    assert (np.abs(implementation(x) - exact) / float32_ulp(size)).max() <= VALUE_ULP[implementation.accuracy]


@pytest.mark.parametrize("key", by_key())
def test_gradient_is_that_of_the_declared_variant(key: str) -> None:
    implementation, x = by_key()[key], GRID.astype(np.float32)
    exact, gradient = implementation.variant.derivative(x), implementation.derivative(x)
    assert gradient is not None
    assert (np.abs(gradient - exact) / float32_ulp(np.maximum(np.abs(exact), 1))).max() <= GRADIENT_ULP


@pytest.mark.parametrize("key", by_key())
def test_dtype_and_length_are_kept(key: str) -> None:
    implementation = by_key()[key]
    assert implementation.dtypes == tuple(FLOAT_DTYPES)
    for dtype in FLOAT_DTYPES.values():
        x = GRID.astype(dtype)
        y, gradient = implementation(x), implementation.derivative(x)
        assert (y.dtype, y.shape) == (dtype, x.shape)
        assert gradient is not None
        assert (gradient.dtype, gradient.shape) == (dtype, x.shape)


def test_learned_parameters_are_read_off_the_module() -> None:
    assert dict(by_key()["prelu"].variant.parameters) == {"negative_slope": 0.25}
    xielu = dict(by_key()["xielu"].variant.parameters)
    # The module keeps them in bfloat16 and behind a softplus, so they are not quite what its constructor is given.
    assert xielu["alpha_p"] == pytest.approx(0.8, rel=2**-7)
    assert xielu["alpha_n"] == pytest.approx(0.8, rel=2**-7)
    assert xielu["alpha_p"] != 0.8
    assert xielu["beta"] == 0.5
    assert xielu["eps"] == pytest.approx(-1e-6, rel=2**-8)


def test_a_new_key_declares_the_variant_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setitem(ACT2FN, "softsign", torch.nn.Softsign)
    (row,) = [row for row in adapter.activations() if row.name == "ACT2FN[softsign]"]
    assert row.variant.name == "softsign"
    assert row(np.array([3.0]))[0] == 0.75


def test_a_new_key_of_unknown_variant_is_named_in_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setitem(ACT2FN, "brand_new", torch.nn.Softsign)
    with pytest.warns(UserWarning, match=r"ACT2FN\[brand_new\] is left out"):
        rows = list(adapter.activations())
    assert len(rows) == len(ACT2FN) - 1


def test_the_gradient_of_a_cube_written_out_overflows_in_float16() -> None:
    """gelu_new's is not finite from |x| = 147.875 on, where 0 · ∞ stands for 0; the kernel's is fine up to the last."""
    x = np.array([147.75, 147.875, 65504.0], np.float16)
    written_out, kernel = by_key()["gelu_new"].derivative(x), by_key()["gelu_pytorch_tanh"].derivative(x)
    assert written_out is not None
    assert kernel is not None
    assert np.isfinite(written_out).tolist() == [True, False, False]
    assert kernel.tolist() == [1.0, 1.0, 1.0]


def test_adapter_satisfies_the_protocol_and_refuses_what_it_does_not_read() -> None:
    assert isinstance(adapter, Adapter)
    assert set(adapter.versions()) == {"transformers", "torch"}
    with pytest.raises(InputError, match="cannot open"):
        adapter.open("model", {})
