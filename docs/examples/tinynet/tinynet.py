"""tinynet: a framework of three functions, whose models are chains of layers in a JSON file.

[{"name": "up", "function": "dense", "weight": [[…]], "bias": […]}, {"name": "act", "function": "gelu"}]
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

VERSION = "0.3"

_erf = np.frompyfunc(math.erf, 1, 1)


def dense(x: Array, weight: Array, bias: Array) -> Array:
    """The product with a matrix, and a vector added."""
    return np.asarray(x @ weight + bias)


def gelu(x: Array, form: str = "erf") -> Array:
    """GELU, exact or by tanh."""
    if form == "tanh":
        gate = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        gate = np.asarray(_erf(x / math.sqrt(2))).astype(x.dtype)
    return np.asarray(0.5 * x * (1 + gate))


def relu(x: Array) -> Array:
    """The larger one of x and 0."""
    return np.maximum(x, 0)


FUNCTIONS: Mapping[str, Callable[..., Array]] = {"dense": dense, "gelu": gelu, "relu": relu}


@dataclass(frozen=True)
class Layer:
    """One step: a function by name, its weights and its options."""

    name: str
    function: str
    weights: Mapping[str, Array]
    options: Mapping[str, Any]

    def __call__(self, x: Array) -> Array:
        """What the layer makes of x."""
        return FUNCTIONS[self.function](x, **self.weights, **self.options)


def load(file: str | Path) -> list[Layer]:
    """The layers of a model, weights in float32."""
    layers = []
    for said in json.loads(Path(file).read_text(encoding="utf-8")):
        name, function = said.pop("name"), said.pop("function")
        weights = {key: np.array(value, np.float32) for key, value in said.items() if isinstance(value, list)}
        layers.append(Layer(name, function, weights, {key: said[key] for key in said.keys() - weights.keys()}))
    return layers


def run(layers: list[Layer], x: Array) -> Array:
    """The model's output."""
    for layer in layers:
        x = layer(x)
    return x
