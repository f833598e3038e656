"""Cause: weights that are not the reference's: transposed, scaled, shifted, cast, quantised, or simply others."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.align.layout import Layout, arrangements
from parity.diagnose.case import Case, Hypothesis, Part, put
from parity.diagnose.precision import NARROW, casts
from parity.dtypes import FLOAT_DTYPES
from parity.edits import SetNumbers
from parity.graph import NORMALIZATIONS

Float64 = NDArray[np.float64]

MOST: Final = 24
"""Hypotheses on weights at most for one region."""

MOST_VECTORS: Final = 6
"""Vectors at most that are tried as missing."""


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each weight of the candidate's region replaced by one of the reference's, in each arrangement that fits."""
    made = 0
    for other in case.candidate.weight_names:
        theirs = case.candidate.view.trace.weights[other]
        if theirs.signature.count < 2 or not _floating(theirs.dtype):
            continue
        for name in _partners(case, other):
            ours = case.reference.view.trace.weights[name]
            for layout in arrangements(ours.shape, theirs.shape):
                if made >= MOST:
                    return
                hypothesis = _hypothesis(case, name, other, layout)
                if hypothesis is not None:
                    made += 1
                    yield hypothesis
    yield from _missing(case)


def _missing(case: Case) -> Iterator[Hypothesis]:
    """Vectors of the reference that the candidate may not have at all: a bias of zeros, a scale of ones."""
    known = case.reference.view.trace.weights
    vectors = [name for name in case.reference.weight_names if known[name].signature.count > 1]
    for name in [one for one in vectors if max(known[one].shape, default=0) == known[one].signature.count][
        :MOST_VECTORS
    ]:
        scales = _scales(case.reference, name)
        for value, what in ((1.0, "scale missing"),) if scales else ((0.0, "bias missing"), (1.0, "scale missing")):
            numbers = np.full(known[name].shape, value)
            yield Hypothesis(
                rule="weights",
                message=f"the candidate lacks the reference's '{name}'",
                expected="weight",
                observed=what,
                fix=f"Export '{name}' with the model.",
                places={"reference": [name, *_readers(case.reference, name)]},
                injection=put(name, numbers),
            )


def _scales(part: Part, weight: str) -> bool:
    """Whether a weight is the scale of a normalisation: with zeros in it nothing is left, which is no missing bias."""
    return any(
        site.kind in NORMALIZATIONS and len(site.inputs) > 1 and part.view.origin(site.inputs[1]) == weight
        for site in part.sites
    )


def _floating(dtype: str) -> bool:
    return dtype in FLOAT_DTYPES


def _partners(case: Case, other: str) -> list[str]:
    """Weights of the reference's region of as many elements, the most alike first."""
    signature = case.candidate.view.trace.weights[other].signature
    known = case.reference.view.trace.weights
    names = [
        name
        for name in case.reference.weight_names
        if known[name].signature.count == signature.count and _floating(known[name].dtype)
    ]
    return sorted(names, key=lambda name: known[name].signature.distance(signature))


def _hypothesis(case: Case, name: str, other: str, layout: Layout) -> Hypothesis | None:
    ours = layout.apply(np.asarray(case.reference.weight(name)).astype(np.float64))
    theirs = np.asarray(case.candidate.weight(other)).astype(np.float64)
    if np.array_equal(ours, theirs):
        return None
    what = relation(ours, theirs)
    stored = case.candidate.view.trace.weights[other].dtype
    rounded = what.removeprefix("rounded to ")
    narrow = casts(case.candidate, rounded) if rounded in NARROW and rounded != stored else []
    if narrow:  # the graph optimiser may have cast the weight already
        return Hypothesis(
            rule="precision",
            message=f"the candidate computes in {rounded} between tensors that say {case.dtype}: the weight '{other}' "
            "is rounded to it",
            expected=case.dtype,
            observed=rounded,
            fix=f"Compute this operator in {case.dtype}, or declare the lower precision with --candidate-dtype.",
            places={"reference": [name, *_readers(case.reference, name)], "candidate": [other, *narrow]},
            repair=put(other, ours),
        )
    return Hypothesis(
        rule="weights",
        message=f"the candidate's weight '{other}' is not the reference's '{name}': {what}",
        expected="weight",
        observed=f"weight {what}",
        fix=f"Export '{name}' again, and check how '{other}' is made of it.",
        places={
            "reference": [name, *_readers(case.reference, name)],
            "candidate": [other, *_readers(case.candidate, other)],
        },
        repair=put(other, ours),
        evidence={"weight_max_abs": float(np.max(np.abs(ours - theirs)))},
        severity="note" if what == f"rounded to {stored}" else "error",  # its tensor says so itself
        edits=[SetNumbers(tensor=other, numbers=ours, readers=_direct_readers(case.candidate, other))],
    )


def _direct_readers(part: Part, weight: str) -> tuple[str, ...]:
    return tuple(site.outputs[0] for site in part.sites if weight in site.inputs)


def _readers(part: Part, weight: str) -> list[str]:
    """Sites that read a weight, through whatever moves it about."""
    return [site.name for site in part.sites if any(part.view.origin(one) == weight for one in site.inputs if one)]


def relation(ours: Float64, theirs: Float64) -> str:
    """What was done to ``ours`` to get ``theirs``, in words; arrays of one shape."""
    if not theirs.any():
        return "all zero"
    for name, dtype in FLOAT_DTYPES.items():
        with np.errstate(over="ignore"):
            rounded = ours.astype(dtype).astype(np.float64)
        if name != "float64" and np.array_equal(rounded, theirs):
            return f"rounded to {name}"
    if not _equal(ours, theirs) and _equal(np.sort(ours, axis=None), np.sort(theirs, axis=None)):
        return _rearranged(ours, theirs)
    return _changed(ours, theirs)


def _equal(a: Float64, b: Float64) -> bool:
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-12))


def _rearranged(ours: Float64, theirs: Float64) -> str:
    """Likewise where the same numbers lie in another order."""
    if ours.ndim == 2 and _equal(ours.T.reshape(theirs.shape), theirs):
        return "transposed"
    for axis in range(ours.ndim):
        if any(_equal(np.roll(ours, shift, axis), theirs) for shift in (1, -1)):
            return "shifted by one"
        if _equal(np.flip(ours, axis), theirs):
            return "reversed"
    return "in another order"


def _changed(ours: Float64, theirs: Float64) -> str:
    """Likewise where the numbers themselves are others."""
    factor = float(np.vdot(ours, theirs) / np.vdot(ours, ours)) if ours.any() else 0.0
    rest = float(np.linalg.norm(theirs - factor * ours) / np.linalg.norm(theirs))
    changed = int(np.count_nonzero(ours != theirs))
    if rest < 1e-3 and changed > ours.size // 2:
        return f"scaled by {factor:.4g}"
    if rest < 0.2 and len(np.unique(theirs)) <= 256 < theirs.size:
        return f"quantised to {len(np.unique(theirs))} levels"
    if changed < ours.size // 2:
        return f"with {changed} of {ours.size} elements changed"
    return "slightly changed" if rest < 0.1 else "other numbers"
