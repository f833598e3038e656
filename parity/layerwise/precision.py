"""In which type a model is meant to be computed, and a region of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from parity.align.view import GraphView

WIDTH: Final = {"float64": 0, "float32": 1, "bfloat16": 2, "float16": 2}
"""Floating-point types, the wider the smaller; of equal rank the first met counts."""


def declared_dtype(view: GraphView, option: str | None) -> str:
    """The type that a model declares: by option, or that in which most of its weights are stored.

    A model that takes or gives a 16-bit type is of that type, although an engine may keep its weights in float32.
    Without floating-point weights it is the narrowest type of the ends.
    """
    if option:
        return option
    sizes: Counter[str] = Counter()
    for entry in view.trace.weights.values():
        if entry.dtype in WIDTH and entry.signature.count > 1:  # numbers of formulas are of no type
            sizes[entry.dtype] += entry.signature.count
    ends = _dtypes(view, [*view.trace.ends.inputs.values(), *view.trace.ends.outputs.values()])
    if not sizes or WIDTH[narrowest(ends)] == WIDTH["float16"]:
        return narrowest(ends)
    return sizes.most_common(1)[0][0]


def narrowest(dtypes: Iterable[str]) -> str:
    """The narrowest floating-point type among these; float32 where there is none."""
    known = [one for one in dtypes if one in WIDTH]
    return max(known, key=WIDTH.__getitem__) if known else "float32"


def region_dtype(view: GraphView, declared: str, ends: Iterable[str]) -> str:
    """The type in which a region is meant to be computed.

    A model that declares a 16-bit type may round to it anywhere; a type narrower than the declared one excuses nothing.

    Args:
        view: The candidate's trace.
        declared: Its `declared_dtype`.
        ends: Names of the tensors at the region's boundary and of the one that it makes.
    """
    found = _dtypes(view, ends)
    wider = found and all(WIDTH[one] < WIDTH[declared] for one in found)
    return narrowest(found) if wider and WIDTH[declared] < WIDTH["float16"] else declared


def _dtypes(view: GraphView, names: Iterable[str]) -> list[str]:
    """Floating-point types among those of some tensors."""
    entries = (view.entry(name) for name in names)
    return [entry.dtype for entry in entries if entry is not None and entry.dtype in WIDTH]
