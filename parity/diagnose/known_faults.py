"""Known faults that a recorded model can be given, to see whether a comparison of it would show them.

Activations, normalisations, weights of products, heads of attention, masks: found by the structure of the run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from parity.align.view import GraphView
from parity.diagnose.attention import paths
from parity.diagnose.case import Part
from parity.diagnose.chains import Activation
from parity.diagnose.norms import Norm, fused, roots
from parity.diagnose.numbers import readers
from parity.diagnose.power import alternative
from parity.errors import ParityError
from parity.graph import NORMALIZATIONS, Site
from parity.layerwise.location import location
from parity.measure.mutations import Dropped, Mutation, OtherActivation, OtherEpsilon, OtherWeights, Unmasked
from parity.sides import Side

EPSILON: Final = 10.0
"""Factor between the epsilon that a normalisation has and the other one: 1e-5 and 1e-6 are taken for one another."""

LEAST_EPSILON: Final = 1e-6
"""What takes the place of a smaller epsilon: 1e-12 and 1e-13 are the same in every type."""

HEAD: Final = 1.05
"""By which the weights of one head are multiplied."""

BITS: Final = {"float64": 24, "float32": 8, "float16": 4, "bfloat16": 4}
"""Significant bits to which a weight is rounded, by its type; those of the next narrower one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """One fault that a reference can be given.

    Attributes:
        kind: In words, as a report has it.
        rules: By which a comparison may call it.
        place: Where, as `parity.layerwise.location.location` tells it.
        tensor: The first tensor that is another one.
        mutation: Makes what makes it.
        advice: What inputs would show it, where these do not.
    """

    kind: str
    rules: tuple[str, ...]
    place: dict[str, Any]
    tensor: str
    mutation: Callable[[], Mutation]
    advice: str


def known_faults(view: GraphView, side: Side, activations: Sequence[Activation]) -> dict[str, list[KnownFault]]:
    """Every fault of these kinds that a model can be given, by kind.

    Args:
        view: Its recorded run.
        side: The model.
        activations: Those of it.
    """
    kinds = {
        "another activation": _activations(view, activations),
        "another epsilon": _epsilons(view, side),
        "a weight rounded": _rounded(view, side),
        "a head scaled": _heads(view, side),
        "a mask dropped": _masks(view),
    }
    return {kind: list(found) for kind, found in kinds.items()}


def _activations(view: GraphView, activations: Sequence[Activation]) -> Iterator[KnownFault]:
    for one in activations:
        other, chain = alternative(one.variant), one.chain
        if one.variant is None or other is None or chain.biases or _is_read_inside(view, one):
            continue
        last = chain.sites[-1]
        yield KnownFault(
            kind=f"{other.name} in the place of {one.name}",
            rules=("activation-variant", "activation-parameter"),
            place=location(chain.sites, chain.target),
            tensor=chain.target,
            mutation=partial(
                OtherActivation,
                site=last.name,
                hidden=tuple(site.name for site in chain.sites[:-1]),
                source=chain.source,
                variant=other.name,
                scale=one.scale,
            ),
            advice=f"numbers at which {one.name} and {other.name} differ more",
        )


def _is_read_inside(view: GraphView, one: Activation) -> bool:
    """Whether others read what lies between the ends of an activation."""
    own = {view.by_name[site.name] for site in one.chain.sites}
    inner = [name for site in one.chain.sites[:-1] for name in site.outputs if name]
    return any(at not in own for name in inner for at in view.consumers.get(name, ()))


def _epsilons(view: GraphView, side: Side) -> Iterator[KnownFault]:
    for site in view.trace.sites:
        if site.kind in NORMALIZATIONS and site.outputs[0] in view.dynamic:
            norm = _fused_norm(view, side, site)
            if norm is not None:
                yield _fused_epsilon(site, norm)
    part = Part(view, side, view.trace.sites, {}, "")
    seen = {""}
    for root in roots(part):
        if root.weight not in seen and root.epsilon and root.tensor in view.dynamic:
            seen.add(root.weight)  # several may share it
            numbers = np.full(view.trace.weights[root.weight].shape, _other_epsilon(root.epsilon))
            yield _epsilon_fault(root.sites, root.epsilon, OtherWeights(name=root.weight, numbers=numbers))


def _fused_norm(view: GraphView, side: Side, site: Site) -> Norm | None:
    if any(name in view.dynamic for name in site.inputs[1:] if name):  # a sum of several is normalised
        return None
    given = {name: view.trace.read(name) for name in site.inputs if name in view.trace.tensors}
    try:
        norm = fused(Part(view, side, (site,), given, site.outputs[0]), site)
    except ParityError:
        return None
    return norm if norm is not None and norm.form.epsilon and not norm.form.correction else None


def _fused_epsilon(site: Site, norm: Norm) -> KnownFault:
    form = norm.form
    mutation = OtherEpsilon(
        site=site.name,
        source=site.inputs[0],
        shape=form.shape,
        axes=form.axes,
        centred=form.centred,
        before=form.epsilon,
        after=_other_epsilon(form.epsilon),
        bias=np.zeros(()) if norm.bias is None else norm.bias,
        variance=np.zeros(0) if form.variance is None else form.variance,
    )
    return _epsilon_fault((site,), form.epsilon, mutation)


def _other_epsilon(value: float) -> float:
    return max(value * EPSILON, LEAST_EPSILON)


def _epsilon_fault(sites: Sequence[Site], epsilon: float, mutation: Mutation) -> KnownFault:
    return KnownFault(
        kind=f"epsilon {_other_epsilon(epsilon):g} in the place of {epsilon:g}",
        rules=("normalization-epsilon",),
        place=location(sites, sites[-1].outputs[0]),
        tensor=sites[-1].outputs[0],
        mutation=lambda: mutation,
        advice="smaller numbers there: an epsilon shows where the variance is not much larger than it is",
    )


def _products(view: GraphView) -> Iterator[tuple[Site, int, str]]:
    """Products of a tensor with a matrix of weights: the operator, the place of the weight, its name."""
    for site in view.trace.sites:
        if site.kind in {"matmul", "conv"} and site.outputs[0] in view.dynamic:
            place = _weight_place(view, site)
            if place is not None:
                yield site, place, view.root(site.inputs[place])


def _weight_place(view: GraphView, site: Site) -> int | None:
    """Which input of a product is a matrix of weights."""
    for place, name in enumerate(site.inputs):
        entry = view.trace.weights.get(view.root(name)) if name else None
        if entry is not None and len(entry.shape) > 1 and entry.dtype in BITS:
            return place
    return None


def _rounded(view: GraphView, side: Side) -> Iterator[KnownFault]:
    for site, _, name in _products(view):
        bits = BITS[view.trace.weights[name].dtype]
        yield KnownFault(
            kind=f"'{name}' rounded to {bits} significant bits",
            rules=("weights", "precision"),
            place=_with_weight(site, name),
            tensor=site.outputs[0],
            mutation=partial(_rounding, side, name, bits),
            advice="numbers that are not zero in what this weight multiplies",
        )


def _with_weight(site: Site, name: str) -> dict[str, Any]:
    place = location([site], site.outputs[0])
    return {**place, "names": [name, *place.get("names", [])]}


def _rounding(side: Side, name: str, bits: int) -> Mutation:
    numbers = side.weights([name])[name]
    fraction, exponent = np.frexp(numbers.astype(np.float64))
    rounded = np.ldexp(np.round(np.ldexp(fraction, bits)), exponent - bits)
    return OtherWeights(name=name, numbers=rounded.astype(numbers.dtype))


def _heads(view: GraphView, side: Side) -> Iterator[KnownFault]:
    for context, width in _contexts(view):
        site = _projection(view, context)
        place = None if site is None else _weight_place(view, site)
        if site is None or place is None:
            continue
        name = view.root(site.inputs[place])
        axis = _contracted(view, site, place)
        if axis is None or view.trace.weights[name].shape[axis] % width:
            continue
        yield KnownFault(
            kind=f"one head's part of '{name}' multiplied by {HEAD}",
            rules=("weights",),
            place=_with_weight(site, name),
            tensor=site.outputs[0],
            mutation=partial(_scaling, side, name, axis, width),
            advice="numbers that are not zero in that head",
        )


def _contexts(view: GraphView) -> Iterator[tuple[str, int]]:
    """Values mixed by attention: the tensor, and the numbers of one head."""
    for site in view.trace.sites:
        if site.kind == "attention":
            entry = view.entry(site.inputs[0])
            if entry is not None and len(entry.shape) == 4:
                yield site.outputs[0], entry.shape[-1]
    for path in paths(view, view.trace.sites):
        for reader, _ in readers(view, path.softmax.target):
            if reader.kind == "matmul" and all(name in view.dynamic for name in reader.inputs[:2]):
                yield reader.outputs[0], path.width


def _projection(view: GraphView, context: str) -> Site | None:
    """The product with weights that reads the heads put together again."""
    return next((site for site, _ in readers(view, context) if site.kind == "matmul"), None)


def _contracted(view: GraphView, site: Site, place: int) -> int | None:
    """The axis of a weight that is summed over; None where the way to it is not followed."""
    contracting, rank = site.attributes.get("contracting"), len(view.trace.weights[view.root(site.inputs[place])].shape)
    if rank != 2:
        return None
    plain = 1 if place == 0 or site.attributes.get("transB") else 0
    axis = int(contracting[place][0]) if contracting else plain
    name = site.inputs[place]
    while (before := view.site_of(name)) is not None:
        if before.kind == "transpose" and len(before.attributes.get("axes", ())) == rank:
            axis = int(before.attributes["axes"][axis])
        elif before.kind not in {"identity", "cast"}:
            return None
        name = before.inputs[0]
    return axis


def _scaling(side: Side, name: str, axis: int, width: int) -> Mutation:
    numbers = side.weights([name])[name].copy()
    np.moveaxis(numbers, axis, 0)[:width] *= HEAD
    return OtherWeights(name=name, numbers=numbers)


def _masks(view: GraphView) -> Iterator[KnownFault]:
    for site in view.trace.sites:
        mask = site.inputs[3] if site.kind == "attention" and len(site.inputs) > 3 else ""
        entry = view.entry(mask) if mask else None
        if entry is not None:
            mutation = Unmasked(site=site.name, mask=mask, shape=entry.shape, boolean=entry.dtype == "bool")
            yield _mask_fault(site, mutation)
    for path in paths(view, view.trace.sites):
        at = path.masking(view)
        if at is None:
            continue
        site, kept = path.sites[at], path.tensors[at]
        ends = [view.entry(name) for name in (kept, site.outputs[0])]
        if all(ends) and ends[0].shape == ends[1].shape:  # type: ignore[union-attr]
            yield _mask_fault(site, Dropped(site=site.name, kept=kept))


def _mask_fault(site: Site, mutation: Mutation) -> KnownFault:
    return KnownFault(
        kind="the attention's mask dropped",
        rules=("attention-mask",),
        place=location([site], site.outputs[0]),
        tensor=site.outputs[0],
        mutation=lambda: mutation,
        advice="a mask that masks something: a padded batch, or for a causal one more than one position",
    )
