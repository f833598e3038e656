"""Attention in a region, fused or composed: products of queries and keys, their scale, the mask, the softmax.

A composed one is found from its softmax backwards: the path of pointwise operators to the product of two tensors that
depend on the inputs. Numbers on that path are its scale, what else comes in is its mask.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from parity.adapter import Array
from parity.align.view import MOVES, GraphView
from parity.diagnose.case import Part
from parity.diagnose.numbers import Float64, held, made, same, wide
from parity.diagnose.softmaxes import Softmax, softmax, softmaxes
from parity.graph import LAYOUT, POINTWISE, Site

LONGEST: Final = 64
"""Operators at most that are looked at between a softmax and its product."""


@dataclass(frozen=True, slots=True)
class Path:
    """From the product of queries and keys to their softmax, in one side's graph.

    Attributes:
        product: The operator that multiplies them.
        tensors: From what it makes to what the softmax reads.
        sites: The operators between these, one fewer.
        scale: By which numbers of the model multiply the bare product, before and after it.
        softmax: Where it ends.
        width: Numbers of one head.
    """

    product: Site
    tensors: tuple[str, ...]
    sites: tuple[Site, ...]
    scale: float
    softmax: Softmax
    width: int

    def masking(self, view: GraphView) -> int | None:
        """Place in `sites` of the first operator that brings in more than a number."""
        for k, site in enumerate(self.sites):
            if site.kind in {"add", "sub", "mul", "where", "maximum", "minimum"} and factor(view, site) is None:
                return k
        return None


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention of a region with its numbers.

    Attributes:
        sites: Its operators.
        scores: Scaled products, before any mask.
        logits: What the softmax reads, in whole or as far as the region goes.
        axis: The keys' axis of both.
        scale: By which numbers of the model multiply the bare products, in the whole model.
        width: Numbers of one head.
        fused: It is one operator.
        named: Tensors of a composed one: that which holds the scores, and that which holds the logits.
        later: Factor that comes after the mask.
        values: Of a fused one: what the softmax is multiplied by, batch, heads, keys, width.
        target: Of a fused one: the tensor that it makes.
        masked: Operators of a composed one that bring in the mask.
    """

    sites: tuple[Site, ...]
    scores: Float64
    logits: Float64
    axis: int
    scale: float
    width: int
    fused: bool = False
    named: tuple[str, str] = ("", "")
    later: float = 1.0
    values: Float64 | None = None
    target: str = ""
    masked: tuple[Site, ...] = ()

    def put_scores(self, scores: Float64, overrides: dict[str, Array]) -> None:
        """Puts other scores in the place of its own; the mask stays."""
        if not self.fused:
            overrides[self.named[0]] = scores / self.later
            return
        fine = np.isfinite(self.logits)
        self.put_logits(np.where(fine, self.logits + (scores - self.scores), self.logits), overrides)

    def put_logits(self, logits: Float64, overrides: dict[str, Array]) -> None:
        """Puts other logits in the place of its own."""
        if not self.fused:
            overrides[self.named[1]] = logits
        else:
            self.put_weights(softmax(logits, (3,)), overrides)

    def put_weights(self, weights: Float64, overrides: dict[str, Array]) -> None:
        """Puts other softmaxes in the place of a fused operator's own."""
        if self.values is not None:
            overrides[self.target] = _finished(weights, self.values, self.sites[0])


def paths(view: GraphView, sites: Sequence[Site]) -> Iterator[Path]:
    """Paths to the softmaxes whose last operator is among some sites."""
    for one in softmaxes(view, sites):
        found = _path(view, one.source, set())
        if found is None:
            continue
        product, between = found
        tensors = (product.outputs[0], *(site.outputs[0] for site in between))
        inner = [value for site in between if (value := factor(view, site)) is not None]
        scale = math.prod(inner) * _side_scale(view, product) * float(product.attributes.get("alpha", 1.0))
        yield Path(product, tensors, tuple(between), scale, one, _width(view, product))


def _path(view: GraphView, tensor: str, seen: set[str]) -> tuple[Site, list[Site]] | None:
    """The product behind a tensor, with the operators between."""
    site = view.site_of(tensor)
    if site is None or tensor in seen or len(seen) >= LONGEST:
        return None
    seen.add(tensor)
    dynamic = [name for name in site.inputs if name in view.dynamic]
    if site.kind == "matmul":
        return (site, []) if len(dynamic) > 1 else None
    if site.kind not in POINTWISE | LAYOUT | {"expand", "slice"}:
        return None
    for name in dict.fromkeys(dynamic):
        found = _path(view, name, seen)
        if found is not None:
            return found[0], [*found[1], site]
    return None


def number(view: GraphView, name: str) -> float | None:
    """The number that a tensor of one element holds."""
    entry = view.entry(name) if name else None
    if entry is None or entry.signature.count != 1:
        return None
    return float(entry.signature.low)


def factor(view: GraphView, site: Site) -> float | None:
    """By which number a site multiplies its other input; None where it does not."""
    if site.kind not in {"mul", "div"} or len(site.inputs) != 2:
        return None
    first, second = (number(view, name) for name in site.inputs)
    if second is not None and first is None:
        return second if site.kind == "mul" else 1.0 / second if second else None
    return first if site.kind == "mul" and second is None else None


def _side_scale(view: GraphView, product: Site) -> float:
    """Factor of queries and keys before their product."""
    total = 1.0
    for name in product.inputs[:2]:
        tensor = name
        while (site := view.site_of(tensor)) is not None:
            value = factor(view, site)
            if value is not None:
                total *= value
                tensor = next(one for one in site.inputs if number(view, one) is None)
            elif site.kind in MOVES | {"expand"}:
                tensor = site.inputs[0]
            else:
                break
    return total


def _width(view: GraphView, product: Site) -> int:
    """How many products are summed for one score."""
    entry = view.entry(product.inputs[0])
    if entry is None or not entry.shape:
        return 1
    contracting = product.attributes.get("contracting")
    if contracting:
        return math.prod(entry.shape[axis] for axis in contracting[0])
    equation = str(product.attributes.get("equation", ""))
    if "->" in equation and "." not in equation:
        inputs, output = equation.replace(" ", "").split("->")
        first = inputs.split(",")[0]
        return math.prod(size for letter, size in zip(first, entry.shape, strict=False) if letter not in output)
    return entry.shape[-1]


def attentions(part: Part) -> list[Attention]:
    """Attentions of a region whose numbers are known, in execution order."""
    found = [one for site in part.sites if site.kind == "attention" if (one := _fused(part, site)) is not None]
    return found + [one for path in _through(part) if (one := _composed(part, path)) is not None]


def _through(part: Part) -> Iterator[Path]:
    """Paths of the model that go through the region, or end in it."""
    inside = {name for site in part.sites for name in site.outputs}
    yield from (
        path
        for path in paths(part.view, part.view.trace.sites)
        if path.softmax.target in inside or inside.intersection(path.tensors)
    )


def _composed(part: Part, path: Path) -> Attention | None:
    known = {*part.given, *made(part)}
    reached = [k for k, name in enumerate(path.tensors) if name in known]
    if not reached:
        return None
    last = reached[-1]
    first = next((k for k in range(last, -1, -1) if path.tensors[k] in part.given), reached[0])
    masking = path.masking(part.view)
    at = last if masking is None else min(max(masking, first), last)
    scores, logits = path.tensors[at], path.tensors[last]
    later = [value for site in path.sites[at:last] if (value := factor(part.view, site)) is not None]
    entry = part.view.entry(logits)
    rank = 0 if entry is None else len(entry.shape)
    axis = path.softmax.axes[-1] if rank == path.softmax.rank else rank - 1
    own = {site.name for site in part.sites}
    sites = [path.product, *path.sites, *path.softmax.sites]
    return Attention(
        sites=tuple(site for site in sites if site.name in own),
        scores=wide(part, scores) * math.prod(later),
        logits=wide(part, logits),
        axis=axis,
        scale=path.scale,
        width=path.width,
        named=(scores, logits),
        later=math.prod(later),
        masked=tuple(site for site in path.sites[at:last] if factor(part.view, site) is None),
    )


def _fused(part: Part, site: Site) -> Attention | None:
    """A fused attention; None where its numbers are not those of queries, keys, values and a mask."""
    mask = site.inputs[3] if len(site.inputs) > 3 else ""
    if len(site.inputs) < 3 or not all(site.inputs[:3]) or any(site.inputs[4:]):
        return None
    q, k, v = (_heads(wide(part, name), site, place) for place, name in enumerate(site.inputs[:3]))
    if any(one.ndim != 4 for one in (q, k, v)) or q.shape[-1] != k.shape[-1] or q.shape[1] % k.shape[1]:
        return None
    k, v = (np.repeat(one, q.shape[1] // one.shape[1], axis=1) for one in (k, v))
    scale = float(site.attributes.get("scale", q.shape[-1] ** -0.5))
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
    logits = _masked(scores, part, mask, causal=bool(site.attributes.get("causal")))
    if logits is None or not same(_finished(softmax(logits, (3,)), v, site), wide(part, site.outputs[0])):
        return None
    return Attention(
        sites=(site,),
        scores=scores,
        logits=logits,
        axis=3,
        scale=scale * _side_scale(part.view, site),
        width=q.shape[-1],
        fused=True,
        values=v,
        target=site.outputs[0],
    )


def _heads(x: Float64, site: Site, place: int) -> Float64:
    """Batch, heads, positions, width."""
    if x.ndim != 3:
        return x
    count = _head_count(site.attributes, place)
    return (
        x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3) if count and x.shape[-1] % count == 0 else x[:, None]
    )


def _head_count(attributes: Any, place: int) -> int:
    names = ("q_num_heads", "num_heads") if place == 0 else ("kv_num_heads", "num_heads")
    return next((int(attributes[name]) for name in names if attributes.get(name)), 0)


def _masked(scores: Float64, part: Part, mask: str, *, causal: bool) -> Float64 | None:
    logits = scores
    if mask:
        numbers = held(part, mask)
        if numbers.ndim > scores.ndim:
            return None
        logits = np.where(numbers, scores, -np.inf) if numbers.dtype == bool else scores + numbers.astype(np.float64)
    if causal:
        before = np.tri(scores.shape[-2], scores.shape[-1]) > 0
        logits = np.where(before, logits, -np.inf)
    return logits


def _finished(weights: Float64, values: Float64, site: Site) -> Float64:
    """What a fused attention makes of its softmaxes, in its own shape."""
    result: Float64 = np.matmul(weights, values)
    if _head_count(site.attributes, 0):
        return result.transpose(0, 2, 1, 3).reshape(result.shape[0], result.shape[2], -1)
    return result
