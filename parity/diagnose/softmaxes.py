"""Softmaxes in a graph, fused or composed of exponentials over their sum."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from parity.align.view import MOVES, GraphView
from parity.diagnose.numbers import Float64
from parity.graph import Site


@dataclass(frozen=True, slots=True)
class Softmax:
    """One softmax.

    Attributes:
        sites: Its operators.
        source: The tensor that goes in.
        target: The one that comes out.
        axes: Over which its results sum to one.
        rank: Number of axes of the source.
        logarithm: It gives the logarithm.
    """

    sites: tuple[Site, ...]
    source: str
    target: str
    axes: tuple[int, ...]
    rank: int
    logarithm: bool = False


def axes_in_words(axes: tuple[int, ...], rank: int) -> str:
    """Axes of a tensor as one would say them."""
    if axes == (rank - 1,):
        return "last axis"
    if len(axes) > 1 and axes == tuple(range(axes[0], rank)):
        return f"flattened from axis {axes[0]}"
    return ("axis " if len(axes) == 1 else "axes ") + ", ".join(map(str, axes))


def softmaxes(view: GraphView, sites: Sequence[Site]) -> Iterator[Softmax]:
    """Softmaxes whose last operator is one of some sites, in execution order."""
    for site in sites:
        if site.kind in {"softmax", "log_softmax"}:
            yield _fused(view, site)
        elif site.kind == "sub" and len(site.inputs) == 2:
            found = _composed_logarithm(view, site)
            if found is not None:
                yield found
        elif site.kind in {"div", "mul"} and len(site.inputs) == 2:
            found = _composed(view, site)
            if found is not None:
                yield found


def _rank(view: GraphView, tensor: str) -> int:
    entry = view.entry(tensor)
    return 0 if entry is None else len(entry.shape)


def _fused(view: GraphView, site: Site) -> Softmax:
    rank = max(1, _rank(view, site.inputs[0]))
    first = int(site.attributes.get("axis", -1)) % rank
    axes = tuple(range(first, rank)) if site.attributes.get("flattened") else (first,)
    return Softmax((site,), site.inputs[0], site.outputs[0], axes, rank, site.kind == "log_softmax")


def _composed(view: GraphView, site: Site) -> Softmax | None:
    """Exponentials divided by their sum, or multiplied by its reciprocal."""
    for above, below in (site.inputs, site.inputs[::-1]):
        exponential = _behind(view, above, "exp")
        inverse = _behind(view, below, "reciprocal") if site.kind == "mul" else None
        if inverse is None and site.kind == "mul":
            continue
        total = _behind(view, below if inverse is None else inverse.inputs[0], "sum")
        if exponential is None or total is None or _behind(view, total.inputs[0], "exp") != exponential:
            continue
        source = _unshifted(view, exponential.inputs[0])
        return Softmax((exponential, total, site), source, site.outputs[0], *_folded(view, total))
    return None


def _composed_logarithm(view: GraphView, site: Site) -> Softmax | None:
    """Numbers less the logarithm of the sum of their exponentials."""
    logarithm = _behind(view, site.inputs[1], "log")
    total = _behind(view, logarithm.inputs[0], "sum") if logarithm is not None else None
    exponential = _behind(view, total.inputs[0], "exp") if total is not None else None
    if logarithm is None or total is None or exponential is None:
        return None
    source = _unshifted(view, exponential.inputs[0])
    if _unshifted(view, site.inputs[0]) != source:
        return None
    sites = (exponential, total, logarithm, site)
    return Softmax(sites, source, site.outputs[0], *_folded(view, total), logarithm=True)


def _folded(view: GraphView, total: Site) -> tuple[tuple[int, ...], int]:
    """Axes over which a sum is taken, and how many there are."""
    rank = _rank(view, total.inputs[0])
    return tuple(sorted(int(axis) % rank for axis in total.attributes.get("axes", range(rank)))), rank


def _behind(view: GraphView, tensor: str, kind: str) -> Site | None:
    """The site of a kind that makes a tensor, before it is moved, repeated or guarded."""
    for _ in range(6):
        site = view.site_of(tensor)
        if site is None or site.kind == kind:
            return site
        if site.kind not in MOVES | {"expand", "add", "maximum", "clip"} or not site.inputs:
            return None
        tensor = next((one for one in site.inputs if one in view.dynamic), site.inputs[0])
    return None


def _unshifted(view: GraphView, tensor: str) -> str:
    """What the largest element was taken from before the exponential."""
    site = view.site_of(tensor)
    if site is not None and site.kind == "sub" and _behind(view, site.inputs[1], "max") is not None:
        return site.inputs[0]
    return tensor


def softmax(x: Float64, axes: tuple[int, ...]) -> Float64:
    """Exponentials of ``x`` over their sum along some axes; 0 where a row is all minus infinity."""
    largest = np.max(x, axis=axes, keepdims=True)
    raised = np.exp(x - np.where(np.isfinite(largest), largest, 0.0))
    total = raised.sum(axis=axes, keepdims=True)
    return np.asarray(raised / np.where(total == 0, 1.0, total))
