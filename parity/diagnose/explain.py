"""From guilty regions to causes: each hypothesis is tried on a region's numbers, and what explains it is kept."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.diagnose.case import Case, Hypothesis
from parity.errors import ParityError

ENOUGH: Final = 0.9
"""Share of the gap that must go away for a cause to be believed."""

ALL: Final = 0.99
"""Likewise for several causes that are not one fault in several places: enough of them fit anything to some extent."""

MOST: Final = 0.5
"""Share that is enough where what is left is no larger than the noise floor."""

SOME: Final = 0.02
"""Share below which a cause adds nothing to those found before it."""

MOST_ALIKE: Final = 8
"""Operators of one region at most that are tried with the same fault."""

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


@np.errstate(invalid="ignore", over="ignore", divide="ignore")
def explain(case: Case, examiners: Sequence[Examiner]) -> Explained:
    """Tries every hypothesis alone, and where none is enough several together.

    Masks are infinite and faulty models overflow: a user has no use for what NumPy warns of.
    """
    tried: list[Hypothesis] = []
    some: list[tuple[float, int]] = []
    for hypothesis in (one for examine in examiners for one in _careful(examine, case)):
        share = _share(case, [hypothesis])
        if _is_enough(case, share):
            return Explained((hypothesis,), (share,), 1.0 - share)
        if share > SOME:
            some.append((-share, len(tried)))
        tried.append(hypothesis)
    for alike in _alike(tried):
        each = tuple(_shares(case, alike))
        if _is_enough(case, sum(each)):
            return Explained(tuple(alike), each, 1.0 - sum(each))
    likely = [tried[k] for _, k in sorted(some)]
    kept, shares = _together(case, [*likely, *(one for one in tried if one not in likely)])
    total = sum(shares)
    left = tuple(dict.fromkeys(one.rule for one in tried if one not in kept))
    if not _is_enough(case, total, ALL if len(kept) > 1 else ENOUGH):
        return Explained((), (), 1.0, left)
    return Explained(tuple(kept), tuple(shares), 1.0 - total, left)


def _alike(tried: Sequence[Hypothesis]) -> list[list[Hypothesis]]:
    """Hypotheses of one fault at several operators, each of which can be repaired."""
    groups: dict[tuple[str, str, str], list[Hypothesis]] = {}
    for one in tried:
        if one.repair is not None:
            groups.setdefault((one.rule, one.expected, one.observed), []).append(one)
    return [group for group in groups.values() if 1 < len(group) <= MOST_ALIKE]


def _shares(case: Case, hypotheses: Sequence[Hypothesis]) -> Iterator[float]:
    """What each of these takes away, after those before it."""
    before = 0.0
    for k in range(len(hypotheses)):
        now = _share(case, hypotheses[: k + 1])
        yield now - before
        before = now


def _is_enough(case: Case, share: float, least: float = ENOUGH) -> bool:
    """Whether this share explains a region: nearly all of the gap, or most of it and the rest is rounded weights."""
    if share >= least:
        return True
    measure = case.measure
    if measure is None or measure.gap is None:
        return False
    return share >= MOST and (1.0 - share) * measure.gap <= measure.floor


def _careful(examine: Examiner, case: Case) -> Iterator[Hypothesis]:
    """The hypotheses of one cause; where an operator cannot be evaluated as it needs, those that it had until then.

    A cause that fails in any other way on a graph that nobody has seen yet is passed over as well: the verdict does not
    depend on it, nor does what the other causes say.
    """
    try:
        yield from examine(case)
    except ParityError:
        return
    except Exception as error:  # noqa: BLE001 – whatever it is, the others are still tried
        _warn(error)


def _warn(error: Exception) -> None:
    warnings.warn(f"One cause could not be examined: {type(error).__name__}: {error}", stacklevel=3)


def _together(case: Case, hypotheses: Sequence[Hypothesis]) -> tuple[list[Hypothesis], list[float]]:
    """Hypotheses added one after the other as long as each takes more of the gap away."""
    kept: list[Hypothesis] = []
    shares: list[float] = []
    for hypothesis in hypotheses:
        share = _share(case, [*kept, hypothesis])
        if share - sum(shares) > SOME:
            kept.append(hypothesis)
            shares.append(share - sum(shares))
        if _is_enough(case, sum(shares), ALL):
            break
    return kept, shares


def _share(case: Case, hypotheses: Sequence[Hypothesis]) -> float:
    """Share of the gap that goes away when all of these are repaired in the candidate, or done to the reference."""
    repaired: dict[str, Array] = {}
    injected: dict[str, Array] = {}
    try:
        for hypothesis in hypotheses:
            if hypothesis.repair is not None:
                hypothesis.repair(case.candidate, repaired)
            if hypothesis.injection is not None:
                hypothesis.injection(case.reference, injected)
        return case.share(repaired, injected) if repaired or injected else 0.0
    except (ParityError, ValueError):
        return 0.0
    except Exception as error:  # noqa: BLE001 – likewise
        _warn(error)
        return 0.0
