"""The pairs of tensors that are one and the same in both models, each with its reason and confidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from parity.align.layout import Layout

CONFIDENCE: Final[Mapping[str, float]] = {
    "input": 1.0,
    "map": 1.0,
    "output": 1.0,
    "weights": 0.95,
    "metadata": 0.85,
    "value": 0.8,
    "name": 0.7,
}
"""Confidence by reason; that of equal numbers is 1 where they agree beyond doubt."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One aligned tensor.

    Attributes:
        reference: Its name in the reference.
        candidate: Its name in the candidate.
        layout: Maps the reference's numbers to the candidate's arrangement.
        reason: ``input``, ``output``, ``map``, ``metadata``, ``weights``, ``name`` or ``value``.
        confidence: Between 0 and 1.
    """

    reference: str
    candidate: str
    layout: Layout
    reason: str
    confidence: float

    def source(self, *, for_candidate: bool = True, of_candidate: bool = False) -> dict[str, Any]:
        """How a worker finds recorded numbers of this tensor.

        Args:
            for_candidate: They are put in the candidate's layout, else in the reference's.
            of_candidate: They are the candidate's, else the reference's.
        """
        layout = None if for_candidate == of_candidate else self.layout.inverse if of_candidate else self.layout
        tensor = self.candidate if of_candidate else self.reference
        return {"tensor": tensor, "layout": None if layout is None or layout.trivial else layout.as_json()}


@dataclass(slots=True)
class Alignment:
    """Pairs by the tensor's name on either side; each tensor is in one pair at most."""

    of_reference: dict[str, Pair] = field(default_factory=dict)
    of_candidate: dict[str, Pair] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.of_reference)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.of_reference.values())

    def add(self, pair: Pair) -> bool:
        """Takes a pair, unless one of its tensors is in another already."""
        if pair.reference in self.of_reference or pair.candidate in self.of_candidate:
            return False
        self.of_reference[pair.reference] = pair
        self.of_candidate[pair.candidate] = pair
        return True

    def drop(self, pair: Pair) -> None:
        """Forgets a pair."""
        del self.of_reference[pair.reference]
        del self.of_candidate[pair.candidate]

    def reasons(self) -> Mapping[str, int]:
        """Number of pairs by reason."""
        counts: dict[str, int] = {}
        for pair in self.of_reference.values():
            counts[pair.reason] = counts.get(pair.reason, 0) + 1
        return counts
