"""Eight bits that the tensors say: noise, as long as it is no more than eight bits make."""

from typing import Final

import numpy as np

from parity.adapter import Array
from parity.compare.local import rms
from parity.diagnose.case import Case, Hypothesis, Part, finite_rms
from parity.dtypes import FLOAT_DTYPES

LEVELS: Final = 127
"""Largest magnitude of a signed byte."""

WORSE: Final = 4.0
"""Factor by which the error may exceed that of the twin: scales are not always chosen by the largest number."""


def examine(case: Case) -> Hypothesis | None:
    """What to say of a region that is quantised and no worse than the reference would be with bytes; None otherwise."""
    sites = quantized_sites(case.candidate)
    if not sites or case.measure is None:
        return None
    twin = _twin_error(case)
    if not finite_rms(case.gap) <= WORSE * twin:
        return None
    return Hypothesis(
        rule="precision",
        message="computed with integers of 8 bits, as its tensors say, and no worse than the reference would be so",
        expected=case.dtype,
        observed="int8",
        fix="Nothing, where quantisation is meant.",
        places={"candidate": sites},
        evidence={"twin_error": twin},
        severity="note",
    )


def quantized_sites(part: Part) -> list[str]:
    """Operators that quantise, or read or make bytes."""
    known = {**part.view.trace.tensors, **part.view.trace.weights}

    def reads_bytes(name: str) -> bool:
        return name in known and known[name].dtype in {"int8", "uint8"}

    return [
        site.name
        for site in part.sites
        if site.kind in {"quantize", "dequantize"} or any(map(reads_bytes, (*site.inputs, *site.outputs)))
    ]


def _twin_error(case: Case) -> float:
    """Size of the error of the reference's function with its inputs and matrices rounded to 8 bits."""
    part = case.reference
    rounded: dict[str, Array] = {
        name: to_bytes(array) for name, array in part.given.items() if array.dtype.name in FLOAT_DTYPES
    }
    for name in part.weight_names:
        weight = part.weight(name)
        if weight.dtype.name in FLOAT_DTYPES and weight.ndim > 1:
            rounded[name] = to_bytes(weight)
    return rms((case.reference_output(rounded) - case.exact).reshape(-1))


def to_bytes(array: Array) -> Array:
    """Numbers rounded to multiples of the largest one's 127th part, as float64."""
    wide = array.astype(np.float64)
    step = float(np.max(np.abs(wide), initial=0.0)) / LEVELS
    return np.round(wide / step) * step if step > 0 and np.isfinite(step) else wide
