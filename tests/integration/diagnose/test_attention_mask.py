"""Other positions of an attention are masked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

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
