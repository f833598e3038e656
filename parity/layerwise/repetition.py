"""Does a model give the same outputs twice, and if not, where does it first not?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.align.view import GraphView
from parity.findings import Finding
from parity.layerwise.location import location, words
from parity.sides import Side

INFERENCE: Final = {
    "torch": " (model.eval())",
    "transformers": " (model.eval())",
    "jax": " (deterministic=True in flax)",
    "tensorflow": " (training=False)",
    "onnxruntime": " (call model.eval(), then export again; a Dropout node's training_mode has to be false)",
}
"""How a framework is told so."""


def same_outputs(first: Mapping[str, Array], second: Mapping[str, Array]) -> bool:
    """Whether two runs gave the same numbers; NaN in the same place counts as the same."""
    return set(first) <= set(second) and all(
        np.array_equal(first[name], second[name], equal_nan=first[name].dtype.kind in "fc") for name in first
    )


def nondeterminism(side: Side, given: Mapping[str, Array], folder: Path) -> Finding:
    """The finding for a side whose two runs differ, at the first operator whose results differ."""
    one = side.record(given, folder / "first", {})
    two = side.record(given, folder / "second", {})
    place = _first_difference(one, two) or _first_draw(one)
    spread = f"Two runs of the {side.role} on the same input differ"
    of_candidate = side.role == "candidate"
    return Finding(
        rule="nondeterminism",
        severity="error" if of_candidate else "warning",
        message=f"{spread}, first at {words(place)}." if place else f"{spread}.",
        fix=f"Put the {side.role} in inference mode{INFERENCE.get(side.adapter, '')}: no dropout, no sampling.",
        location={side.role: place} if place else {},
        expected="repeatable",
        observed="two runs differ",
    )


def _first_draw(view: GraphView) -> dict[str, object] | None:
    """The first operator that draws random numbers: two recordings from the same seed agree, two runs need not."""
    return next((location([site], site.outputs[0]) for site in view.trace.sites if site.kind == "random"), None)


def _first_difference(one: GraphView, two: GraphView) -> dict[str, object] | None:
    for site in one.trace.sites:
        for name in site.outputs:
            if name in one.trace and name in two.trace:
                first, second = one.trace.array(name), two.trace.array(name)
                if first.shape != second.shape or first.tobytes() != second.tobytes():
                    return location([site], name)
    return None
