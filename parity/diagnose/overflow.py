"""Cause: a number that leaves its type's range, in the candidate alone."""

from collections.abc import Iterator

import numpy as np

from parity.diagnose.case import Case, Hypothesis


def examine(case: Case) -> Iterator[Hypothesis]:
    """The first operator of the candidate that makes an infinity or NaN where its function has none."""
    names = [name for site in case.candidate.sites for name in site.outputs if name]
    ran = case.candidate.values(names, precision="native")
    for site in case.candidate.sites:
        for name in site.outputs:
            array = ran.get(name)
            if array is None or array.dtype.kind not in "fV":
                continue
            wide = array.astype(np.float64)
            if np.isfinite(wide).all() or not np.isfinite(case.candidate.value(name)).all():
                continue
            kind = "NaN" if np.isnan(wide).any() else "infinity"
            observed = "NaN" if np.isnan(ran[case.candidate.target].astype(np.float64)).any() else "infinity"
            yield Hypothesis(
                rule="overflow",
                message=f"{site.op} gives {kind} in {array.dtype.name} where the reference stays finite",
                expected="finite",
                observed=observed,
                fix="Use a form of this function that does not overflow, or a wider type for it.",
                places={"candidate": [site.name]},
                evidence={"not_finite": int(np.count_nonzero(~np.isfinite(wide)))},
            )
            return
