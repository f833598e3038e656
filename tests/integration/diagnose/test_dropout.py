"""Dropout left on with a key that is the same each time."""

import numpy as np
import pytest
from torch import nn

from parity.jobs.diff import diff

X = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


def candidate(jax, reference, drop):
    w, v = (layer.weight.detach().numpy().T for layer in (reference.first, reference.last))

    def model(x):
        return jax.numpy.tanh(drop(x @ w) @ v)

    return model


def reference(module):
    parts = {"first": lambda: nn.Linear(16, 16, bias=False), "last": lambda: nn.Linear(16, 16, bias=False)}
    return module(lambda m, x: m.last(m.first(x)).tanh(), **parts)


@pytest.mark.parametrize("spelt", ["where", "product"])
def test_a_key_that_is_the_same_each_time(module, jax, spelt):
    def drop(x):
        kept = jax.random.bernoulli(jax.random.key(1), 0.8, x.shape)
        return jax.numpy.where(kept, x / 0.8, 0.0) if spelt == "where" else x * (kept / 0.8)

    model = reference(module)
    report = diff(model, candidate(jax, model, drop), [{"x": X}])
    assert [(one.rule, one.observed) for one in report.findings] == [("nondeterminism", "dropout")]
    assert report.verdict == "mismatch"


def test_a_mask_that_is_not_drawn_is_no_dropout(module, jax):
    kept = np.random.default_rng(2).random(X.shape) < 0.8
    model = reference(module)
    report = diff(model, candidate(jax, model, lambda x: jax.numpy.where(kept, x / 0.8, 0.0)), [{"x": X}])
    assert report.verdict == "mismatch"
    assert "nondeterminism" not in {one.rule for one in report.findings}


def test_a_draw_that_changes_nothing_is_quiet(module, jax):
    def drop(x):
        return jax.numpy.where(jax.random.bernoulli(jax.random.key(1), 1.0, x.shape), x, 0.0)

    model = reference(module)
    assert not diff(model, candidate(jax, model, drop), [{"x": X}]).findings
