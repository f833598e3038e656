"""Writes the labelled samples of `fixtures/identify`: inputs and outputs, and which function they are.

Usage: python scripts/make_identify_samples.py

Every output is the exact function rounded once, but for the faults that are the point of a sample. Writing them again
gives the same bytes.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.dtypes import float_dtype
from parity.functions import variant

FOLDER = Path(__file__).parent.parent / "fixtures" / "identify"

SAFETENSORS_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}

Float64 = NDArray[np.float64]


def exact(name: str, **parameters: float) -> Callable[[Float64], Float64]:
    """The exact function."""
    return variant(name, **parameters).value


def half_table(x: Float64) -> Float64:
    """GELU through a table with one entry for each float16, as some runtimes do for float32 tensors."""
    return variant("gelu_tanh").value(x.astype(np.float16)).astype(np.float16).astype(np.float64)


def tanh_form(cubic: float, scale: float) -> Callable[[Float64], Float64]:
    """The tanh form with other constants than its own."""
    return lambda x: 0.5 * x * (1 + np.tanh(scale * (x + cubic * x**3)))


def middle(x: Float64) -> Float64:
    """Half erf, half tanh: near both and neither."""
    return (variant("gelu_erf").value(x) + variant("gelu_tanh").value(x)) / 2


Sample = tuple[str, int, Callable[[Float64], Float64], str | None, str]
"""Dtype, number of elements, function, name of the variant or None, note."""

SAMPLES: dict[str, Sample] = {
    "erf-bfloat16": ("bfloat16", 1000, exact("gelu_erf"), "gelu_erf", "largest error alike under erf and tanh"),
    "tanh-bfloat16": ("bfloat16", 1000, exact("gelu_tanh"), "gelu_tanh", "largest error alike under erf and tanh"),
    "quick-float16": ("float16", 1000, exact("quick_gelu"), "quick_gelu", ""),
    "quick-1.5-float32": ("float32", 1000, exact("quick_gelu", alpha=1.5), "quick_gelu[alpha=1.5]", "fitted alpha"),
    "leaky-0.2-bfloat16": (
        "bfloat16",
        1000,
        exact("leaky_relu", negative_slope=0.2),
        "leaky_relu[negative_slope=0.2]",
        "fitted slope",
    ),
    "elu-0.7-float32": ("float32", 1000, exact("elu", alpha=0.7), "elu[alpha=0.7]", "fitted alpha"),
    "truncated-float64": (
        "float64",
        1000,
        tanh_form(0.044715, 0.7978845608),
        "gelu_tanh",
        "a truncated constant is the same variant",
    ),
    "half-table-float32": ("float32", 2000, half_table, None, "nearest gelu_tanh, about 11 significant bits"),
    "swapped-digits-float32": ("float32", 1000, tanh_form(0.044175, 0.7978845608), None, "0.044175 for 0.044715"),
    "swapped-digits-bfloat16": ("bfloat16", 4000, tanh_form(0.044175, 0.7978845608), None, "0.044175 for 0.044715"),
    "between-bfloat16": ("bfloat16", 2000, middle, None, "lies between erf and tanh"),
}


def safetensors_of(dtype: str, **tensors: NDArray[Any]) -> bytes:
    """Tensors of one dtype in the safetensors format, whose NumPy writer does not know bfloat16.

    The format: the header's length as a little-endian uint64, a JSON header with each tensor's place, the bytes.
    """
    header, data = {}, b""
    for name, tensor in tensors.items():
        place = [len(data), len(data) + tensor.nbytes]
        header[name] = {"dtype": SAFETENSORS_NAMES[dtype], "shape": tensor.shape, "data_offsets": place}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def main() -> None:
    """Writes the samples and their index: by file the variant, or null where it is none, and a note."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    index = {}
    for seed, (name, (dtype, count, function, label, note)) in enumerate(SAMPLES.items()):
        kind = float_dtype(dtype)
        x: NDArray[Any] = np.random.default_rng(seed).standard_normal(count).astype(kind)
        y = function(x.astype(np.float64)).astype(kind)
        file = f"{name}.safetensors"
        (FOLDER / file).write_bytes(safetensors_of(dtype, x=x, y=y))
        index[file] = {"variant": label, "note": note}
    (FOLDER / "index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
