"""Scores of an attention that are scaled by another factor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from parity.diagnose.attention_scale import told

X = np.random.default_rng(0).standard_normal((2, 5, 12)).astype(np.float32)


def heads(x):
    return x.view(2, 5, 2, 6).transpose(1, 2)


@pytest.fixture
def fused(module):
    def make(**options):
        def forward(m, x):
            q, k, v = (heads(part(x)) for part in (m.q, m.k, m.v))
            return m.o(scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(2))

        return module(forward, **dict.fromkeys("qkvo", lambda: nn.Linear(12, 12)))

    return make


def composed(model, scale, before=1.0):
    w = {name: (part.weight.detach().numpy(), part.bias.detach().numpy()) for name, part in model.named_children()}

    def forward(x):
        q, k, v = ((x @ w[name][0].T + w[name][1]).reshape(2, 5, 2, 6) for name in "qkv")
        scores = jnp.einsum("bthd,bshd->bhts", q * before, k) * scale
        mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1), v).reshape(2, 5, 12)
        return mixed @ w["o"][0].T + w["o"][1]

    return forward


@pytest.mark.parametrize(
    ("scale", "before", "observed"),
    [(6**-0.5, 6**-0.5, "1/6"), (1.0, 1.0, "1"), (1.0, 12**-0.5, "1/sqrt(12)")],
)
def test_composed_with_another_factor(fused, diagnosed, scale, before, observed):
    (finding,) = diagnosed(fused(), composed(fused(), scale, before), x=X)
    assert (finding.rule, finding.expected, finding.observed) == ("attention-scale", "1/sqrt(6)", observed)


def test_the_factor_at_another_place(fused, diagnosed):
    assert not diagnosed(fused(), composed(fused(), 1.0, 6**-0.5), x=X)


def test_two_fused_operators(fused, diagnosed):
    (finding,) = diagnosed(fused(), fused(scale=0.25), x=X)
    assert (finding.rule, finding.expected, finding.observed) == ("attention-scale", "1/sqrt(6)", "1/4")


@pytest.mark.parametrize(
    ("scale", "width", "text"),
    [(1 / 8, 64, "1/sqrt(64)"), (1 / 64, 64, "1/64"), (2.0, 8, "2"), (0.3, 8, "0.3"), (8**0.5, 8, "sqrt(8)")],
)
def test_a_factor_as_it_is_written(scale, width, text):
    assert told(scale, width) == text
