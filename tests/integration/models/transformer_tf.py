"""The same transformer in Keras on TensorFlow."""

from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

HEADS = 2
with np.load(Path(__file__).with_name("weights.npz")) as data:
    W = {name: np.array(data[name]) for name in data.files}


def _block(x, layer, activation):
    def dense(name, units):
        return layers.Dense(units, name=f"blocks_{layer}_{name}")

    def heads(y):
        return ops.transpose(ops.reshape(y, (-1, y.shape[1], HEADS, 8)), (0, 2, 1, 3))

    y = layers.LayerNormalization(epsilon=1e-5, name=f"blocks_{layer}_ln1")(x)
    q, k, v = (heads(dense(name, 16)(y)) for name in "qkv")
    weights = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / np.sqrt(8).astype(np.float32), axis=-1)
    y = ops.reshape(ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)), (-1, x.shape[1], 16))
    x = x + dense("o", 16)(y)
    y = dense("up", 64)(layers.LayerNormalization(epsilon=1e-5, name=f"blocks_{layer}_ln2")(x))
    return x + dense("down", 16)(activation(y))


def _with_weights(activation):
    inputs = keras.Input((6, 16), name="x")
    x = inputs
    for layer in range(2):
        x = _block(x, layer, activation)
    model = keras.Model(inputs, layers.Dense(5, name="head")(x))
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dense):
            name = layer.name.replace("blocks_0_", "blocks.0.").replace("blocks_1_", "blocks.1.")
            layer.set_weights([W[f"{name}.weight"].T, W[f"{name}.bias"]])
        elif isinstance(layer, keras.layers.LayerNormalization):
            name = layer.name.replace("blocks_0_", "blocks.0.").replace("blocks_1_", "blocks.1.")
            layer.set_weights([W[f"{name}.weight"], W[f"{name}.bias"]])
    return model


def build():
    return _with_weights(lambda y: ops.gelu(y, approximate=False))


def build_default():
    return _with_weights(ops.gelu)
