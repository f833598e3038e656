"""Sides: live objects find their adapter, and whatever goes wrong names the side."""

import sys
from types import ModuleType

import numpy as np
import pytest

from parity.adapter import UnsupportedPrecisionError
from parity.errors import EngineError, InputError
from parity.graph import InputSpec
from parity.sides import live_adapter
from parity.trace import store
from parity.trace.signature import signature

X = np.ones((2, 3), np.float32)


def kind(module: str, *bases: type) -> type:
    return type("Model", bases, {"__module__": module})


@pytest.mark.parametrize(
    ("module", "adapter"),
    [
        ("torch.nn.modules.linear", "torch"),
        ("torch", "torch"),
        ("onnx.onnx_ml_pb2", "onnxruntime"),
        ("keras.src.models.model", "tensorflow"),
        ("tensorflow.python.module", "tensorflow"),
        ("flax.nnx.module", "jax"),
        ("jaxlib._jax", "jax"),
        ("jax", "jax"),
    ],
)
def test_the_adapter_of_a_live_object(module: str, adapter: str) -> None:
    framework = kind(module)
    assert live_adapter(framework()) == adapter
    mine = type("Mine", (framework,), {"__module__": "my.models"})
    assert live_adapter(mine()) == adapter, "by what it inherits from"


@pytest.mark.parametrize("model", [3, None, object(), [1], kind("torchvision_like")(), kind("my.torch")()])
def test_what_is_no_model(model) -> None:
    with pytest.raises(InputError, match="is no model that is opened here") as caught:
        live_adapter(model)
    assert "torch module" in caught.value.hint


def test_a_function_is_a_model_where_jax_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    assert live_adapter(lambda x: x) == "jax"
    monkeypatch.delitem(sys.modules, "jax")
    with pytest.raises(InputError):
        live_adapter(lambda x: x)


def model(toy, **options):
    made = toy(x=(None, 3))
    return made.gives(
        made("tanh", "x", made.weight("w", X) and "x", to="y", function=lambda x, _: np.tanh(x), **options)
    )


def test_a_live_side(toy, side, tmp_path) -> None:
    opened = side(model(toy), "candidate")
    assert (opened.role, opened.adapter) == ("candidate", "toy")
    assert opened.specs == {"x": InputSpec(dtype="float32", shape=(None, 3))}
    assert opened.versions == {"toy": "1.0"}
    np.testing.assert_array_equal(opened.run({"x": X})["y"], np.tanh(X))
    view = opened.record({"x": X}, tmp_path / "t", {"note": "n"})
    np.testing.assert_array_equal(view.trace.array("y"), np.tanh(X))
    np.testing.assert_array_equal(view.trace.array("x"), X)
    assert view.trace.facts["note"] == "n"
    assert view.trace.facts["versions"] == {"toy": {"toy": "1.0"}}
    assert len(view.trace.facts["input_hash"]) == 64
    made = opened.evaluate(["site:y"], {"x": X}, ["y"])
    assert made["y"].dtype == np.float64
    assert set(opened.weights(["w"])) == {"w"}


def test_regions_in_several_precisions(toy, side, tmp_path) -> None:
    opened = side(model(toy))
    folder = str(opened.record({"x": X}, tmp_path / "t", {}).trace.folder)
    source = {"tensor": "x", "layout": None, "folder": folder}
    region = {"sites": ["site:y"], "given": {"x": source}, "wanted": "y"}
    (told,) = opened.regions([region], ["float64", "native"])
    assert {name: array.dtype.name for name, array in told.arrays.items()} == {
        "float64": "float64",
        "native": "float32",
    }


def test_a_region_that_has_no_float64_says_why(toy, side, tmp_path) -> None:
    opened = side(model(toy, double=False))
    opened.record({"x": X}, tmp_path / "t", {})
    source = {"tensor": "x", "layout": None, "folder": str(tmp_path / "t")}
    (told,) = opened.regions([{"sites": ["site:y"], "given": {"x": source}, "wanted": "y"}], ["float64", "native"])
    assert list(told.arrays) == ["native"]
    assert "Tanh" in told.data["unsupported"]["float64"]
    with pytest.raises(UnsupportedPrecisionError, match="The reference"):
        opened.evaluate(["site:y"], {"x": X}, ["y"])


def test_a_taught_run_is_on_the_teachers_numbers(toy, side, tmp_path) -> None:
    made = toy(x=(None, 3))
    made.gives(made("neg", made("tanh", "x", to="a"), to="y"))
    opened = side(made)
    opened.record({"x": X}, tmp_path / "own", {})
    opened.record({"x": X * 2}, tmp_path / "teacher", {})
    forced = {"x": {"tensor": "x", "layout": None, "folder": str(tmp_path / "teacher")}}
    view = opened.teach(tmp_path / "own", forced, tmp_path / "forced")
    np.testing.assert_array_equal(view.trace.array("y"), -np.tanh(2 * X))


def test_what_only_moves_a_weight_is_left_to_those_who_read_it(toy, side, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(store, "SMALL", 5)
    w = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    made = toy(x=(None, 3))
    there = made("transpose", made.weight("w", w), to="there", axes=[1, 0])
    at = made("matmul", "x", made("identity", there, to="moved"), to="a")
    made.gives(made("matmul", made("tanh", at), made.weight("v", w), to="y"))
    opened = side(made)
    free = opened.record({"x": X}, tmp_path / "own", {}).trace
    opened.record({"x": X * 2}, tmp_path / "teacher", {})
    forced = {"x": {"tensor": "x", "layout": None, "folder": str(tmp_path / "teacher")}}
    taught = opened.teach(tmp_path / "own", forced, tmp_path / "forced").trace
    for trace, x in ((free, X), (taught, 2 * X)):
        assert [name for name in ("there", "moved", "a", "y") if name not in trace] == ["there", "moved"]
        assert trace.tensors["there"].signature == trace.weights["w"].signature == signature(w)
        np.testing.assert_allclose(trace.array("y"), np.tanh(x @ w.T) @ w, rtol=1e-6)
    assert [site.name for site in taught.sites] == [site.name for site in free.sites]


@pytest.mark.parametrize(
    ("raised", "caught", "said"),
    [
        (InputError("It is bad.", hint="Do this."), InputError, "It is bad."),
        (EngineError("It broke.", hint="Do this."), EngineError, "It broke."),
        (RuntimeError("mat1 and mat2\nand more"), EngineError, "RuntimeError: mat1 and mat2"),
        (KeyError("y"), EngineError, "KeyError"),
    ],
)
def test_whatever_goes_wrong_names_the_side(toy, side, raised: Exception, caught: type, said: str) -> None:
    def fails(x):
        raise raised

    made = toy(x=(None, 3))
    made.gives(made("tanh", "x", to="y", function=fails))
    with pytest.raises(caught) as error:
        side(made, "candidate").run({"x": X})
    assert error.value.message.startswith("The candidate (")
    assert said in error.value.message
    assert "and more" not in error.value.message
