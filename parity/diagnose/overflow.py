"""Cause: a number that leaves its type's range, in the candidate alone."""

from collections.abc import Iterator, Mapping

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
        message=f"{site.op} gives {kind} in {array.dtype.name} where the reference stays finite",
        expected="finite",
        observed=observed,
        fix="Use a form of this function that does not overflow, or a wider type for it.",
        places={
            "reference": [one.name for one in case.reference.sites if normal_scope(one.scope) == scope],
            "candidate": [site.name],
        },
        evidence={"not_finite": int(np.count_nonzero(~np.isfinite(array.astype(np.float64))))},
    )


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
