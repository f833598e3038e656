"""Cause: other positions of an attention are masked, or masked in another way."""

from collections.abc import Iterator
from itertools import islice, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.layout import Layout
from parity.diagnose.attention import Attention, attentions, paths
from parity.diagnose.case import Case, Hypothesis, Part, Repair, put
from parity.diagnose.norms import names
from parity.diagnose.numbers import Float64, mapping, readers, same
from parity.dtypes import FLOAT_DTYPES
from parity.edits import Edit, SetNumbers

MOST: Final = 4
"""Hypotheses at most for one region."""

MASKED: Final = -30.0
"""What is added to a score from which on its position counts as masked: it keeps 1e-13 of its weight."""

FILL: Final = 1e-3
"""Relative difference up to which a constant is the one that masks."""

CAUSAL: Final = {0: "causal", 1: "causal shifted by one", -1: "causal shifted by one"}
"""By how far beyond its own place a query sees."""

LOST: Final = {"mask input unused": "The export lost the mask: give it as an input of its own, and use it."}
"""What else is to be said of some ways to mask."""

HIDDEN: Final = (
    "If the queries that see nothing are padding, no other token sees what comes of them: inputs without padding tell,"
    " and --allow attention-mask lets it pass."
)
"""What else is to be said where only such queries differ."""

Positions = NDArray[np.bool_]


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each attention of the candidate's region with the mask of the reference's."""
    ours, theirs = attentions(case.reference), attentions(case.candidate)
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else product(ours, theirs)
    for one, two in islice(pairs, MOST):
        layout = mapping(one.scores, two.scores)
        if layout is not None and _differ(layout.apply(_added(one)), _added(two)):
            yield _hypothesis(case, one, two, layout)
    if not ours or not theirs:
        yield from _additive(case)


def _additive(case: Case) -> Iterator[Hypothesis]:
    """A region that makes no more than the mask that is added to scores: 0 for what is seen, else one number."""
    ours, theirs = case.exact, case.exact + case.gap
    masked = ours < MASKED
    fill, other = (np.unique(each[masked]) for each in (ours, theirs))
    if fill.size != 1 or other.size != 1 or ours[~masked].any() or theirs[~masked].any():
        return
    if not (_masks(case.reference) and _masks(case.candidate)):
        return
    expected, observed = (f"filled with {each[0]:.4g}" for each in (fill, other))
    yield Hypothesis(
        rule="attention-mask",
        message=f"the candidate's attention is masked otherwise: {observed}, where the reference has {expected}",
        expected=expected,
        observed=observed,
        fix=f"Mask the scores as the reference does: {expected}.",
        places={
            side: names(part.sites) for side, part in (("reference", case.reference), ("candidate", case.candidate))
        },
        repair=put(case.candidate.target, ours),
    )


def _masks(part: Part) -> bool:
    """Whether what a region makes is added to scores."""
    added = {site.name for site, _ in readers(part.view, part.target) if site.kind == "add"}
    return any(site.name in added for path in paths(part.view, part.view.trace.sites) for site in path.sites)


def _differ(ours: Float64, theirs: Float64) -> bool:
    """Whether what is added differs where it masks, or in what it masks; another bias is no mask."""
    before, after = ours < MASKED, theirs < MASKED
    if not np.array_equal(before, after):
        return True
    return not same(ours, theirs) and same(np.where(before, 0.0, ours), np.where(after, 0.0, theirs))


def _hypothesis(case: Case, one: Attention, two: Attention, layout: Layout) -> Hypothesis:
    expected, observed = _words(case, one, two, layout)
    blind, hint = _blind(one, two, layout)
    fix = (
        f"Mask the candidate's scores before the softmax as the reference does ({expected}). {LOST.get(observed, hint)}"
    )
    return Hypothesis(
        rule="attention-mask",
        message=f"the candidate's attention is masked otherwise: {observed}, where the reference has {expected}{blind}",
        expected=expected,
        observed=observed,
        fix=fix.strip(),
        places={"reference": names(one.masked or one.sites), "candidate": names(two.masked or two.sites)},
        repair=_repair(two, two.scores + layout.apply(_added(one))),
        edits=_edits(case.candidate, one, two, layout),
    )


def _repair(two: Attention, logits: Float64) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:  # noqa: ARG001 – the type's signature
        two.put_logits(logits, overrides)

    return repair


def _edits(part: Part, one: Attention, two: Attention, layout: Layout) -> list[Edit]:
    """The number that the candidate fills in, where it masks what the reference masks and one constant holds it."""
    masked = _added(two) < MASKED
    if two.fused or not np.array_equal(layout.apply(_added(one)) < MASKED, masked):
        return []
    holders = [name for name in _upstream(part, two) if _holds(part, name, _filled(two))]
    if len(holders) != 1:
        return []
    numbers = np.asarray(part.weight(holders[0])).astype(np.float64)
    fill = np.where(numbers < MASKED, _filled(one), numbers)
    return [SetNumbers(tensor=holders[0], numbers=fill)]


def _upstream(part: Part, attention: Attention) -> list[str]:
    """Weights and constants that the mask is made of."""
    view = part.view
    waiting = [name for site in attention.masked for name in site.inputs if name]
    found: dict[str, None] = {}
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        site = view.site_of(name)
        if name in view.trace.weights:
            found[name] = None
        elif site is not None and name not in seen and not set(attention.named).intersection(site.outputs):
            seen.add(name)
            waiting += [one for one in site.inputs if one] if site.kind not in {"matmul", "softmax"} else []
    return list(found)


def _holds(part: Part, name: str, fill: float) -> bool:
    """Whether what a weight masks with is that number."""
    entry = part.view.trace.weights[name]
    if entry.dtype not in FLOAT_DTYPES or not entry.signature.low < MASKED:
        return False
    numbers = np.asarray(part.weight(name)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return bool(np.isclose(numbers[numbers < MASKED], fill, rtol=FILL).all())


def _filled(attention: Attention) -> float:
    """With what an attention masks: what it adds, or puts in the place of a score."""
    masked = _added(attention) < MASKED
    puts, adds = attention.logits[masked], _added(attention)[masked]
    return float(np.median(puts if np.ptp(puts) <= np.ptp(adds) else adds)) if puts.size else 0.0


def _added(attention: Attention) -> Float64:
    with np.errstate(invalid="ignore"):
        return attention.logits - attention.scores


def _both_added(one: Attention, two: Attention, layout: Layout) -> tuple[Float64, Float64]:
    """What either side adds to its scores, as the reference's lie and with the keys last."""
    ours, theirs = _added(one), layout.inverse.apply(_added(two))
    return np.moveaxis(ours, one.axis, -1), np.moveaxis(theirs, one.axis, -1)


def _words(case: Case, one: Attention, two: Attention, layout: Layout) -> tuple[str, str]:
    ours, theirs = _both_added(one, two, layout)
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


def _blind(one: Attention, two: Attention, layout: Layout) -> tuple[str, str]:
    """How many queries see nothing at all, and what to do: what the same places are filled with shows there alone."""
    before, after = (added < MASKED for added in _both_added(one, two, layout))
    blind = before.all(axis=-1)
    if not blind.any() or not np.array_equal(before, after):
        return "", ""
    count = f"{np.count_nonzero(blind):,} of {blind.size:,} queries"
    return f"; it shows only in the {count} that see nothing at all, as those of padding may", HIDDEN


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
