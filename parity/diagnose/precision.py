"""Cause: computed in a lower precision than the tensors say."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.view import GraphView
from parity.compare.local import rms
from parity.diagnose.case import Case, Hypothesis, Part
from parity.dtypes import FLOAT_DTYPES
from parity.graph import Site

Float64 = NDArray[np.float64]

HIDDEN: Final = ("float16", "bfloat16", "tf32")
"""Lower precisions that hide in float32 tensors."""

TF32_BITS: Final = 13
"""Bits of a float32 significand that TF32 drops."""

EXPLAINS: Final = 0.5
"""Correlation of the error with the simulated one from which the precision is named."""


def examine(case: Case) -> Iterator[Hypothesis]:
    """The lower precision whose rounding of operands and weights gives the very errors that the candidate makes.

    Where the candidate's own operators make tensors of a narrower type, it is that one.
    """
    error = _rounding(case)
    cast = narrow_sites(case.candidate)
    names = [_cast_dtype(case.candidate, cast)] if cast else list(HIDDEN)
    coefficient, name = max((_correlation(error, _simulated(case, name)), name) for name in names)
    bits = effective_bits(rms(case.exact.reshape(-1)), rms(error.reshape(-1)))
    known = bool(cast) or coefficient >= EXPLAINS
    yield Hypothesis(
        rule="precision",
        message=f"the candidate's tensors say {case.dtype}, but keep {bits:.1f} significant bits"
        + (f", as {name} does" if known else ""),
        expected=case.dtype,
        observed=name if known else "fewer significant bits",
        fix=f"Compute this operator in {case.dtype}, or declare the lower precision with --candidate-dtype.",
        places={"candidate": cast},
        evidence={"effective_bits": bits, "correlation": coefficient},
    )


def effective_bits(scale: float, error: float) -> float:
    """Significant bits of numbers of size ``scale`` with an error of size ``error``; rounding leaves 0.29 of a unit."""
    return math.log2(scale / (error * math.sqrt(12))) + 1 if error > 0 and scale > 0 else math.inf


NARROW: Final = ("float16", "bfloat16")
"""Types of 16 bits."""


def narrow_sites(part: Part, dtypes: Sequence[str] = NARROW) -> list[str]:
    """Operators of the region that make a tensor of some types."""
    return [site.name for site in part.sites if _makes(part.view, site, dtypes)]


def casts(part: Part, dtype: str) -> list[str]:
    """Operators that make a tensor of a type or are given one: of the region, or of those that read its result."""
    view = part.view
    after = [view.trace.sites[at] for at in view.consumers.get(part.target, ())]
    given = [site for site in part.sites if any(_dtype(view, name) == dtype for name in site.inputs)]
    return [
        *dict.fromkeys(
            site.name for site in (*given, *part.sites, *after) if site in given or _makes(view, site, [dtype])
        )
    ]


def _makes(view: GraphView, site: Site, dtypes: Sequence[str]) -> bool:
    return any(_dtype(view, name) in dtypes for name in site.outputs)


def _dtype(view: GraphView, name: str) -> str:
    known = view.trace.tensors.get(name) or view.trace.weights.get(name)
    return known.dtype if known is not None else ""


def _cast_dtype(part: Part, sites: list[str]) -> str:
    """The 16-bit type of the first of these sites."""
    entries = part.view.trace.tensors
    first = next(site for site in part.sites if site.name == sites[0])
    return next(entries[name].dtype for name in first.outputs if name in entries)


def _rounding(case: Case) -> Float64:
    """The candidate's own rounding: as it runs, less the same function in float64."""
    target = case.candidate.target
    native = case.candidate.values([target], precision="native")[target].astype(np.float64)
    return native.reshape(case.exact.shape) - case.candidate.value(target).reshape(case.exact.shape)


def _simulated(case: Case, name: str) -> Float64:
    """The error of the reference's function where its operands and weights are rounded to ``name``."""
    part = case.reference
    rounded: dict[str, Array] = {
        one: rounded_to(array, name) for one, array in part.given.items() if array.dtype.name in FLOAT_DTYPES
    }
    for one in part.weight_names:
        weight = part.weight(one)
        if weight.dtype.name in FLOAT_DTYPES and weight.size > 1:
            rounded[one] = rounded_to(weight, name)
    return case.reference_output(rounded) - case.exact


def rounded_to(array: Array, name: str) -> Float64:
    """Numbers rounded to a lower precision, as float64."""
    if name == "tf32":
        bits = array.astype(np.float32).view(np.uint32)
        half = np.uint32(1 << (TF32_BITS - 1))
        return ((bits + half) & ~np.uint32((1 << TF32_BITS) - 1)).view(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        return array.astype(FLOAT_DTYPES[name]).astype(np.float64)


def _correlation(error: Float64, simulated: Float64) -> float:
    fine = np.isfinite(error) & np.isfinite(simulated)
    power = float(np.vdot(simulated[fine], simulated[fine]))
    size = float(np.vdot(error[fine], error[fine]))
    if not power or not size:
        return 0.0
    return float(np.vdot(error[fine], simulated[fine])) / math.sqrt(power * size)
