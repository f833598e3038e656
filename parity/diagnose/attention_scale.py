"""Cause: scores of an attention that are scaled by another factor."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.align.view import GraphView
from parity.compare.local import rms
from parity.diagnose.attention import Attention, attentions
from parity.diagnose.attention import factor as factor_of
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.norms import names
from parity.diagnose.numbers import Float64, mapping
from parity.edits import Adjust, Edit, SetAttributes, SetNumbers

MOST: Final = 4
"""Hypotheses at most for one region."""

ALIKE: Final = 1e-3
"""Relative difference up to which two factors are one."""


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each attention of the candidate's region with its scores scaled as the reference's are."""
    ours, theirs = attentions(case.reference), attentions(case.candidate)
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else product(ours, theirs)
    for one, two in islice(pairs, MOST):
        factor = _factor(one.scores, two.scores)
        if factor is not None and not _alike(factor, 1.0) and not _alike(one.scale, two.scale):
            yield replace(_hypothesis(one, two, factor), edits=[_edit(case.candidate.view, two, factor)])


def _alike(one: float, two: float) -> bool:
    return abs(one - two) <= ALIKE * abs(two)


def _factor(ours: Float64, theirs: Float64) -> float | None:
    """By what the candidate's scores are to be multiplied; None where they are not the reference's scaled."""
    big, small = rms(ours.reshape(-1)), rms(theirs.reshape(-1))
    if not (0 < big < math.inf and 0 < small < math.inf):
        return None
    return big / small if mapping(ours / big, theirs / small) is not None else None


def _hypothesis(one: Attention, two: Attention, factor: float) -> Hypothesis:
    width = one.width if one.width > 1 else two.width
    expected, observed = told(one.scale, width), told(two.scale, width)
    return Hypothesis(
        rule="attention-scale",
        message=f"the candidate scales its scores by {observed} where the reference scales them by {expected}",
        expected=expected,
        observed=observed,
        fix=f"Scale queries times keys once, by {expected}.",
        places={"reference": names(one.sites), "candidate": names(two.sites)},
        repair=_repair(two, factor),
        evidence={"factor": 1.0 / factor},
    )


def _repair(two: Attention, factor: float) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:  # noqa: ARG001 – the type's signature
        two.put_scores(two.scores * factor, overrides)

    return repair


def _edit(view: GraphView, two: Attention, factor: float) -> Edit:
    """The candidate's own factor made right; where it has none, one more."""
    if two.fused:
        site = two.sites[0]
        return SetAttributes(output=site.outputs[0], values={"scale": float(site.attributes["scale"]) * factor})
    for site in two.sites:
        value = factor_of(view, site)
        if value is None:
            continue
        name = next(one for one in site.inputs if one not in view.dynamic)
        number = value * factor
        numbers = np.array(number if site.kind == "mul" else 1.0 / number)
        return SetNumbers(tensor=view.root(name), numbers=numbers, readers=(site.outputs[0],))
    return Adjust(tensor=two.sites[0].outputs[0] if two.sites[0].kind == "matmul" else two.named[0], factor=factor)


def told(scale: float, width: int) -> str:
    """A factor in the form in which it is written: 1/sqrt(8) and not 0.354."""
    likely = {1.0: "1", width**-0.5: f"1/sqrt({width})", 1.0 / width: f"1/{width}"}
    for value, text in likely.items():
        if _alike(scale, value):
            return text
    squares = round(scale**-2)
    if squares % width == 0 and abs(scale**-2 - squares) <= ALIKE * squares:
        return f"1/sqrt({squares})"
    for text, number in (("1/{}", 1 / scale), ("1/sqrt({})", scale**-2), ("{}", scale), ("sqrt({})", scale**2)):
        whole = round(number)
        if whole > 1 and abs(number - whole) <= ALIKE * whole:
            return text.format(whole)
    return f"{scale:.4g}"
