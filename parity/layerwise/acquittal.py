"""Second look at guilty layers: a pair that was no pair, or that both sides merely hold in another form, is let go.

Two models may be the same although tensors between them are not: query and key rows may both be permuted, a bias added
one operator later, values doubled and the matrix that reads them halved. Then what comes next is the same function of
what came before, exactly; a true fault goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from parity.align.alignment import Alignment, Pair
from parity.align.by_value import STRICT
from parity.align.layout import distance
from parity.align.regions import find_region
from parity.compare.local import rms
from parity.dtypes import FLOATS
from parity.layerwise.alignment import with_folder
from parity.layerwise.measuring import GAP, Layer, Measurer

FALLEN: Final = 10.0
"""Factor by which the difference must fall where a region is looked at from farther back."""

NOISE: Final = 3.0
"""Excess up to which a layer is fine where one of the two functions cannot be computed."""

SAME: Final = 0.5
"""Distance of two functions, in noise floors, up to which they are the same; a fault that is only masked exceeds it."""

FILLING: Final = -1e4
"""What masks fill in is at most this: the least that is in use, as float16 holds no -1e9."""

Layers = Mapping[str, Layer]
"""Layers by their tensor in the reference."""


def acquit(measurer: Measurer, alignment: Alignment, layers: Sequence[Layer]) -> list[Layer]:
    """The layers without those that were guilty by a wrong pair; these pairs are dropped from the alignment."""
    known = {layer.region.pair.reference: layer for layer in layers}
    outputs = set(measurer.reference.trace.ends.outputs.values())
    for name in [*known]:
        if name not in known or known[name].status not in {"function", "overflow"}:
            continue
        for held in _held_otherwise(known, name):
            if held & outputs:
                break
            merged = _without(measurer, alignment, known, held)
            if merged:
                known = {one: layer for one, layer in known.items() if one not in held} | merged
                break
    wider = [_wider(measurer, alignment, layer) if layer.status == "function" else layer for layer in known.values()]
    return sorted(wider, key=lambda one: measurer.reference.order(one.region.pair.reference))


def _held_otherwise(known: Layers, name: str) -> Iterator[set[str]]:
    """Tensors that both sides may hold in another form: a guilty one alone, then with all that its difference reaches.

    How far it reaches is told by the free runs: a tensor that is far apart there, and reads one of those, is of them.
    """
    yield {name}
    held = {name}
    for one, layer in known.items():  # in the reference's order
        if layer.propagated > STRICT and layer.reads(held):
            held.add(one)
    if len(held) > 1:
        yield held


def _without(measurer: Measurer, alignment: Alignment, known: Layers, held: set[str]) -> dict[str, Layer]:
    """The layers next to some tensors, once these are no pairs; they stay pairs, and none is told, if that is no help.

    Whole numbers and truth values next to floating-point numbers are no help: another function may give the same ones.
    """
    readers = {name: one for name, one in known.items() if name not in held and one.reads(held)}
    floating = any(known[name].measure is not None for name in held)
    dropped = [known[name].region.pair for name in held]
    for pair in dropped:
        alignment.drop(pair)
    regions = [
        find_region(measurer.reference, measurer.candidate, alignment, one.region.pair) for one in readers.values()
    ]
    merged = {layer.region.pair.reference: layer for layer in measurer.measure(regions)}
    fine = all(
        (_same(one) or _smaller(one, known[name])) and (one.measure is not None or not floating)
        for name, one in merged.items()
    )
    shown = fine and (_only_filling(measurer, dropped) or any(_shows(measurer, one, held) for one in readers.values()))
    if merged and shown:
        return merged
    for pair in dropped:
        alignment.add(pair)
    return {}


def _shows(measurer: Measurer, layer: Layer, held: set[str]) -> bool:
    """Whether the reference's own region would give another result with the candidate's numbers for some tensors.

    Where it would not, what comes next is the same because it hides the difference, as a saturated softmax does, and
    not because the difference is taken back.
    """
    if measurer.teacher is None or measurer.pupil is None or layer.measure is None:
        return True
    plain = measurer.request(layer.region, candidate=False)
    theirs = {
        pair.reference: with_folder(pair.source(for_candidate=False, of_candidate=True), measurer.candidate)
        for pair in layer.region.boundary
        if pair.reference in held
    }
    plans = [plain, {**plain, "given": {**plain["given"], **theirs}}]
    made = [message.arrays.get("float64") for message in measurer.teacher.regions(plans, ["float64"])]
    if made[0] is None or made[1] is None:
        return True
    with np.errstate(invalid="ignore"):  # infinities of a mask
        apart = np.nan_to_num(np.subtract(made[0], made[1], dtype=np.float64))
    return rms(apart.reshape(-1)) > GAP * layer.measure.floor


def _only_filling(measurer: Measurer, pairs: Sequence[Pair]) -> bool:
    """Whether some tensors differ only by what masks fill in on both sides: it is there to be hidden by a softmax."""
    for pair in pairs:
        ours = pair.layout.apply(measurer.reference.trace.read(pair.reference)).reshape(-1)
        theirs = measurer.candidate.trace.read(pair.candidate).reshape(-1)
        if not {ours.dtype, theirs.dtype} <= FLOATS:
            return False
        filled = (ours <= FILLING) & (theirs <= FILLING)
        if not filled.any() or distance(ours[~filled], theirs[~filled]) > STRICT:
            return False
    return True


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


def _smaller(layer: Layer, before: Layer) -> bool:
    """Whether a guilty layer owed most of its difference to a wrong pair; what is left is a fault of its own."""
    if before.status != "function" or layer.measure is None or before.measure is None:
        return False
    gap, former = layer.measure.gap, before.measure.gap
    return gap is not None and former is not None and gap < former / FALLEN


def _same(layer: Layer) -> bool:
    if layer.measure is None:
        return layer.unequal == 0
    gap = layer.measure.gap_excess
    near = layer.measure.excess <= NOISE if gap is None else gap <= SAME
    return layer.status == "ok" and near
