"""Pairs by weights: two operators that read the same parameter do the same job, whatever has gone wrong before them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from parity.align.alignment import CONFIDENCE, Alignment, Pair
from parity.align.layout import Layout, find_layout, likely_layout, moved_axis
from parity.align.view import GraphView
from parity.graph import Site
from parity.trace.signature import Signature

READERS: Final = {
    "matmul": "linear",
    "conv": "linear",
    "conv_transpose": "linear",
    "embedding": "table",
    "gather": "table",
    "layer_norm": "norm",
    "rms_norm": "norm",
    "batch_norm": "norm",
    "group_norm": "norm",
    "instance_norm": "norm",
    "recurrent": "recurrent",
    "mul": "mul",
}
"""Kinds that a weight anchors, and the family within which they can be one another's counterpart."""

LEAST: Final = 4
"""Elements from which on a weight can be known again."""

SAME_WEIGHT: Final = 2e-3
"""Distance of signatures up to which weights are the same: half precision rounds them this far."""

NEAR: Final = 0.1
"""Distance up to which numbers alone tell an arrangement; beyond, one of many may come nearer by chance."""

LOOSE: Final = 0.9
"""Distance up to which the arrangement of two anchored tensors is believed although their numbers differ."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A site that reads a weight.

    Attributes:
        site: The operator call.
        weight: Name of the weight.
        data: Name of the tensor that it is applied to, before whatever moves that; for a convolution, whose channels
            have their place, after.
        result: Its result, with a bias that another site adds.
    """

    site: Site
    weight: str
    data: str
    result: str


def align_by_weight(reference: GraphView, candidate: GraphView, alignment: Alignment) -> int:
    """Adds the results and operands of sites that read the same weight; returns how many pairs."""
    ours, theirs = _readers(reference), _readers(candidate)
    added = 0
    for (family, weight), other in _same_weights(reference, candidate, ours, theirs):
        mine, yours = ours[family, weight], theirs[family, other]
        if len(mine) != len(yours):
            continue
        for one, two in zip(mine, yours, strict=True):
            results = _results(reference, candidate, one, two)
            if results is not None:
                channels = _channels(one.site, "result"), _channels(two.site, "result")
                added += add_if_like((reference, candidate), alignment, results, "weights", channels)
            if _scale(one.site) == _scale(two.site):
                channels = _channels(one.site, "data"), _channels(two.site, "data")
                added += add_if_like((reference, candidate), alignment, (one.data, two.data), "weights", channels)
    return added


def _results(reference: GraphView, candidate: GraphView, one: Reader, two: Reader) -> tuple[str, str] | None:
    """The tensors that correspond behind two readers: both with a bias or both without; None where only one has it.

    Likewise where only one has an activation inside it.
    """
    views, readers = (reference, candidate), (one, two)
    if _activates(one.site) != _activates(two.site):
        return None
    plain = [reader.site.outputs[0] for reader in readers]
    inside = [_has_bias(view, reader.site) for view, reader in zip(views, readers, strict=True)]
    later = [reader.result != tensor for reader, tensor in zip(readers, plain, strict=True)]
    if inside[0] == inside[1]:
        return (one.result, two.result) if later[0] and later[1] and not inside[0] else (plain[0], plain[1])
    if not all(one or two for one, two in zip(inside, later, strict=True)):
        return None
    return (plain[0] if inside[0] else one.result), (plain[1] if inside[1] else two.result)


def made_alike(views: tuple[GraphView, GraphView], names: tuple[str, str]) -> bool:
    """Whether two tensors come from operators that both have a bias and an activation inside them, or neither."""
    sites = [view.site_of(name) for view, name in zip(views, names, strict=True)]
    if any(site is None or READERS.get(site.kind) != "linear" for site in sites):
        return True
    inside = [(_has_bias(view, site), _activates(site)) for view, site in zip(views, sites, strict=True) if site]
    return inside[0] == inside[1]


def _scale(site: Site) -> float:
    """The number by which an operator multiplies the product: an engine may have moved it there from its operand."""
    return float(site.attributes.get("alpha", 1.0)) if site.kind == "matmul" else 1.0


def _activates(site: Site) -> bool:
    """Whether a product or convolution has an activation inside it."""
    return READERS[site.kind] == "linear" and bool(site.attributes.get("activation"))


def _channels(site: Site, end: str) -> int | None:
    """The axis on which a convolution has the channels, of its ``data`` or its ``result``; None for other operators."""
    if READERS[site.kind] != "linear" or not site.kind.startswith("conv"):
        return None
    told = site.attributes
    if "layouts" in told:
        return int(told["layouts"][0 if end == "data" else 2][1])
    return -1 if str(told.get("data_format", "")).endswith("C") or told.get("channels_last") else 1


def add_if_like(
    views: tuple[GraphView, GraphView],
    alignment: Alignment,
    names: tuple[str, str],
    reason: str,
    channels: tuple[int | None, int | None] = (None, None),
) -> bool:
    """Adds a pair whose roles are known to be the same, if the one can be arranged as the other.

    Args:
        views: Reference and candidate.
        alignment: Added to.
        names: The tensor on either side.
        reason: Of the pair; a key of `CONFIDENCE`.
        channels: On which axis either has the channels of an image, where that is known.
    """
    reference, candidate = views
    one, two = names
    if one in alignment.of_reference or two in alignment.of_candidate:
        return False
    if not all(name in view.dynamic and name in view.trace for view, name in zip(views, names, strict=True)):
        return False
    if reference.trace.tensors[one].whole != candidate.trace.tensors[two].whole:
        return False
    first, second = reference.trace.array(one), candidate.trace.array(two)
    if first.size != second.size or not first.size:
        return False
    fit = find_layout(first, second, LOOSE)
    if fit is None or fit[1] > NEAR:
        likely = moved_axis(first.shape, second.shape, *channels) or likely_layout(first, second)
        if likely is None and fit is None and _long(first.shape) != _long(second.shape):
            return False
        fit = (likely, LOOSE) if likely else fit or (Layout.reshaped(first.shape, second.shape), LOOSE)
    return alignment.add(Pair(one, two, fit[0], reason, CONFIDENCE[reason]))


def _long(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size > 1]


def _readers(view: GraphView) -> dict[tuple[str, str], list[Reader]]:
    """Readers of each weight by family, in execution order."""
    found = defaultdict(list)
    for site in view.trace.sites:
        family = READERS.get(site.kind)
        if family is None or not site.outputs or site.outputs[0] not in view.dynamic:
            continue
        if site.attributes.get("layers", 1) != 1:  # its operand is that of the first layer, its result that of the last
            continue
        operands = [name for name in site.inputs if name]
        roots = [view.origin(name) for name in operands]
        weights = [name for name in roots if name in view.trace.weights and _known_again(view, name)]
        data = [name for name in (operands if site.kind.startswith("conv") else roots) if name in view.dynamic]
        if weights and data:
            found[family, weights[0]].append(Reader(site, weights[0], data[0], _with_bias(view, site)))
    return dict(found)


def _known_again(view: GraphView, weight: str) -> bool:
    signature = view.trace.weights[weight].signature
    return signature.count >= LEAST and signature.spread > 1e-6 * signature.rms


def _same_weights(
    reference: GraphView,
    candidate: GraphView,
    ours: dict[tuple[str, str], list[Reader]],
    theirs: dict[tuple[str, str], list[Reader]],
) -> Iterator[tuple[tuple[str, str], str]]:
    """Keys of readers of the reference with the name of the one weight of the candidate that is the same."""
    by_count = defaultdict(list)
    for family, weight in theirs:
        by_count[family, candidate.trace.weights[weight].signature.count].append(weight)
    taken: set[tuple[str, str]] = set()
    for family, weight in ours:
        signature = reference.trace.weights[weight].signature
        like = [
            other
            for other in by_count[family, signature.count]
            if _distance(signature, candidate.trace.weights[other].signature) <= SAME_WEIGHT
            and (family, other) not in taken
        ]
        if len(like) > 1:
            like = sorted(like, key=lambda one: _distance(signature, candidate.trace.weights[one].signature))
            first, second = (_distance(signature, candidate.trace.weights[one].signature) for one in like[:2])
            if second <= max(10 * first, 1e-9):
                continue
        if like:
            taken.add((family, like[0]))
            yield (family, weight), like[0]


def _distance(a: Signature, b: Signature) -> float:
    unit = max(a.spread, b.spread) or 1.0
    return max(a.distance(b), abs(a.low - b.low) / unit, abs(a.high - b.high) / unit)


def _has_bias(view: GraphView, site: Site) -> bool:
    """Whether the operator itself adds a vector of weights: one of at least two weights, or beside a data operand."""
    roots = [view.origin(name) for name in site.inputs if name]
    weights = [name for name in roots if name in view.trace.weights]
    vectors = [name for name in weights if len(_long(view.trace.weights[name].shape)) <= 1]
    return READERS[site.kind] == "linear" and len(weights) > 1 and bool(vectors)


def _with_bias(view: GraphView, site: Site) -> str:
    """The tensor behind a weighted operator: its own result, or that of the addition of a bias that follows it."""
    result = site.outputs[0]
    at = result
    while True:
        readers = view.consumers.get(at, [])
        if len(readers) != 1:
            return result
        after = view.trace.sites[readers[0]]
        if after.kind in {"reshape", "identity"}:
            at = after.outputs[0]
            continue
        others = [name for name in after.inputs if name != at]
        if after.kind == "add" and len(others) == 1 and others[0] not in view.dynamic:
            bias = view.trace.weights.get(view.root(others[0]))
            if bias is not None and bias.signature.count > 1:
                return after.outputs[0]
        return result
