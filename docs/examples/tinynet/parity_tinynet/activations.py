"""The table of activations: the call as a user types it, and which variant it declares to be."""

from collections.abc import Callable

import numpy as np

import tinynet
from parity.adapter import Array, Implementation
from parity.functions import variant


def implementations() -> tuple[Implementation, ...]:
    """Every row. A call without flags says by ``default_of`` under which bare name it is met."""
    return (
        _row("tinynet.gelu", "gelu_erf", tinynet.gelu, default_of="gelu"),
        _row("tinynet.gelu[form=tanh]", "gelu_tanh", lambda x: tinynet.gelu(x, form="tanh")),
        _row("tinynet.relu", "relu", tinynet.relu, default_of="relu"),
    )


def _row(name: str, declared: str, function: Callable[[Array], Array], default_of: str | None = None) -> Implementation:
    return Implementation(
        name=name,
        variant=variant(declared),
        dtypes=("float64", "float32"),
        enter=np.copy,
        function=np.errstate(all="ignore")(function),
        leave=np.asarray,
        accuracy="composed",
        default_of=default_of,
    )
