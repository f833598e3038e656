"""Other positions of an attention are masked."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch.nn.functional import scaled_dot_product_attention

from parity.jobs.diff import DiffOptions, diff

X = np.random.default_rng(0).standard_normal((3, 6, 8)).astype(np.float32)
MASK = np.ones((3, 6), np.int64)
MASK[0, 4:], MASK[1, 3:] = 0, 0


def composed(masked):
    def forward(x, *mask):
        scores = masked(jnp.einsum("btd,bsd->bts", x, x) * 8**-0.5, *mask)
        return jax.nn.softmax(scores, axis=-1) @ jnp.tanh(x)

    return forward


def seen(shift):
    return lambda scores: jnp.where(jnp.tril(jnp.ones((6, 6), bool), shift), scores, -1e9)


@pytest.fixture
def causal(module):
    def forward(_, x):
        x = x[:, None]
        return scaled_dot_product_attention(x, x, x.tanh(), is_causal=True)[:, 0]

    return module(forward)


@pytest.mark.parametrize(
    ("masked", "observed"), [(lambda scores: scores, "no mask"), (seen(1), "causal shifted by one")]
)
def test_later_positions(causal, diagnosed, masked, observed):
    (finding,) = diagnosed(causal, composed(masked), x=X)
    assert (finding.rule, finding.expected, finding.observed) == ("attention-mask", "causal", observed)


def test_the_same_positions_filled_otherwise(causal, diagnosed):
    assert not diagnosed(causal, composed(seen(0)), x=X)


@pytest.fixture
def padded(module):
    def forward(_, x, mask):
        scores = x @ x.transpose(1, 2) * 8**-0.5 + (1 - mask[:, None].float()) * -1e4
        return torch.softmax(scores, -1) @ x.tanh()

    return module(forward)


@pytest.mark.parametrize(
    ("masked", "observed"),
    [
        (lambda scores, mask: scores, "mask input unused"),
        (lambda scores, mask: scores + mask[:, None] * -1e4, "mask inverted"),
        (lambda scores, mask: scores * mask[:, None], "scores multiplied by the mask"),
    ],
)
def test_padding(padded, diagnosed, masked, observed):
    (finding,) = diagnosed(padded, composed(masked), x=X, mask=MASK)
    assert (finding.rule, finding.expected, finding.observed) == ("attention-mask", "padding masked", observed)


def test_padding_masked_on_both_sides(padded, diagnosed):
    other = composed(lambda scores, mask: jnp.where(mask[:, None] == 1, scores, -jnp.inf))
    assert not diagnosed(padded, other, x=X, mask=MASK)


def added(graph, fill):
    nodes = [
        helper.make_node("Cast", ["mask"], ["seen"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["seen", "one"], ["row"]),
        helper.make_node("Sub", ["unit", "row"], ["padding"]),
        helper.make_node("Mul", ["padding", "fill"], ["added"], "filled"),
        helper.make_node("Transpose", ["x"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Add", ["scores", "added"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["weights"], axis=-1),
        helper.make_node("Tanh", ["x"], ["values"]),
        helper.make_node("MatMul", ["weights", "values"], ["y"]),
    ]
    weights = {"one": np.array([1]), **{name: np.float32(x) for name, x in (("unit", 1), ("scale", 8**-0.5))}}
    return graph(nodes, {"x": X, "mask": MASK}, {**weights, "fill": np.float32(fill)})


@pytest.mark.parametrize(
    ("fill", "wrong"), [(-10, [("attention-mask", "padding masked", "only -10 added")]), (-1e9, [])]
)
def test_a_number_that_is_added(padded, graph, diagnosed, fill, wrong):
    found = diagnosed(padded, added(graph, fill), x=X, mask=MASK)
    assert [(one.rule, one.expected, one.observed) for one in found] == wrong


def test_what_is_added_by_itself(padded, graph):
    options = DiffOptions(candidate_optimization="none", mapped=[("mul_1", "added")])
    (finding,) = diff(padded, added(graph, -10), [{"x": X, "mask": MASK}], options=options).findings
    told = finding.rule, finding.expected, finding.observed
    assert told == ("attention-mask", "filled with -1e+04", "filled with -10")
    assert "filled" in finding.location["candidate"]["names"]
