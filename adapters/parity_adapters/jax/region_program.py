"""The region in JAX: ``region.stablehlo``, as `jax.export` wrote it; region.txt shows it as a jaxpr."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import export
from safetensors.flax import load_file

HERE = Path(__file__).resolve().parent


def run(inputs: Mapping[str, Any]) -> Any:
    """What the region makes of its inputs."""
    exported = export.deserialize(bytearray((HERE / "region.stablehlo").read_bytes()))
    known = {**load_file(str(HERE / "weights.safetensors")), **inputs}
    names = json.loads((HERE / "arguments.json").read_text(encoding="utf-8"))
    arguments = [jnp.asarray(known[name], kind.dtype) for name, kind in zip(names, exported.in_avals, strict=True)]
    return np.asarray(exported.call(*arguments))
