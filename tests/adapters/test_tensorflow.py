"""The tensorflow adapter: what each row computes, in the dtype it was given, quietly and without leftovers.

TensorFlow takes seconds to load, so the rows are made once and each test goes through all of them.
"""

import tempfile
from importlib.util import find_spec

import ml_dtypes
import numpy as np
import pytest

from parity.adapter import Adapter
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.errors import InputError

# Not importorskip: it would load TensorFlow, without the adapter's settings, whenever tests are collected.
pytestmark = pytest.mark.skipif(find_spec("tensorflow") is None, reason="tensorflow is not installed")

# In ulp of the larger of |x| and |y|. The worst rows measured on TensorFlow 2.21 are selu (xla) at 5.3 and mish at 4.5
# in float32; swapping erf for tanh in GELU makes 2,000.
FLOAT32_LIMIT = 6.0
HALF_LIMIT = 1.5
GRADIENT_LIMIT = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}


@pytest.fixture(scope="module")
def adapter():
    from parity_adapters.tensorflow import adapter

    return adapter


@pytest.fixture(scope="module")
def rows(adapter):
    return {row.name: row for row in adapter.activations()}


def working_dtype(row):
    return "float32" if "float32" in row.dtypes else row.dtypes[0]


def grid(row):
    """(-6, 6) in the row's dtype; for gated variants all of it against a shuffled copy."""
    x = np.linspace(-6, 6, 1201).astype(float_dtype(working_dtype(row)))
    if row.variant.arity == 1:
        return x
    return np.stack([x, np.random.default_rng(0).permutation(x)], axis=-1)


def ulp(magnitude, dtype):
    info = ml_dtypes.finfo(float_dtype(dtype))
    exponent = np.frexp(np.maximum(magnitude, float(info.smallest_normal)))[1] - 1
    return np.ldexp(1.0, exponent - info.nmant)


def test_is_an_adapter_with_versions_of_what_is_installed(adapter):
    assert isinstance(adapter, Adapter)
    versions = adapter.versions()
    assert set(versions) >= {"keras", "ml-dtypes", "numpy"}
    assert [name for name in versions if name.startswith("tensorflow")]


def test_refuses_what_it_does_not_read(adapter):
    with pytest.raises(InputError, match="no file or folder"):
        adapter.open("model.onnx", {})


def test_names_are_unique(adapter, rows):
    assert len(rows) == len(list(adapter.activations()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_pattern_survives_the_round_trip(rows, dtype):
    patterns = np.arange(2**16, dtype=np.uint16)
    row = rows["tf.nn.gelu"]
    back = row.leave(row.enter(patterns.view(float_dtype(dtype))))
    assert back.dtype == float_dtype(dtype)
    np.testing.assert_array_equal(back.view(np.uint16), patterns)


def test_dtype_in_is_dtype_out(rows):
    wrong = []
    for row in rows.values():
        # Compiling is slow, and a compiled call can only lose its dtype where it was written with another one in mind.
        for dtype in row.dtypes[-1:] if "(xla)" in row.name else row.dtypes:
            x = np.linspace(-2, 2, 8).astype(float_dtype(dtype))
            y = row(x if row.variant.arity == 1 else np.stack([x, x], axis=-1))
            if (y.dtype, y.shape) != (x.dtype, x.shape):
                wrong.append((row.name, dtype, y.dtype, y.shape))
    assert wrong == []


def test_value_is_that_of_the_declared_variant(rows):
    wrong = []
    for row in rows.values():
        x, dtype = grid(row), working_dtype(row)
        y = row.variant.value(x)
        scale = np.maximum(np.abs(y), np.abs(x.astype(np.float64)).reshape(len(x), -1).max(axis=1))
        if row.variant.name in {"elu", "selu"}:
            # TensorFlow's own kernel takes exp(x) - 1 apart, so its rounding is that of numbers near one.
            scale = np.maximum(scale, 1.0)
        error = np.max(np.abs(row(x).astype(np.float64) - y) / ulp(scale, dtype))
        if not error <= (FLOAT32_LIMIT if dtype == "float32" else HALF_LIMIT):
            wrong.append((row.name, dtype, float(error)))
    assert wrong == []


def test_gradient_is_that_of_the_declared_variant(rows):
    wrong, measured = [], 0
    for row in rows.values():
        x, dtype = grid(row), working_dtype(row)
        derivative = row.derivative(x)
        if derivative is None:
            assert "(tflite" in row.name
            continue
        # Every kink of these functions lies on a multiple of one half.
        smooth = np.abs(2 * x.astype(np.float64) - np.round(2 * x.astype(np.float64))) > 0.05
        error = np.max(np.abs(derivative.astype(np.float64) - row.variant.derivative(x))[smooth])
        measured += 1
        if not (derivative.dtype == x.dtype and error <= GRADIENT_LIMIT[dtype]):
            wrong.append((row.name, derivative.dtype, float(error)))
    assert wrong == []
    assert measured > 100


def test_the_default_gelu_of_keras_depends_on_the_module(rows):
    x = np.array([2.7], np.float32)  # where erf and tanh differ by 4.7e-4
    assert rows["keras.ops.gelu"](x) == rows["keras.ops.gelu[approximate=True]"](x)
    assert rows["keras.activations.gelu"](x) == rows["keras.ops.gelu[approximate=False]"](x)
    assert abs(rows["keras.ops.gelu"](x) - rows["keras.activations.gelu"](x)) > 4e-4


def test_defaults_are_the_calls_without_flags(rows):
    defaults = {name: row.default_of for name, row in rows.items() if row.default_of}
    assert not [name for name in defaults if "[" in name or " (" in name]
    assert {name for name, bare in defaults.items() if bare == "gelu"} == {
        "tf.nn.gelu",
        "keras.activations.gelu",
        "keras.ops.gelu",
        'keras.layers.Activation("gelu")',
    }
    assert defaults["keras.activations.hard_silu"] == defaults["keras.activations.hard_swish"] == "hardswish"


def test_leaky_relu_defaults_differ_between_function_and_layer(rows):
    x = np.array([-1.0], np.float32)
    assert rows["tf.nn.leaky_relu"](x) == np.float32(-0.2)
    assert rows["keras.layers.LeakyReLU"](x) == np.float32(-0.3)


def test_the_tflite_converter_folds_the_written_out_erf_form(rows):
    x = np.linspace(-6, 6, 1201).astype(np.float32)
    for mode in ("tflite", "tflite, builtin"):
        written, built_in = (
            rows[f"0.5*x*(1+tf.math.erf(x/sqrt(2))) ({mode})"],
            rows[f"tf.nn.gelu[approximate=False] ({mode})"],
        )
        np.testing.assert_array_equal(written(x), built_in(x))


@pytest.mark.parametrize("name", ["tf.nn.gelu (saved_model)", "tf.nn.gelu[approximate=True] (tflite)"])
def test_leaves_no_temporary_files(adapter, tmp_path, monkeypatch, name):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (row,) = (row for row in adapter.activations() if row.name == name)
    for length in (3, 5):
        assert np.isfinite(row(np.zeros(length, np.float32))).all()
    assert list(tmp_path.iterdir()) == []


def test_dtypes_are_known(rows):
    assert {dtype for row in rows.values() for dtype in row.dtypes} == set(FLOAT_DTYPES)
