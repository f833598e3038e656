"""The export as JAX's users make it: StableHLO by `jax.export`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import jax

from parity.adapter import Exported
from parity.errors import EngineError
from parity_adapters.jax.opening import told

TARGETS: Final = {"jax-export": "StableHLO by jax.export.export"}
"""Deployment targets and the forms in which a model is exported to them."""


def export(function: Callable[..., Any], arrays: Sequence[jax.Array], folder: Path) -> Exported:
    """Writes a function, with the weights that it holds, for arguments of these shapes.

    Args:
        function: Of the inputs in call order, to the outputs.
        arrays: Example inputs.
        folder: Where to.

    Raises:
        EngineError: The exporter refuses the model.
    """
    from jax import export as exporter  # noqa: PLC0415 – JAX before 0.4.30 lacks it

    try:
        data = exporter.export(jax.jit(function))(*arrays).serialize()
    except Exception as error:
        raise EngineError(f"{TARGETS['jax-export']} refuses the model: {told(error)}") from error
    file = folder / "model.jaxexport"
    file.write_bytes(data)
    return Exported(file=file, how=f"jax {jax.__version__}: jax.export.export(jax.jit(…))")
