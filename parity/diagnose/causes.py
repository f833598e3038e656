"""The causes that are looked for, in the order in which they are tried."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from parity.diagnose import activation, overflow, precision, weights
from parity.diagnose.explain import Examiner

FUNCTION: Final[Sequence[Examiner]] = (weights.examine,)
"""Causes of a region whose two functions differ, beside activations; the narrower ones first."""

ROUNDING: Final[Sequence[Examiner]] = (precision.examine,)
"""Causes of a region of one function that is computed badly."""

OVERFLOW: Final[Sequence[Examiner]] = (overflow.examine,)
"""Causes of a region that leaves its type's range."""


def of_function(known: Sequence[activation.Difference]) -> list[Examiner]:
    """Causes of differing functions, given the activations that were found to differ."""
    return [partial(activation.examine, known=known), *FUNCTION]
