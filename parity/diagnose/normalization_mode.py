"""Cause: statistics of a normalisation that are taken over something else, or stored ones that are ignored."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Final

from parity.adapter import Array
from parity.align.layout import Layout
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.norms import Norm, names, norms
from parity.diagnose.numbers import mapping, same

MOST: Final = 8
"""Hypotheses at most for one region."""


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each normalisation of the candidate's region done with the statistics that the reference takes."""
    ours, theirs = norms(case.reference), norms(case.candidate)
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else product(ours, theirs)
    for one, two in islice(pairs, MOST):
        layout = mapping(one.x, two.x)
        if layout is not None and _differ(one, two, layout):
            yield _hypothesis(one, two, layout)


def _differ(one: Norm, two: Norm, layout: Layout) -> bool:
    """Whether the statistics of two normalisations are taken over different elements."""
    if one.form.running or two.form.running:
        return one.form.running != two.form.running
    alike = replace(one.form, centred=two.form.centred, correction=two.form.correction)
    return not same(layout.apply(alike.spread(one.x)), two.form.spread(two.x))


def _hypothesis(one: Norm, two: Norm, layout: Layout) -> Hypothesis:
    whole = two.form.over_batch and not one.form.over_batch and not one.form.running
    expected, observed = ("per sample", "over the whole batch") if whole else (one.form.words, two.form.words)
    return Hypothesis(
        rule="batch-dependence" if whole else "normalization-mode",
        message=f"the candidate normalises by other statistics: {observed}, where the reference has {expected}",
        expected=expected,
        observed=observed,
        fix="Take the statistics as the reference does: " + _fix(one),
        places={"reference": names(one.sites), "candidate": names(two.sites)},
        repair=_repair(one, two, layout),
    )


def _fix(one: Norm) -> str:
    if one.form.running:
        return "export in evaluation mode, with the stored mean and variance."
    return f"{one.form.words}, over axes {', '.join(map(str, one.form.axes))} of shape {list(one.form.shape)}."


def _repair(one: Norm, two: Norm, layout: Layout) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:  # noqa: ARG001 – the type's signature
        form = replace(one.form, epsilon=two.form.epsilon, outside=two.form.outside)
        overrides[two.target] = two.finished(layout.apply(form.normalised(one.x)))

    return repair
