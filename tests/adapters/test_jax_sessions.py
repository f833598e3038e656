"""JAX models as sessions: functions, Flax modules, loops and branches, precisions, references."""

from functools import partial

import numpy as np
import pytest

from parity.adapter import UnsupportedPrecisionError
from parity.errors import InputError
from parity.testing.sessions import check_session, traced

pytest.importorskip("jax", reason="JAX is not installed")
pytest.importorskip("flax", reason="Flax is not installed")

import jax
import jax.numpy as jnp
from flax import linen, nnx

from parity_adapters.jax import adapter

RNG = np.random.default_rng(0)


def normal(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def check(model, inputs, *, double=True, **options):
    """Passes `check_session`; evaluated alone and all together, the sites give the very bits of the traced run.

    The jitted run may differ by rounding, since the compiler fuses: check_session itself is thus not asked for bits.
    """
    session = adapter.open(model, options)
    check_session(session, inputs, exact=False, double=double)
    sites, tensors, ends = traced(session, inputs)
    given = {tensor: inputs[name] for name, tensor in ends.inputs.items()}
    wanted = [name for name in ends.outputs.values() if name in tensors]
    whole = session.evaluate([site.name for site in sites], given, wanted, "native")
    for name in wanted:
        assert whole[name].tobytes() == tensors[name].tobytes(), name
    for site in sites:
        own = {name: tensors[name] for name in site.inputs if name in tensors}
        alone = session.evaluate([site.name], own, [name for name in site.outputs if name], "native")
        for name, array in alone.items():
            assert array.dtype == tensors[name].dtype
            assert array.tobytes() == tensors[name].tobytes(), site.name
    return session, sites, tensors, ends


def of_kind(sites, kind):
    return [site for site in sites if site.kind == kind]


class LinenBlock(linen.Module):
    @linen.compact
    def __call__(self, x):
        y = linen.LayerNorm()(x)
        x = x + linen.MultiHeadDotProductAttention(num_heads=2, name="attention")(y, y)
        return x + linen.Dense(8, name="down")(linen.gelu(linen.Dense(16, name="up")(linen.LayerNorm()(x))))


class LinenModel(linen.Module):
    @linen.compact
    def __call__(self, ids):
        x = linen.Embed(11, 8, name="embed")(ids)
        for layer in range(2):
            x = LinenBlock(name=f"block_{layer}")(x)
        return {"logits": linen.Dense(3, name="head")(x), "pooled": x.mean(1)}


class NnxBlock(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.up = nnx.Linear(8, 16, rngs=rngs)
        self.down = nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(nnx.gelu(self.up(x), approximate=False))


class NnxModel(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(11, 8, rngs=rngs)
        self.blocks = nnx.List([NnxBlock(rngs) for _ in range(2)])

    def __call__(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return x


IDS = np.array([[1, 5, 10], [0, 3, 3]], np.int32)


def linen_model():
    model = LinenModel()
    return model, jax.jit(model.init)(jax.random.key(0), IDS)


def test_linen_has_paths_as_scopes_and_names():
    session, sites, _, ends = check(linen_model(), {"ids": IDS})
    assert ends.named_outputs
    assert list(ends.outputs) == ["logits", "pooled"]
    assert {"block_0.attention.query", "block_1.up", "embed", "head"} <= {site.scope for site in sites}
    assert "block_0.up.kernel" in session.weights()
    (embedding,) = of_kind(sites, "embedding")
    assert embedding.inputs[0] == "embed.embedding"
    assert all(site.source.startswith(__file__) for site in sites)


def test_bound_linen_is_the_same_model():
    model, variables = linen_model()
    paired, bound = adapter.open((model, variables), {}), adapter.open(model.bind(variables), {})
    assert bound.run({"ids": IDS})["logits"].tobytes() == paired.run({"ids": IDS})["logits"].tobytes()


def test_nnx_has_paths_as_scopes_and_names():
    session, sites, _, _ = check(NnxModel(nnx.Rngs(0)), {"ids": IDS})
    assert {"blocks.0.attention.query", "blocks.1.up", "blocks.1", "embed"} <= {site.scope for site in sites}
    assert "blocks.0.up.kernel" in session.weights()
    assert any("jax.nn.gelu" in site.labels for site in of_kind(sites, "pointwise"))
    assert NnxBlock.__call__.__qualname__ == "NnxBlock.__call__"


def test_nnx_dropout_in_training_mode_differs_from_run_to_run():
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.drop = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.drop(x)

    session = adapter.open(Model(nnx.Rngs(0)), {})
    x = {"x": np.ones((4, 8), np.float32)}
    assert session.run(x)["0"].tobytes() != session.run(x)["0"].tobytes()
    sites, _, _ = traced(session, x)
    assert of_kind(sites, "random")


def scanned_transformer():
    names = ("query", "key", "value", "up", "down")
    shapes = ((8, 8), (8, 8), (8, 8), (8, 16), (16, 8))
    weights = {name: normal(3, *shape, scale=0.3) for name, shape in zip(names, shapes, strict=True)}

    def layer(x, w):
        scores = jnp.einsum("bid,bjd->bij", x @ w["query"], x @ w["key"]) / jnp.sqrt(8.0)
        x = x + jax.nn.softmax(scores, axis=-1) @ (x @ w["value"])
        return x + jax.nn.silu(x @ w["up"]) @ w["down"], x.mean()

    def forward(x):
        return jax.lax.scan(layer, x, weights)

    return forward


def test_scan_over_layers_is_unrolled_with_weights_by_layer():
    session, sites, _, ends = check(scanned_transformer(), {"x": normal(2, 4, 8)})
    assert list(ends.outputs) == ["0", "1"]
    assert {"0", "1", "2", "2.silu"} <= {site.scope for site in sites}
    assert session.weights()["weights.up[1]"].shape == (8, 16)
    assert "weights.up[1]" in [name for site in sites for name in site.inputs]
    assert len(of_kind(sites, "matmul")) == 3 * 7


class LinenLayer(linen.Module):
    @linen.compact
    def __call__(self, x, _):
        return x + linen.Dense(4, name="up")(x), None


class LinenStack(linen.Module):
    @linen.compact
    def __call__(self, x):
        layer = linen.remat(LinenLayer)
        stack = linen.scan(layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=2)
        return stack(name="layers")(x, None)[0]


def test_layers_scanned_by_linen_have_the_scopes_of_a_list_of_layers():
    x = normal(2, 4)
    model = LinenStack()
    session, sites, _, _ = check((model, jax.jit(model.init)(jax.random.key(0), x)), {"x": x})
    assert {site.scope for site in sites} == {"layers.0", "layers.0.up", "layers.1", "layers.1.up"}
    assert session.weights()["layers.up.kernel[1]"].shape == (4, 4)


class NnxStack(nnx.Module):
    def __init__(self):
        make = nnx.vmap(lambda key: nnx.Sequential(*(nnx.Linear(4, 4, rngs=nnx.Rngs(key)) for _ in range(2))))
        self.layers = make(jax.random.split(jax.random.key(0), 2))

    def __call__(self, x):
        return nnx.scan(lambda layer, x: layer(x), in_axes=(0, nnx.Carry), out_axes=nnx.Carry)(self.layers, x)


def test_layers_scanned_by_nnx_have_scopes_too():
    _, sites, _, _ = check(NnxStack(), {"x": normal(2, 4)})
    assert {site.scope for site in sites} == {f"{layer}.layers.{part}" for layer in (0, 1) for part in (0, 1)}


def test_branches_that_some_iteration_took_are_tested():
    def model(x):
        return jax.lax.map(lambda row: jax.lax.cond(row.sum() > 0, jnp.sin, jnp.cos, row), x)

    x = np.array([[1.0, 2.0], [-1.0, -2.0]], np.float32)
    _, sites, _, ends = check(model, {"x": x})
    assert {"sin", "cos"} <= {site.kind for site in sites}
    assert not any("untested" in note for note in ends.notes)


def test_a_compiled_whole_that_rounds_otherwise_is_told():
    w = normal(64, 64)
    _, _, _, ends = check(lambda x: jax.nn.softmax(jnp.tanh(x @ w) * 3.0 + x), {"x": normal(8, 64)})
    _, _, _, plain = check(lambda x: x * 2, {"x": normal(8)})
    assert any("fuses" in note for note in ends.notes)
    assert not plain.notes


def lstm(steps):
    w, u, b = normal(5, 16, scale=0.5), normal(4, 16, scale=0.5), normal(16)

    def cell(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def forward(x):
        zero = jnp.zeros((x.shape[0], 4))
        return jax.lax.scan(cell, (zero, zero), x.transpose(1, 0, 2), reverse=True)[1]

    return forward, {"x": normal(2, steps, 5)}


def test_lstm_is_unrolled():
    _, sites, _, _ = check(*lstm(4))
    assert len([site for site in sites if site.kind == "sigmoid"]) == 12


def test_a_long_loop_is_one_site_in_any_precision():
    forward, inputs = lstm(400)
    session, sites, tensors, ends = check(forward, inputs)
    assert len(of_kind(sites, "control")) == 1
    narrow = session.evaluate(
        [site.name for site in sites], {ends.inputs["x"]: inputs["x"]}, [ends.outputs["0"]], "bfloat16"
    )[ends.outputs["0"]]
    assert str(narrow.dtype) == "bfloat16"
    assert np.abs(narrow.astype(np.float64) - tensors[ends.outputs["0"]]).max() < 0.1


class ConvNet(linen.Module):
    @linen.compact
    def __call__(self, image):
        x = linen.relu(linen.Conv(6, (3, 3), strides=(2, 2), name="stem")(image))
        x = linen.Conv(6, (3, 3), feature_group_count=6, name="depthwise")(x)
        x = linen.avg_pool(linen.max_pool(x, (2, 2), strides=(2, 2)), (2, 2), padding="SAME")
        return linen.ConvTranspose(4, (2, 2), strides=(2, 2))(x)


def test_convolutions_have_their_attributes():
    image = normal(2, 16, 16, 3)
    model = ConvNet()
    _, sites, _, _ = check((model, jax.jit(model.init)(jax.random.key(0), image)), {"image": image})
    stem, depthwise = of_kind(sites, "conv")
    assert stem.attributes["strides"] == [2, 2]
    assert stem.attributes["pads"] == [0, 0, 1, 1]
    assert stem.attributes["data_format"] == "NHWC"
    assert depthwise.attributes["groups"] == 6
    (pool,) = of_kind(sites, "max_pool")
    assert pool.attributes["kernel"] == [2, 2]
    assert of_kind(sites, "conv_transpose")[0].attributes["strides"] == [2, 2]


def mixed(x):
    """Branches, loops, indices and functions that few models have."""
    x = jax.lax.cond(x.sum() > 1e9, lambda y: y + 1, lambda y: y - 1, x)
    x = jax.lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 1.1, s[1] + 1), (x, 0))[0]
    x = jnp.where(x > 0, x, -1e30 * jnp.exp(-jnp.abs(x) - 90)) + x.at[0].set(2.0)
    x = jnp.clip(x, -3.0, 3.0) + jnp.abs(x) ** 1.5 + x**3 + x**2
    x = jnp.sort(x, axis=-1)[:, ::-1] + jnp.cumsum(x, axis=1) + jnp.linspace(0.0, 1.0, x.shape[1])
    order = jnp.argsort(x, axis=-1)
    x = jnp.take_along_axis(x, order, axis=-1) + jax.scipy.special.logsumexp(x, axis=-1, keepdims=True)
    x = jnp.pad(x, ((0, 0), (1, 0)), constant_values=0.5) + jax.random.uniform(jax.random.key(1), (1,))
    x = jax.checkpoint(jnp.sin)(x) + jax.nn.gelu(x, approximate=False) + jax.nn.relu6(x) + jnp.round(x)
    return x, order // 2, jnp.argmax(x, axis=-1)


def test_branches_loops_and_rare_functions():
    _, sites, _, ends = check(mixed, {"x": normal(3, 6)})
    kinds = {site.kind for site in sites}
    assert {
        "where",
        "maximum",
        "pow",
        "square",
        "sort",
        "cumsum",
        "argmax",
        "pad",
        "random",
        "round",
        "scatter",
    } <= kinds
    assert any("branch" in note and "untested" in note for note in ends.notes)
    assert {"relu6"} <= {site.scope for site in sites}
    (division,) = [site for site in of_kind(sites, "div") if "rounding" in site.attributes]
    assert division.attributes["rounding"] == "trunc"


def test_numbers_of_a_formula_are_weights_that_can_be_given():
    def model(x):
        return x * 0.25 + jnp.where(x > 0, x, 7.0) + x**3

    x = normal(5)
    session, sites, _, ends = check(model, {"x": x})
    weights = session.weights()
    scale = next(name for site in of_kind(sites, "mul") for name in site.inputs if name in weights)
    exponent = of_kind(sites, "pow")[0].inputs[1]
    assert weights[scale].shape == ()
    assert weights[scale] == np.float32(0.25)
    given = {ends.inputs["x"]: np.abs(x), scale: np.float64(0.5), exponent: np.float64(1.5)}
    made = session.evaluate([site.name for site in sites], given, [ends.outputs["0"]], "float64")
    exact = np.abs(x.astype(np.float64))
    np.testing.assert_allclose(made[ends.outputs["0"]], exact * 0.5 + exact + exact**1.5, rtol=1e-12)


def test_an_array_and_its_transpose_are_two_weights():
    w = normal(4, 4)
    _, sites, _, _ = check(lambda x: x @ w + x @ w.T, {"x": normal(4, 4)})
    assert {site.inputs[1] for site in of_kind(sites, "matmul")} == {"w", "w_1"}


shared = normal(3, 3)


def test_an_input_called_as_a_weight_is_not_that_weight():
    def times(x):
        return x @ shared

    session, sites, _, ends = check(lambda shared: times(shared), {"shared": normal(3, 3)})  # noqa: PLW0108 – its name
    (product,) = of_kind(sites, "matmul")
    assert product.inputs[0] == ends.inputs["shared"] != product.inputs[1]
    assert session.weights()[product.inputs[1]].tobytes() == shared.tobytes()


def test_where_and_clip_have_their_inputs_in_everybodys_order():
    _, sites, _, _ = check(lambda x, y: jnp.where(x > 0, x, y), {"x": normal(5), "y": normal(5)})
    (where,) = of_kind(sites, "where")
    assert where.inputs[1:] == ("x", "y")
    session, sites, _, _ = check(lambda x: jax.lax.clamp(-1.0, x, 2.0), {"x": normal(5)})
    (clip,) = of_kind(sites, "clip")
    assert clip.inputs[0] == "x"
    assert [float(session.weights()[name]) for name in clip.inputs[1:]] == [-1.0, 2.0]


def test_float64_leaves_casts_out():
    def model(x):
        y = (x.astype(jnp.bfloat16) @ jnp.asarray(w).astype(jnp.bfloat16)).astype(jnp.float32)
        return y, y.astype(jnp.int32)

    w, x = normal(4, 4), normal(3, 4, scale=100.0)
    session, sites, tensors, ends = check(model, {"x": x})
    product, whole = ends.outputs.values()
    names = [site.name for site in sites]
    exact = session.evaluate(names, {ends.inputs["x"]: x}, [product, whole], "float64")
    np.testing.assert_allclose(exact[product], x.astype(np.float64) @ w.astype(np.float64), rtol=1e-12)
    assert exact[whole].dtype == tensors[whole].dtype == np.int32
    np.testing.assert_array_equal(exact[whole], np.trunc(exact[product]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_model_runs_in_another_dtype(dtype):
    w = normal(4, 4)

    def model(x):
        return jax.nn.silu(x @ w + 0.1) * 2

    _, sites, tensors, ends = check(model, {"x": normal(3, 4)}, dtype=dtype)
    assert str(tensors[ends.outputs["0"]].dtype) == dtype
    assert "silu" in {site.scope for site in sites}
    dense, x = linen.Dense(2), normal(3, 4)
    session, _, tensors, ends = check((dense, dense.init(jax.random.key(0), x)), {"inputs": x}, dtype=dtype)
    assert str(session.weights()["kernel"].dtype) == str(tensors[ends.outputs["0"]].dtype) == dtype


def test_weights_in_bfloat16():
    w = jnp.asarray(normal(4, 4), jnp.bfloat16)
    session, _, _, _ = check(lambda x: jnp.tanh(x.astype(jnp.bfloat16) @ w), {"x": normal(3, 4)})
    assert str(session.weights()["w"].dtype) == "bfloat16"


def test_float64_where_there_is_no_kernel_is_named():
    def model(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), np.float32), x) * 2

    x = {"x": normal(3)}
    session = adapter.open(model, {})
    sites, _, ends = traced(session, x)
    with pytest.raises(UnsupportedPrecisionError, match="pure_callback"):
        session.evaluate([site.name for site in sites], x, list(ends.outputs.values()), "float64")


def test_memory_is_freed_after_the_last_use():
    held = []

    def model(x):
        for _ in range(40):
            x = jnp.sin(x)
        return x

    session = adapter.open(model, {})
    x = {"x": np.ones((1 << 16,), np.float32)}

    def sink(site, made):
        held.append(sum(array.nbytes for array in jax.live_arrays() if array.size == 1 << 16))

    session.trace(x, sink)
    assert max(held) <= min(held) + 3 * 4 * (1 << 16)


FILE = """
import jax, jax.numpy as jnp, numpy as np
import neighbour

W = {"a.weight": np.full((3, 3), 0.5, np.float32)}

@jax.jit
def forward(x, shift=0.0):
    return jnp.tanh(x @ W["a.weight"].T + shift)

def factory():
    return forward

def broken():
    raise ValueError("no weights here")

def nothing():
    return 3

number = 3
forward_with_examples = lambda x: x + neighbour.ONE
forward_with_examples.example_inputs = [np.zeros((2, 3), np.float32)]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(FILE)
    (tmp_path / "neighbour.py").write_text("ONE = 1.0\n")
    (tmp_path / "fails.py").write_text("import sys\nsys.exit('no')\n")
    (tmp_path / "garbage.jaxexport").write_bytes(b"\x00garbage")
    return tmp_path


@pytest.mark.parametrize("name", ["forward", "factory"])
def test_a_reference_names_a_function_or_a_factory(folder, name):
    session, sites, _, ends = check(f"jax:{folder}/model.py:{name}", {"x": normal(2, 3)})
    assert "W.a.weight" in session.weights()
    assert dict(ends.inputs) == {"x": "x"}
    assert {site.scope for site in sites} == {""}
    assert sites[-1].source == f"{folder}/model.py:9"


def test_examples_declare_the_inputs(folder):
    session = adapter.open(f"jax:{folder}/model.py:forward_with_examples", {})
    assert session.inputs()["x"].shape == (2, 3)
    assert adapter.open(f"jax:{folder}/model.py:forward", {}).inputs() == {}


def test_an_exported_function_is_one_site(folder):
    exported = jax.export.export(jax.jit(lambda x: jnp.tanh(x) * 2))(jax.ShapeDtypeStruct((3,), np.float32))
    (folder / "model.jaxexport").write_bytes(exported.serialize())
    session, sites, _, _ = check(str(folder / "model.jaxexport"), {"0": normal(3)}, double=False)
    assert [site.op for site in sites] == ["call_exported"]
    assert [spec.shape for spec in session.inputs().values()] == [(3,)]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("jax:{}/missing.py:forward", "no file"),
        ("jax:{}/model.py:forwrd", "forward"),
        ("jax:{}/model.py", "FILE.py:NAME"),
        ("jax:{}/model.py:broken", "no weights here"),
        ("jax:{}/model.py:nothing", "returned a int"),
        ("jax:{}/model.py:number", "no model"),
        ("jax:{}/fails.py:forward", "SystemExit"),
        ("jax:{}/garbage.jaxexport:x", "no Python file"),
        ("{}/garbage.jaxexport", "no exported"),
        ("{}/model.onnx", "cannot open"),
    ],
)
def test_what_cannot_be_opened_says_why(folder, reference, message):
    with pytest.raises(InputError, match=message) as error:
        adapter.open(reference.format(folder), {})
    assert error.value.hint


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": normal(2, 4)},
        {"x": normal(2, 3), "y": normal(2, 3), "z": normal(2, 3)},
        {"x": np.array(["a"])},
        {},
    ],
)
def test_inputs_that_do_not_fit_say_why(folder, inputs):
    session = adapter.open(f"jax:{folder}/model.py:forward", {})
    with pytest.raises(InputError) as error:
        session.run(inputs)
    assert error.value.hint


def test_options_that_mean_nothing_are_refused():
    with pytest.raises(InputError, match="optimization"):
        adapter.open(partial(jnp.add, 1.0), {"optimization": "all"})


def test_an_export_computes_what_the_model_computes(tmp_path):
    weight, x = normal(8, 3), normal(4, 8)
    session = adapter.open(lambda x: jax.nn.gelu(x @ weight, approximate=False), {})
    assert list(session.targets()) == ["jax-export"]
    made = session.export("jax-export", {"x": x}, tmp_path, {})
    (expected,) = session.run({"x": x}).values()
    (found,) = adapter.open(str(made.file), {}).run({"x": x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
