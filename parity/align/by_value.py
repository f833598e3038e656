"""Pairs by value: tensors that hold the same numbers, in whatever order, up to a small error."""

from collections import defaultdict
from typing import Final

from parity.adapter import Array
from parity.align.alignment import CONFIDENCE, Alignment, Pair
from parity.align.layout import Layout, find_layout
from parity.align.view import GraphView

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
    open_by_count = defaultdict(list)
    for name in reference.computed():
        if name not in alignment.of_reference and _telling(reference, name):
            open_by_count[reference.trace.tensors[name].signature.count].append(name)
    added = 0
    for wanted in (STRICT, limit):
        for name in candidate.computed():
            if name in alignment.of_candidate or not _telling(candidate, name):
                continue
            near = open_by_count.get(candidate.trace.tensors[name].signature.count, [])
            pair = _nearest(
                reference, candidate, name, [one for one in near if one not in alignment.of_reference], wanted
            )
            added += pair is not None and alignment.add(pair)
    return added


def _telling(view: GraphView, name: str) -> bool:
    """Whether a tensor's numbers are various enough to know it again by them."""
    entry = view.trace.tensors[name]
    return name in view.trace and entry.signature.finite > 1 and entry.signature.spread > 0


def _nearest(reference: GraphView, candidate: GraphView, name: str, names: list[str], limit: float) -> Pair | None:
    """The pair of a candidate's tensor with the nearest of the reference's tensors ``names``."""
    entry = candidate.trace.tensors[name]
    like = []
    for one in names:
        other = reference.trace.tensors[one]
        far = entry.signature.distance(other.signature)
        if far <= 5 * limit and entry.whole == other.whole:
            like.append((far, one))
    found: list[tuple[float, bool, int, str, Layout]] = []
    numbers: Array | None = None
    site = candidate.site_of(name)
    for _, one in sorted(like)[:MOST]:
        numbers = candidate.trace.array(name) if numbers is None else numbers
        fit = find_layout(reference.trace.array(one), numbers, 0.0 if entry.whole else limit)
        if fit is not None:
            maker = reference.site_of(one)
            other_kind = site is None or maker is None or site.kind != maker.kind
            found.append((fit[1], other_kind, reference.order(one), one, fit[0]))
    if not found:
        return None
    least = min(found)[0]
    ties = [one for one in found if one[0] <= max(TIE * least, STRICT / 100)]
    gap, _, _, best, layout = min(ties, key=lambda one: one[1:3])
    return Pair(best, name, layout, "value", 1.0 if gap <= STRICT else CONFIDENCE["value"])
