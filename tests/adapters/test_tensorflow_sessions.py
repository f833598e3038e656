"""Sessions of the tensorflow adapter on function graphs: SavedModels, Keras models and factories in Python files."""

from importlib.util import find_spec

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


@pytest.fixture(scope="module")
def keras(adapter):
    from parity_adapters.tensorflow.runtime import keras

    return keras


def normal(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def check(session, inputs):
    """`check_session`, with the bits of the traced run where those of production are not to be had."""
    check_session(session, inputs, exact=False)
    sites, tensors, ends = traced(session, inputs)
    for site in sites:
        given = {name: tensors[name] for name in site.inputs if name in tensors}
        made = [name for name in site.outputs if name in tensors]
        for name, array in session.evaluate([site.name], given, made, "native").items():
            assert_same(array, tensors[name], f"{site.name} alone", exact=True)
    return {site.name: site for site in sites}, tensors, ends


def randomise(model):
    """Gives every weight a value that shows."""
    generator = np.random.default_rng(7)
    for weight in model.weights:
        weight.assign(generator.normal(0.3, 0.1, weight.shape) + ("variance" in weight.path))
    return model


def transformer(keras):
    layers = keras.layers
    x = entry = keras.Input((7, 16), name="tokens")
    x = layers.LayerNormalization(epsilon=1e-6, name="norm")(
        x + layers.MultiHeadAttention(4, 4, name="attention")(x, x)
    )
    x = layers.Dense(32, activation="gelu", name="up")(x)
    return randomise(keras.Model(entry, layers.Dense(3, activation="softmax", name="head")(x)))


def convnet(keras):
    layers = keras.layers
    x = entry = keras.Input((17, 18, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", name="stem")(x)
    x = layers.ReLU(name="act")(layers.BatchNormalization(epsilon=1e-4, name="norm")(x))
    x = layers.LeakyReLU(name="leaky")(layers.DepthwiseConv2D(3, padding="same", name="depthwise")(x))
    x = layers.AveragePooling2D(3, strides=2, padding="same", name="pool")(x)
    x = layers.UpSampling2D(2, interpolation="bilinear", name="larger")(x)
    x = layers.UpSampling2D(2, interpolation="bicubic", name="largest")(x)
    x = layers.Conv2DTranspose(4, 3, strides=2, padding="same", name="up")(x)
    x = layers.GlobalAveragePooling2D(name="mean")(layers.Dropout(0.5)(x))
    return randomise(keras.Model(entry, layers.Dense(4, name="head")(x)))


def recurrent(keras, cell):
    layers = keras.layers
    entry = keras.Input((5, 4), name="sequence")
    x = getattr(layers, cell)(3, return_sequences=True, name="cell")(entry)
    return randomise(keras.Model(entry, layers.Dense(2, name="head")(layers.Bidirectional(layers.GRU(3))(x))))


def test_transformer_is_traced_under_the_names_of_its_layers(adapter, keras):
    session = adapter.open(transformer(keras), {})
    assert session.inputs()["tokens"].shape == (None, 7, 16)
    sites, _, ends = check(session, {"tokens": normal(2, 7, 16)})
    scopes = {part for site in sites.values() for part in site.scope.split(".")}
    assert scopes >= {"attention", "query", "norm", "up", "head"}
    assert any("up" in site.labels for site in sites.values())
    assert "attention/query/kernel" in session.weights()
    assert list(ends.outputs) == ["0"]
    assert not ends.named_outputs


def test_numbers_of_formulas_are_weights_that_can_be_exchanged(adapter, keras):
    session = adapter.open(transformer(keras), {})
    inputs = {"tokens": normal(2, 7, 16)}
    sites, tensors, _ = check(session, inputs)
    weights = session.weights()
    added = next(site for site in sites.values() if site.kind == "rsqrt").inputs[0]
    adding = next(site for site in sites.values() if added in site.outputs)
    epsilon = next(name for name in adding.inputs if name in weights)
    assert weights[epsilon] == np.float32(1e-6)
    variance = next(name for name in adding.inputs if name != epsilon)
    given = {variance: tensors[variance], epsilon: np.array(0.5)}
    made = session.evaluate([adding.name], given, [added], "float64")[added]
    np.testing.assert_array_equal(made, tensors[variance].astype(np.float64) + 0.5)


def test_convnet_has_its_paddings_in_numbers(adapter, keras):
    sites, _, _ = check(adapter.open(convnet(keras), {}), {"image": normal(2, 17, 18, 3)})
    attributes = {site.scope.split(".")[1]: site.attributes for site in sites.values() if site.attributes}
    stem = next(site for site in sites.values() if site.kind == "conv").attributes
    assert (stem["strides"], stem["pads"], stem["groups"]) == ([2, 2], [1, 0, 1, 1], 1)
    pool = next(site for site in sites.values() if site.kind == "average_pool").attributes
    assert (pool["kernel"], pool["pads"], pool["count_include_pad"]) == ([3, 3], [1, 1, 1, 1], False)
    assert attributes["leaky"] == {"alpha": 0.3}
    larger, largest = (site.attributes for site in sites.values() if site.kind == "resize")
    assert (larger["mode"], larger["coordinates"]) == ("linear", "half_pixel")
    assert (largest["mode"], largest["cubic_coefficient"]) == ("cubic", -0.5)
    depthwise = next(site for site in sites.values() if site.op == "DepthwiseConv2dNative")
    assert (depthwise.kind, depthwise.attributes["groups"]) == ("conv", 8)


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_loops_are_told_step_by_step(adapter, keras, cell):
    session = adapter.open(recurrent(keras, cell), {})
    sites, _, ends = check(session, {"sequence": normal(2, 5, 4)})
    products = [name for name in sites if "cell" in name and "MatMul@" in name]
    assert {name.rpartition("@")[2] for name in products} == {"0", "1", "2", "3", "4"}
    assert not any(site.op.startswith("TensorList") and site.kind not in {"slice", "concat"} for site in sites.values())
    assert not ends.notes, "op by op, recurrent layers give the bits of production"


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
def test_keras_file_and_its_export_are_the_same_model(adapter, keras, tmp_path):
    model = transformer(keras)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    inputs = {"tokens": normal(2, 7, 16)}
    outputs = []
    for path in (tmp_path / "model.keras", tmp_path / "exported"):
        session = adapter.open(str(path), {})
        check(session, inputs)
        outputs.append(session.run(inputs))
    np.testing.assert_allclose(outputs[0]["0"], outputs[1]["0"], rtol=1e-5)


FACTORIES = """
import tensorflow as tf

from beside import SCALE


class Model(tf.Module):
    def __init__(self):
        self.weight = tf.Variable(tf.eye(4) * SCALE, name="weight")

    @tf.function(input_signature=[tf.TensorSpec((2, 4)), tf.TensorSpec((2, 4))])
    def __call__(self, x, y):
        for step in tf.range(3):
            x = tf.tanh(x @ self.weight + 0.1 * tf.cast(step, tf.float32))
        if tf.reduce_sum(y) > 0:
            x = x + y
        else:
            x = x - y
        return {"scores": tf.nn.softmax(x), "both": (x, y * 2.0)}


class Counter(tf.Module):
    def __init__(self):
        self.count = tf.Variable(0.0, name="count")

    @tf.function
    def __call__(self, x):
        return x * self.count.assign_add(1.0)


def function():
    weight = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    def call(a, b):
        return tf.nn.relu(a @ weight) / 3.0, tf.map_fn(lambda row: row * 2.0, b)

    return call


def network():
    import keras

    x = keras.Input((4,))
    return keras.Model(x, keras.layers.Dense(2)(keras.layers.Dense(4, activation="gelu")(x)))


def number():
    return 3


def broken():
    raise OSError("no weights here")
"""


@pytest.fixture
def models(tmp_path):
    (tmp_path / "beside.py").write_text("SCALE = 0.5\n")
    (tmp_path / "models.py").write_text(FACTORIES)
    return f"tf:{tmp_path}/models.py"


def test_module_of_a_file_with_loop_and_branch(adapter, models):
    session = adapter.open(f"{models}:Model", {})
    assert session.inputs() == {}
    sites, _, ends = check(session, {"a": normal(2, 4), "b": np.ones((2, 4), np.float32)})
    assert list(ends.outputs) == ["both.0", "both.1", "scores"]
    assert ends.named_outputs
    assert [name for name in sites if "Tanh" in name] == ["while/Tanh@0", "while/Tanh@1", "while/Tanh@2"]
    assert "cond: these inputs did not take branch 1 of 2." in ends.notes
    assert sites["while/matmul@1"].inputs[1] == "weight"
    assert sites["while/Tanh@0"].source == "models.py:14"


def test_function_of_a_file_runs_as_it_is_called(adapter, models):
    session = adapter.open(f"{models}:function", {})
    inputs = {"a": normal(3, 2), "b": normal(4, 2)}
    check_session(session, inputs)
    np.testing.assert_array_equal(session.run(inputs)["1"], inputs["b"] * 2)


def test_keras_models_opened_one_after_the_other_have_the_same_names_and_live_side_by_side(adapter, models):
    x = {"x": normal(3, 4)}
    first = adapter.open(f"{models}:network", {})
    before = first.run(x)["0"]
    second = adapter.open(f"{models}:network", {})
    assert [site.name for site in traced(first, x)[0]] == [site.name for site in traced(second, x)[0]]
    assert list(first.weights()) == list(second.weights())
    np.testing.assert_array_equal(first.run(x)["0"], before)
    assert not np.array_equal(second.run(x)["0"], before)


def test_trace_leaves_the_variables_alone_and_remembers_them(adapter, models):
    session = adapter.open(f"{models}:Counter", {})
    x = {"x": np.ones(3, np.float32)}
    assert session.run(x)["0"][0] == 1
    sites, tensors, ends = traced(session, x)
    assert tensors[ends.outputs["0"]][0] == 2
    assert session.weights()["count"] == 1
    made = session.evaluate([site.name for site in sites], x, [ends.outputs["0"]], "float64")
    assert made[ends.outputs["0"]][0] == 2


def test_saved_model_of_a_module(adapter, tf, tmp_path):
    module = tf.Module()
    module.weight = tf.Variable(normal(4, 4), name="dense/kernel")
    signature = [tf.TensorSpec((None, 4), name="x")]

    def call(x):
        return {"scores": tf.nn.gelu(x @ module.weight, approximate=True)}

    module.call = tf.function(call, input_signature=signature, autograph=False)
    tf.saved_model.save(module, tmp_path / "one", signatures={"score": module.call})
    session = adapter.open(str(tmp_path / "one"), {})
    assert session.inputs()["x"].shape == (None, 4)
    sites, _, ends = check(session, {"x": normal(3, 4)})
    assert ends.named_outputs
    assert ends.outputs.keys() == {"scores"}
    assert "dense/kernel" in session.weights()
    assert "tanh" in [site.kind for site in sites.values()]

    tf.saved_model.save(module, tmp_path / "two", signatures={"a": module.call, "b": module.call})
    with pytest.raises(InputError, match=r"no signature 'serving_default'.\nIt has: a, b"):
        adapter.open(str(tmp_path / "two"), {})


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_keras_model_in_another_dtype(adapter, keras, dtype):
    session = adapter.open(transformer(keras), {"dtype": dtype})
    inputs = {"tokens": normal(2, 7, 16)}
    assert session.run(inputs)["0"].dtype == dtype
    sites, tensors, _ = traced(session, inputs)
    assert {tensors[site.outputs[0]].dtype.name for site in sites if site.kind == "matmul"} == {dtype}


def test_mixed_precision_leaves_its_casts_out_in_float64(adapter, keras):
    policy = keras.dtype_policies.DTypePolicy("mixed_float16")
    x = keras.Input((8,), name="x")
    model = keras.Model(x, keras.layers.Dense(4, activation="gelu", dtype=policy)(x))
    inputs = {"x": normal(5, 8)}
    session = adapter.open(randomise(model), {})
    sites, tensors, ends = check(session, inputs)
    assert tensors[ends.outputs["0"]].dtype == np.float16
    assert "cast" in [site.kind for site in sites.values()]
    products = next(site for site in sites.values() if site.kind == "matmul")
    exact = session.evaluate(list(sites), inputs, [products.outputs[0]], "float64")[products.outputs[0]]
    kernel = session.weights()[next(name for name in session.weights() if name.endswith("kernel"))]
    np.testing.assert_allclose(exact, inputs["x"].astype(np.float64) @ kernel.astype(np.float64), rtol=1e-14)


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_other_precisions_come_in_their_dtype(adapter, keras, precision):
    session = adapter.open(convnet(keras), {})
    inputs = {"image": normal(1, 17, 18, 3)}
    sites, tensors, ends = traced(session, inputs)
    made = session.evaluate([site.name for site in sites], inputs, [ends.outputs["0"]], precision)[ends.outputs["0"]]
    assert made.dtype == precision
    np.testing.assert_allclose(made.astype(np.float64), tensors[ends.outputs["0"]], rtol=0.1, atol=0.1)


def test_what_has_no_kernel_is_named(adapter, tf):
    session = adapter.open(tf.math.rint, {})
    inputs = {"x": normal(2, 2, 3)}
    sites, _, ends = traced(session, inputs)
    with pytest.raises(UnsupportedPrecisionError, match="Rint cannot be computed in float16"):
        session.evaluate([site.name for site in sites], inputs, list(ends.outputs.values()), "float16")


def test_random_operators_are_told_as_such(adapter, tf):
    sites, _, ends = traced(adapter.open(lambda x: x + tf.random.normal((3,)), {}), {"x": normal(3)})
    assert [site.kind for site in sites] == ["random", "mul", "add", "add"]
    assert not ends.notes


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{models}:nothing", "no function in .* called 'nothing'"),
        ("{models}:number", r"number\(\) in .* returned a int"),
        ("{models}:broken", r"broken\(\) in .* failed: OSError: no weights here"),
        ("tf:models.py", "names no factory"),
        ("tf:{folder}/absent.py:f", "There is no file"),
        ("tf:{folder}/syntax.py:f", "cannot be imported: SyntaxError"),
        ("{folder}/absent.keras", "There is no file or folder"),
        ("{folder}/garbage.keras", "Keras cannot load"),
        ("{folder}/garbage.h5", "Keras cannot load"),
        ("{folder}/garbage", "TensorFlow cannot load the SavedModel"),
        ("{folder}", "cannot open"),
    ],
)
def test_what_cannot_be_opened_says_why(adapter, models, tmp_path, reference, message):
    (tmp_path / "syntax.py").write_text("def (")
    for name in ("garbage.keras", "garbage.h5"):
        (tmp_path / name).write_bytes(b"garbage")
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / "saved_model.pb").write_bytes(b"garbage")
    with pytest.raises(InputError, match=message):
        adapter.open(reference.format(models=models, folder=tmp_path), {})


def test_a_sequential_model_that_was_never_called(adapter, keras):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="gelu")])
    with adapter.open(model, {}) as session:
        ((name, spec),) = session.inputs().items()
        assert spec.shape == (None, 3)
        check(session, {name: normal(2, 3)})


@pytest.mark.parametrize("target", ["litert", "savedmodel"])
def test_an_export_computes_what_the_model_computes(adapter, keras, tmp_path, target):
    x = normal(2, 3)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="gelu")])
    with adapter.open(model, {}) as session:
        made = session.export(target, {"x": x}, tmp_path, {})
        (expected,) = session.run({"x": x}).values()
    assert made.how.startswith("tensorflow ")
    with adapter.open(str(made.file), {}) as session:
        (found,) = session.run({next(iter(session.inputs())): x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suffix", ["keras", "h5"])
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_code_in_a_keras_file_is_not_run(adapter, keras, tmp_path, suffix):
    layers = [keras.Input((3,)), keras.layers.Lambda(lambda x: x * 2)]
    keras.Sequential(layers).save(tmp_path / f"model.{suffix}")
    with pytest.raises(InputError, match=r"Lambda.*\nA model with code of its own"):
        adapter.open(str(tmp_path / f"model.{suffix}"), {})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"tokens": np.zeros((2, 6, 16), np.float32)}, r"shape \(2, 6, 16\).\nThe model takes shape \(any, 7, 16\)"),
        ({"tokens": np.zeros((2, 7, 16), np.complex64)}, r"is complex64.\nThe model takes float32"),
        ({}, "'tokens' is not given"),
    ],
)
def test_wrong_inputs_say_what_is_taken(adapter, keras, inputs, message):
    with pytest.raises(InputError, match=message):
        adapter.open(transformer(keras), {}).run(inputs)


def test_options_that_mean_nothing_are_refused(adapter, models):
    with pytest.raises(InputError, match="'optimization' means nothing"):
        adapter.open(f"{models}:function", {"optimization": "all"})
    with pytest.raises(InputError, match="does not run on these inputs"):
        adapter.open(f"{models}:function", {"dtype": "float64"}).run({"a": normal(3, 2), "b": normal(4, 2)})
