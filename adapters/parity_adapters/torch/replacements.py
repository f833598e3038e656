"""Operators whose kernels know few types, written out of others that know all."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch


def _lstm_layer(x: torch.Tensor, *args: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
    """One direction of one layer of an LSTM over x of shape (time, batch, features)."""
    input_weight, hidden_weight, input_bias, hidden_bias, hidden, cell, reverse, *_ = args
    steps = range(x.shape[0])
    outputs: list[torch.Tensor] = []
    for step in reversed(steps) if reverse else steps:
        gates = torch.nn.functional.linear(x[step], input_weight, input_bias)
        gates = gates + torch.nn.functional.linear(hidden, hidden_weight, hidden_bias)
        enter, forget, candidate, leave = gates.chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs[::-1] if reverse else outputs), hidden, cell, None


def _grouped_product(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,  # noqa: ARG001 – all types are one here
) -> torch.Tensor:
    """Products of the groups of a with b, of shape (groups, k, m).

    The groups of a are its first axis, or with two axes its rows up to each of ``offs``.
    """
    if a.ndim == b.ndim == 3:
        product = a @ b
    elif offs is not None and b.ndim == 3:
        ends = offs.tolist()
        starts = [0, *ends[:-1]]
        groups = [a[start:end] @ weight for start, end, weight in zip(starts, ends, b, strict=True)]
        product = torch.cat([*groups, a.new_zeros(a.shape[0] - ends[-1], b.shape[2])])
    else:
        raise NotImplementedError("groups of columns")
    return product if bias is None else product + bias


REPLACEMENTS: Final[Mapping[str, Callable[..., Any]]] = {
    "aten.mkldnn_rnn_layer": _lstm_layer,
    "aten._grouped_mm": _grouped_product,
}
"""By operator; takes and returns what the operator does."""
