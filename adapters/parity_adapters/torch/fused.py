"""PyTorch's fused transformer kernels, operator by operator as they compute on the CPU: the same bits.

``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` call these kernels outside training. As one call each they
would hide their scale, mask, activation and norms.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - what every user of PyTorch calls it

_masked_softmax: Final = torch.ops.aten._masked_softmax  # noqa: SLF001 – the operators have no public names
_biased_heads: Final = torch.ops.aten._transform_bias_rescale_qkv  # noqa: SLF001


def _attention(
    *,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``_native_multi_head_attention``: output (batch, queries, features), and the weights where they are asked for."""
    projected = _projected(query, key, value, qkv_weight)
    q, k, v = _heads(projected, qkv_bias, num_head)
    batch, heads, length, width = q.shape
    q, k, v = (part.reshape(batch * heads, length, width) for part in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, length, length)
    weights = scores.softmax(-1) if mask is None else _masked_softmax(scores, mask, 3, mask_type)
    context = torch.bmm(weights.view(batch * heads, length, length), v).view(batch, heads, length, width)
    output = F.linear(context.transpose(1, 2).reshape(batch, length, embed_dim), proj_weight, proj_bias)
    if not need_weights:
        return output, None
    return output, weights.sum(1) / num_head if average_attn_weights else weights


def _projected(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Queries, keys and values side by side, without their bias."""
    if query is key and key is value:
        return query @ weight.t()
    parts = zip((query, key, value), weight.chunk(3), strict=True)
    return torch.cat([part @ own.t() for part, own in parts], dim=2)


def _heads(projected: torch.Tensor, bias: torch.Tensor, heads: int) -> tuple[torch.Tensor, ...]:
    """Queries (scaled), keys and values, each of shape (batch, heads, length, width)."""
    if projected.dtype != torch.float32:  # where the kernel rounds in an order of its own
        return tuple(_biased_heads(projected, bias, heads))
    batch, length, features = projected.shape
    width = features // 3 // heads
    parts = (projected + bias).view(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4).contiguous()
    q, k, v = parts.unbind(0)
    return q * _scale(width), k, v


def _scale(width: int) -> float:
    """1 / sqrt(width), its root and itself rounded to float32."""
    root = float(np.sqrt(np.float32(width)))
    return float(np.float32(1 / root))


def _encoder_layer(
    *,
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None,
    mask_type: int | None,
) -> torch.Tensor:
    """``_transformer_encoder_layer_fwd``: of the shape of ``src``, (batch, length, features)."""

    def first_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    x = first_norm(src) if norm_first else src
    attended, _ = _attention(
        query=x,
        key=x,
        value=x,
        embed_dim=embed_dim,
        num_head=num_heads,
        qkv_weight=qkv_weight,
        qkv_bias=qkv_bias,
        proj_weight=proj_weight,
        proj_bias=proj_bias,
        mask=mask,
        need_weights=False,
        average_attn_weights=True,
        mask_type=mask_type,
    )
    x = attended + src
    x = x if norm_first else first_norm(x)
    hidden = F.linear(second_norm(x) if norm_first else x, ffn_weight_1, ffn_bias_1)
    hidden = F.gelu(hidden) if use_gelu else F.relu(hidden)
    x = F.linear(hidden, ffn_weight_2, ffn_bias_2) + x
    return x if norm_first else second_norm(x)


FUSED: Final[Mapping[str, Callable[..., Any]]] = {
    "aten._native_multi_head_attention": _attention,
    "aten._transformer_encoder_layer_fwd": _encoder_layer,
}
"""By operator; takes its arguments by name and returns what it does."""
