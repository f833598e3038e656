"""What loops, scans and sequences amount to once they are unrolled: cutting and joining, which changes no number."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from onnx import helper

from parity.adapter import Array

DOMAIN: Final = "parity"
"""The domain of these operators; no file has them."""


def run(op: str, inputs: Sequence[Array], attributes: Mapping[str, Any]) -> list[Array]:
    """Outputs of one of them.

    Args:
        op: ``Stack`` and ``Join`` along an axis, a new one or an old; ``Pick`` one index; ``Pieces`` between cuts.
        inputs: Of any type.
        attributes: ``axis``, and ``index``; ``cuts`` and ``keepdims``; ``to`` and ``shape`` of a stack of nothing.
    """
    axis = attributes["axis"]
    if op == "Pick":
        return [np.take(inputs[0], attributes["index"], axis)]
    if op == "Pieces":
        pieces = [np.take(inputs[0], range(a, b), axis) for a, b in pairwise(attributes["cuts"])]
        return pieces if attributes["keepdims"] else [np.squeeze(piece, axis) for piece in pieces]
    if op == "Join":
        return [np.concatenate(inputs, axis)]
    if not inputs:
        return [np.zeros((0, *attributes.get("shape", ())), helper.tensor_dtype_to_np_dtype(attributes["to"]))]
    return [np.stack(inputs, axis)]


def cuts(length: int, sizes: Array | None) -> list[int]:
    """Where an axis of that length is cut: after every element, every ``sizes`` elements, or by a list of sizes."""
    if sizes is not None and sizes.ndim:
        return [0, *np.cumsum(sizes).tolist()]
    step = 1 if sizes is None else int(sizes)
    return [*range(0, length, step), length]
