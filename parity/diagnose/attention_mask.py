"""Cause: other positions of an attention are masked, or masked in another way."""

from collections.abc import Iterator
from itertools import islice, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.layout import Layout
from parity.diagnose.attention import Attention, attentions
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.norms import names
from parity.diagnose.numbers import Float64, mapping, same

MOST: Final = 4
"""Hypotheses at most for one region."""

MASKED: Final = -30.0
"""What is added to a score from which on its position counts as masked: it keeps 1e-13 of its weight."""

CAUSAL: Final = {0: "causal", 1: "causal shifted by one", -1: "causal shifted by one"}
"""By how far beyond its own place a query sees."""

Positions = NDArray[np.bool_]


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each attention of the candidate's region with the mask of the reference's."""
    ours, theirs = attentions(case.reference), attentions(case.candidate)
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else product(ours, theirs)
    for one, two in islice(pairs, MOST):
        layout = mapping(one.scores, two.scores)
        if layout is not None and _differ(layout.apply(_added(one)), _added(two)):
            yield _hypothesis(case, one, two, layout)


def _differ(ours: Float64, theirs: Float64) -> bool:
    """Whether what is added differs where it masks, or in what it masks; another bias is no mask."""
    before, after = ours < MASKED, theirs < MASKED
    if not np.array_equal(before, after):
        return True
    return not same(ours, theirs) and same(np.where(before, 0.0, ours), np.where(after, 0.0, theirs))


def _hypothesis(case: Case, one: Attention, two: Attention, layout: Layout) -> Hypothesis:
    expected, observed = _words(case, one, two, layout)
    return Hypothesis(
        rule="attention-mask",
        message=f"the candidate's attention is masked otherwise: {observed}, where the reference has {expected}",
        expected=expected,
        observed=observed,
        fix=f"Mask the scores as the reference does: {expected}.",
        places={"reference": names(one.masked or one.sites), "candidate": names(two.masked or two.sites)},
        repair=_repair(two, two.scores + layout.apply(_added(one))),
    )


def _repair(two: Attention, logits: Float64) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:  # noqa: ARG001 – the type's signature
        two.put_logits(logits, overrides)

    return repair


def _added(attention: Attention) -> Float64:
    with np.errstate(invalid="ignore"):
        return attention.logits - attention.scores


def _words(case: Case, one: Attention, two: Attention, layout: Layout) -> tuple[str, str]:
    added = layout.inverse.apply(_added(two))
    ours, theirs = (np.moveaxis(each, one.axis, -1) for each in (_added(one), added))
    before, after = ours < MASKED, theirs < MASKED
    if np.array_equal(before, after):
        return f"filled with {_fill(one)}", f"filled with {_fill(two)}"
    expected, observed = _pattern(before, case.reference), _pattern(after, case.candidate)
    logits = np.moveaxis(layout.inverse.apply(two.logits), one.axis, -1)
    if np.array_equal(before, ~after) and before.any():
        observed = "mask inverted"
    elif before.any() and not after.any() and not logits[before].any():
        observed = "scores multiplied by the mask"
    elif before.any() and not after.any() and theirs[before].any():
        observed = f"only {np.median(theirs[before]):.4g} added"
    elif expected == observed:
        observed = f"other positions masked ({observed})"
    return expected, observed


def _fill(attention: Attention) -> str:
    return f"{np.median(attention.logits[_added(attention) < MASKED]):.4g}"


def _pattern(masked: Positions, part: Part) -> str:
    """What is masked, of shape (…, queries, keys), in words."""
    if not masked.any():
        return "mask input unused" if _unused_input(part) else "no mask"
    for shift, words in CAUSAL.items():
        if (masked == _later(masked, shift)).all():
            return words
    later = _later(masked, 0)
    if _by_key(masked):
        return "padding masked"
    if (masked == masked[..., :1]).all():
        return "padding masked for the queries"
    if (masked | later == masked).all():
        return "causal and padding masked"
    return f"{masked.mean():.0%} of the positions masked"


def _later(masked: Positions, shift: int) -> Positions:
    """Keys that come after their query, or after one ``shift`` further on."""
    queries, keys = masked.shape[-2:]
    return ~np.tri(queries, keys, keys - queries + shift, dtype=bool)


def _by_key(masked: Positions) -> bool:
    """Whether the same keys are masked for every query."""
    return bool((masked == masked[..., :1, :]).all())


def _unused_input(part: Part) -> bool:
    """Whether the model has an input that none of its operators reads."""
    view = part.view
    return any(name not in view.consumers for name in view.trace.ends.inputs.values())
