"""A rotary embedding of another form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

X = np.random.default_rng(0).standard_normal((2, 5, 16)).astype(np.float32)


def angles(base):
    return (np.arange(5)[:, None] / base ** (np.arange(0, 8, 2) / 8)).astype(np.float32)


def halves(x, cosine, sine, joined):
    first, second = x[..., :4], x[..., 4:]
    return joined([first * cosine - second * sine, second * cosine + first * sine], -1)


@pytest.fixture
def reference(module):
    turn = torch.tensor(angles(10000.0))

    def forward(m, x):
        q, k, v = (part(x).view(2, 5, 2, 8).transpose(1, 2) for part in (m.q, m.k, m.v))
        q, k = (halves(one, turn.cos(), turn.sin(), torch.cat) for one in (q, k))
        return m.o(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    return module(forward, **dict.fromkeys("qkvo", lambda: nn.Linear(16, 16, bias=False)))


def pairs(x, cosine, sine, joined):
    first, second = x[..., ::2], x[..., 1::2]
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return jnp.stack(turned, -1).reshape(x.shape)


def ported(model, form, base=10000.0, sign=1):
    w = {name: part.weight.detach().numpy().T for name, part in model.named_children()}
    turn = angles(base)[:, None]

    def forward(x):
        q, k, v = ((x @ w[name]).reshape(2, 5, 2, 8) for name in "qkv")
        q, k = (form(one, np.cos(turn), sign * np.sin(turn), jnp.concatenate) for one in (q, k))
        scores = jnp.einsum("bthd,bshd->bhts", q, k) * np.float32(8**-0.5)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, axis=-1), v).reshape(2, 5, 16) @ w["o"]

    return forward


@pytest.mark.parametrize(
    ("form", "change", "words"),
    [
        (pairs, {}, ("rotate half", "interleaved pairs")),
        (halves, {"base": 500.0}, ("theta 10000", "theta 500")),
        (halves, {"sign": -1}, ("turned forwards", "turned backwards")),
    ],
)
def test_another_form(reference, diagnosed, form, change, words):
    (finding,) = diagnosed(reference, ported(reference, form, **change), x=X)
    assert (finding.rule, finding.expected, finding.observed) == ("rotary-form", *words)


def test_the_same_form(reference, diagnosed):
    assert not diagnosed(reference, ported(reference, halves), x=X)


def test_permuted_weights_that_match_the_other_pairing(reference, diagnosed):
    order = np.arange(16).reshape(2, 2, 4).transpose(0, 2, 1).reshape(-1)
    other = ported(reference, pairs)
    free = dict(zip(other.__code__.co_freevars, (cell.cell_contents for cell in other.__closure__), strict=True))
    free["w"].update({name: free["w"][name][:, order] for name in "qk"})
    assert not diagnosed(reference, other, x=X)


class Rotated(nn.Module):
    """Attention whose pairs are taken by a function; both spellings have operators of the same names in between."""

    def __init__(self, taken, joined) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias=False) for _ in range(4))
        self.taken, self.joined = taken, joined

    def turned(self, x):
        turn = torch.tensor(angles(10000.0))
        first, second = self.taken(x)
        one = first * turn.cos() - second * turn.sin()
        return self.joined(one, first * turn.sin() + second * turn.cos())

    def forward(self, x):
        q, k, v = (part(x).view(2, 5, 2, 8).transpose(1, 2) for part in (self.q, self.k, self.v))
        return self.o(scaled_dot_product_attention(self.turned(q), self.turned(k), v).transpose(1, 2).flatten(2))


def test_operators_of_the_same_names_are_no_findings_of_their_own(diagnosed) -> None:
    by_halves = Rotated(lambda x: x.chunk(2, -1), lambda one, two: torch.cat([one, two], -1))
    by_pairs = Rotated(lambda x: (x[..., ::2], x[..., 1::2]), lambda one, two: torch.stack([one, two], -1).flatten(-2))
    (found,) = diagnosed(by_halves.eval(), by_pairs.eval(), x=X)
    assert (found.rule, found.expected, found.observed) == ("rotary-form", "rotate half", "interleaved pairs")
