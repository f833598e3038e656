"""Tensors inside a region, by their numbers: what they hold, and how one side's lie in the other's layout."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.layout import Layout, find_layout
from parity.align.view import MOVES, GraphView
from parity.diagnose.case import Part
from parity.dtypes import FLOAT_DTYPES
from parity.graph import Site

Float64 = NDArray[np.float64]

SAME: Final = 1e-5
"""Largest difference, relative to the largest number, up to which two float64 tensors hold the same: constants that
were rounded to float32 on the way stay below."""


def held(part: Part, name: str) -> Array:
    """A tensor or weight of a region, what is made there in float64.

    Raises:
        UnsupportedPrecisionError: An operator that it needs cannot be computed so.
    """
    if name in part.given:
        return part.given[name]
    return part.weight(name) if name in part.view.trace.weights else part.value(name)


def wide(part: Part, name: str) -> Float64:
    """Likewise, all in float64."""
    return held(part, name).astype(np.float64)


def available(part: Part) -> list[str]:
    """Floating-point tensors that the region's sites read or make, in execution order."""
    names = dict.fromkeys(name for site in part.sites for name in (*site.inputs, *site.outputs) if name)
    entries = part.view.trace.tensors
    return [name for name in names if name in entries and entries[name].dtype in FLOAT_DTYPES]


def made(part: Part) -> list[str]:
    """Floating-point tensors that the region's sites make, in execution order."""
    outputs = {name for site in part.sites for name in site.outputs}
    return [name for name in available(part) if name in outputs]


def same(one: Float64, two: Float64) -> bool:
    """Whether two tensors hold the same numbers up to rounded constants, whatever axes of one element they have."""
    if one.size != two.size or not one.size:
        return False
    a, b = one.reshape(-1), two.reshape(-1)
    fine = np.isfinite(a)
    if not (np.array_equal(fine, np.isfinite(b)) and np.array_equal(a[~fine], b[~fine], equal_nan=True)):
        return False
    a, b = a[fine], b[fine]
    size = max(float(np.abs(a).max()), float(np.abs(b).max())) if a.size else 0.0
    return bool((np.abs(a - b) <= SAME * size).all())


def holder(part: Part, numbers: Float64, names: Sequence[str]) -> str | None:
    """The first of some tensors that holds these numbers."""
    entries = part.view.trace.tensors
    likely = [name for name in names if entries[name].signature.count == numbers.size]
    return next((name for name in likely if same(wide(part, name), numbers)), None)


def mapping(ours: Float64, theirs: Float64) -> Layout | None:
    """The layout in which both sides hold the same numbers."""
    if ours.size != theirs.size:
        return None
    found = find_layout(ours, theirs, SAME)
    return found[0] if found is not None else None


def single(part: Part, name: str) -> float | None:
    """The number of a scalar of the model, behind casts and reshapes."""
    return part.scalar(part.view.root(name)) if name else None


def readers(view: GraphView, tensor: str) -> Iterator[tuple[Site, int]]:
    """Sites that read a tensor, behind whatever moves or repeats it, with the place at which they do."""
    for at in view.consumers.get(tensor, ()):
        site = view.trace.sites[at]
        if site.kind in MOVES | {"expand"} and site.outputs and site.inputs[0] == tensor:
            yield from readers(view, site.outputs[0])
            continue
        yield from ((site, place) for place, name in enumerate(site.inputs) if name == tensor)
