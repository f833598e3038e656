"""The same transformer in JAX and Flax."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

HEADS = 2
with np.load(Path(__file__).with_name("weights.npz")) as data:
    W = {name: np.array(data[name]) for name in data.files}


class Block(nn.Module):
    exact: bool

    @nn.compact
    def __call__(self, x):
        def heads(y):
            return y.reshape(y.shape[0], y.shape[1], HEADS, -1).transpose(0, 2, 1, 3)

        y = nn.LayerNorm(epsilon=1e-5, name="ln1")(x)
        q, k, v = (heads(nn.Dense(16, name=name)(y)) for name in "qkv")
        weights = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / jnp.sqrt(jnp.float32(q.shape[-1])), axis=-1)
        x = x + nn.Dense(16, name="o")((weights @ v).transpose(0, 2, 1, 3).reshape(x.shape))
        y = nn.Dense(64, name="up")(nn.LayerNorm(epsilon=1e-5, name="ln2")(x))
        y = jax.nn.gelu(y, approximate=False) if self.exact else jax.nn.gelu(y)
        return x + nn.Dense(16, name="down")(y)


class Transformer(nn.Module):
    exact: bool

    @nn.compact
    def __call__(self, x):
        for layer in range(2):
            x = Block(self.exact, name=f"blocks_{layer}")(x)
        return nn.Dense(5, name="head")(x)


def _variables():
    def linear(name):
        return {"kernel": W[f"{name}.weight"].T, "bias": W[f"{name}.bias"]}

    def norm(name):
        return {"scale": W[f"{name}.weight"], "bias": W[f"{name}.bias"]}

    blocks = {
        f"blocks_{layer}": {
            **{name: linear(f"blocks.{layer}.{name}") for name in ("q", "k", "v", "o", "up", "down")},
            **{name: norm(f"blocks.{layer}.{name}") for name in ("ln1", "ln2")},
        }
        for layer in range(2)
    }
    return {"params": {**blocks, "head": linear("head")}}


def build():
    return Transformer(exact=True), _variables()


def build_default():
    return Transformer(exact=False), _variables()
