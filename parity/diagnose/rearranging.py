"""Tensors that were taken to lie otherwise than they do: where one side's numbers are wrong, they no longer tell.

Heads before tokens or after them is seen by the numbers; of wrong ones another arrangement may come nearer by chance.
What is made of the tensor tells then: in the right arrangement it is fine.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from parity.align.alignment import Alignment, Pair
from parity.align.layout import arrangements
from parity.align.regions import find_region
from parity.layerwise.measuring import Layer, Measurer

TOLD: Final = frozenset({"input", "output", "map"})
"""Reasons of pairs whose arrangement was not found by numbers."""

MOST: Final = 24
"""Arrangements of one tensor that are tried."""


def rearranged(
    measurer: Measurer, alignment: Alignment, layers: Sequence[Layer], unexplained: Sequence[Layer]
) -> list[Layer] | None:
    """The layers with some tensors in another arrangement, in which what is made of them is fine; None where none is.

    Args:
        measurer: Of both sides.
        alignment: Its pairs are replaced by those in the other arrangement.
        layers: All of them.
        unexplained: Those that differ by no known cause.
    """
    wrong = {layer.region.pair.reference for layer in unexplained}
    fresh: dict[str, Layer] = {}
    for layer in unexplained:
        pair = layer.region.pair
        if pair.reference not in wrong or pair.reason in TOLD:
            continue
        readers = [one for one in layers if one.reads({pair.reference})]
        if any(one.region.pair.reference in wrong for one in readers):
            found = _fitting(measurer, alignment, pair, readers)
            fresh.update({one.region.pair.reference: one for one in found})
            wrong -= {one.region.pair.reference for one in found}
    if not fresh:
        return None
    return [fresh.get(layer.region.pair.reference, layer) for layer in layers]


def _fitting(measurer: Measurer, alignment: Alignment, pair: Pair, readers: Sequence[Layer]) -> list[Layer]:
    """The pair's layer and its readers, measured again in the first arrangement in which no reader is guilty."""
    views = measurer.reference, measurer.candidate
    others = (one for one in arrangements(pair.layout.source, pair.layout.shape) if one != pair.layout)
    for layout in islice(others, MOST):
        other = replace(pair, layout=layout)
        _exchange(alignment, pair, other)
        again = list(measurer.measure([find_region(*views, alignment, one.region.pair) for one in readers]))
        if not any(one.guilty for one in again):
            return [*measurer.measure([find_region(*views, alignment, other)]), *again]
        _exchange(alignment, other, pair)
    return []


def _exchange(alignment: Alignment, old: Pair, new: Pair) -> None:
    alignment.drop(old)
    alignment.add(new)
