"""The causes that are looked for, in the order in which they are tried."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from parity.diagnose import (
    activation,
    attention_mask,
    attention_scale,
    batch_dependence,
    chains,
    dropout,
    normalization_epsilon,
    normalization_form,
    normalization_mode,
    overflow,
    padding,
    pooling_divisor,
    precision,
    recurrent_form,
    resize_coordinates,
    rotary_form,
    rounding_mode,
    softmax_axis,
    weights,
)
from parity.diagnose.explain import Examiner

FUNCTION: Final[Sequence[Examiner]] = (
    normalization_epsilon.examine,
    normalization_form.examine,
    normalization_mode.examine,
    softmax_axis.examine,
    attention_scale.examine,
    attention_mask.examine,
    rotary_form.examine,
    batch_dependence.examine,
    recurrent_form.examine,
    rounding_mode.examine,
    padding.examine,
    resize_coordinates.examine,
    pooling_divisor.examine,
    dropout.examine,
    weights.examine,
)
"""Causes of a region whose two functions differ, beside activations; the narrower ones first."""

ROUNDING: Final[Sequence[Examiner]] = (precision.examine,)
"""Causes of a region of one function that is computed badly."""

OVERFLOW: Final[Sequence[Examiner]] = (overflow.examine,)
"""Causes of a region that leaves its type's range."""


def of_function(known: Sequence[activation.Difference], ours: Sequence[chains.Activation]) -> list[Examiner]:
    """Causes of differing functions, given the activations that differ, and all of the reference's."""
    fused = partial(activation.examine_fused, ours=ours)
    unknown = partial(activation.examine_unknown, ours=ours)
    return [partial(activation.examine, known=known), *FUNCTION, fused, unknown]
