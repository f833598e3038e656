"""``parity diff --prove``: known faults of each kind in each framework's models are caught, named and placed."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.jobs.diff import DiffOptions, DiffReport, diff
from parity.report.diff import render

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
jax = pytest.importorskip("jax")
pytest.importorskip("onnxruntime")

import jax.numpy as jnp  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

BATCH, LENGTH, WIDTH, HEADS = 3, 6, 16, 2
RANDOM = np.random.default_rng(0)
X = (0.3 * RANDOM.standard_normal((BATCH, LENGTH, WIDTH))).astype(np.float32)
MASK = np.ones((BATCH, LENGTH), np.float32)
MASK[1, 3:] = 0
INPUTS = {"x": X, "mask": MASK}
WEIGHTS = {
    name: (RANDOM.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
    for name, shape in {
        **dict.fromkeys("qkvo", (WIDTH, WIDTH)),
        "up": (WIDTH, 2 * WIDTH),
        "down": (2 * WIDTH, WIDTH),
    }.items()
}
EPSILON = 1e-5
KINDS = ("in the place of gelu_erf", "epsilon", "significant bits", "one head's part", "the attention's mask dropped")


class Block(nn.Module):
    """A transformer's block with the weights above; its attention in one operator or in several."""

    def __init__(self, *, fused: bool = False, approximate: str = "none", epsilon: float = EPSILON) -> None:
        super().__init__()
        for name, numbers in WEIGHTS.items():
            layer = nn.Linear(*numbers.shape, bias=False)
            layer.weight = nn.Parameter(torch.from_numpy(numbers.T.copy()))
            self.add_module(name, layer)
        self.norm = nn.LayerNorm(WIDTH, epsilon)
        self.last = nn.LayerNorm(WIDTH, EPSILON)
        self.fused, self.approximate = fused, approximate

    def heads(self, y: torch.Tensor) -> torch.Tensor:
        return y.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def attention(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.heads(layer(x)) for layer in (self.q, self.k, self.v))
        bias = (1 - mask)[:, None, None, :] * -1e9
        if self.fused:
            return functional.scaled_dot_product_attention(q, k, v, bias)
        return (q @ k.mT / (WIDTH / HEADS) ** 0.5 + bias).softmax(-1) @ v

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(x + self.o(self.attention(x, mask).transpose(1, 2).flatten(2)))
        return self.last(x + self.down(functional.gelu(self.up(x), approximate=self.approximate)))


def block(x: Any, mask: Any) -> Any:
    """The same in JAX."""
    w = {name: jnp.asarray(numbers) for name, numbers in WEIGHTS.items()}

    def heads(y):
        return y.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    def norm(y):
        centred = y - y.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)

    q, k, v = (heads(x @ w[name]) for name in "qkv")
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32((WIDTH / HEADS) ** 0.5) + (1 - mask)[:, None, None, :] * -1e9
    mixed = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = norm(x + mixed @ w["o"])
    return norm(x + jax.nn.gelu(x @ w["up"], approximate=False) @ w["down"])


def graph() -> onnx.ModelProto:
    """The same in ONNX; heads are joined by a Gemm whose square weight is transposed."""
    node, weights = helper.make_node, {**WEIGHTS, "o": WEIGHTS["o"].T.copy()}
    constants = {
        "ones": np.ones(WIDTH, np.float32),
        "one": np.float32(1),
        "fill": np.float32(-1e9),
        "root": np.float32((WIDTH / HEADS) ** 0.5),
        "split": np.array([BATCH, LENGTH, HEADS, -1]),
        "rows": np.array([-1, WIDTH]),
        "whole": np.array(X.shape),
        "spread": np.array([1, 2]),
    }
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", ["x", name], [f"{name}x"], f"/{name}/MatMul"),
            node("Reshape", [f"{name}x", "split"], [f"{name}r"]),
            node("Transpose", [f"{name}r"], [f"{name}h"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        node("Sub", ["one", "mask"], ["hidden"]),
        node("Mul", ["hidden", "fill"], ["filled"]),
        node("Unsqueeze", ["filled", "spread"], ["bias"]),
        node("MatMul", ["qh", "kh"], ["products"]),
        node("Div", ["products", "root"], ["scores"]),
        node("Add", ["scores", "bias"], ["logits"], "/mask/Add"),
        node("Softmax", ["logits"], ["weights"], axis=-1),
        node("MatMul", ["weights", "vh"], ["mixed"]),
        node("Transpose", ["mixed"], ["moved"], perm=[0, 2, 1, 3]),
        node("Reshape", ["moved", "rows"], ["flat"]),
        node("Gemm", ["flat", "o"], ["joined"], "/o/Gemm", transB=1),
        node("Reshape", ["joined", "whole"], ["ox"]),
        node("Add", ["x", "ox"], ["sum"]),
        node("LayerNormalization", ["sum", "ones"], ["n"], "/norm/LayerNormalization", epsilon=EPSILON),
        node("MatMul", ["n", "up"], ["h"], "/up/MatMul"),
        node("Gelu", ["h"], ["g"], "/act/Gelu"),
        node("MatMul", ["g", "down"], ["d"], "/down/MatMul"),
        node("Add", ["n", "d"], ["total"]),
        node("LayerNormalization", ["total", "ones"], ["y"], "/last/LayerNormalization", epsilon=EPSILON),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", X.shape), ("mask", MASK.shape), ("y", X.shape))
    ]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in {**weights, **constants}.items()]
    whole = helper.make_graph(nodes, "block", ends[:2], ends[2:], stored)
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def proved(reference: Any, candidate: Any, inputs: dict[str, np.ndarray], **options: Any) -> DiffReport:
    """The graph of a reference as it is written: optimised, its normalisations add what they normalise themselves."""
    if isinstance(reference, onnx.ModelProto):
        options.setdefault("reference_optimization", "none")
    return diff(reference, candidate, [inputs], options=DiffOptions(prove=True, **options))


def of_kind(report: DiffReport, kind: str) -> list[Any]:
    assert report.proof is not None
    return [one for one in report.proof.injected if kind in one.kind]


def assert_all_seen(report: DiffReport) -> None:
    assert report.verdict == "pass", report.summary
    proof = report.proof
    assert proof is not None
    assert list(proof.failed) == []
    wrong = [one for one in proof.injected if not (one.caught and one.named and one.placed and one.change > 0)]
    assert wrong == []
    assert proof.catch_rate == 1.0


MODELS = {
    "torch": lambda: Block().eval(),
    "torch, fused attention": lambda: Block(fused=True).eval(),
    "jax": lambda: block,
    "onnx": graph,
}


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_fault_is_caught_named_and_placed(name: str) -> None:
    model = MODELS[name]()
    report = proved(model, model, INPUTS)
    assert_all_seen(report)
    assert {kind: bool(of_kind(report, kind)) for kind in KINDS} == dict.fromkeys(KINDS, True)
    assert list(report.proof.absent) == []


def test_faults_of_the_reference_are_found_in_another_frameworks_candidate() -> None:
    report = proved(Block().eval(), graph(), INPUTS, candidate_optimization="all")
    assert_all_seen(report)


def test_a_library_s_encoder_layer_that_production_fuses() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, activation="gelu", batch_first=True).eval()
    report = proved(layer, layer, {"x": X})
    assert_all_seen(report)
    assert list(report.proof.absent) == ["a mask dropped"]


def test_a_model_of_hugging_face() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=40
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    tokens = np.random.default_rng(1).integers(0, 40, (BATCH, LENGTH))
    report = proved(model, model, {"input_ids": tokens, "attention_mask": MASK.astype(np.int64)})
    assert_all_seen(report)
    assert of_kind(report, "mask dropped")


# ---- what these inputs cannot show


def test_a_mask_of_ones_does_not_show_that_it_is_dropped() -> None:
    model = Block().eval()
    report = proved(model, model, {"x": X, "mask": np.ones_like(MASK)})
    (missed,) = [one for one in report.proof.injected if not one.caught]
    assert missed.kind == "the attention's mask dropped"
    assert (missed.change, missed.found, missed.named, missed.placed) == (0.0, (), False, False)
    assert "a padded batch" in missed.advice
    count = len(report.proof.injected)
    assert report.proof.catch_rate == pytest.approx((count - 1) / count)
    assert report.verdict == "pass"
    text = render(report, colour=False, width=200)
    assert f"Known faults put into a copy of the reference: {count - 1} of {count} caught" in text
    assert "not shown: the attention's mask dropped at " in text
    assert "a padded batch" in text


def test_an_epsilon_under_large_numbers_is_not_shown() -> None:
    model = nn.Sequential(nn.LayerNorm(WIDTH, EPSILON), nn.Tanh()).eval()
    report = proved(model, model, {"x": X * np.float32(1e6)})
    (missed,) = of_kind(report, "epsilon")
    assert not missed.caught
    assert "smaller numbers" in missed.advice
    assert of_kind(proved(model, model, {"x": X}), "epsilon")[0].caught


def test_weights_whose_work_is_lost_are_not_shown() -> None:
    """No number comes through the rectifier: what is before it is told by its products, what is after it by none."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    with torch.no_grad():
        model[0].bias.fill_(-100)
    report = proved(model, model, {"x": X})
    weights = of_kind(report, "significant bits")
    assert [one.caught for one in weights] == [True, False]
    assert "not zero" in weights[1].advice
    assert report.proof.catch_rate == pytest.approx(2 / 3), "a probe shows the other function"


def test_a_model_without_a_place_for_any() -> None:
    model = nn.Flatten()
    report = proved(model, model, {"x": X})
    assert (report.proof.catch_rate, list(report.proof.injected)) == (None, [])
    assert len(report.proof.absent) == len(KINDS)
    assert "this model has no place for any known fault" in render(report, colour=False, width=200)


# ---- what it leaves as it is


def without_proof(report: DiffReport) -> dict[str, Any]:
    return {
        name: getattr(report, name)
        for name in ("verdict", "summary", "findings", "first_divergence", "layers", "outputs", "coverage", "notes")
    }


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_verdict_is_the_same_with_and_without(approximate: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one, two = Block().eval(), Block(approximate=approximate).eval()
    first, again = proved(one, two, INPUTS), proved(one, two, INPUTS)
    plain = diff(one, two, [INPUTS])
    assert without_proof(first) == without_proof(plain)
    assert plain.proof is None
    assert again.proof == first.proof, "the same faults at the same places"
    assert list(tmp_path.iterdir()) == []


def test_beside_a_true_fault_known_ones_are_caught_all_the_same() -> None:
    report = proved(Block().eval(), Block(epsilon=1e-3).eval(), INPUTS)
    assert [one.rule for one in report.findings] == ["normalization-epsilon"]
    assert report.proof.catch_rate == 1.0
    assert all(one.placed for one in report.proof.injected)


def test_a_known_fault_that_is_the_candidate_s_own() -> None:
    """With it in the reference too the two agree there: the true fault is gone, and that is to see it as well."""
    report = proved(Block().eval(), Block(approximate="tanh").eval(), INPUTS)
    assert [one.rule for one in report.findings] == ["activation-variant"]
    (swap,) = of_kind(report, "gelu_tanh in the place of gelu_erf")
    assert (swap.caught, swap.named, swap.placed) == (True, True, True)
    assert report.proof.catch_rate == 1.0


# ---- at the command line

FILE = """
import torch
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(FILE)
    np.savez("x.npz", x=RANDOM.standard_normal((4, 8)).astype(np.float32))
    return tmp_path


def test_the_proof_in_json(parity, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files / "temporary"))
    pair = ["torch:model.py:build"] * 2
    code, out, err = parity("diff", *pair, "--inputs", "x.npz", "--prove", "--format", "json")
    assert (code, err) == (0, "")
    proof = json.loads(out)["proof"]
    assert proof["catch_rate"] == 1.0
    assert proof["absent"] == ["a head scaled", "a mask dropped"]
    assert proof["failed"] == []
    assert [one["kind"] for one in proof["injected"]] == [
        "gelu_tanh in the place of gelu_erf",
        "epsilon 0.0001 in the place of 1e-05",
        "'0.weight' rounded to 8 significant bits",
    ]
    for one in proof["injected"]:
        assert set(one) == {"kind", "place", "change", "caught", "named", "placed", "found", "advice"}
    assert list((files / "temporary").iterdir()) == []


def test_of_a_recorded_trace_only_the_candidate_s_is_no_hindrance(parity, files: Path) -> None:
    assert parity("record", "torch:model.py:build", "-o", "t", "--inputs", "x.npz")[0] == 0
    code, out, err = parity("diff", "t", "torch:model.py:build", "--prove")
    assert (code, out) == (2, "")
    assert "--prove changes the reference, and this one is a recorded trace" in err
    assert "Name the model in its place" in err
    code, out, _ = parity("diff", "torch:model.py:build", "t", "--prove", "--format", "json")
    document = json.loads(out)
    assert (code, document["verdict"]) == (0, "pass")
    assert len(document["proof"]["injected"]) == 3
