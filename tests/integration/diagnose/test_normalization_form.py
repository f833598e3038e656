"""Another formula of a normalisation."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32) + 0.3
SCALE = (0.2 * np.random.default_rng(1).standard_normal(8)).astype(np.float32)
BIAS = np.linspace(-1, 1, 8, dtype=np.float32)


@pytest.fixture
def normalised(module):
    made = module(lambda m, x: m.norm(x).tanh(), norm=lambda: nn.LayerNorm(8))
    made.norm.weight.data, made.norm.bias.data = torch.tensor(1 + SCALE), torch.tensor(BIAS)
    return made


def composed(*, centred=True, correction=0, bias=BIAS):
    def forward(x):
        y = x - x.mean(-1, keepdims=True) if centred else x
        spread = jnp.sqrt((y * y).sum(-1, keepdims=True) / (8 - correction) + 1e-5)
        return jnp.tanh(y / spread * (1 + SCALE) + bias)

    return forward


@pytest.mark.parametrize(
    ("change", "observed"),
    [
        ({"centred": False}, "mean not subtracted"),
        ({"correction": 1}, "variance over n - 1"),
        ({"bias": np.float32(0)}, "without its bias"),
    ],
)
def test_one_thing_of_the_formula(normalised, diagnosed, change, observed):
    (finding,) = diagnosed(normalised, composed(**change), x=X)
    assert (finding.rule, finding.observed) == ("normalization-form", observed)
    assert finding.location["reference"]["scope"] == "norm"


def test_the_same_formula(normalised, diagnosed):
    assert not diagnosed(normalised, composed(), x=X)


def root_mean_square(scale):
    return lambda x: jnp.tanh(x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale)


def test_a_scale_that_lost_its_one(diagnosed):
    findings = diagnosed(root_mean_square(1 + SCALE), root_mean_square(SCALE), x=X)
    assert [(one.rule, one.expected, one.observed) for one in findings if one.rule == "normalization-form"] == [
        ("normalization-form", "scale 1 + w", "scale w")
    ]


def test_a_scale_of_other_numbers_is_no_formula(diagnosed):
    findings = diagnosed(root_mean_square(1 + SCALE), root_mean_square(1.1 + 1.2 * SCALE), x=X)
    assert findings
    assert "normalization-form" not in {one.rule for one in findings}


def test_an_epsilon_after_the_root(module, diagnosed):
    def forward(m, x):
        return m.out((x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + 0.01))

    def linear():
        return nn.Linear(8, 8)

    reference = module(lambda m, x: m.out(m.norm(x)), norm=lambda: nn.LayerNorm(8, 0.01), out=linear)
    (finding,) = diagnosed(reference, module(forward, out=linear), x=X)
    assert (finding.rule, finding.observed) == ("normalization-form", "epsilon added to the root")
