"""The JAX adapter: what `jax.nn` and Flax compute by default, in which dtype, and where they leave the rails."""

import importlib.util

import numpy as np
import pytest

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions import variant

pytest.importorskip("jax", reason="JAX is not installed")

import jax
import jax.numpy as jnp

from parity_adapters.jax import adapter
from parity_adapters.jax.arrays import from_numpy, x64

ROWS = {row.name: row for row in adapter.activations()}
HAS_FLAX = importlib.util.find_spec("flax") is not None
needs_flax = pytest.mark.skipif(not HAS_FLAX, reason="Flax is not installed")

# erf and tanh GELU differ most here, by 4.7e-4.
FAR = np.array([-2.7, 2.7], np.float32)
MODULES = ["jax.nn", *[pytest.param(f"flax.{name}", marks=needs_flax) for name in ("linen", "nnx")]]


def test_runs_on_the_cpu():
    assert jax.default_backend() == "cpu"


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("how", ["", " (jit)"])
def test_gelu_without_a_flag_is_tanh(module, how):
    row = ROWS[f"{module}.gelu{how}"]
    assert row.variant == variant("gelu_tanh")
    assert row.default_of == "gelu"
    assert np.array_equal(row(FAR), ROWS[f"{module}.gelu[approximate=True]{how}"](FAR))
    difference = row(FAR) - ROWS[f"{module}.gelu[approximate=False]{how}"](FAR)
    assert np.abs(difference) == pytest.approx(4.73e-4, abs=1e-6)


@needs_flax
def test_flax_has_the_functions_of_jax_nn():
    """Why only GELU has rows for Flax. If this fails, Flax has activations of its own: give them rows."""
    from flax import linen, nnx

    names = {row.name.removeprefix("jax.nn.").partition("[")[0].split()[0] for row in ROWS.values()}
    shared = [
        (module, name) for module in (linen, nnx) for name in names if hasattr(jax.nn, name) and hasattr(module, name)
    ]
    assert len(shared) > 30
    assert [f"{m.__name__}.{n}" for m, n in shared if getattr(m, n) is not getattr(jax.nn, n)] == []


def test_flax_rows_are_absent_without_flax(monkeypatch):
    monkeypatch.setattr("parity_adapters.jax.find_spec", lambda _: None)
    monkeypatch.setattr("parity_adapters.jax.activations.find_spec", lambda _: None)
    names = [row.name for row in adapter.activations()]
    assert "jax.nn.gelu" in names
    assert not [name for name in names if "flax" in name]
    assert set(adapter.versions()) == {"jax", "jaxlib"}


def test_float64_exists_in_x64_rows_and_nowhere_else():
    for name, row in ROWS.items():
        assert ("float64" in row.dtypes) == name.endswith("(x64)"), name
    row = ROWS["jax.nn.gelu (x64)"]
    x = np.linspace(-3, 3, 7)
    native = row.enter(x)
    assert native.dtype == jnp.float64
    assert row.function(native).dtype == jnp.float64
    assert row.gradient(native).dtype == jnp.float64
    assert row(x) == pytest.approx(variant("gelu_tanh").value(x), rel=1e-13)
    assert jnp.ones(1).dtype == jnp.float32, "64-bit mode must end with the row"


def test_float64_outside_of_x64_is_refused_not_rounded():
    with pytest.raises(InputError, match="JAX makes float32 of a float64 array"):
        from_numpy(np.ones(2))
    with x64():
        assert from_numpy(np.ones(2)).dtype == np.float64


def test_glu_gates_with_the_second_column():
    y = ROWS["jax.nn.glu"](np.array([[3.0, 0.0], [0.0, 3.0]], np.float32))
    assert y.tolist() == [1.5, 0.0]


@pytest.mark.parametrize(
    ("row", "bare"),
    [("leaky_relu", "leakyrelu"), ("hard_silu", "hardswish"), ("hard_sigmoid", "hardsigmoid"), ("silu", "silu")],
)
def test_calls_without_flags_are_defaults(row, bare):
    assert ROWS[f"jax.nn.{row}"].default_of == bare
    assert ROWS["jax.nn.leaky_relu[negative_slope=0.2]"].default_of is None


def test_subnormals_are_flushed_to_zero():
    """XLA on the CPU flushes float32 subnormals; measured on jaxlib 0.10.2."""
    x = np.array([1e-40, -1e-40], np.float32)
    assert ROWS["jax.nn.relu"](x)[0] == 0
    assert variant("relu").value(x)[0] > 0


def test_float16_gradient_of_the_tanh_form_overflows():
    """Cubing leaves float16 at 40.3, the gradient is NaN from 147.9 on; measured on jaxlib 0.10.2."""
    row, x = ROWS["jax.nn.gelu (jit)"], np.array([147.75, 147.875], np.float16)
    assert np.isnan(row.derivative(x)).tolist() == [False, True]
    assert row(x).tolist() == [147.75, 147.875]


@pytest.mark.parametrize("name", ["jax.nn.gelu", "jax.nn.gelu[approximate=False]"])
def test_gelu_of_minus_infinity_is_nan(name):
    assert np.isnan(ROWS[name](np.array([-np.inf], np.float32))[0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_eager_and_jitted_gelu_agree_to_the_last_place_of_the_input(dtype):
    x = np.linspace(-6, 6, 1001).astype(FLOAT_DTYPES[dtype])
    eager, jitted = (ROWS[f"jax.nn.gelu{how}"](x).astype(np.float64) for how in ("", " (jit)"))
    limit = (
        2 * np.spacing(np.abs(x)).astype(np.float64) if dtype != "bfloat16" else np.abs(x).astype(np.float64) * 2**-6
    )
    assert (np.abs(eager - jitted) <= limit).all()


def test_refuses_what_it_does_not_read():
    with pytest.raises(InputError, match="cannot open"):
        adapter.open("model.onnx", {})
