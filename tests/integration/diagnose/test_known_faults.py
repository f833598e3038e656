"""Known faults put into models of real frameworks: they compute what a model with that fault computes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn
from torch.nn import functional

from parity.align.view import GraphView
from parity.diagnose.chains import Prober
from parity.diagnose.known_faults import EPSILON, HEAD, KnownFault, known_faults
from parity.measure.session import session_of
from parity.sides import Side, SideOptions, live_adapter
from parity.testing.sessions import check_session
from parity.trace.store import Trace

RANDOM = np.random.default_rng(0)
ROWS = (0.05 * RANDOM.standard_normal((3, 5, 8))).astype(np.float32)
IMAGE = (0.05 * RANDOM.standard_normal((3, 4, 6, 6))).astype(np.float32)
SQUARE = RANDOM.standard_normal((8, 8)).astype(np.float32)
BEFORE, AFTER = 1e-5, 1e-5 * EPSILON


class Opened:
    """A model with its recorded run, and the known faults that it can be given."""

    def __init__(self, side: Side, inputs: dict[str, np.ndarray], folder: Path) -> None:
        self.side, self.inputs, self.folder = side, inputs, folder
        self.view = side.record(inputs, folder / "free", {})
        self.faults = known_faults(self.view, side, Prober(self.view, side).activations())

    def mutant(self, fault: KnownFault) -> tuple[Side, Trace]:
        """The model with a fault in it, and its record."""
        folder = self.folder / f"mutant-{len(list(self.folder.iterdir()))}"
        mutant = self.side.mutant(self.view, fault.mutation(), folder)
        return mutant, GraphView.read(folder).trace

    def outputs(self, fault: KnownFault) -> list[np.ndarray]:
        """What the model makes with a fault in it, as it was recorded and as it runs."""
        mutant, changed = self.mutant(fault)
        run = mutant.run(self.inputs)
        recorded = [changed.array(tensor) for tensor in changed.ends.outputs.values()]
        for one, two in zip(recorded, run.values(), strict=True):
            np.testing.assert_array_equal(one, two)
        return recorded

    def in_float64(self, fault: KnownFault) -> np.ndarray:
        """The first output in float64."""
        mutant, trace = self.mutant(fault)
        given = {tensor: trace.read(tensor).astype(np.float64) for tensor in trace.ends.inputs.values()}
        wanted = next(iter(trace.ends.outputs.values()))
        return mutant.evaluate([site.name for site in trace.sites], given, [wanted])[wanted]


Open = Callable[..., Opened]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens a live model, an ONNX graph as it is written."""
    with ExitStack() as stack:

        def open_model(model: Any, **inputs: np.ndarray) -> Opened:
            plain = {"optimization": "none"} if isinstance(model, onnx.ModelProto) else {}
            side = Side("reference", (model, live_adapter(model)), SideOptions(options=plain))
            return Opened(stack.enter_context(side), inputs, tmp_path)

        yield open_model


def close(found: np.ndarray, meant: Any) -> None:
    meant = meant.detach().numpy() if isinstance(meant, torch.Tensor) else np.asarray(meant)
    np.testing.assert_allclose(found, meant, rtol=0, atol=4e-6 * float(np.abs(meant).max()))


def apart(found: np.ndarray, other: Any) -> None:
    other = other.detach().numpy() if isinstance(other, torch.Tensor) else np.asarray(other)
    assert np.abs(found - other).max() > 1e-5 * np.abs(other).max()


# ---- another epsilon


def drawn(make: Callable[[float], nn.Module]) -> Callable[[float], nn.Module]:
    """Normalisations with drawn scales, biases and stored statistics, the same for every epsilon."""

    def made(epsilon: float) -> nn.Module:
        torch.manual_seed(0)
        norm = make(epsilon).eval()
        with torch.no_grad():
            for name, array in (*norm.named_parameters(), *norm.named_buffers()):
                if array.dtype == torch.float32:
                    array.copy_(torch.rand_like(array) * (1e-3 if "var" in name else 1.0) + 1e-4)
        return norm

    return made


NORMS = {
    "layer": (drawn(lambda e: nn.LayerNorm(8, e)), ROWS),
    "layer, two axes": (drawn(lambda e: nn.LayerNorm((5, 8), e)), ROWS),
    "layer, plain": (drawn(lambda e: nn.LayerNorm(8, e, elementwise_affine=False)), ROWS),
    "rms": (drawn(lambda e: nn.RMSNorm(8, e)), ROWS),
    "batch, stored statistics": (drawn(lambda e: nn.BatchNorm2d(4, e)), IMAGE),
    "batch, no affine": (drawn(lambda e: nn.BatchNorm2d(4, e, affine=False)), IMAGE),
    "group": (drawn(lambda e: nn.GroupNorm(2, 4, e)), IMAGE),
    "instance": (drawn(lambda e: nn.InstanceNorm2d(4, e, affine=True)), IMAGE),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_torch_normalisation_with_another_epsilon(opened: Open, name: str) -> None:
    make, x = NORMS[name]
    model = opened(make(BEFORE), x=x)
    (fault,) = model.faults["another epsilon"]
    assert fault.kind == f"epsilon {AFTER:g} in the place of {BEFORE:g}"
    (found,) = model.outputs(fault)
    close(found, make(AFTER)(torch.from_numpy(x)))
    apart(found, make(BEFORE)(torch.from_numpy(x)))
    exact = make(AFTER).double()(torch.from_numpy(x).double()).detach().numpy()
    np.testing.assert_allclose(model.in_float64(fault), exact, rtol=1e-6, atol=1e-9)


def composed(epsilon: float) -> Callable[[Any], Any]:
    def forward(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return jnp.tanh(centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + epsilon))

    return forward


def test_a_composed_normalisation_with_another_epsilon(opened: Open) -> None:
    model = opened(composed(BEFORE), x=ROWS)
    (fault,) = model.faults["another epsilon"]
    (found,) = model.outputs(fault)
    close(found, composed(AFTER)(ROWS))
    apart(found, composed(BEFORE)(ROWS))


SCALE, SHIFT = (RANDOM.standard_normal(4).astype(np.float32) for _ in range(2))
STATISTICS = {"mean": np.full(4, 0.01, np.float32), "variance": np.array([1e-3, 1e-4, 2e-4, 1e-5], np.float32)}
GRAPHS = {
    "LayerNormalization": (["x", "wide", "wider"], {"wide": np.ones((6, 6)), "wider": np.zeros((6, 6))}, {"axis": 2}),
    "InstanceNormalization": (["x", "scale", "shift"], {}, {}),
    "BatchNormalization": (["x", "scale", "shift", "mean", "variance"], STATISTICS, {}),
}


@pytest.mark.parametrize("operator", GRAPHS)
def test_an_onnx_normalisation_with_another_epsilon(opened: Open, graph, operator: str) -> None:
    inputs, weights, attributes = GRAPHS[operator]
    weights = {"scale": SCALE, "shift": SHIFT, **{name: w.astype(np.float32) for name, w in weights.items()}}

    def made(epsilon: float) -> onnx.ModelProto:
        node = helper.make_node(operator, inputs, ["y"], epsilon=epsilon, **attributes)
        return graph([node], {"x": IMAGE}, {name: weights[name] for name in inputs[1:]})

    model = opened(made(BEFORE), x=IMAGE)
    (fault,) = model.faults["another epsilon"]
    (found,) = model.outputs(fault)
    side = Side("reference", (made(AFTER), "onnxruntime"), SideOptions(options={"optimization": "none"}))
    with side:
        close(found, side.run({"x": IMAGE})["y"])


# ---- one head's weights multiplied


def headed(weight: np.ndarray) -> Callable[[Any], Any]:
    """Attention of two heads in JAX; its last product is with a square matrix that may lie either way."""

    def forward(x: Any) -> Any:
        heads = x.reshape(3, 5, 2, 4).transpose(0, 2, 1, 3)
        mixed = jax.nn.softmax(heads @ heads.transpose(0, 1, 3, 2), axis=-1) @ heads
        return jnp.tanh(mixed.transpose(0, 2, 1, 3).reshape(3, 5, 8) @ weight)

    return forward


class Headed(nn.Module):
    """The same in torch, by a linear layer, whose weight lies transposed, or by a bare product."""

    def __init__(self, *, linear: bool, fused: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(SQUARE.copy()))
        self.linear, self.fused = linear, fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(heads, heads, heads, scale=1.0)
        else:
            mixed = (heads @ heads.mT).softmax(-1) @ heads
        mixed = mixed.transpose(1, 2).flatten(2)
        return torch.tanh(functional.linear(mixed, self.weight) if self.linear else mixed @ self.weight)


def scaled(weight: np.ndarray, axis: int) -> np.ndarray:
    """With what multiplies the first head's numbers made larger."""
    other = weight.copy()
    np.moveaxis(other, axis, 0)[:4] *= HEAD
    return other


def rows_scaled(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What the models above make of it with the first head's part scaled; ``weight`` multiplies from the right."""
    heads = x.astype(np.float64).reshape(3, 5, 2, 4).transpose(0, 2, 1, 3)
    scores = np.exp(heads @ heads.transpose(0, 1, 3, 2))
    mixed = (scores / scores.sum(-1, keepdims=True) @ heads).transpose(0, 2, 1, 3)
    mixed[..., 0, :] *= HEAD
    return np.tanh(mixed.reshape(3, 5, 8) @ weight)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("linear", [False, True])
def test_a_head_of_a_square_matrix_in_torch(opened: Open, linear: bool, fused: bool) -> None:
    model = opened(Headed(linear=linear, fused=fused).eval(), x=ROWS)
    (fault,) = model.faults["a head scaled"]
    (found,) = model.outputs(fault)
    close(found, rows_scaled(ROWS, SQUARE.T if linear else SQUARE))


@pytest.mark.parametrize("transposed", [False, True])
def test_a_head_of_a_square_matrix_in_jax(opened: Open, transposed: bool) -> None:
    weight = jnp.asarray(SQUARE)
    model = opened(headed(weight.T if transposed else weight), x=ROWS)
    (fault,) = model.faults["a head scaled"]
    (found,) = model.outputs(fault)
    close(found, rows_scaled(ROWS, SQUARE.T if transposed else SQUARE))


def test_a_head_of_a_transposed_product_in_jax(opened: Open) -> None:
    """``dot_general`` that sums over the second axis of the weight, with no transposition to be seen."""

    def forward(x: Any) -> Any:
        heads = x.reshape(3, 5, 2, 4).transpose(0, 2, 1, 3)
        mixed = (jax.nn.softmax(heads @ heads.transpose(0, 1, 3, 2), axis=-1) @ heads).transpose(0, 2, 1, 3)
        return jnp.tanh(jax.lax.dot_general(mixed.reshape(3, 5, 8), jnp.asarray(SQUARE), (((2,), (1,)), ((), ()))))

    model = opened(forward, x=ROWS)
    (fault,) = model.faults["a head scaled"]
    (found,) = model.outputs(fault)
    close(found, rows_scaled(ROWS, SQUARE.T))


@pytest.mark.parametrize("way", ["MatMul", "Gemm", "Gemm, transposed", "Transpose"])
def test_a_head_of_a_square_matrix_in_onnx(opened: Open, graph, way: str) -> None:
    node = helper.make_node
    nodes = [
        node("Reshape", ["x", "split"], ["s"]),
        node("Transpose", ["s"], ["h"], perm=[0, 2, 1, 3]),
        node("Transpose", ["s"], ["t"], perm=[0, 2, 3, 1]),
        node("MatMul", ["h", "t"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "h"], ["mixed"]),
        node("Transpose", ["mixed"], ["moved"], perm=[0, 2, 1, 3]),
        node("Reshape", ["moved", "rows"], ["flat"]),
    ]
    if way == "Transpose":
        nodes += [node("Transpose", ["w"], ["wt"], perm=[1, 0]), node("MatMul", ["flat", "wt"], ["o"])]
    else:
        options = {"transB": 1} if "transposed" in way else {}
        nodes.append(node(way.partition(",")[0], ["flat", "w"], ["o"], **options))
    nodes.append(node("Tanh", ["o"], ["y"]))
    weights = {"w": SQUARE, "split": np.array([3, 5, 2, 4]), "rows": np.array([15, 8])}
    model = opened(graph(nodes, {"x": ROWS}, weights), x=ROWS)
    (fault,) = model.faults["a head scaled"]
    (found,) = model.outputs(fault)
    over_columns = way in {"Gemm, transposed", "Transpose"}
    close(found.reshape(3, 5, 8), rows_scaled(ROWS, SQUARE.T if over_columns else SQUARE))


# ---- masks, activations, rounded weights


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_fused_attention_without_its_mask(opened: Open, kind: str) -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
            seen = mask[:, None, None, :] > 0
            mask = seen if kind == "bool" else torch.where(seen, 0.0, -1e9)
            return functional.scaled_dot_product_attention(heads, heads, heads, mask).tanh()

    mask = np.ones((3, 5), np.float32)
    mask[1:, 2:] = 0
    model = opened(Masked().eval(), x=ROWS, mask=mask)
    (fault,) = model.faults["a mask dropped"]
    (found,) = model.outputs(fault)
    close(found, Masked()(torch.from_numpy(ROWS), torch.ones(3, 5)))
    assert not np.array_equal(found, Masked()(torch.from_numpy(ROWS), torch.from_numpy(mask)).numpy())


def spelt(x: Any) -> Any:
    return 0.5 * x * (1 + jax.lax.erf(x / jnp.sqrt(jnp.float32(2))))


class Activated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x) @ torch.from_numpy(SQUARE)


@pytest.mark.parametrize(
    "model",
    [Activated().eval(), lambda x: spelt(x) @ SQUARE, lambda x: jax.nn.gelu(x, approximate=False) @ SQUARE],
    ids=["torch", "spelt out", "jax"],
)
def test_an_activation_however_it_is_spelt(opened: Open, model: Any) -> None:
    x = 40 * ROWS
    made = opened(model, x=x)
    (fault,) = made.faults["another activation"]
    assert fault.kind == "gelu_tanh in the place of gelu_erf"
    (found,) = made.outputs(fault)
    close(found, functional.gelu(torch.from_numpy(x), approximate="tanh").numpy() @ SQUARE)
    apart(found, functional.gelu(torch.from_numpy(x)).numpy() @ SQUARE)


def test_a_weight_rounded_to_the_bits_of_bfloat16(opened: Open) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(8, 8)
    model = opened(nn.Sequential(layer, nn.Tanh()).eval(), x=ROWS)
    (fault,) = model.faults["a weight rounded"]
    (found,) = model.outputs(fault)
    narrow = layer.weight.bfloat16().float()
    close(found, torch.tanh(functional.linear(torch.from_numpy(ROWS), narrow, layer.bias)))
    assert not torch.equal(narrow, layer.weight)


# ---- sessions


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()


def kernel(x: Any) -> Any:
    return composed(BEFORE)(spelt(x @ jnp.asarray(SQUARE)))


@pytest.mark.parametrize("model", [network(), kernel], ids=["torch", "jax"])
@pytest.mark.parametrize("kind", ["another activation", "another epsilon", "a weight rounded"])
def test_a_mutant_is_a_session_like_any_other(opened: Open, model: Any, kind: str) -> None:
    made = opened(model, x=ROWS)
    fault = made.faults[kind][0]
    session = session_of(made.mutant(fault)[0]._token)
    names = list(session.inputs()) or list(made.view.trace.ends.inputs)
    check_session(session, {names[0]: ROWS})
