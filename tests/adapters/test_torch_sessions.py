"""Models of PyTorch as sessions: what is told of a run, and that parts of it can be computed again to the bit."""

import io
import pickle
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from parity.adapter import UnsupportedPrecisionError
from parity.errors import InputError
from parity.graph import Site
from parity.testing.sessions import check_session, traced

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

from parity.dtypes import any_dtype  # noqa: E402
from parity_adapters.torch import adapter, evaluation  # noqa: E402
from parity_adapters.torch.arrays import borrowed, to_numpy  # noqa: E402
from parity_adapters.torch.fused import FUSED  # noqa: E402
from parity_adapters.torch.layout import layout  # noqa: E402

RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def kinds(sites: list[Site]) -> list[str]:
    return [site.kind for site in sites]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.skip = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.Conv2d(3, 4, 1, 2)
        self.norm, self.act, self.head = nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Linear(4, 5)

    def forward(self, x):
        y = self.norm(self.conv(x))
        y += self.skip(x)
        return self.head(F.adaptive_avg_pool2d(self.act(y), 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, cell: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell, self.head = cell(6, 4, num_layers=2, batch_first=True, bidirectional=True), nn.Linear(8, 3)

    def forward(self, x):
        y, state = self.cell(x)
        return {"y": self.head(y), "state": state}


class Shifted(nn.Module):
    """Attention over shifted windows, its mask written in place, as vision transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        areas = torch.zeros(8)
        for number, part in enumerate((slice(0, -4), slice(-4, -2), slice(-2, None))):
            areas[part] = number
        areas = areas.view(2, 4)
        apart = areas[:, None] - areas[:, :, None]
        mask = apart.masked_fill(apart != 0, -100.0)
        windows = torch.roll(x, -2, 1).view(-1, 4, 8)
        q, k, v = self.qkv(windows).chunk(3, -1)
        scores = (q * 8**-0.5) @ k.transpose(-2, -1)
        scores = scores.view(-1, 2, 4, 4) + mask
        y = scores.view(-1, 4, 4).softmax(-1) @ v
        y = torch.roll(y.reshape(x.shape), 2, 1)
        y[..., 1::2].add_(1.0)
        y[:, 0] *= 2
        return y


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turn", torch.polar(torch.ones(5, 4), torch.randn(5, 4)))

    def forward(self, x):
        pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turn).flatten(-2)


class Many(nn.Module):
    """Operators in the forms in which models write them."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(9, 6), nn.RMSNorm(6, eps=1e-6)
        self.up, self.slope = nn.ConvTranspose1d(4, 4, 3, 2, 1, 1), nn.PReLU(4)

    def forward(self, x, i):
        out = torch.empty(2, 4, 6)
        torch.add(x, 1.0, out=out)
        half = x.half().float()
        new = x.new_zeros(2, 4, 6)
        new[:, ::2] = x[:, 1::2]
        new.transpose(1, 2)[..., 0] += 1
        new.index_put_((torch.tensor([0]), torch.tensor([1])), x[0, 1])
        top, where = x.topk(2, -1)
        low = torch.where(x > 0, x, 0.1 * x).clamp(min=-1).sqrt().nan_to_num()
        causal = torch.triu(torch.full((4, 4), float("-inf")), 1)
        attended = (x @ x.transpose(1, 2) + causal).softmax(-1)
        _, mean, _ = torch.native_layer_norm(x, [6], None, None, 1e-5)
        steps = torch.arange(6) / 6
        return [
            self.norm(self.words(i)),
            out,
            half,
            new,
            top,
            where,
            low,
            attended,
            mean,
            steps,
            self.slope(self.up(x)),
        ]


MODELS: Mapping[str, tuple[Callable[[], nn.Module], dict[str, np.ndarray]]] = {
    "residual": (lambda: Residual().eval(), {"x": floats(2, 3, 16, 16)}),
    "residual, training": (Residual, {"x": floats(2, 3, 16, 16)}),
    "lstm": (lambda: Recurrent(nn.LSTM), {"x": floats(2, 5, 6)}),
    "gru": (lambda: Recurrent(nn.GRU), {"x": floats(2, 5, 6)}),
    "rnn": (lambda: Recurrent(nn.RNN), {"x": floats(2, 5, 6)}),
    "shifted": (Shifted, {"x": floats(2, 8, 8)}),
    "rotary": (Rotary, {"x": floats(2, 5, 8)}),
    "many": (Many, {"x": floats(2, 4, 6), "i": RANDOM.integers(0, 9, (2, 3))}),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True).eval(),
        {"src": floats(2, 5, 8)},
    ),
}


def model(name: str) -> nn.Module:
    torch.manual_seed(3)
    return MODELS[name][0]()


@pytest.mark.parametrize("name", MODELS)
def test_session_is_exact(name: str) -> None:
    with adapter.open(model(name), {}) as session:
        check_session(session, MODELS[name][1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_session_runs_in_the_dtype_asked_for(dtype: str) -> None:
    session = adapter.open(model("residual"), {"dtype": dtype, "threads": "1"})
    check_session(session, MODELS["residual"][1])
    (output,) = session.run(MODELS["residual"][1]).values()
    assert output.dtype.name == dtype


def changed_in_place(seed: int) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """A function that takes views of one tensor and changes it through them, in an order that ``seed`` decides."""
    takes = (lambda view: view[1:], lambda view: view[:, ::2], lambda view: view.t(), lambda view: view[:, 1:3])
    changes = (
        lambda view: view.mul_(1.5),
        lambda view: view[0].copy_(view[-1] + 1),
        lambda view: view[:, 0].fill_(2.0),
        lambda view: view.unsqueeze(0).add_(0.5),
    )

    def program(x):
        random = np.random.default_rng(seed)
        views = [x * 1]
        for _ in range(16):
            view = views[random.integers(len(views))]
            if random.random() < 0.4 and min(view.shape) > 2:
                views.append(takes[random.integers(len(takes))](view))
            else:
                changes[random.integers(len(changes))](view)
        return [view.cos() for view in views]

    return program


@pytest.mark.parametrize("seed", range(12))
def test_writing_in_place_through_any_view_stays_exact(seed: int) -> None:
    check_session(adapter.open(changed_in_place(seed), {}), {"x": floats(9, 8)})


def test_a_site_tells_scope_kind_attributes_inputs_and_line() -> None:
    session = adapter.open(model("residual"), {})
    sites, _, ends = traced(session, MODELS["residual"][1])
    by_name = {site.name: site for site in sites}
    norm = by_name["norm/native_batch_norm"]
    assert (norm.op, norm.kind, norm.scope) == ("aten.native_batch_norm", "batch_norm", "norm")
    assert norm.inputs == ("conv/convolution", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var")
    assert norm.attributes == {"epsilon": 1e-5, "training": False}
    assert norm.source is not None
    assert Path(norm.source.rpartition(":")[0]).name == Path(__file__).name
    assert by_name["conv/convolution"].attributes == {
        "strides": [2, 2],
        "pads": [1, 1, 1, 1],
        "dilations": [1, 1],
        "groups": 1,
    }
    assert by_name["head/addmm"].inputs[2] == "head.bias"
    assert ends.outputs == {"0": "head/addmm"}
    assert not ends.named_outputs


@pytest.mark.parametrize(
    ("function", "kind", "attributes"),
    [
        (lambda x: F.gelu(x, approximate="tanh"), "gelu", {"approximate": "tanh"}),
        (lambda x: F.leaky_relu(x, 0.2), "leaky_relu", {"alpha": 0.2}),
        (F.selu, "selu", {"alpha": pytest.approx(1.67326, 1e-4), "gamma": pytest.approx(1.0507, 1e-4)}),
        (lambda x: x.softmax(1), "softmax", {"axis": 1}),
        (lambda x: x.mean((2, 3), keepdim=True), "mean", {"axes": [2, 3], "keepdims": True}),
        (lambda x: x.permute(0, 2, 3, 1), "transpose", {"axes": [0, 2, 3, 1]}),
        (lambda x: F.layer_norm(x, x.shape[2:], eps=1e-3), "layer_norm", {"epsilon": 1e-3, "axis": 2}),
        (lambda x: F.group_norm(x, 2), "group_norm", {"epsilon": 1e-5, "groups": 2}),
        (lambda x: F.pad(x, (1, 2, 3, 4), value=5.0), "pad", {"pads": [3, 1, 4, 2], "value": 5.0}),
        (lambda x: torch.div(x, 3, rounding_mode="floor"), "div", {"rounding": "floor"}),
        (
            lambda x: F.avg_pool2d(x, 2, padding=1, count_include_pad=False),
            "average_pool",
            {"kernel": [2, 2], "strides": [2, 2], "pads": [1] * 4, "count_include_pad": False, "ceil_mode": False},
        ),
        (
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
            "resize",
            {"mode": "linear", "coordinates": "align_corners", "antialias": False},
        ),
        (
            lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
            "attention",
            {"scale": pytest.approx(0.5), "causal": True},
        ),
    ],
)
def test_kinds_and_attributes_are_the_canonical_ones(function, kind: str, attributes: dict[str, object]) -> None:
    sites, _, _ = traced(adapter.open(function, {}), {"x": floats(2, 4, 6, 4)})
    assert [(site.kind, dict(site.attributes)) for site in sites] == [(kind, attributes)]


def test_numbers_of_formulas_are_weights_that_can_be_replaced() -> None:
    session = adapter.open(lambda x: 1 - x * 0.5, {})
    x = floats(3)
    sites, _, ends = traced(session, {"x": x})
    assert [site.inputs for site in sites] == [("x", "mul.other"), ("rsub.other", "mul")]
    assert session.weights()["mul.other"] == 0.5
    replaced = session.evaluate(
        [site.name for site in sites], {"x": x, "mul.other": np.array(2.0)}, [ends.outputs["0"]], "float64"
    )
    np.testing.assert_array_equal(replaced["rsub"], 1 - x.astype(np.float64) * 2)


def test_a_weight_can_be_replaced_and_asked_for() -> None:
    session = adapter.open(nn.Linear(3, 2), {})
    x = floats(4, 3)
    sites, _, ends = traced(session, {"input": x})
    made = session.evaluate(
        [site.name for site in sites],
        {"input": x, "weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)},
        [ends.outputs["0"], "bias"],
        "float64",
    )
    np.testing.assert_allclose(made[ends.outputs["0"]][:, 0], x.astype(np.float64).sum(1), rtol=1e-14)
    assert made["bias"].dtype == np.float64


def test_float64_leaves_casts_to_narrow_floats_out_but_keeps_those_to_integers() -> None:
    session = adapter.open(lambda x: (x.half().float(), (x * 4).int() / 3), {})
    x = floats(50)
    sites, _, ends = traced(session, {"x": x})
    exact = session.evaluate([site.name for site in sites], {"x": x}, list(ends.outputs.values()), "float64")
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(exact[ends.outputs["0"]], wide)
    np.testing.assert_array_equal(exact[ends.outputs["1"]], np.trunc(wide * 4) / 3)


def test_a_great_negative_number_stays_finite_in_half_precision() -> None:
    session = adapter.open(lambda x: x.masked_fill(x > 0, -1e30).softmax(-1), {})
    x = floats(4, 9)
    sites, _, ends = traced(session, {"x": x})
    made = session.evaluate([site.name for site in sites], {"x": x}, list(ends.outputs.values()), "float16")
    (probabilities,) = made.values()
    assert probabilities.dtype == np.float16
    assert np.isfinite(probabilities).all()


def test_what_no_kernel_computes_is_said() -> None:
    session = adapter.open(model("rotary"), {})
    sites, _, ends = traced(session, MODELS["rotary"][1])
    with pytest.raises(UnsupportedPrecisionError, match=r"aten\.view_as_complex"):
        session.evaluate([s.name for s in sites], MODELS["rotary"][1], list(ends.outputs.values()), "bfloat16")


def test_random_numbers_are_drawn_again_alike_and_leave_the_generator_alone() -> None:
    session = adapter.open(lambda x: F.dropout(x, 0.5, training=True) + torch.randn(3), {})
    x = floats(40, 3)
    sites, tensors, ends = traced(session, {"x": x})
    assert kinds(sites).count("random") == 2
    before = torch.get_rng_state()
    exact = session.evaluate([site.name for site in sites], {"x": x}, list(ends.outputs.values()), "float64")
    np.testing.assert_allclose(exact[ends.outputs["0"]], tensors[ends.outputs["0"]], atol=1e-6)
    assert torch.equal(before, torch.get_rng_state())


def test_weights_are_as_the_run_found_them() -> None:
    module = model("residual, training")
    session = adapter.open(module, {})
    traced(session, MODELS["residual"][1])
    assert session.weights()["norm.num_batches_tracked"] == 0
    assert not session.weights()["norm.running_mean"].any()
    assert module.norm.num_batches_tracked.item() == 1
    mean = module.norm.running_mean.clone()
    session.evaluate(["norm/native_batch_norm"], {"conv/convolution": floats(2, 4, 8, 8)}, [], "native")
    assert torch.equal(mean, module.norm.running_mean)


def test_memory_that_no_operator_was_seen_to_fill_is_a_constant() -> None:
    def program(x):
        memory = torch.empty(3)
        memory.numpy()[:] = 5
        return x + memory

    session = adapter.open(program, {})
    x = floats(3)
    check_session(session, {"x": x})
    np.testing.assert_array_equal(session.run({"x": x})["0"], x + 5)


def test_names_are_unique_where_a_module_runs_twice_and_weights_are_tied() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(self.first(x)))

    session = adapter.open(Twice(), {})
    sites, _, _ = traced(session, {"x": floats(2, 3)})
    assert [site.name for site in sites if site.kind == "matmul"] == ["first/addmm", "first/addmm_1", "second/addmm"]
    assert set(session.weights()) == {"first.weight", "first.bias", "second.bias"}


def test_a_recurrent_layer_is_one_site() -> None:
    sites, _, _ = traced(adapter.open(model("gru"), {}), MODELS["gru"][1])
    (site,) = [site for site in sites if site.kind == "recurrent"]
    assert (site.op, site.scope, site.attributes["cell"]) == ("aten.gru", "cell", "gru")
    assert site.attributes["linear_before_reset"] is True


def test_the_hooks_are_gone_after_a_trace_even_one_that_failed() -> None:
    with pytest.raises(InputError):
        traced(adapter.open(model("gru"), {}), {"x": floats(2, 5, 7)})
    from torch.nn.modules import module as hooks
    from torch.nn.modules import rnn

    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert rnn._VF is torch._VF


def test_an_exception_of_the_sink_comes_through_as_it_is() -> None:
    def sink(site, made):
        raise KeyError(site.name)

    with pytest.raises(KeyError, match="sin"):
        adapter.open(torch.sin, {}).trace({"x": floats(2)}, sink)


def fused_arguments(dtype: torch.dtype, mask_type: int | None) -> tuple[list[object], list[object]]:
    """Arguments of the two fused kernels for a batch of 2, length 5, 12 features and 2 heads."""
    torch.manual_seed(5)
    x = torch.randn(2, 5, 12, dtype=dtype)
    shapes = [(36, 12), (36,), (12, 12), (12,)]
    attention = [torch.randn(*shape, dtype=dtype) / 4 for shape in shapes]
    rest = [torch.randn(*shape, dtype=dtype) / 4 for shape in [(12,)] * 4 + [(24, 12), (24,), (12, 24), (12,)]]
    masks = {
        None: None,
        0: torch.triu(torch.ones(5, 5, dtype=torch.bool), 1),
        1: torch.arange(5).expand(2, 5) > 3,
        2: torch.zeros(2, 2, 5, 5, dtype=torch.bool),
    }
    mask = masks[mask_type]
    return (
        [x, x, x, 12, 2, *attention, mask, True, True, mask_type],
        [x, 12, 2, *attention, True, True, 1e-5, *rest, mask, mask_type],
    )


@pytest.mark.parametrize("mask_type", [None, 0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_fused_kernels_are_taken_apart_to_the_bit(dtype: torch.dtype, mask_type: int | None) -> None:
    for (name, parts), arguments in zip(FUSED.items(), fused_arguments(dtype, mask_type), strict=True):
        operator = getattr(torch.ops.aten, name.removeprefix("aten.")).default
        names = [argument.name for argument in operator._schema.arguments]
        expected, found = operator(*arguments), parts(**dict(zip(names, arguments, strict=True)))
        for one, other in zip([expected, found], [found, expected], strict=True):
            assert torch.equal(one[0], other[0])
        assert not isinstance(expected, tuple) or torch.equal(expected[1], found[1])


@pytest.mark.parametrize("name", ["residual", "shifted", "gru"])
def test_exported_programs(name: str, tmp_path: Path) -> None:
    path, inputs = tmp_path / "model.pt2", MODELS[name][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model(name), (torch.from_numpy(inputs["x"]),)), path)
    session = adapter.open(str(path), {})
    assert session.inputs()["x"].shape == inputs["x"].shape
    check_session(session, inputs)
    sites, _, ends = traced(session, inputs)
    assert all(site.labels for site in sites if not site.name.startswith("as_strided"))
    assert ends.named_outputs == (name == "gru")
    assert {site.scope for site in sites} & {"norm", "qkv", "cell"}
    for exported, eager in zip(
        session.run(inputs).values(), adapter.open(model(name), {}).run(inputs).values(), strict=True
    ):
        np.testing.assert_array_equal(exported, eager)


def test_exported_branches_are_told_of(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x.sin() * 2.0, lambda x: x.cos(), (x,))

    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Branching(), (torch.ones(3),)), path)
    session = adapter.open(str(path), {})
    for sign, expected in ((1, ["sum", "compare", "sin", "mul"]), (-1, ["sum", "compare", "cos"])):
        inputs = {"x": np.full(3, sign, np.float32)}
        check_session(session, inputs)
        assert kinds(traced(session, inputs)[0]) == expected


@pytest.mark.parametrize(
    ("module", "x"),
    [(Residual().eval(), floats(2, 3, 16, 16)), (nn.LSTM(6, 4), floats(5, 2, 6)), (nn.GRU(6, 4), floats(5, 2, 6))],
    ids=["residual", "lstm", "gru"],
)
def test_torchscript(module: nn.Module, x: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "model.ts"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(module, torch.from_numpy(x)).save(path)
    session = adapter.open(str(path), {})
    (name,) = session.trace({"x": x}, lambda site, made: None).inputs
    check_session(session, {name: x})
    np.testing.assert_array_equal(session.run({name: x})["0"], adapter.open(module, {}).run({"x": x})["0"])


def test_a_factory_imports_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("WIDTH = 3")
    (tmp_path / "model.py").write_text(
        "import torch\nfrom beside_it import WIDTH\ndef build():\n    return torch.nn.Linear(WIDTH, 2).eval()\n"
    )
    session = adapter.open(f"torch:{tmp_path / 'model.py'}:build", {})
    assert session.run({"whatever": floats(4, 3)})["0"].shape == (4, 2)
    assert session.inputs() == {}


FACTORIES = """
import torch
NUMBER = 3
def fails(): raise ValueError("no weights here")
def leaves(): raise SystemExit(3)
def gives_text(): return "a model"
def linear(): return torch.nn.Linear(3, 2)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "no weights here"),
        ("leaves", "SystemExit"),
        ("gives_text", "cannot be called"),
        ("NUMBER", "not callable"),
        ("lineer", "There is no factory called 'lineer'"),
    ],
)
def test_bad_factories_are_input_errors(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(FACTORIES)
    with pytest.raises(InputError, match=message) as caught:
        adapter.open(f"torch:{tmp_path / 'model.py'}:{name}", {})
    assert caught.value.hint


@pytest.mark.parametrize("name", ["missing.pt2", "missing.pt", "torch:missing.py:build", "torch:build", "model.h5"])
def test_bad_references_are_input_errors(name: str) -> None:
    with pytest.raises(InputError) as caught:
        adapter.open(name, {})
    assert caught.value.hint


@pytest.mark.parametrize("name", ["model.pt2", "model.pt", "model.py"])
def test_garbage_files_are_input_errors(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04garbage(")
    reference = f"torch:{tmp_path / name}:build" if name.endswith(".py") else str(tmp_path / name)
    with pytest.raises(InputError, match="model"):
        adapter.open(reference, {})


def test_pickled_weights_are_not_loaded(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "weights.pth")
    with pytest.raises(InputError, match="no model but data"):
        adapter.open(str(tmp_path / "weights.pth"), {})


@pytest.mark.parametrize("options", [{"optimization": "all"}, {"dtype": "int8"}])
def test_options_that_mean_nothing_are_input_errors(options: dict[str, str]) -> None:
    with pytest.raises(InputError):
        adapter.open(nn.Linear(2, 2), options)


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"input": floats(4, 5)},
        {"input": floats(4, 3).astype(np.float64)},
        {"input": np.array(["text"])},
        {"input": floats(4, 3), "more": floats(1)},
    ],
    ids=["none", "shape", "dtype", "text", "too many"],
)
def test_inputs_that_do_not_fit_are_input_errors(inputs: dict[str, np.ndarray]) -> None:
    session = adapter.open(nn.Linear(3, 2), {})
    for attempt in (session.run, lambda given: traced(session, given)):
        with pytest.raises(InputError) as caught:
            attempt(inputs)
        assert caught.value.hint


def test_evaluation_names_what_is_missing() -> None:
    session = adapter.open(torch.sin, {})
    x = floats(3)
    traced(session, {"input": x})
    for sites, given, precision in ((["cos"], {}, "native"), (["sin"], {}, "native"), (["sin"], {"input": x}, "int8")):
        with pytest.raises(InputError):
            session.evaluate(sites, given, ["sin"], precision)


def test_a_pointwise_site_can_be_evaluated_in_another_shape() -> None:
    session = adapter.open(torch.sin, {})
    (name,) = session.trace({"input": floats(3)}, lambda site, made: None).inputs.values()
    x = floats(4)
    assert np.allclose(session.evaluate(["sin"], {name: x}, ["sin"], "float64")["sin"], np.sin(x.astype(np.float64)))


def test_an_example_gives_the_inputs() -> None:
    module = nn.Linear(3, 2)
    module.example_inputs = (torch.ones(4, 3),)
    spec = adapter.open(module, {}).inputs()["input"]
    assert (spec.dtype, spec.shape) == ("float32", (4, 3))


@pytest.mark.parametrize(
    "view", [lambda t: t[1:], lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[None].expand(3, 4, 6)]
)
def test_a_copy_can_be_laid_out_as_its_original(view) -> None:
    from parity_adapters.torch.layout import lay_out

    original = view(torch.arange(24.0).view(4, 6))
    copy = lay_out(original, layout(original), torch.float32)
    assert copy.stride() == original.stride()
    assert torch.equal(copy, original)


def test_a_tensor_without_elements_among_others() -> None:
    """As the keys of a cache that holds nothing yet, here in strides of 0."""

    class Cached(nn.Module):
        def forward(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
            return torch.cat([past.expand(0, 4), x]) * 2

    check_session(adapter.open(Cached(), {}), {"x": np.ones((2, 4), np.float32), "past": np.ones((0, 1), np.float32)})


@pytest.mark.parametrize("form", ["archive", "protocol 0"])
def test_an_exported_program_with_a_pickle_that_runs_code_is_refused_unread(tmp_path: Path, form: str) -> None:
    """`torch.export.load` reads the example inputs without asking what they are."""

    class Code:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "ran",))

    good, evil = tmp_path / "good.pt2", tmp_path / "evil.pt2"
    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.ones(4, 3),)), good)
    assert list(adapter.open(str(good), {}).run({"input": floats(4, 3)}))
    buffer = io.BytesIO()
    torch.save(Code(), buffer)
    code = buffer.getvalue() if form == "archive" else pickle.dumps(Code(), protocol=0)
    with zipfile.ZipFile(good) as archive, zipfile.ZipFile(evil, "w") as forged:
        for name in archive.namelist():
            forged.writestr(name, code if "sample_inputs" in name else archive.read(name))
    with pytest.raises(InputError, match="could run code"):
        adapter.open(str(evil), {})
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["custom_obj_0", "opaque_obj_0"])
def test_an_exported_program_with_objects_among_its_constants_is_refused_unread(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.ones(4, 3),)), path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"model/data/constants/{name}", b"")
    with pytest.raises(InputError, match="could run code"):
        adapter.open(str(path), {})


class Lookup(nn.Module):
    """Rows of a weight, and of numbers that are made, picked by the same operators."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 6)

    def forward(self, ids):
        rows = self.table(ids) / 3
        return torch.index_select(self.table.weight, 0, ids), torch.index_select(rows, 0, ids % 4)


def test_of_a_table_only_what_is_looked_up_is_cast(monkeypatch) -> None:
    ids = np.array([3, 1, 49, 0, 3])
    with adapter.open(Lookup(), {}) as session:
        sites, _, ends = traced(session, {"ids": ids})
        outputs = list(ends.outputs.values())
        cast, sizes = evaluation._cast, []

        def watched(tensor, dtype):
            sizes.append(tensor.numel())
            return cast(tensor, dtype)

        monkeypatch.setattr(evaluation, "_cast", watched)
        names = [site.name for site in sites]
        made = session.evaluate(names, {next(iter(ends.inputs.values())): ids}, outputs, "float64")
        table = next(np.asarray(array) for array in session.weights().values() if np.asarray(array).size == 300)
    assert max(sizes) < table.size
    wide = table.astype(np.float64)
    np.testing.assert_array_equal(made[outputs[0]], wide[ids])
    np.testing.assert_array_equal(made[outputs[1]], (wide[ids] / 3)[ids % 4])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool", "bfloat16"])
def test_an_array_is_lent_where_it_can_be(dtype: str) -> None:
    array = np.arange(-6, 6).reshape(3, 4).astype(any_dtype(dtype))
    for shown in (array, array.T, array[::2], array[:, ::-1], array[:0], array[1:2, 2]):
        np.testing.assert_array_equal(to_numpy(borrowed(shown)), shown)
    assert np.shares_memory(to_numpy(borrowed(array)), array)
    array.flags.writeable = False
    assert not np.shares_memory(to_numpy(borrowed(array)), array), "PyTorch knows no memory that is only to be read"


@pytest.mark.parametrize("precision", ["native", "float64"])
def test_an_operator_that_writes_in_place_leaves_what_it_is_given(precision: str) -> None:
    def function(x):
        y = x * 2
        y += 1
        return y.relu_()

    with adapter.open(function, {}) as session:
        sites, _, _ = traced(session, {"x": floats(3, 4)})
        last = sites[-1]
        given = {name: floats(3, 4) for name in last.inputs}
        before = {name: array.copy() for name, array in given.items()}
        session.evaluate([last.name], given, [last.outputs[0]], precision)
    for name, array in given.items():
        np.testing.assert_array_equal(array, before[name])
