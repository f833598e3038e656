"""Regions: the operators of both sides that lie between aligned tensors."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from parity.align.alignment import Alignment, Pair
from parity.align.view import GraphView

FAR: Final = 16
"""Operators that a region may grow by on its way back to an input that one side alone comes to."""


@dataclass(frozen=True, slots=True)
class Region:
    """What makes one aligned tensor out of others.

    Attributes:
        pair: The aligned tensor that it makes.
        boundary: The aligned tensors that it reads, on both sides the same but for inputs that one side ignores.
        reference_sites: Names of the reference's sites in execution order.
        candidate_sites: Names of the candidate's sites in execution order.
        reference_settled: Whole-number tensors that only shapes decide, taken as the reference recorded them.
        candidate_settled: Likewise of the candidate.
    """

    pair: Pair
    boundary: tuple[Pair, ...]
    reference_sites: tuple[str, ...]
    candidate_sites: tuple[str, ...]
    reference_settled: tuple[str, ...] = ()
    candidate_settled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Walk:
    sites: frozenset[int]
    pairs: frozenset[str]
    settled: frozenset[str]


def find_region(
    reference: GraphView, candidate: GraphView, alignment: Alignment, pair: Pair, *, uncut: Collection[str] = ()
) -> Region:
    """The region of ``pair``.

    Where the two sides come to other aligned tensors first, those that only one side came to are passed through, the
    latest first, until both start from the same ones. Where that goes far back, to inputs that the other side never
    comes to, a side reads what the other does not, and the region starts from what either read first.

    Args:
        reference: The reference's trace.
        candidate: The candidate's trace.
        alignment: All pairs.
        pair: The one whose region it is.
        uncut: Pairs, by the reference's name, at which neither side stops.
    """
    inputs = set(reference.trace.ends.inputs.values())

    def walks(passed: set[str]) -> tuple[_Walk, _Walk]:
        return (
            _walk(reference, alignment.of_reference, pair.reference, passed),
            _walk(candidate, alignment.of_candidate, pair.candidate, passed),
        )

    def before(name: str) -> bool:
        """Whether the candidate, too, makes a tensor before that of the region."""
        return candidate.order(alignment.of_reference[name].candidate) < candidate.order(pair.candidate)

    passed = set(uncut)
    ours, theirs = walks(passed)
    near: tuple[_Walk, _Walk] | None = None
    while one_sided := (ours.pairs ^ theirs.pairs) - inputs:
        if near is None and all(map(before, one_sided)):
            near = ours, theirs
        passed.add(max(one_sided, key=reference.order))
        ours, theirs = walks(passed)
    if near is not None and _is_farther((ours, theirs), near, inputs):
        ours, theirs = near
    boundary = sorted(ours.pairs | theirs.pairs, key=lambda name: (reference.order(name), name))
    return Region(
        pair,
        tuple(alignment.of_reference[name] for name in boundary),
        tuple(reference.trace.sites[k].name for k in sorted(ours.sites)),
        tuple(candidate.trace.sites[k].name for k in sorted(theirs.sites)),
        tuple(sorted(ours.settled)),
        tuple(sorted(theirs.settled)),
    )


def _is_farther(found: tuple[_Walk, _Walk], near: tuple[_Walk, _Walk], inputs: set[str]) -> bool:
    """Whether a region is much larger than another one, and starts from an input that one side alone comes to."""
    alone, known = (one.pairs ^ two.pairs for one, two in (found, near))
    grown = sum(len(after.sites) - len(walk.sites) for after, walk in zip(found, near, strict=True))
    return bool((alone - known) & inputs) and grown > FAR


def _walk(view: GraphView, pairs: dict[str, Pair], target: str, passed: set[str]) -> _Walk:
    """Sites behind ``target`` up to aligned and settled tensors; the former by the reference's names."""
    sites: set[int] = set()
    found: set[str] = set()
    settled: set[str] = set()
    waiting = [target]
    seen = {target}
    while waiting:
        name = waiting.pop()
        pair = pairs.get(name)
        if pair is not None and name != target and pair.reference not in passed:
            found.add(pair.reference)
            continue
        at = view.producer.get(name)
        if at is None or at in sites:
            continue
        if view.settled(name):
            settled.add(name)
            continue
        sites.add(at)
        for one in view.trace.sites[at].inputs:
            if one and one not in seen:
                seen.add(one)
                waiting.append(one)
    return _Walk(frozenset(sites), frozenset(found), frozenset(settled))
