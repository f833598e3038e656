"""The activations of a recorded model as its author sees them: each by itself, with nothing around it.

A search for causes wants the longest chain of pointwise operators; a list wants an activation without the residual
that is added to it, the other activation behind it, or the cast in front.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from parity.align.view import GraphView
from parity.diagnose.chains import ARITHMETIC, Activation, Chain, Float64, Prober, chains
from parity.functions.identify import Identification
from parity.graph import LAYOUT, Site
from parity.sides import Side

MOVES: Final = LAYOUT | {"cast"}
"""Kinds that are cut off at the ends of an activation."""

ELEMENTARY: Final = frozenset(
    "exp log sqrt rsqrt reciprocal sin cos abs floor ceil round trunc sign clip mod".split()  # noqa: SIM905
)
"""Kinds that alone are mathematics – of a norm, a softmax, a rotation – and no activation without a name."""

JOINING: Final = frozenset({"add", "sub", "neg", "mul", "div", "expand", *MOVES})
"""Kinds that may stand between one activation and another."""


class SiteProber(Prober):
    """A prober that names each function once: the layers of a model mostly compute the same one, bit by bit.

    Args:
        view: The trace.
        side: The session.
        known: What was named before, to be kept from one trace of a model to the next.
    """

    def __init__(self, view: GraphView, side: Side, known: dict[tuple[str, bytes], Identification | None]) -> None:
        super().__init__(view, side)
        self._known = known

    def _named(self, values: Float64, dtype: str) -> Identification | None:
        key = dtype, values.tobytes()
        if key not in self._known:
            self._known[key] = super()._named(values, dtype)
        return self._known[key]


def activation_sites(view: GraphView, prober: Prober) -> Iterator[Activation]:
    """Every activation that an output depends on, in execution order, without casts and reshapings at its ends."""
    used = _used(view)
    for nested in chains(view):
        whole = prober.recognised(nested)
        if whole is None or whole.variant is None:
            parts = _parts(view, prober, nested) or ([] if whole is None else [whole])
        else:
            parts = [whole]
        for one in parts:
            if one.chain.target in used and _is_activation(view, one):
                yield replace(one, chain=_trimmed(one.chain))


def scope_of(chain: Chain) -> str:
    """Path of the innermost module that all its operators are in."""
    parts = [site.scope.split(".") for site in chain.sites]
    shared = parts[0]
    while any(one[: len(shared)] != shared for one in parts):
        shared = shared[:-1]
    return ".".join(shared)


def _used(view: GraphView) -> set[str]:
    """Tensors that the outputs depend on, the outputs among them."""
    used = set(view.trace.ends.outputs.values())
    for site in reversed(view.trace.sites):
        if used.intersection(site.outputs):
            used.update(site.inputs)
    return used


def _parts(view: GraphView, prober: Prober, nested: Sequence[Chain]) -> list[Activation]:
    """The known activations that a chain without a name is made of, in execution order; none where it is one function.

    It is one where numbers that depend on the input are multiplied outside of the known ones, as in a GELU with a
    wrong constant, of which the tanh alone would have a name.
    """
    found: list[Activation] = []
    taken: set[str] = set()
    for chain in sorted(nested[1:], key=lambda one: -len(one.sites)):
        names = {site.name for site in chain.sites}
        if taken.isdisjoint(names):
            one = prober.probe(chain)
            if one is not None and one.telling:
                found.append(one)
                taken.update(names)
    around = [site for site in nested[0].sites if site.name not in taken]
    if any(site.kind not in JOINING or (site.kind in {"mul", "div"} and _branches(view, site)) for site in around):
        return []
    return sorted(found, key=lambda one: view.order(one.chain.target))


def _branches(view: GraphView, site: Site) -> bool:
    """Whether more than one of its operands depends on the model's inputs."""
    return sum(name in view.dynamic for name in site.inputs) > 1


def _is_activation(view: GraphView, one: Activation) -> bool:
    """Whether it has a name, or is a function of more than one elementary step."""
    if one.variant is not None:
        return one.telling
    sites = one.chain.sites
    telling = {site.kind for site in sites} - ARITHMETIC
    return any(_branches(view, site) for site in sites) or not telling <= ELEMENTARY


def _trimmed(chain: Chain) -> Chain:
    sites, source, target = list(chain.sites), chain.source, chain.target
    while len(sites) > 1 and sites[0].kind in MOVES and all(source not in site.inputs for site in sites[1:]):
        source = sites.pop(0).outputs[0]
    while len(sites) > 1 and sites[-1].kind in MOVES:
        target = sites.pop().inputs[0]
    return replace(chain, source=source, target=target, sites=tuple(sites))
