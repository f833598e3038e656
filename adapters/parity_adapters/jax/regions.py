"""Some traced calls as a program of their own: exported by JAX, which needs no Python to run it."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax import export
from safetensors.flax import save_file

from parity.adapter import Array
from parity.errors import EngineError
from parity_adapters.jax.arrays import NATIVE, cast, is_key
from parity_adapters.jax.interpreter import apply
from parity_adapters.jax.opening import told
from parity_adapters.jax.recorder import Recorder, Step


def save(steps: Sequence[Step], given: Mapping[str, Array], wanted: str, recorded: Recorder, folder: Path) -> None:
    """Writes ``region.stablehlo``, ``region.txt``, ``weights.safetensors``, ``arguments.json`` and ``region.py``.

    Args:
        steps: The calls, in order.
        given: Numbers of the tensors that go in.
        wanted: The tensor that comes out.
        recorded: The run that the calls are of.
        folder: Where to.

    Raises:
        EngineError: JAX cannot export a call, or it reads random keys.
    """
    steps = [step for step in steps if not all(name in given for name in step.site.outputs if name)]
    made = {name for step in steps for name in step.site.outputs if name}
    read = list(dict.fromkeys(name for step in steps for name in step.reads if name in given or name not in made))
    if any(is_key(recorded.dtypes[name]) for name in read):
        raise EngineError("no program can be written of the region: it reads random keys")
    values = {
        name: cast(given[name] if name in given else recorded.weights[name], recorded.dtypes[name]) for name in read
    }

    def region(*arguments: jax.Array) -> jax.Array:
        known: dict[str, Any] = dict(zip(read, arguments, strict=True))
        for step in steps:
            results = apply(step.equation, [known[name] for name in step.reads], NATIVE)
            known.update((name, one) for name, one in zip(step.site.outputs, results, strict=True) if name not in given)
        return known[wanted]

    try:
        exported = export.export(jax.jit(region))(*values.values())
        serialized = exported.serialize()
    except Exception as error:
        raise EngineError(f"JAX cannot export the region: {told(error)}") from error
    (folder / "region.stablehlo").write_bytes(serialized)
    (folder / "region.txt").write_text(f"{jax.make_jaxpr(region)(*values.values())}\n", encoding="utf-8")
    save_file({name: one for name, one in values.items() if name not in given}, folder / "weights.safetensors")
    (folder / "arguments.json").write_text(json.dumps(read), encoding="utf-8")
    shutil.copyfile(Path(__file__).with_name("region_program.py"), folder / "region.py")
