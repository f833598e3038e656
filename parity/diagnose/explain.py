"""From guilty regions to causes: each hypothesis is tried on a region's numbers, and what explains it is kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from parity.adapter import Array
from parity.diagnose.case import Case, Hypothesis
from parity.errors import ParityError

ENOUGH: Final = 0.9
"""Share of the gap that must go away for a cause to be believed."""

SOME: Final = 0.02
"""Share below which a cause adds nothing to those found before it."""

Examiner = Callable[[Case], Iterator[Hypothesis]]


@dataclass(frozen=True, slots=True)
class Explained:
    """What explains one region.

    Attributes:
        causes: Hypotheses that together make the gap go away, the one that explains most first.
        shares: Share of the gap that each takes away, after those before it.
        rest: Share that none of them explains.
        tried: Rules that were tried and explain nothing.
    """

    causes: tuple[Hypothesis, ...]
    shares: tuple[float, ...]
    rest: float
    tried: tuple[str, ...] = field(default=())


def explain(case: Case, examiners: Sequence[Examiner]) -> Explained:
    """Tries every hypothesis alone, and where none is enough several together."""
    hypotheses = [one for examine in examiners for one in _careful(examine, case)]
    alone: list[tuple[float, Hypothesis]] = []
    for hypothesis in hypotheses:
        share = _share(case, [hypothesis])
        if share >= ENOUGH:
            return Explained((hypothesis,), (share,), 1.0 - share)
        if share > SOME:
            alone.append((share, hypothesis))
    kept, shares = _together(case, [one for _, one in sorted(alone, key=lambda pair: -pair[0])], hypotheses)
    total = sum(shares)
    tried = tuple(dict.fromkeys(one.rule for one in hypotheses if one not in kept))
    if total < ENOUGH:
        return Explained((), (), 1.0, tried)
    return Explained(tuple(kept), tuple(shares), 1.0 - total, tried)


def _careful(examine: Examiner, case: Case) -> Iterator[Hypothesis]:
    """The hypotheses of one cause; where an operator cannot be evaluated as it needs, those that it had until then."""
    try:
        yield from examine(case)
    except ParityError:
        return


def _together(
    case: Case, likely: Sequence[Hypothesis], every: Sequence[Hypothesis]
) -> tuple[list[Hypothesis], list[float]]:
    """Hypotheses added one after the other as long as each takes more of the gap away."""
    kept: list[Hypothesis] = []
    shares: list[float] = []
    for hypothesis in [*likely, *(one for one in every if one not in likely)]:
        share = _share(case, [*kept, hypothesis])
        if share - sum(shares) > SOME:
            kept.append(hypothesis)
            shares.append(share - sum(shares))
        if sum(shares) >= ENOUGH:
            break
    return kept, shares


def _share(case: Case, hypotheses: Sequence[Hypothesis]) -> float:
    """Share of the gap that goes away when all of these are repaired in the candidate."""
    overrides: dict[str, Array] = {}
    try:
        for hypothesis in hypotheses:
            if hypothesis.repair is not None:
                hypothesis.repair(case.candidate, overrides)
        return case.share(overrides) if overrides else 0.0
    except (ParityError, ValueError):
        return 0.0
