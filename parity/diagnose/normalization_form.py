"""Cause: another formula of a normalisation: its mean, its divisor, its scale, its bias."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.align.view import MOVES, GraphView
from parity.diagnose.case import Case, Hypothesis, Part, Repair, put
from parity.diagnose.norms import Norm, names, norms
from parity.diagnose.numbers import Float64, holder, made, mapping, wide
from parity.graph import NORMALIZATIONS, Site

MOST: Final = 8
"""Hypotheses at most of one sort for one region."""

FORMULA: Final[Mapping[str, Mapping[int, str]]] = {
    "centred": {True: "mean subtracted", False: "mean not subtracted"},
    "correction": {0: "variance over n", 1: "variance over n - 1"},
    "outside": {False: "epsilon under the root", True: "epsilon added to the root"},
}
"""Fields of a form with what their values mean."""

NEAR: Final = 8
"""Operators up to which a scale may come after the root of its normalisation."""


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each normalisation of the candidate's region with one thing of its formula as the reference has it."""
    ours, theirs = norms(case.reference), norms(case.candidate)
    pairs = list(zip(ours, theirs, strict=True) if len(ours) == len(theirs) else product(ours, theirs))[:MOST]
    for one, two in pairs:
        yield from _formulas(one, two)
    yield from islice(_scales(case), MOST)
    for one, two in pairs:
        yield from _dropped_bias(case, one, two)


def _formulas(one: Norm, two: Norm) -> Iterator[Hypothesis]:
    if one.form.running or two.form.running:
        return
    fields = [name for name in FORMULA if getattr(one.form, name) != getattr(two.form, name)]
    trials = [[name] for name in fields] + ([fields] if len(fields) > 1 else [])
    for some in trials:
        right = {name: getattr(one.form, name) for name in some}
        repair = put(two.target, two.finished(replace(two.form, **right).normalised(two.x)))
        yield _hypothesis((_told(one, some), _told(two, some)), one.sites, two.sites, repair)


def _told(norm: Norm, fields: Sequence[str]) -> str:
    return ", ".join(FORMULA[name][getattr(norm.form, name)] for name in fields)


def _hypothesis(
    words: tuple[str, str], reference: tuple[Site, ...], candidate: tuple[Site, ...], repair: Repair
) -> Hypothesis:
    expected, observed = words
    return Hypothesis(
        rule="normalization-form",
        message=f"the candidate normalises by another formula: {observed}, where the reference has {expected}",
        expected=expected,
        observed=observed,
        fix=f"Normalise as the reference does: {expected}.",
        places={"reference": names(reference), "candidate": names(candidate)},
        repair=repair,
    )


def _scales(case: Case) -> Iterator[Hypothesis]:
    """Scales that are one more or one less than the reference's."""
    ours = list(_scaling(case.reference))
    for site, name in _scaling(case.candidate):
        scale = wide(case.candidate, name)
        for mine, other in ours:
            right = wide(case.reference, other)
            if right.size != scale.size or right.size < 2:
                continue
            step = right.reshape(-1) - scale.reshape(-1)
            for more, words in ((1.0, ("scale 1 + w", "scale w")), (-1.0, ("scale w", "scale 1 + w"))):
                if np.abs(step - more).max() <= 1e-6:
                    yield _hypothesis(words, (mine,), (site,), put(name, scale + more))


def _scaling(part: Part) -> Iterator[tuple[Site, str]]:
    """Sites that scale something normalised, with the scale that depends on no input."""
    for site in part.sites:
        if site.kind in NORMALIZATIONS and len(site.inputs) > 1 and site.inputs[1]:
            yield site, site.inputs[1]
        elif site.kind == "mul" and len(site.inputs) == 2:
            for name, other in (site.inputs, site.inputs[::-1]):
                if name not in part.view.dynamic and other in part.view.dynamic and _after_norm(part.view, other):
                    yield site, name


def _after_norm(view: GraphView, tensor: str) -> bool:
    """Whether a tensor was divided by a root, or is that root, a few operators ago."""
    waiting = [tensor]
    for _ in range(NEAR):
        if not waiting:
            return False
        site = view.site_of(waiting.pop(0))
        if site is None:
            continue
        if site.kind in {*NORMALIZATIONS, "rsqrt", "sqrt", "pow"}:
            return True
        if site.kind in {*MOVES, "mul", "div", "sub", "reciprocal", "expand"}:
            waiting.extend(site.inputs)
    return False


def _dropped_bias(case: Case, one: Norm, two: Norm) -> Iterator[Hypothesis]:
    """A bias that the reference's operator adds and the candidate nowhere."""
    layout = mapping(one.x, two.x)
    if one.bias is None or not one.bias.any() or two.bias is not None or layout is None:
        return
    scale, bias = (
        None if each is None else layout.apply(np.ascontiguousarray(np.broadcast_to(each, one.x.shape)))
        for each in (one.scale, one.bias)
    )
    scaled = two.finished(two.form.normalised(two.x))
    if two.scale is None and scale is not None:
        scaled = scaled * scale
    name = two.target if two.fused else holder(case.candidate, scaled, made(case.candidate))
    if name is not None and bias is not None:
        words = ("with its bias", "without its bias")
        yield _hypothesis(words, one.sites, two.sites, _add(name, bias))


def _add(name: str, bias: Float64) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:
        before = overrides[name] if name in overrides else part.value(name, overrides)
        overrides[name] = before.reshape(bias.shape) + bias

    return repair
