"""Graphs that real exporters, converters and optimisers write, read without any of them."""

import logging
import warnings
from pathlib import Path

import numpy as np
import pytest

from parity.jobs.scan_measure import measured
from parity.scanner.graph.optimizer import SETTING, risks
from parity.scanner.model import Document
from parity.scanner.readers import exported_program, saved_model, tflite
from parity.scanner.readers import onnx as onnx_reader
from parity.scanner.source import Source

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

LEVELS = {
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


class Spelt(torch.nn.Module):
    """A function of torch behind a layer and before another."""

    def __init__(self, function) -> None:
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.function = function

    def forward(self, x):
        return self.fc2(self.function(self.fc1(x)))


FUNCTIONS = {
    "gelu": (torch.nn.functional.gelu, "gelu_erf"),
    "gelu_python": (lambda x: x * 0.5 * (1.0 + torch.erf(x / 2**0.5)), "gelu_erf"),
    "gelu_tanh": (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), "gelu_tanh"),
    "gelu_new": (
        lambda x: 0.5 * x * (1.0 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3.0)))),
        "gelu_tanh",
    ),
    "gelu_fast": (
        lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))),
        "gelu_tanh",
    ),
    "quick_gelu": (lambda x: x * torch.sigmoid(1.702 * x), "quick_gelu"),
    "silu": (torch.nn.functional.silu, "silu"),
    "gelu_10": (lambda x: torch.clip(torch.nn.functional.gelu(x), -10, 10), "gelu_clipped"),
    "mish": (torch.nn.functional.mish, "mish"),
}
VARIANTS = [variant for _, variant in FUNCTIONS.values()]


def read_onnx(path: Path) -> Document:
    return onnx_reader.read(Source.of_file(str(path)))


class All(torch.nn.Module):
    """Every function behind a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleDict({name: Spelt(function) for name, (function, _) in FUNCTIONS.items()})

    def forward(self, x):
        for block in self.blocks.values():
            x = block(x)
        return x


def exported(model, path: Path, *inputs, dynamo: bool, opset: int) -> Path:
    torch.manual_seed(0)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), inputs, path, dynamo=dynamo, opset_version=opset, verbose=False)
    return path


def optimised(path: Path, level: str, *, approximate: bool = False) -> Path:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.optimized_model_filepath = str(path.with_name(f"{level}-{approximate}.onnx"))
    if approximate:
        options.add_session_config_entry(SETTING, "1")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return Path(options.optimized_model_filepath)


@pytest.mark.parametrize(("dynamo", "opset"), [(False, 14), (False, 20), (True, 18)])
def test_an_export_is_read_before_and_after_the_optimiser(tmp_path: Path, dynamo: bool, opset: int) -> None:
    if dynamo:
        pytest.importorskip("onnxscript")
    path = exported(All(), tmp_path / "m.onnx", torch.randn(2, 3, 8), dynamo=dynamo, opset=opset)
    for file in (path, *(optimised(path, level) for level in LEVELS)):
        assert [use.variant for use in read_onnx(file).activations] == VARIANTS, file.name
    told = {one.use.path: one for one in risks(read_onnx(path))}
    approximated = read_onnx(optimised(path, "all", approximate=True)).activations
    approximated = [use for use in approximated if use.variant != "hard_tanh"]  # the clip of a GELU that is none now
    for before, after in zip(read_onnx(path).activations, approximated, strict=True):
        risk = told.get(before.path)
        if risk is None:
            assert after.variant == before.variant
        elif risk.certain:
            assert after.variant == risk.after.rpartition(" ")[2]


def test_some_exports_are_at_risk(tmp_path: Path) -> None:
    path = exported(All(), tmp_path / "m.onnx", torch.randn(3, 8), dynamo=False, opset=17)
    told = list(risks(read_onnx(path)))
    assert [(one.before, one.after, one.setting) for one in told] == [
        ("gelu_erf", "gelu_tanh", SETTING),
        ("gelu_erf", "gelu_tanh", SETTING),
        ("gelu_clipped", "gelu_clipped, of gelu_tanh", SETTING),
    ]


def test_a_model_in_half_precision_is_read(tmp_path: Path) -> None:
    path = exported(All().half(), tmp_path / "m.onnx", torch.randn(2, 8).half(), dynamo=False, opset=17)
    assert [use.variant for use in read_onnx(path).activations] == VARIANTS


class Block(torch.nn.Module):
    """A transformer's block: attention, softmax and normalisation beside the activation."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.before, self.after = torch.nn.LayerNorm(16), torch.nn.LayerNorm(16)

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2) / 4.0 + torch.triu(torch.full((5, 5), -1e9), 1)).softmax(-1)
        x = x + self.out(scores @ v)
        return x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))


@pytest.mark.parametrize("opset", [14, 17])
def test_a_transformer_block_gives_its_activation_alone(tmp_path: Path, opset: int) -> None:
    path = exported(Block(), tmp_path / "m.onnx", torch.randn(2, 5, 16), dynamo=False, opset=opset)
    for file in (path, *(optimised(path, level) for level in LEVELS)):
        assert [use.variant for use in read_onnx(file).activations] == ["gelu_erf"], file.name


class Several(torch.nn.Module):
    """Activations by module, by function, by hand and inside a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.slope = torch.nn.GELU(), torch.nn.PReLU()
        self.rnn = torch.nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        x = torch.nn.functional.silu(self.slope(self.act(x))) @ torch.eye(8)
        return self.rnn(x * torch.sigmoid(torch.sqrt(torch.tensor(2.896804)) * x))[0]


def test_an_exported_program_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Several().eval(), (torch.randn(2, 3, 8),)), path)
    document = exported_program.read(Source.of_file(str(path)))
    found = [(use.variant, dict(use.parameters), use.scope) for use in document.activations]
    assert found == [
        ("gelu_erf", {}, "act"),
        ("leaky_relu", {"negative_slope": 0.25}, "slope"),
        ("silu", {}, ""),
        ("quick_gelu", {}, ""),
        ("sigmoid", {}, "rnn"),
        ("tanh", {}, "rnn"),
    ]
    assert document.facts["version"] == torch.__version__


@pytest.fixture(scope="module")
def keras_model():
    keras = pytest.importorskip("keras")
    tf = pytest.importorskip("tensorflow")
    keras.utils.set_random_seed(0)
    x = keras.Input((8,))
    y = keras.layers.Dense(8, activation="gelu", name="exact")(x)
    y = keras.layers.Dense(8, activation=lambda x: tf.nn.gelu(x, approximate=True), name="tanh")(y)
    y = keras.layers.Dense(8, activation="silu", name="swish")(y)
    y = keras.layers.LayerNormalization()(y)
    y = keras.layers.Dense(8, activation="relu6", name="six")(y)
    return keras.Model(x, keras.layers.Dense(8, activation="softmax")(y))


KERAS = ["gelu_erf", "gelu_tanh", "silu", "relu6"]


def test_a_saved_model_is_read_once_for_all_its_signatures(keras_model, tmp_path: Path) -> None:
    keras_model.export(tmp_path / "m", verbose=False)
    document = saved_model.read(Source.of_file(str(tmp_path / "m" / "saved_model.pb")))
    assert [use.variant for use in document.activations] == KERAS
    assert [use.scope.split(".")[-1] for use in document.activations][-1].startswith("six")


def test_a_tflite_model_is_read_quantised_or_not(keras_model, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    for quantised in (False, True):
        converter = tf.lite.TFLiteConverter.from_keras_model(keras_model)
        if quantised:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            numbers = np.random.default_rng(0)
            converter.representative_dataset = lambda numbers=numbers: (
                [numbers.standard_normal((1, 8)).astype(np.float32)] for _ in range(4)
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = tmp_path / f"{quantised}.tflite"
            path.write_bytes(converter.convert())
        assert [use.variant for use in tflite.read(Source.of_file(str(path))).activations] == KERAS


def test_what_is_known_of_onnx_runtime_is_measured_by_the_suite() -> None:
    findings = list(measured(["onnxruntime-gelu-approximation"]))
    assert {one.severity for one in findings} == {"note"}
    assert all(one.message.startswith("Measured: ") for one in findings)
    assert any("computes gelu_tanh, as is known" in one.message for one in findings)
