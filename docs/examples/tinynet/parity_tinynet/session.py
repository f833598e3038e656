"""An opened model: a list of operator calls that can be run whole, or in part on given numbers."""

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from parity.adapter import Array, Sink, bind
from parity.dtypes import FLOAT_DTYPES
from parity.graph import InputSpec, Site, Traced
from tinynet import FUNCTIONS, Layer, run

KINDS = {"dense": "matmul", "gelu": "gelu", "relu": "relu"}
"""tinynet's functions in the words of `parity.graph`, by which causes are looked for."""


class TinynetSession:
    """Satisfies `parity.adapter.Session`."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = list(layers)
        self._sites = _sites(self._layers)
        self._by_name = {site.name: (site, layer) for site, layer in zip(self._sites, self._layers, strict=True)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """There is nothing to close."""

    def inputs(self) -> dict[str, InputSpec]:
        """One input: rows as wide as the first matrix is high."""
        width = next((len(layer.weights["weight"]) for layer in self._layers if layer.function == "dense"), None)
        return {"x": InputSpec(dtype="float32", shape=(None, width))}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As production runs it."""
        return {"y": run(self._layers, bind(inputs, ["x"])["x"])}

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """The same, telling of each layer as it is made."""
        x = bind(inputs, ["x"])["x"]
        for site, layer in zip(self._sites, self._layers, strict=True):
            x = layer(x)
            sink(site, {site.outputs[0]: x})
        return Traced(inputs={"x": "x"}, outputs={"y": self._sites[-1].outputs[0]}, named_outputs=True)

    def weights(self) -> dict[str, Array]:
        """Parameters by the names that the sites read."""
        return {f"{layer.name}.{key}": value for layer in self._layers for key, value in layer.weights.items()}

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> dict[str, Array]:
        """Some of the sites alone; a given tensor stands in the place of the one that a site would make."""
        dtype = FLOAT_DTYPES["float32" if precision == "native" else precision]
        values = {name: np.asarray(array).astype(dtype) for name, array in {**self.weights(), **given}.items()}
        for site, layer in (self._by_name[name] for name in sites):
            (made,) = site.outputs
            if made not in given:
                values[made] = FUNCTIONS[layer.function](*(values[name] for name in site.inputs), **layer.options)
        return {name: values[name] for name in wanted}


def _sites(layers: Sequence[Layer]) -> list[Site]:
    sites: list[Site] = []
    for layer in layers:
        before = sites[-1].outputs[0] if sites else "x"
        form = layer.options.get("form", "erf")
        sites.append(
            Site(
                name=layer.name,
                op=layer.function,
                kind=KINDS[layer.function],
                scope="",
                inputs=(before, *(f"{layer.name}.{key}" for key in layer.weights)),
                outputs=(f"{layer.name}.out",),
                attributes={"approximate": "none" if form == "erf" else form} if layer.function == "gelu" else {},
            )
        )
    return sites
