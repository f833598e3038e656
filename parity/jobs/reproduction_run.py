"""Runs both regions on the recorded inputs and says how far apart they are; the exit code is 1 if they still differ.

Nothing of the two models is needed: what the regions read is in this folder. Needed are NumPy, ml_dtypes for bfloat16,
and the frameworks that README.md names.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent

TYPES = dict(
    zip(
        ("F64", "F32", "F16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "C64", "C128"),
        ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "i1", "<u8", "<u4", "<u2", "u1", "?", "<c8", "<c16"),
        strict=True,
    )
)
"""NumPy's names of the types of a safetensors file."""


def load(file: Path) -> dict[str, Any]:
    """Arrays by name of a safetensors file."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            low, high = (start + place for place in entry["data_offsets"])
            found[name] = np.frombuffer(data[low:high], _dtype(entry["dtype"])).reshape(entry["shape"])
    return found


def _dtype(code: str) -> Any:
    if code != "BF16":
        return np.dtype(TYPES[code])
    import ml_dtypes  # noqa: PLC0415 – for bfloat16 alone

    return np.dtype(ml_dtypes.bfloat16)


def run_region(side: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    """What a side makes of its inputs now; what it made when this was recorded where it has no program."""
    file = HERE / side / "region.py"
    if not file.is_file():
        print(f"{side}: no program of this region, its recorded output is taken")  # noqa: T201
        return outputs[f"{side} native"]
    spec = importlib.util.spec_from_file_location(f"{side}_region", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = {name.partition("/")[2]: array for name, array in inputs.items() if name.startswith(f"{side}/")}
    return np.asarray(module.run(own))


def main() -> int:
    """Runs, prints, and gives the exit code."""
    facts = json.loads((HERE / "facts.json").read_text(encoding="utf-8"))
    inputs, outputs = load(HERE / "inputs.safetensors"), load(HERE / "outputs.safetensors")
    made = {side: run_region(side, inputs, outputs) for side in ("reference", "candidate")}
    layout = facts["layout"]

    def moved(array: Any) -> Any:
        """A tensor of the reference as the candidate keeps it."""
        return array.reshape(layout["split"]).transpose(layout["axes"]).reshape(layout["shape"])

    candidate, reference = made["candidate"], moved(made["reference"])
    if candidate.dtype.kind in "iub":
        differing = int(np.count_nonzero(candidate != reference))
        print(f"elements that differ: {differing} of {candidate.size}")  # noqa: T201
        return int(differing > 0)
    exact = moved(outputs.get("reference float64", made["reference"])).astype(np.float64)
    wide = candidate.astype(np.float64)
    fine = np.isfinite(wide) & np.isfinite(exact)
    with np.errstate(invalid="ignore"):  # of two infinities
        error = np.where(fine, wide - exact, 0.0)
        apart = np.where(fine, wide - reference.astype(np.float64), 0.0)
    odd = int(np.count_nonzero(~fine & ~((wide == exact) | (np.isnan(wide) & np.isnan(exact)))))
    excess = float(np.sqrt(np.mean(np.square(error)))) / facts["noise_floor"]
    print(f"max abs difference: {np.max(np.abs(apart), initial=0.0):.6g}")  # noqa: T201
    print(f"excess: {excess:.4g} times the noise floor {facts['noise_floor']:.3g}")  # noqa: T201
    if odd:
        print(f"elements that are finite on one side alone: {odd}")  # noqa: T201
    return int(excess > facts["limit"] or odd > 0)


if __name__ == "__main__":
    sys.exit(main())
