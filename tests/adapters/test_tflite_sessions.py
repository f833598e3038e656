"""Sessions of the tensorflow adapter on TFLite files, which the tests convert themselves."""

import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from parity.adapter import UnsupportedPrecisionError
from parity.errors import InputError
from parity.testing.sessions import assert_same, check_session, traced

pytestmark = pytest.mark.skipif(find_spec("tensorflow") is None, reason="tensorflow is not installed")


@pytest.fixture(scope="module")
def adapter():
    from parity_adapters.tensorflow import adapter

    return adapter


@pytest.fixture(scope="module")
def tf(adapter):
    from parity_adapters.tensorflow.runtime import tf

    return tf


def normal(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def converted(tf, tmp_path_factory):
    """Converts a function of one tensor: ``converted(function, shape)`` is the path of a file."""

    def convert(function, shape, quantise=""):
        module = tf.Module()
        module.call = tf.function(function, input_signature=[tf.TensorSpec(shape, name="x")], autograph=False)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([module.call.get_concrete_function()], module)
        if quantise:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantise == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if quantise == "int8":
            filled = [size or 2 for size in shape]
            converter.representative_dataset = lambda: iter([[normal(*filled)] for _ in range(2)])
        path = tmp_path_factory.mktemp("lite") / "model.tflite"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path.write_bytes(converter.convert())
        return str(path)

    return convert


@pytest.fixture(scope="module")
def convnet(tf):
    filters = {"stem": normal(3, 3, 3, 8), "depthwise": normal(3, 3, 8, 2), "up": normal(3, 3, 4, 16)}

    def call(x):
        x = tf.nn.relu6(tf.nn.conv2d(x, filters["stem"], 2, "SAME") + 0.5)
        x = tf.nn.leaky_relu(tf.nn.depthwise_conv2d(x, filters["depthwise"], (1, 1, 1, 1), "SAME"), 0.1)
        x = tf.nn.max_pool2d(tf.nn.avg_pool2d(x, 3, 2, "SAME"), 2, 1, "VALID")
        x = tf.compat.v1.image.resize_bilinear(x, (8, 8), half_pixel_centers=True)
        x = tf.nn.gelu(tf.nn.conv2d_transpose(x, filters["up"], (2, 16, 16, 4), 2))
        return tf.nn.softmax(tf.reduce_mean(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), (1, 2)))

    return call


def block(tf):
    """A small transformer block written out, over (2, 5, 8)."""
    weights = [normal(8, 8) * factor for factor in (1, 2, 3)]

    def call(x):
        q, k, v = (tf.matmul(x, weight) for weight in weights)
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.float32(np.sqrt(8)))
        y = x + tf.matmul(scores, v)
        mean = tf.reduce_mean(y, -1, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(y, mean), -1, keepdims=True)
        return tf.nn.relu((y - mean) * tf.math.rsqrt(variance + 1e-5)) * 0.5

    return call


def test_transformer_block_gives_the_bits_of_production(adapter, tf, converted):
    session = adapter.open(converted(block(tf), (2, 5, 8)), {})
    assert session.inputs()["x"].shape == (2, 5, 8)
    check_session(session, {"x": normal(2, 5, 8)})
    sites, _, ends = traced(session, {"x": normal(2, 5, 8)})
    assert not ends.notes
    kinds = {site.kind for site in sites}
    assert kinds >= {"matmul", "softmax", "mean", "rsqrt", "pointwise"}
    adding = next(site for site in sites if site.outputs[0] == next(s for s in sites if s.kind == "rsqrt").inputs[0])
    assert session.weights()[adding.inputs[1]] == np.float32(1e-5)


def test_convnet_has_its_attributes(adapter, convnet, converted):
    session = adapter.open(converted(convnet, (2, 17, 18, 3)), {})
    inputs = {"x": normal(2, 17, 18, 3)}
    check_session(session, inputs)
    attributes = {site.op: site.attributes for site in traced(session, inputs)[0]}
    assert attributes["CONV_2D"]["pads"] == [1, 0, 1, 1]
    assert attributes["CONV_2D"]["activation"] == "relu6"
    assert attributes["DEPTHWISE_CONV_2D"]["groups"] == 8
    assert attributes["AVERAGE_POOL_2D"]["count_include_pad"] is False
    assert attributes["LEAKY_RELU"] == {"alpha": 0.1}
    assert attributes["RESIZE_BILINEAR"]["coordinates"] == "half_pixel"
    assert attributes["GELU"] == {"approximate": "none"}
    assert attributes["PAD"]["pads"] == [0, 1, 1, 0, 0, 1, 1, 0]


def test_weights_can_be_exchanged(adapter, tf, converted):
    weight = normal(4, 3)
    session = adapter.open(converted(lambda x: tf.nn.relu(x @ weight), (2, 4)), {})
    x = normal(2, 4)
    (site,), _, _ = traced(session, {"x": x})
    assert site.attributes["activation"] == "relu"
    kernel = site.inputs[1]
    np.testing.assert_array_equal(session.weights()[kernel], weight.T)
    for precision, rtol in (("native", 1e-6), ("float64", 1e-15)):
        given = {"x": x, kernel: -weight.T}
        made = session.evaluate([site.name], given, [site.outputs[0]], precision)[site.outputs[0]]
        exact = np.maximum(x.astype(np.float64) @ -weight.astype(np.float64), 0)
        np.testing.assert_allclose(made, exact, rtol=rtol, atol=1e-6 if precision == "native" else 1e-15)


def test_loops_and_branches_are_told_as_they_run(adapter, tf, converted):
    weight = normal(4, 4) * np.float32(0.3)

    def call(x):
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y @ weight)), (0, x))
        return tf.cond(tf.reduce_sum(x) > 0, lambda: y * 2.0, lambda: y - 1.0)

    session = adapter.open(converted(call, (2, 4)), {})
    inputs = {"x": np.ones((2, 4), np.float32)}
    check_session(session, inputs)
    sites, _, ends = traced(session, inputs)
    assert [site.name.rpartition("@")[2] for site in sites if site.kind == "tanh"] == ["0", "1", "2"]
    assert "sub" not in [site.kind for site in sites]
    assert any("did not take branch 1 of 2" in note for note in ends.notes)


def test_inputs_of_any_length(adapter, tf, converted):
    session = adapter.open(converted(lambda x: tf.nn.elu(x) * 2.0, (None, 4)), {})
    assert session.inputs()["x"].shape == (None, 4)
    for length in (3, 5):
        check_session(session, {"x": normal(length, 4)})


@pytest.mark.parametrize("quantise", ["float16", "dynamic"])
def test_quantised_weights_are_used_as_stored_in_float64(adapter, tf, converted, quantise):
    weight = normal(32, 40)
    session = adapter.open(converted(lambda x: tf.nn.relu(x @ weight) @ weight.T, (6, 32), quantise), {})
    inputs = {"x": normal(6, 32)}
    check_session(session, inputs, exact=False)
    sites, tensors, _ = traced(session, inputs)
    for site in sites:
        given = {name: tensors[name] for name in site.inputs if name in tensors}
        alone = session.evaluate([site.name], given, list(site.outputs), "native")
        assert_same(alone[site.outputs[0]], tensors[site.outputs[0]], site.name, exact=True)


def test_integer_arithmetic_has_no_float64(adapter, tf, converted):
    weight = normal(8, 4)
    session = adapter.open(converted(lambda x: tf.nn.relu(x @ weight), (2, 8), "int8"), {})
    inputs = {"x": normal(2, 8)}
    check_session(session, inputs, double=False)
    sites, tensors, _ = traced(session, inputs)
    assert [(site.kind, site.attributes.get("bits")) for site in sites] == [
        ("quantize", 8),
        ("matmul", None),
        ("dequantize", 8),
    ]
    for site in (sites[0], sites[2]):
        given = {site.inputs[0]: tensors[site.inputs[0]]}
        made = session.evaluate([site.name], given, [site.outputs[0]], "float64")[site.outputs[0]]
        np.testing.assert_allclose(made.astype(np.float64), tensors[site.outputs[0]], rtol=1e-6)
    given = {sites[1].inputs[0]: tensors[sites[1].inputs[0]]}
    with pytest.raises(UnsupportedPrecisionError, match="FULLY_CONNECTED cannot be computed in float64"):
        session.evaluate([sites[1].name], given, [sites[1].outputs[0]], "float64")


def test_what_is_no_model_says_so(adapter, tf, converted, tmp_path):
    whole = Path(converted(lambda x: tf.tanh(x) + 1.0, (2, 4))).read_bytes()
    for name, content in {"empty": b"", "garbage": b"garbage" * 99, "header": b"1234TFL3" + b"\xff" * 99}.items():
        (tmp_path / f"{name}.tflite").write_bytes(content)
        with pytest.raises(InputError, match=r"no TFLite file|damaged"):
            adapter.open(str(tmp_path / f"{name}.tflite"), {})
    (tmp_path / "half.tflite").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        adapter.open(str(tmp_path / "half.tflite"), {})
    with pytest.raises(InputError, match="There is no file"):
        adapter.open(str(tmp_path / "absent.tflite"), {})


def test_wrong_inputs_and_options_say_what_is_taken(adapter, tf, converted):
    path = converted(tf.tanh, (2, 4))
    with pytest.raises(InputError, match=r"shape \(3, 4\)"):
        adapter.open(path, {}).run({"x": normal(3, 4)})
    with pytest.raises(InputError, match="cannot be run in float16"):
        adapter.open(path, {"dtype": "float16"})
    with pytest.raises(InputError, match="no number of threads"):
        adapter.open(path, {"threads": "many"})
    check_session(adapter.open(path, {"threads": "1"}), {"x": normal(2, 4)})
