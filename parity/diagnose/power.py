"""Power: the smallest difference that these inputs would have shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from parity.align.view import GraphView
from parity.compare.local import rms
from parity.diagnose.chains import Activation
from parity.functions import Variant, variant
from parity.layerwise.measuring import Layer

NEIGHBOURS: Final = {
    "gelu_erf": "gelu_tanh",
    "gelu_tanh": "gelu_erf",
    "quick_gelu": "gelu_erf",
    "silu": "hard_swish",
    "hard_swish": "silu",
    "sigmoid": "hard_sigmoid",
    "hard_sigmoid": "sigmoid",
    "mish": "silu",
    "relu": "gelu_erf",
    "elu": "selu",
    "tanh": "hard_tanh",
}
"""The variant that one is most easily taken for."""

SEEN: Final = 6.0
"""Standard deviations from which on a swap would have been seen."""

LOOKED_AT: Final = 8192
"""Inputs of an activation at most that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapPower:
    """What a swap of one activation would have done.

    Attributes:
        reference: The tensor that the activation makes.
        scope: Its module.
        variant: What it computes.
        alternative: What it would be taken for.
        sigma: Standard deviations by which the swap would have stood out of the rounding in the run itself.
    """

    reference: str
    scope: str
    variant: str
    alternative: str
    sigma: float


def swaps(view: GraphView, layers: Sequence[Layer], activations: Sequence[Activation]) -> list[SwapPower]:
    """The power of the run against a swap of each activation of the reference."""
    by_tensor = {layer.region.pair.reference: layer for layer in layers}
    found = []
    for one in activations:
        other = alternative(one.variant)
        layer = by_tensor.get(one.chain.target) or by_tensor.get(view.origin(one.chain.target))
        if one.variant is None or other is None or layer is None or layer.measure is None:
            continue
        if one.chain.source not in view.trace:
            continue
        x = _sample(view.trace.array(one.chain.source))
        difference = rms(other.value(x) - one.variant.value(x)) if x.size else 0.0
        rounding = layer.measure.error if layer.measure.rounding is None else layer.measure.rounding
        noise = max(layer.measure.floor, rounding)
        count = view.trace.tensors[one.chain.source].signature.count
        sigma = math.inf if not noise else difference * math.sqrt(count) / noise
        site = one.chain.sites[-1]
        found.append(
            SwapPower(
                reference=one.chain.target,
                scope=site.scope,
                variant=str(one.variant),
                alternative=str(other),
                sigma=sigma,
            )
        )
    return found


def alternative(one: Variant | None) -> Variant | None:
    """The variant that one is most easily taken for; None for those that are seldom taken for another."""
    name = NEIGHBOURS.get(one.name) if one is not None else None
    return variant(name) if name else None


def _sample(array: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    flat = np.asarray(array).reshape(-1)
    step = max(1, flat.size // LOOKED_AT)
    wide = flat[::step].astype(np.float64)
    return wide[np.isfinite(wide)]


def told(found: Sequence[SwapPower]) -> Mapping[str, Any]:
    """Power as the report holds it."""
    return {"activation_swaps": list(found), "weakest_sigma": min((one.sigma for one in found), default=None)}
