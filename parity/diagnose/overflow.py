"""Cause: a number that leaves its type's range, in the candidate alone."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.align.by_scope import normal_scope
from parity.diagnose.case import Case, Hypothesis, Part
from parity.diagnose.numbers import held
from parity.graph import Site


def examine(case: Case) -> Iterator[Hypothesis]:
    """The first operator of the candidate that makes an infinity or NaN where its function has none.

    Where the function itself leaves what float64 can hold, it is the first that makes one of finite numbers.
    """
    names = [name for site in case.candidate.sites for name in site.outputs if name]
    ran = case.candidate.values(names, precision="native")
    lost = [
        (site, name)
        for site in case.candidate.sites
        for name in site.outputs
        if name in ran and ran[name].dtype.kind in "fV" and not _finite(ran[name])
    ]
    first = next(((site, name) for site, name in lost if _finite(case.candidate.value(name))), None)
    first = first or next(((site, name) for site, name in lost if _from_finite(case.candidate, site, ran, name)), None)
    if first is None:
        return
    site, name = first
    array = ran[name]
    scope = normal_scope(site.scope)
    kind, observed = (
        "NaN" if np.isnan(one.astype(np.float64)).any() else "infinity" for one in (array, ran[case.candidate.target])
    )
    yield Hypothesis(
        rule="overflow",
        message=f"{site.op}{_operand(case.candidate, site, ran, name)} gives {kind} in {array.dtype.name} where the "
        "reference stays finite",
        expected="finite",
        observed=observed,
        fix=_fix(site, array.dtype.name),
        places={
            "reference": [one.name for one in case.reference.sites if normal_scope(one.scope) == scope],
            "candidate": [site.name],
        },
        evidence={"not_finite": int(np.count_nonzero(~np.isfinite(array.astype(np.float64))))},
    )


FIXES: Final = {
    "exp": "Keep what goes into '{0}' small: clip it, or take the row's largest number from it. The framework's own "
    "tanh, sigmoid and softmax do so.",
    "sqrt": "Keep what goes into '{0}' at 0 or above: a variance made as mean(x²) - mean(x)² can fall below it.",
    "rsqrt": "Keep what goes into '{0}' above 0: add an epsilon that {1} does not round to 0.",
    "div": "Keep what '{0}' divides by above 0: add an epsilon that {1} does not round to 0.",
    "log": "Keep what goes into '{0}' above 0.",
}
"""What to do about an operator that leaves its type's range, by kind."""


def _fix(site: Site, dtype: str) -> str:
    otherwise = "Compute '{0}' in a wider type than {1}, or scale down what goes into it."
    return FIXES.get(site.kind, otherwise).format(site.name, dtype)


def _operand(part: Part, site: Site, ran: Mapping[str, Array], name: str) -> str:
    """What an operator of one operand was given at the first place that is not finite; empty for others."""
    dynamic = [one for one in site.inputs if one in part.view.dynamic]
    if len(dynamic) != 1 or len(site.inputs) > 1:
        return ""
    array = ran[dynamic[0]] if dynamic[0] in ran else held(part, dynamic[0])
    odd = np.flatnonzero(~np.isfinite(ran[name].astype(np.float64)))
    if array.size != ran[name].size:
        return ""
    return f" of {float(array.reshape(-1)[odd[0]]):.4g}"


def _finite(array: Array) -> bool:
    return bool(np.isfinite(array.astype(np.float64)).all())


def _from_finite(part: Part, site: Site, ran: Mapping[str, Array], name: str) -> bool:
    """Whether a site makes an infinity or NaN of finite numbers; a mask's is at the same place before."""
    odd = ~np.isfinite(ran[name].astype(np.float64)).reshape(-1)
    for one in filter(None, site.inputs):
        array = ran[one] if one in ran else held(part, one)
        if array.size == odd.size:
            odd &= np.isfinite(array.astype(np.float64)).reshape(-1)
        elif not _finite(array):
            return False
    return bool(odd.any())
