"""Cause: another epsilon in a normalisation."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.diagnose.case import Case, Hypothesis, Part, Repair, finite_rms, put
from parity.diagnose.norms import Norm, fused, names, norms, roots, told
from parity.diagnose.numbers import Float64
from parity.edits import Adjust, Edit, SetAttributes, SetNumbers
from parity.graph import NORMALIZATIONS, Site

MOST: Final = 12
"""Hypotheses at most for one region."""

ALIKE: Final = 1e-3
"""Relative difference up to which two epsilons are one, rounded."""

USUAL: Final = (1e-2, 1e-3, 1e-4, 2e-5, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)
"""Epsilons that are tried where the candidate's went into its weights."""


@dataclass(frozen=True, slots=True)
class Epsilon:
    """An epsilon as it stands in one side's region.

    Attributes:
        value: The number; 0 where none is added.
        sites: Where it acts.
        weight: Scalar that holds it; empty where it is an attribute, or absent.
        tensor: Tensor that it is to be added to, where it is absent.
        norm: The fused operator whose attribute it is.
    """

    value: float
    sites: tuple[Site, ...]
    weight: str = ""
    tensor: str = ""
    norm: Site | None = None


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each epsilon of the candidate's region replaced by the reference's in its place."""
    ours, theirs = _epsilons(case.reference), _epsilons(case.candidate)
    pairs = list(zip(ours, theirs, strict=True)) if len(ours) == len(theirs) else list(product(ours, theirs))
    others = ((one, two) for one, two in pairs if not _alike(one.value, two.value))
    for one, two in islice(others, MOST):
        found = _hypothesis(one.value, two.value, one.sites, two.sites, _repair(one.value, two))
        yield replace(found, edits=[_edit(one.value, two)])
    if ours and not theirs:
        yield from _folded(case)


def _alike(one: float, two: float) -> bool:
    return abs(one - two) <= ALIKE * max(one, two)


def _epsilons(part: Part) -> list[Epsilon]:
    found = [
        Epsilon(float(site.attributes["epsilon"]), (site,), norm=site)
        for site in part.sites
        if site.kind in NORMALIZATIONS and "epsilon" in site.attributes
    ]
    found.extend(
        Epsilon(root.epsilon, root.sites, root.weight, "" if root.weight else root.tensor)
        for root in roots(part)
        if root.weight or root.tensor in part.view.dynamic  # a stored variance may hold its epsilon already
    )
    return sorted(found, key=lambda one: part.view.by_name[one.sites[0].name])


def _hypothesis(
    ours: float, theirs: float, reference: tuple[Site, ...], candidate: tuple[Site, ...], repair: Repair
) -> Hypothesis:
    return Hypothesis(
        rule="normalization-epsilon",
        message=f"the candidate normalises with epsilon {told(theirs)} where the reference has {told(ours)}",
        expected=told(ours),
        observed=told(theirs),
        fix=f"Set the epsilon of this normalisation to {told(ours)}.",
        places={"reference": names(reference), "candidate": names(candidate)},
        repair=repair,
    )


def _repair(value: float, epsilon: Epsilon) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:
        if epsilon.weight:
            overrides[epsilon.weight] = np.full(np.shape(part.weight(epsilon.weight)), value)
        elif epsilon.norm is not None:
            norm = fused(part, epsilon.norm)
            if norm is not None:
                changed = replace(norm.form, epsilon=value)
                overrides[norm.target] = norm.finished(changed.normalised(norm.x))
        else:
            overrides[epsilon.tensor] = part.value(epsilon.tensor, overrides) + value

    return repair


def _edit(value: float, epsilon: Epsilon) -> Edit:
    if epsilon.weight:
        readers = tuple(site.outputs[0] for site in epsilon.sites)
        return SetNumbers(tensor=epsilon.weight, numbers=np.array(value), readers=readers)
    if epsilon.norm is not None:
        return SetAttributes(output=epsilon.norm.outputs[0], values={"epsilon": value})
    return Adjust(tensor=epsilon.tensor, addend=value)


def _folded(case: Case) -> Iterator[Hypothesis]:
    """Stored statistics that went into the candidate's weights, with the usual epsilon that its numbers fit."""
    theirs = np.asarray(case.candidate.value(case.candidate.target), np.float64).reshape(case.exact.shape)
    for norm in norms(case.reference):
        if not norm.form.running:
            continue
        others = [value for value in USUAL if not _alike(value, norm.form.epsilon)]
        made = {value: _with_epsilon(case, norm, value) for value in others}
        value = min(made, key=lambda one: finite_rms(theirs - made[one]))
        numbers = theirs - made[value] + case.exact
        repair = put(case.candidate.target, numbers)
        yield _hypothesis(norm.form.epsilon, value, norm.sites, case.candidate.sites[-1:], repair)


def _with_epsilon(case: Case, norm: Norm, value: float) -> Float64:
    """What the reference's region gives with another epsilon, in the candidate's layout."""
    changed = norm.finished(replace(norm.form, epsilon=value).normalised(norm.x))
    target = case.reference.value(case.reference.target, {norm.target: changed})
    return np.asarray(case.region.pair.layout.apply(np.asarray(target, np.float64)))
