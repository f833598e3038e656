"""Rotary embeddings in a region, however they are spelt: which elements are turned with which, and by what angle.

They are told by probing. With every cosine 1 and every sine 0 a rotation gives its input; with every cosine 0 and every
sine 1 it gives, but for the sign, the partner of each element.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.view import MOVES
from parity.diagnose.attention import number
from parity.diagnose.case import Part
from parity.diagnose.numbers import Float64, wide
from parity.graph import LAYOUT, SELECTION, Site

Places = NDArray[np.intp]

FOLLOWED: Final = LAYOUT | SELECTION | {"mul", "add", "sub", "neg", "cast"}
"""Kinds of which a rotation is made."""

HALVES: Final = "rotate half"
PAIRS: Final = "interleaved pairs"

UNIT: Final = 1e-3
"""How far the squares of a cosine and a sine may be from adding up to one."""

TABLES: Final = 64
"""Weights at most that are looked at as tables of cosines or sines."""


@dataclass(frozen=True)
class Rotation:
    """One rotary embedding, element by element of the tensor that it makes.

    Attributes:
        sites: Its operators.
        source: The tensor that goes in.
        target: The one that comes out.
        own: Places in the source of each element itself.
        partner: Places of the one that it is turned with.
        cosine: By which the element itself is multiplied.
        sine: By which its partner is, the sign included.
    """

    sites: tuple[Site, ...]
    source: str
    target: str
    own: Places
    partner: Places
    cosine: Float64
    sine: Float64

    @cached_property
    def stride(self) -> int:
        """How far partners are apart in the source; 0 where they are not all as far."""
        steps = np.unique(np.abs(self.own - self.partner))
        return int(steps[0]) if steps.size == 1 else 0

    @property
    def pairing(self) -> str:
        """Which elements are turned with one another."""
        return {0: "other pairs", 1: PAIRS}.get(self.stride, HALVES)

    @cached_property
    def angles(self) -> Float64:
        """Angle at each element, the same for both of a pair; turned forwards it is positive."""
        first = self.own < self.partner
        return np.arctan2(np.where(first, -self.sine, self.sine), self.cosine)


def rotations(part: Part) -> list[Rotation]:
    """Rotary embeddings of a region, in execution order."""
    tables = trigonometric(part)
    if not tables:
        return []
    ends = [name for site in part.sites if site.kind in {"matmul", "attention"} for name in site.inputs if name]
    found: dict[str, Rotation] = {}
    for name in dict.fromkeys([*ends, part.target]):
        behind = _behind(part, name, tables)
        if behind is not None and behind.source not in found:
            rotation = _probed(part, behind, tables)
            if rotation is not None:
                found[behind.source] = rotation
    return list(found.values())


def trigonometric(part: Part) -> dict[str, str]:
    """Tensors of the whole model that hold cosines or sines, moved about, selected and repeated: "cos" or "sin"."""
    view = part.view
    found = {name: site.kind for site in view.trace.sites if site.kind in {"sin", "cos"} for name in site.outputs}
    found.update(_stored(part))
    for site in view.trace.sites:
        tagged = [found[name] for name in site.inputs if name in found]
        others = [name for name in site.inputs if name and name not in found]
        if not tagged or len(set(tagged)) > 1:
            continue
        moved = site.kind in MOVES | SELECTION and not (site.kind == "concat" and others)
        if moved or (site.kind == "mul" and others and number(view, others[0]) is not None):
            found.update(dict.fromkeys((name for name in site.outputs if name), tagged[0]))
    return found


def _stored(part: Part) -> dict[str, str]:
    """Weights that are tables of cosines or sines: the squares of two of one shape make one."""
    known = part.view.trace.weights
    likely = [
        name
        for name, entry in known.items()
        if len(entry.shape) > 1
        and entry.signature.count > 2
        and max(abs(entry.signature.low), abs(entry.signature.high)) <= 1 + UNIT
    ]
    found = {}
    for name, other in combinations(likely[:TABLES], 2):
        one, two = known[name], known[other]
        if one.shape != two.shape or abs(one.signature.rms**2 + two.signature.rms**2 - 1) > UNIT:
            continue
        squares = sum(np.square(part.weight(each).astype(np.float64)) for each in (name, other))
        if np.abs(squares - 1.0).max() <= UNIT:
            first = one.signature.mean >= two.signature.mean  # most angles are small
            found.update({name: "cos" if first else "sin", other: "sin" if first else "cos"})
    return found


@dataclass(frozen=True, slots=True)
class _Chain:
    """Operators that may be a rotation."""

    source: str
    target: str
    sites: tuple[Site, ...]
    tables: tuple[str, ...]


def _behind(part: Part, target: str, tables: Mapping[str, str]) -> _Chain | None:
    """What may be the rotation that makes ``target``."""
    view = part.view
    own = {site.name for site in part.sites}
    waiting, used = [target], list[str]()
    sources: set[str] = set()
    sites: dict[str, Site] = {}
    while waiting:
        name = waiting.pop()
        site = view.site_of(name)
        if site is None or name in part.given or site.name not in own or site.kind not in FOLLOWED:
            sources.add(name)
            continue
        if site.name not in sites:
            sites[site.name] = site
            used.extend(one for one in site.inputs if one in tables)
            waiting.extend(one for one in site.inputs if one in view.dynamic and one not in tables)
    if len(sources) != 1 or len({tables[one] for one in used}) < 2:
        return None
    ordered = sorted(sites.values(), key=lambda one: view.by_name[one.name])
    return _Chain(sources.pop(), target, tuple(ordered), tuple(dict.fromkeys(used)))


def _probed(part: Part, chain: _Chain, tables: Mapping[str, str]) -> Rotation | None:
    """The rotation that operators compute; None where it is none."""
    shape = wide(part, chain.source).shape
    count = math.prod(shape)
    numbers = {name: wide(part, name) for name in chain.tables}
    places, ones = np.arange(1.0, count + 1.0).reshape(shape), np.ones(shape)

    def at(x: Float64, kind: str, *, actual: bool) -> Float64:
        assert part.side is not None  # noqa: S101 – a part that can be evaluated
        given: dict[str, Array] = {chain.source: x}
        for name, table in numbers.items():
            kept = table if actual else np.ones_like(table)
            given[name] = kept if tables[name] == kind else np.zeros_like(table)
        names = [site.name for site in chain.sites]
        return part.side.evaluate(names, {**part.given, **given}, [chain.target])[chain.target].astype(np.float64)

    cosine, sine = (at(ones, kind, actual=True) for kind in ("cos", "sin"))
    scale = np.abs(at(ones, "cos", actual=False))
    if scale.size != count or not scale.all():
        return None
    own, partner = (
        np.rint(np.abs(at(places, kind, actual=False)) / scale).astype(np.intp) - 1 for kind in ("cos", "sin")
    )
    for each in (own, partner):
        if not np.array_equal(np.sort(each, axis=None), np.arange(count)):
            return None
    return Rotation(chain.sites, chain.source, chain.target, own, partner, cosine, sine)
