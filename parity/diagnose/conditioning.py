"""Is it noise after all? How far the reference's own function moves when its inputs move by their rounding.

A recurrence that amplifies rounding, or a sum of which nothing is left, puts two honest computations far apart: what
counts is not how far, but whether it is farther than half a unit in the last place of the inputs would take it.
"""

from dataclasses import replace
from typing import Final

import ml_dtypes
import numpy as np

from parity.diagnose.case import Case, finite_rms
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.errors import ParityError
from parity.layerwise.measuring import judge

DRAWS: Final = 2
"""Perturbations that are tried; the one that moves the function farthest counts."""


def is_noise(case: Case) -> bool:
    """Whether a region is fine once its floor is what rounded inputs alone would do to it."""
    if case.measure is None:
        return False
    try:
        moved = max(_moved(case, draw) for draw in range(DRAWS))
    except ParityError:
        return False
    return judge(replace(case.measure, floor=max(case.measure.floor, moved))) == "ok"


def _moved(case: Case, draw: int) -> float:
    """Root mean square by which the reference's output moves under one random rounding of its inputs."""
    random = np.random.default_rng(draw)
    half = float(ml_dtypes.finfo(float_dtype(case.dtype)).eps) / 2
    nudged = {
        name: array.astype(np.float64) * (1 + half * random.uniform(-1, 1, array.shape))
        for name, array in case.reference.given.items()
        if array.dtype.name in FLOAT_DTYPES
    }
    if not nudged:
        return 0.0
    value = case.reference_output(nudged)
    with np.errstate(invalid="ignore"):  # equal infinities of a mask
        return finite_rms(np.where(value == case.exact, 0.0, value - case.exact))
