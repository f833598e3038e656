"""Second look at guilty layers: a pair that was no pair, or that both sides merely hold in another form, is let go.

Two models may be the same although a tensor between them is not: query and key rows may both be permuted, a bias added
one operator later. Then what comes next is the same function of what came before, exactly; a true fault goes on.
"""

from collections.abc import Sequence
from typing import Final

from parity.align.alignment import Alignment
from parity.align.regions import find_region
from parity.layerwise.measuring import Layer, Measurer

FALLEN: Final = 10.0
"""Factor by which the difference must fall where a region is looked at from farther back."""

NOISE: Final = 3.0
"""Excess up to which a layer is fine where one of the two functions cannot be computed."""

SAME: Final = 0.5
"""Distance of two functions, in noise floors, up to which they are the same; a fault that is only masked exceeds it."""


def acquit(measurer: Measurer, alignment: Alignment, layers: Sequence[Layer]) -> list[Layer]:
    """The layers without those that were guilty by a wrong pair; these pairs are dropped from the alignment."""
    known = {layer.region.pair.reference: layer for layer in layers}
    outputs = set(measurer.reference.trace.ends.outputs.values())
    for layer in layers:
        name = layer.region.pair.reference
        if known[name].status not in {"function", "overflow"} or name in outputs:
            continue
        readers = [one for one in known.values() if any(pair.reference == name for pair in one.region.boundary)]
        if not readers:
            continue
        pair = layer.region.pair
        alignment.drop(pair)
        merged = list(
            measurer.measure(
                [find_region(measurer.reference, measurer.candidate, alignment, one.region.pair) for one in readers]
            )
        )
        if all(_same(one) for one in merged):
            del known[name]
            known.update({one.region.pair.reference: one for one in merged})
        else:
            alignment.add(pair)
    wider = [_wider(measurer, alignment, layer) if layer.status == "function" else layer for layer in known.values()]
    return sorted(wider, key=lambda one: measurer.reference.order(one.region.pair.reference))


def _wider(measurer: Measurer, alignment: Alignment, layer: Layer) -> Layer:
    """A guilty layer from farther back, where that makes it the same function; else as it is.

    Two tensors may hold the same numbers up to rounding and be each other's counterpart crosswise. Where their
    difference is taken, nothing but that rounding is left, and it is of the opposite sign.
    """
    boundary = [pair.reference for pair in layer.region.boundary if pair.reason != "input"]
    if not boundary or layer.measure is None or layer.measure.gap is None:
        return layer
    region = find_region(measurer.reference, measurer.candidate, alignment, layer.region.pair, uncut=boundary)
    (merged,) = measurer.measure([region])
    gap = merged.measure.gap if merged.measure is not None else None
    return merged if gap is not None and gap < layer.measure.gap / FALLEN and _same(merged) else layer


def _same(layer: Layer) -> bool:
    if layer.measure is None:
        return layer.unequal == 0
    gap = layer.measure.gap_excess
    near = layer.measure.excess <= NOISE if gap is None else gap <= SAME
    return layer.status == "ok" and near
