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
    alike = {count: _Alike(reference, names) for count, names in by_count.items()}
    added = 0
    for wanted in (STRICT, limit):
        for name in candidate.computed():
            entry = candidate.trace.tensors[name]
            group = alike.get(entry.signature.count)
            if group is None or name in alignment.of_candidate or not _telling(candidate, name):
                continue
            pair = _nearest(reference, candidate, name, group.nearest(entry, alignment, wanted), wanted)
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


def _nearest(reference: GraphView, candidate: GraphView, name: str, names: list[str], limit: float) -> Pair | None:
    """The pair of a candidate's tensor with the nearest of the reference's tensors ``names``."""
    entry = candidate.trace.tensors[name]
    found: list[tuple[float, bool, int, str, Layout]] = []
    numbers: Array | None = None
    site = candidate.site_of(name)
    for one in names:
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
