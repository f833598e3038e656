"""`parity.activations` and `parity.replace_activation` on live PyTorch models, each with a labelled expected result."""

import copy
import inspect
import math
import pickle
import warnings
from itertools import permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - what every user of PyTorch calls it
from torch import nn
from torch.utils.checkpoint import checkpoint

import parity
from parity.errors import InputError
from parity.functions import FORMULAS
from parity.jobs.activations import Moments

WIDTH = 8


def hand_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Module(nn.Module):
    """The function given, between two linear layers."""

    def __init__(self, function):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.function = function

    def forward(self, x):
        return self.last(self.function(self.first(x)))


class Plain(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class HandTanh(nn.Module):
    def forward(self, x):
        return hand_tanh(x)


class HandQuick(nn.Module):
    """A chain that goes through a module of its own on the way."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Sigmoid()

    def forward(self, x):
        return x * self.gate(1.702 * x)


class Upcast(nn.Module):
    def forward(self, x):
        wide = x.float()
        return (wide * torch.sigmoid(wide)).to(x.dtype)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.both, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        gate, value = self.both(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * value)


class Twice(nn.Module):
    """One block called as often as it is told."""

    def __init__(self, block, times=2):
        super().__init__()
        self.block, self.times = block, times

    def forward(self, x):
        for _ in range(self.times):
            x = self.block(x)
        return x


class Nested(nn.Module):
    """Blocks of one class in each other, so that the same line runs in several modules."""

    def __init__(self, depth):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.inner = Nested(depth - 1) if depth else nn.Identity()

    def forward(self, x):
        return F.gelu(self.linear(self.inner(x)))


class Switch(nn.Module):
    """Another line of code in training than outside."""

    def forward(self, x):
        if self.training:
            return F.gelu(x) * 1.0
        return F.gelu(x)


class Choice(nn.Module):
    """A branch that not every input reaches."""

    def __init__(self):
        super().__init__()
        self.up, self.down = Module(nn.GELU()), Module(nn.SiLU())

    def forward(self, x):
        return self.up(x) if x.sum() > 0 else self.down(x)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


def some(*shape):
    return torch.randn(shape or (3, WIDTH))


def told(found):
    return [(site.scope, str(site.variant)) for site in found]


LABELLED = {
    "module": (lambda: Module(nn.GELU()), [("function", "gelu_erf")]),
    "module-tanh": (lambda: Module(nn.GELU(approximate="tanh")), [("function", "gelu_tanh")]),
    "functional": (lambda: Module(F.gelu), [("", "gelu_erf")]),
    "method": (lambda: Module(torch.Tensor.sigmoid), [("", "sigmoid")]),
    "operator": (lambda: Module(torch.ops.aten.silu), [("", "silu")]),
    "parameter": (lambda: Module(nn.LeakyReLU(0.2)), [("function", "leaky_relu[negative_slope=0.2]")]),
    "in-place": (lambda: Module(nn.ReLU(inplace=True)), [("function", "relu")]),
    "hand-tanh": (lambda: Module(HandTanh()), [("function", "gelu_tanh")]),
    "hand-tanh-function": (lambda: Module(hand_tanh), [("", "gelu_tanh")]),
    "hand-quick": (lambda: Module(HandQuick()), [("function", "quick_gelu")]),
    "composed": (lambda: Module(F.softsign), [("", "softsign")]),
    "gated": (lambda: Module(Gated()), [("function", "silu")]),
    "twice": (lambda: Twice(Module(nn.GELU())), [("block.function", "gelu_erf")] * 2),
    "twice-by-hand": (lambda: Twice(Module(HandTanh())), [("block.function", "gelu_tanh")] * 2),
    "nested": (lambda: Nested(2), [("inner.inner", "gelu_erf"), ("inner", "gelu_erf"), ("", "gelu_erf")]),
    "residual": (lambda: Plain(lambda x: x + F.gelu(x)), [("", "gelu_erf")]),
    "in-a-row": (lambda: Plain(lambda x: F.silu(1 - F.gelu(x))), [("", "gelu_erf"), ("", "silu")]),
    "wrong-constant": (
        lambda: Plain(lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.0547 * x**3)))),
        [("", "None")],
    ),
    "scaled-by-ones": (lambda: Plain(lambda x: F.gelu(x) * torch.ones(WIDTH)), [("", "gelu_erf")]),
    "arithmetic": (lambda: Plain(lambda x: (x - x.mean()) * torch.rsqrt(x.var() + 1e-5)), []),
    "same-line": (lambda: Plain(lambda x: F.gelu(x) - F.gelu(2 * x)), [("", "gelu_erf")] * 2),
    "norm": (lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.SiLU(), nn.BatchNorm1d(WIDTH)), [("1", "silu")]),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, activation="gelu", batch_first=True),
        [("", "gelu_erf")],
    ),
}


@pytest.mark.parametrize("case", LABELLED)
def test_lists_and_replaces(case):
    build, expected = LABELLED[case]
    model = build().eval()
    x = some(2, 3, WIDTH) if case == "encoder" else some()
    found = parity.activations(model, {"x": x})
    assert told(found) == expected
    if not expected:
        return
    before, state = model(x), {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with parity.replace_activation(model, found, "hard_swish"):
        again = parity.activations(model, {"x": x})
        assert told(again) == [(scope, "hard_swish") for scope, _ in expected]
        assert not torch.equal(model(x), before)
        model(torch.cat([x, x]))
    assert torch.equal(model(x), before)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert not any("forward" in vars(module) for module in model.modules())


def test_entry_holds_the_numbers_of_the_input():
    model = Module(HandTanh()).eval()
    sets = [some(5, WIDTH), some(2, 3, WIDTH), np.full((1, WIDTH), np.nan, np.float32)]
    (site,) = parity.activations(model, [{"x": x} for x in sets])
    entering = torch.cat([model.first(x).reshape(-1) for x in sets[:2]]).double()
    assert site.count == entering.numel() == 11 * WIDTH
    assert site.nonfinite == WIDTH
    assert site.mean == pytest.approx(entering.mean().item())
    assert site.std == pytest.approx(entering.std(correction=0).item())
    assert (site.minimum, site.maximum) == (entering.min().item(), entering.max().item())
    assert site.operators[-1] == "aten.mul"
    file, line = site.source.rsplit(":", 1)
    assert file.endswith("test_activations_api.py")
    assert int(line) == hand_tanh.__code__.co_firstlineno + 1


def test_spread_survives_a_large_mean():
    data = 1e8 + np.arange(200_000, dtype=np.float64)
    moments = Moments.of(data)
    assert math.sqrt(moments.squares / moments.count) == pytest.approx(data.std(), rel=1e-9)


def test_table_names_module_line_variant_and_call():
    text = str(parity.activations(Twice(Module(nn.LeakyReLU(0.2))), (some(),)))
    assert "block.function" in text
    assert "leaky_relu[negative_slope=0.2]" in text
    assert "test_activations_api.py:" in text
    assert "2 of 2" in text
    assert "no activation" in str(parity.activations(nn.Linear(WIDTH, WIDTH), (some(),)))


class Reference(nn.Module):
    """What a replaced model should compute, built so from the start."""

    def __init__(self, model, function):
        super().__init__()
        self.first, self.last, self.function = model.first, model.last, function

    def forward(self, x):
        return self.last(self.function(self.first(x)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("function", [nn.ReLU, HandTanh, HandQuick, lambda: nn.ReLU(inplace=True), Upcast])
def test_gradients_are_those_of_a_model_built_so(function, dtype):
    model = Module(function()).to(dtype)
    built = (lambda x: F.gelu(x.float()).to(x.dtype)) if function is Upcast else F.gelu
    x = some().to(dtype)
    parity.replace_activation(model, parity.activations(model, (x,)), "gelu_erf")
    results = []
    for one in (model, Reference(model, built)):
        given = x.clone().requires_grad_()
        model.zero_grad()
        out = one(given)
        out.square().sum().backward()
        results.append([out, given.grad, *(parameter.grad.clone() for parameter in model.parameters())])
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


def test_training_with_dropout_and_other_shapes():
    model = nn.Sequential(Module(HandTanh()), nn.Dropout(0.5), nn.BatchNorm1d(WIDTH)).eval()
    parity.replace_activation(model, parity.activations(model, (some(),)), "silu")
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in (4, 9):
        optimizer.zero_grad()
        model(some(rows, WIDTH)).sum().backward()
        optimizer.step()


def test_listing_in_training_mode_changes_nothing():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.GELU(), nn.Dropout(0.5)).train()
    x = some()
    state, generator = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    assert told(parity.activations(model, (x,))) == [("2", "gelu_erf")]
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)


def test_bfloat16_model():
    model = Module(F.gelu).to(torch.bfloat16).eval()
    x = some().to(torch.bfloat16)
    (site,) = parity.activations(model, {"x": x})
    assert (site.dtype, str(site.variant)) == ("bfloat16", "gelu_erf")
    with parity.replace_activation(model, site, "gelu_tanh"):
        assert torch.equal(model(x), model.last(F.gelu(model.first(x), approximate="tanh")))


def test_one_call_of_several():
    model = Twice(Plain(nn.GELU()))
    x = some()
    first, second = parity.activations(model, (x,))
    assert (first.call, second.call, first.calls) == (0, 1, 2)
    with parity.replace_activation(model, second, "relu"):
        assert torch.equal(model(x), F.relu(F.gelu(x)))
        with parity.replace_activation(model, first, "silu"):
            assert torch.equal(model(x), F.relu(F.silu(x)))
        with pytest.raises(InputError, match="a part of it runs alone"):
            model.block(x)
        model.times = 3
        with pytest.raises(InputError, match=r"computed 3 times in this run and 2 times when it was\s+listed"):
            model(x)
    with parity.replace_activation(model, [first, second], "relu"):
        assert torch.equal(model(x), F.relu(x))
        assert torch.equal(model.block(x), F.relu(x))


def test_undone_in_any_order():
    for order in permutations(range(3)):
        model, x = Plain(F.gelu), some()
        found = parity.activations(model, (x,))
        variants = {"relu": F.relu, "silu": F.silu, "tanh": torch.tanh}
        handles = [parity.replace_activation(model, found, name) for name in variants]
        left = list(variants.values())
        for number in order:
            assert torch.equal(model(x), left[-1](x))
            handles[number].undo()
            handles[number].undo()
            left.remove(list(variants.values())[number])
            assert torch.equal(model(x), (left or [F.gelu])[-1](x))
        assert "forward" not in vars(model)


def test_copies_stay_replaced_and_pickles_are_refused():
    model, x = Module(nn.GELU()), some()
    with parity.replace_activation(model, parity.activations(model, (x,)), "relu"):
        twin = copy.deepcopy(model)
        with pytest.raises(InputError, match="cannot be pickled"):
            pickle.dumps(model)
        replaced = model(x)
    with torch.no_grad():
        model.first.weight.zero_()
    assert torch.equal(twin(x), replaced)
    pickle.dumps(model)


def test_sites_by_name_path_and_pattern():
    model, x = nn.Sequential(Module(nn.GELU()), Module(nn.GELU()), Module(nn.SiLU())), some()
    with pytest.raises(InputError, match="there is none yet"):
        parity.replace_activation(model, "0.*", "relu")
    found = parity.activations(model, (x,))
    assert [len(parity.replace_activation(model, one, "relu").sites) for one in ("0.*", "1.function", "*")] == [1, 1, 3]
    assert parity.replace_activation(model, [found[0].name, found[2]], "relu").sites == (found[0], found[2])
    with pytest.raises(InputError, match="no activation called 'nope'"):
        parity.replace_activation(model, "nope", "relu")
    with pytest.raises(InputError, match="No activation was chosen"):
        parity.replace_activation(model, [], "relu")
    with pytest.raises(InputError, match="no activation variant called"):
        parity.replace_activation(model, found, "geluu")
    with pytest.raises(InputError, match="a value and a gate"):
        parity.replace_activation(model, found, "swiglu")
    with pytest.raises(InputError, match="NoneType names no activation variant"):
        parity.replace_activation(model, found, None)
    for sites in (None, 3, [3]):
        with pytest.raises(InputError, match="names no activation of a model"):
            parity.replace_activation(model, sites, "relu")
    linear = nn.Linear(WIDTH, WIDTH)
    parity.activations(linear, (x,))
    with pytest.raises(InputError, match="ran no activation on the inputs"):
        parity.replace_activation(linear, "*", "relu")


def test_wrong_models_are_refused():
    model, x = Module(nn.GELU()), some()
    found = parity.activations(model, (x,))
    with pytest.raises(InputError, match="has no module 'function'"):
        parity.replace_activation(nn.Sequential(nn.Linear(2, 2)), found, "relu")
    with pytest.raises(InputError, match="is a SiLU here, and was a GELU"):
        parity.replace_activation(Module(nn.SiLU()), found, "relu")
    with pytest.raises(InputError, match="no model that is opened here"):
        parity.activations(object())
    with pytest.raises(InputError, match="does not say what inputs it takes"):
        parity.activations(model)
    with pytest.raises(InputError, match="There is no array in these inputs"):
        parity.activations(model, {})
    with pytest.raises(InputError, match="ExportedProgram cannot be listed"):
        parity.activations(torch.export.export(model, (x,)), (x,))
    with pytest.raises(InputError, match="does not run on these inputs"):
        parity.activations(model, {"x": some(3, 5)})


def test_a_replacement_that_is_not_met_is_told():
    model, x = nn.Sequential(nn.Linear(WIDTH, WIDTH), Switch()).eval(), some()
    parity.replace_activation(model, parity.activations(model, (x,)), "relu")
    model(x)
    model.train()
    with pytest.raises(InputError, match=r"was to be replaced by relu.*did not compute it as it did"):
        model(x)


def test_a_module_that_did_not_run_is_warned_of():
    model, x = Choice(), torch.ones(2, WIDTH)
    found = parity.activations(model, [{"x": x}, {"x": -x}])
    assert told(found) == [("up.function", "gelu_erf"), ("down.function", "silu")]
    parity.replace_activation(model, found[0], "relu")
    model(x)
    with pytest.warns(UserWarning, match="did not reach up.function/gelu"):
        model(-x)


def test_the_signature_of_a_replaced_model_is_its_own():
    model = Switch().eval()
    signature = inspect.signature(model.forward)
    with parity.replace_activation(model, parity.activations(model, (some(),)), "relu"):
        assert inspect.signature(model.forward) == signature


def test_a_run_that_fails_leaves_nothing_behind():
    model, x = Module(nn.GELU()), some()
    with parity.replace_activation(model, parity.activations(model, (x,)), "relu"):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(some(3, 5))
        assert torch.overrides._get_current_function_mode() is None
        assert torch.equal(model(x), model.last(F.relu(model.first(x))))


class HandGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.gelu(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_a_gradient_written_by_hand_is_refused():
    model, x = nn.Sequential(Module(HandGradient.apply), Module(nn.SiLU())), some()
    found = parity.activations(model, (x,))
    assert told(found) == [("0", "gelu_erf"), ("1.function", "silu")]
    with parity.replace_activation(model, found, "relu"):
        with torch.no_grad():
            assert torch.equal(
                model(x), model[1].last(F.relu(model[1].first(model[0].last(F.relu(model[0].first(x))))))
            )
        with pytest.raises(InputError, match="gradient is written by hand"):
            model(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_modules_are_listed_and_refused():
    model, x = nn.Sequential(nn.Linear(WIDTH, WIDTH), torch.jit.script(nn.GELU())).eval(), some()
    found = parity.activations(model, (x,))
    assert [str(site.variant) for site in found] == ["gelu_erf"]
    assert "Cannot be replaced: 1/gelu: no Python code calls it" in str(found)
    with pytest.raises(InputError, match="no Python code calls it"):
        parity.replace_activation(model, found, "relu")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_compiled_models_are_listed_and_refused():
    model, x = torch.compile(Module(nn.GELU())), some()
    found = parity.activations(model, (x,))
    assert told(found) == [("function", "gelu_erf")]
    with pytest.raises(InputError, match=r"torch\.compile made"):
        parity.replace_activation(model, found, "relu")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_replaced_model_is_exported_and_not_compiled():
    model, x = Module(HandTanh()).eval(), some()
    with parity.replace_activation(model, parity.activations(model, (x,)), "relu"):
        exported = torch.export.export(model, (x,)).module()
        assert torch.equal(exported(x), model(x))
        with pytest.raises(InputError, match="cannot be compiled"):
            torch.compile(model, backend="eager")(x)


class Checkpointed(nn.Module):
    def __init__(self, inner, reentrant):
        super().__init__()
        self.inner, self.reentrant = inner, reentrant

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant) if self.training else self.inner(x)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_modules(reentrant):
    model, x = Checkpointed(Module(HandTanh()), reentrant).eval(), some()
    parity.replace_activation(model, parity.activations(model, (x,)), "silu")
    gradients = []
    for training in (False, True):
        model.train(training)
        given = x.clone().requires_grad_()
        model(given).square().sum().backward()
        gradients.append(given.grad)
    assert torch.equal(*gradients)


def test_a_checkpointed_function_is_refused():
    class Model(nn.Module):
        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False) if self.training else self.inner(x)

        def inner(self, x):
            return F.gelu(x)

    model, x = Model().eval(), some()
    parity.replace_activation(model, parity.activations(model, (x,)), "silu")
    model(x)
    model.train()
    with pytest.raises(InputError, match=r"torch\.utils\.checkpoint"):
        model(x.requires_grad_())


def test_encoder_with_padding_takes_no_fused_path():
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, activation="gelu", batch_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nested tensors, which are not made here
        model = nn.TransformerEncoder(layer, 2).eval()
    x, padded = some(2, 3, WIDTH), torch.tensor([[False, False, True], [False, False, False]])
    found = parity.activations(model, {"src": x, "src_key_padding_mask": padded})
    assert told(found) == [("layers.0", "gelu_erf"), ("layers.1", "gelu_erf")]
    before = model(x, src_key_padding_mask=padded)
    with parity.replace_activation(model, found, "relu"):
        assert (model(x, src_key_padding_mask=padded) - before)[0, :2].abs().max() > 1e-3


def test_bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32
    )
    model = transformers.BertModel(config).eval()
    ids = torch.arange(12).reshape(2, 6)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    found = parity.activations(model, given)
    place = "encoder.layer.{}.intermediate.intermediate_act_fn"
    assert told(found) == [*((place.format(k), "gelu_erf") for k in range(3)), ("pooler.activation", "tanh")]
    with parity.replace_activation(model, "encoder.layer.[02].*", "gelu_tanh"):
        assert [str(site.variant) for site in parity.activations(model, given)][:3] == [
            "gelu_tanh",
            "gelu_erf",
            "gelu_tanh",
        ]
        original = transformers.BertModel(config).eval()
        original.load_state_dict(model.state_dict())
        report = parity.diff(original, model, given)
        (finding,) = report.findings
        assert (finding.rule, finding.expected, finding.observed) == ("activation-variant", "gelu_erf", "gelu_tanh")
    assert parity.diff(original, model, given).verdict == "pass"


def test_diff_of_a_replaced_chain():
    model, original, x = Module(HandTanh()).eval(), Module(HandTanh()).eval(), some(64, WIDTH)
    original.load_state_dict(model.state_dict())
    with parity.replace_activation(model, parity.activations(model, (x,)), "gelu_erf"):
        report = parity.diff(original, model, (x,))
        assert [(one.rule, one.observed) for one in report.findings] == [("activation-variant", "gelu_erf")]
    assert parity.diff(original, model, (x,)).verdict == "pass"


SINGLE = [name for name, formula in FORMULAS.items() if formula.arity == 1]
OTHERS = [
    parity.variant("softplus", threshold=20, beta=2),
    parity.variant("sqrt_softplus", threshold=20),
    parity.variant("hard_sigmoid", slope=0.2),
    parity.variant("hard_swish", slope=0.2),
    parity.variant("leaky_relu", negative_slope=0.3),
]


@pytest.fixture(scope="module")
def listed():
    return parity.activations(Plain(F.gelu), (torch.ones(2, 3, dtype=torch.float64),))


@pytest.mark.parametrize("variant", [*map(parity.variant, SINGLE), *OTHERS], ids=str)
def test_every_variant_in_torch_is_the_registered_function(listed, variant):
    model = Plain(F.gelu)
    x = torch.linspace(-9.03, 9.07, 400, dtype=torch.float64, requires_grad=True)
    with parity.replace_activation(model, listed, variant):
        out = model(x)
    out.sum().backward()
    entering = x.detach().numpy()
    np.testing.assert_allclose(out.detach().numpy(), variant.value(entering), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), variant.derivative(entering), rtol=1e-6, atol=1e-12)
