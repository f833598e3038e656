"""Pairs by value: tensors that hold the same numbers, in whatever order, up to a small error."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.align.alignment import CONFIDENCE, Alignment, Pair
from parity.align.layout import Layout, find_layout
from parity.align.view import GraphView
from parity.trace.signature import Signatures
from parity.trace.store import TensorEntry

LIMIT: Final = 0.02
"""Distance up to which two tensors may be the same: errors of a wrong activation are below it, other tensors above."""

STRICT: Final = 1e-4
"""Distance below which they are the same beyond doubt."""

TIE: Final = 3.0
"""Two distances within this factor say nothing about which is nearer; then kind and order decide."""

MOST: Final = 8
"""Tensors of like signature that are looked at for each one."""


def align_by_value(reference: GraphView, candidate: GraphView, alignment: Alignment, *, limit: float = LIMIT) -> int:
    """Adds pairs of equal numbers, the surest first; returns how many.

    Args:
        reference: The reference's trace.
        candidate: The candidate's free trace, or one that was teacher-forced with the pairs so far.
        alignment: Taken up and added to.
        limit: Greatest distance.
    """
    by_count = defaultdict(list)
    for name in reference.computed():
        if name not in alignment.of_reference and _telling(reference, name):
            by_count[reference.trace.tensors[name].signature.count].append(name)
    groups = {count: _Alike(reference, names) for count, names in by_count.items()}
    added = 0
    for wanted, alike_only in ((STRICT, True), (STRICT, False), (limit, False)):
        for name in candidate.computed():
            entry = candidate.trace.tensors[name]
            group = groups.get(entry.signature.count)
            if group is None or name in alignment.of_candidate or not _telling(candidate, name):
                continue
            near = group.nearest(entry, alignment, wanted)
            pair = _nearest((reference, candidate), alignment, name, near, wanted, alike_only=alike_only)
            added += pair is not None and alignment.add(pair)
    return added


class _Alike:
    """Tensors of the reference that are of one size, by their signatures.

    Args:
        view: The reference's trace.
        names: Of the tensors.
    """

    def __init__(self, view: GraphView, names: Sequence[str]) -> None:
        self._names = names
        entries = [view.trace.tensors[name] for name in names]
        self._whole = [entry.whole for entry in entries]
        self._signatures = Signatures([entry.signature for entry in entries])

    def nearest(self, entry: TensorEntry, alignment: Alignment, limit: float) -> list[str]:
        """The `MOST` that are likest to one of the candidate's and not paired yet, the likest first."""
        far = self._signatures.distances(entry.signature)
        fits = [
            (far[k], self._names[k])
            for k in np.flatnonzero(far <= 5 * limit).tolist()
            if self._whole[k] == entry.whole and self._names[k] not in alignment.of_reference
        ]
        return [name for _, name in sorted(fits)[:MOST]]


def _telling(view: GraphView, name: str) -> bool:
    """Whether a tensor's numbers are various enough to know it again by them."""
    entry = view.trace.tensors[name]
    return name in view.trace and entry.signature.finite > 1 and entry.signature.spread > 0


def _nearest(
    views: tuple[GraphView, GraphView],
    alignment: Alignment,
    name: str,
    names: Sequence[str],
    limit: float,
    *,
    alike_only: bool,
) -> Pair | None:
    """The pair of a candidate's tensor with the nearest of the reference's tensors ``names``.

    Of several that are as near, it is the one that is made of the same tensors, by the same kind of operator; else the
    first, or None if only one that is made alike is wanted.
    """
    reference, candidate = views
    entry = candidate.trace.tensors[name]
    found: dict[str, tuple[float, Layout]] = {}
    numbers: Array | None = None
    for one in names:
        numbers = candidate.trace.array(name) if numbers is None else numbers
        fit = find_layout(reference.trace.array(one), numbers, 0.0 if entry.whole else limit)
        if fit is not None:
            found[one] = fit[1], fit[0]
    if not found:
        return None
    least = min(gap for gap, _ in found.values())
    ties = [one for one, (gap, _) in found.items() if gap <= max(TIE * least, STRICT / 100)]
    unlike = {one: _unlike(views, alignment, one, name) for one in ties}
    best = min(ties, key=lambda one: (*unlike[one], reference.order(one)))
    if alike_only and len(ties) > 1 and any(unlike[best]):
        return None
    gap, layout = found[best]
    return Pair(best, name, layout, "value", 1.0 if gap <= STRICT else CONFIDENCE["value"])


def _unlike(views: tuple[GraphView, GraphView], alignment: Alignment, one: str, two: str) -> tuple[bool, bool, bool]:
    """In what the makers of two tensors are not alike: what they read, their kind, how much of it the inputs decide."""
    ours, theirs = views[0].site_of(one), views[1].site_of(two)
    if ours is None or theirs is None:
        return True, True, True
    read = [name for name in ours.inputs if name in views[0].dynamic]
    read_there = [name for name in theirs.inputs if name in views[1].dynamic]
    known = (alignment.of_candidate.get(views[1].origin(name)) for name in read_there)
    made_of = {pair.reference for pair in known if pair is not None}
    apart = bool(made_of) and made_of.isdisjoint(map(views[0].origin, read))
    return apart, ours.kind != theirs.kind, len(read) != len(read_there)
