"""Attention in one operator, and rotary embeddings."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.call import Call, Result
from parity_adapters.onnxruntime.exact.reductions import softmax


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, keys and values, each of shape (batch, heads, places, size)."""

    q: Array
    k: Array
    v: Array

    def attend(self, scale: float, bias: Array, *, softcap: float = 0.0) -> Array:
        """softmax(scale · q · kᵀ + bias) · v."""
        return self.mixed(self.stages(scale, bias, softcap=softcap)[-1])

    def stages(self, scale: float, bias: Array, *, softcap: float = 0.0) -> list[Array]:
        """Scores, capped ones, biased ones, and their softmax, in which a row that sees nothing is 0.

        Fewer key heads serve several queries.
        """
        k = np.repeat(self.k, self.q.shape[1] // self.k.shape[1], 1)
        number = self.q.dtype.type
        scores = np.matmul(self.q, np.swapaxes(k, -1, -2)) * number(scale)
        capped = np.tanh(scores / number(softcap)) * number(softcap) if softcap else scores
        biased = capped + bias
        blind = np.isneginf(biased.max(-1, keepdims=True))
        return [scores, capped, biased, np.where(blind, 0, softmax(np.where(blind, 0, biased)))]

    def mixed(self, shares: Array) -> Array:
        """Values in these shares."""
        return np.asarray(np.matmul(shares, np.repeat(self.v, self.q.shape[1] // self.v.shape[1], 1)))


def _split(x: Array, heads: int) -> Array:
    """(batch, places, heads · size) to (batch, heads, places, size)."""
    return np.moveaxis(x.reshape(*x.shape[:2], heads, -1), 2, 1)


def _joined(x: Array) -> Array:
    """The inverse of `_split`."""
    return np.moveaxis(x, 1, 2).reshape(x.shape[0], x.shape[2], -1)


def _additive(allowed: Array, low: float, dtype: np.dtype[Any]) -> Array:
    return np.where(allowed, 0, low).astype(dtype)


def _causal(q: int, k: int, dtype: np.dtype[Any]) -> Array:
    """0 where a query may look, minus infinity later than it; the last query is at the last key."""
    return _additive(np.arange(k) <= np.arange(q)[:, None] + (k - q), -np.inf, dtype)


def onnx_attention(call: Call) -> Result:
    """ONNX's own, of operator set 23 on."""
    attributes, four = call.attributes, call[0].ndim == 4
    q, k, v = (
        call[i] if four else _split(call[i], attributes["q_num_heads" if i == 0 else "kv_num_heads"]) for i in range(3)
    )
    past = 0
    if call.get(4) is not None:
        past = call[4].shape[2]
        k, v = np.concatenate([call[4], k], 2), np.concatenate([call[5], v], 2)
    bias = _mask(call.get(3), k.shape[2], call.dtype)
    lengths = call.get(6)
    if lengths is not None:
        seen = np.arange(k.shape[2]) < lengths.reshape(-1, 1, 1, 1)
        bias = bias + _additive(seen, -np.inf, call.dtype)
    if attributes.get("is_causal"):
        offset = past if lengths is None else lengths.reshape(-1, 1, 1, 1) - q.shape[2]
        seen = np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + offset
        bias = bias + _additive(seen, -np.inf, call.dtype)
    scale = attributes.get("scale") or 1 / math.sqrt(q.shape[-1])
    parts = Heads(q, k, v)
    stages = parts.stages(scale, bias, softcap=attributes.get("softcap", 0.0))
    y = parts.mixed(stages[-1])
    return (y if four else _joined(y)), k, v, stages[attributes.get("qk_matmul_output_mode", 0)]


def _mask(mask: Array | None, keys: int, dtype: np.dtype[Any]) -> Array:
    if mask is None:
        return np.zeros((), dtype)
    missing = keys - mask.shape[-1]
    if mask.dtype == np.bool_:
        mask = _additive(mask, -np.inf, dtype)
    return np.pad(mask, [*[(0, 0)] * (mask.ndim - 1), (0, missing)], constant_values=-np.inf)


def packed_attention(call: Call) -> Result:
    """ONNX Runtime's Attention: projections of one input, masks in several forms, a past, a bias on the scores."""
    heads, x, w = call.attributes["num_heads"], call[0], call[1]
    sizes = call.attributes.get("qkv_hidden_sizes") or [w.shape[1] // 3] * 3
    bias = call.get(2)
    projected = x @ w if bias is None else x @ w + bias
    parts = np.split(projected, np.cumsum(sizes)[:-1].tolist(), -1)
    return _attend_with_past(call, [_split(part, heads) for part in parts], mask=call.get(3), bias=call.get(5))


def _attend_with_past(call: Call, parts: list[Array], *, mask: Array | None, bias: Array | None) -> Result:
    q, k, v = parts
    past = call.get(4)
    if past is not None:
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    causal = call.attributes.get("unidirectional", 0)
    scores = _key_mask(mask, q.shape, k.shape[2], call)
    if causal and q.shape[2] > 1:
        scores = scores + _causal(q.shape[2], k.shape[2], call.dtype)
    scores = scores if bias is None else scores + bias
    scale = call.attributes.get("scale") or 1 / math.sqrt(q.shape[-1])
    return _joined(Heads(q, k, v).attend(scale, scores)), np.stack([k, v])


def _key_mask(mask: Array | None, q: tuple[int, ...], keys: int, call: Call) -> Array:
    """What a mask adds to the scores: of shape (batch,) lengths, (2 · batch,) ends and starts, or 0 and 1."""
    low, places = call.attributes.get("mask_filter_value", -10000.0), np.arange(keys)
    if mask is None:
        return np.zeros((), call.dtype)
    if mask.ndim == 1:
        ends = mask[: q[0], None, None, None]
        allowed = places < ends
        if mask.size == 2 * q[0]:
            allowed = allowed & (places >= mask[q[0] :, None, None, None])
        return _additive(allowed, low, call.dtype)
    allowed = mask != 0
    if mask.ndim == 2:
        allowed = allowed[:, None, None, :]
    elif mask.ndim == 3:
        allowed = allowed[:, None]
    return _additive(allowed, low, call.dtype)


def multi_head_attention(call: Call) -> Result:
    """ONNX Runtime's MultiHeadAttention: queries, keys and values apart or packed, each with a bias."""
    heads = call.attributes["num_heads"]
    q, k, v = _query_key_value(call, heads)
    past_key, past_value = call.get(6), call.get(7)
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    mask = call.get(4)
    scores = _key_mask(mask, q.shape, k.shape[2], call)
    if call.attributes.get("unidirectional"):
        scores = scores + _causal(q.shape[2], k.shape[2], call.dtype)
    more = call.get(5)
    scores = scores if more is None else scores + more
    scale = call.attributes.get("scale") or 1 / math.sqrt(q.shape[-1])
    return _joined(Heads(q, k, v).attend(scale, scores)), k, v


def _query_key_value(call: Call, heads: int) -> list[Array]:
    query, key, value, bias = call[0], call.get(1), call.get(2), call.get(3)
    if query.ndim == 5:
        parts = [np.moveaxis(query[:, :, :, i], 2, 1) for i in range(3)]
    elif key is None or value is None:
        packed = key if key is not None else query
        parts = [_split(query, heads), *(np.moveaxis(packed[:, :, :, i], 2, 1) for i in range(2))]
    else:
        parts = [x if x.ndim == 4 else _split(x, heads) for x in (query, key, value)]
    if bias is None:
        return parts
    sizes = [part.shape[1] * part.shape[3] for part in parts]
    pieces = np.split(bias, np.cumsum(sizes)[:-1].tolist())
    given = [True, key is None or key.ndim != 4, value is None or value.ndim != 4]
    return [
        part + piece.reshape(heads, 1, -1) if projected else part
        for part, piece, projected in zip(parts, pieces, given, strict=True)
    ]


def group_query_attention(call: Call) -> Result:
    """ONNX Runtime's GroupQueryAttention: causal, with a past, rotary embeddings and a window if asked for."""
    attributes = call.attributes
    heads, fewer = attributes["num_heads"], attributes["kv_num_heads"]
    q, k, v = _grouped(call, heads, fewer)
    totals = call[5].reshape(-1).astype(np.int64) + 1
    starts = np.maximum(totals - q.shape[2], 0)
    places = starts[:, None] + np.arange(q.shape[2])
    if attributes.get("do_rotary"):
        given = call.get(9)
        turned = places if given is None else given
        interleaved = bool(attributes.get("rotary_interleaved"))
        q, k = (_rotated(x, call[7], call[8], turned, interleaved=interleaved) for x in (q, k))
    keys, values = (_appended(call.get(i), x, starts, int(totals.max())) for i, x in ((3, k), (4, v)))
    at, column = places[:, None, :, None], np.arange(keys.shape[2])
    allowed = (column <= at) & (column < totals[:, None, None, None])
    window = attributes.get("local_window_size", -1)
    if window and window > 0:
        allowed = allowed & (column > at - window)
    scores = _additive(allowed, -np.inf, call.dtype)
    more = call.get(10)
    if more is not None:
        scores = scores + np.pad(more, [*[(0, 0)] * 3, (0, keys.shape[2] - more.shape[3])])
    scale = attributes.get("scale") or 1 / math.sqrt(q.shape[-1])
    y = Heads(q, keys, values).attend(scale, scores, softcap=attributes.get("softcap", 0.0) or 0.0)
    return _joined(y), keys, values


def _grouped(call: Call, heads: int, fewer: int) -> tuple[Array, Array, Array]:
    key, value = call.get(1), call.get(2)
    if key is None or value is None:
        size = call[0].shape[-1] // (heads + 2 * fewer)
        q, key, value = np.split(call[0], [heads * size, (heads + fewer) * size], -1)
    else:
        q = call[0]
    return _split(q, heads), _split(key, fewer), _split(value, fewer)


def _appended(past: Array | None, x: Array, starts: Array, total: int) -> Array:
    """A cache with ``x`` written into it behind what each sequence of the batch has."""
    room = max(total, past.shape[2] if past is not None else 0)
    cache = np.zeros((*x.shape[:2], room, x.shape[3]), x.dtype)
    for i, start in enumerate(starts.tolist()):
        if past is not None:
            cache[i, :, :start] = past[i, :, :start]
        end = min(room, start + x.shape[2])
        cache[i, :, start:end] = x[i, :, : end - start]
    return cache


def _rotated(x: Array, cos: Array, sin: Array, places: Array, *, interleaved: bool) -> Array:
    """The first numbers of each head turned in pairs, halves or neighbours.

    Args:
        x: Of shape (batch, heads, places, size).
        cos: Of shape (positions, half of what is turned).
        sin: Likewise.
        places: Of shape (batch, places).
        interleaved: Neighbours are pairs.
    """
    c, s = cos[places][:, None], sin[places][:, None]
    return _turned(x, c, s, interleaved=interleaved)


def _turned(x: Array, c: Array, s: Array, *, interleaved: bool) -> Array:
    half = c.shape[-1]
    turned, rest = x[..., : 2 * half], x[..., 2 * half :]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., :half], turned[..., half:])
    first, second = a * c - b * s, a * s + b * c
    pairs = np.stack([first, second], -1 if interleaved else -2)
    return np.concatenate([pairs.reshape(turned.shape), rest], -1)


def rotary(call: Call) -> Result:
    """ONNX Runtime's RotaryEmbedding: positions as an offset or one by one."""
    x, offset = call[0], call[1]
    cos, sin = call[2], call[3]
    four = x.ndim == 4
    size = 2 * cos.shape[-1]
    heads = call.attributes.get("num_heads") or (x.shape[-1] // size if not four else 0)
    places = offset if offset.ndim == 2 else offset.reshape(1, 1) + np.arange(x.shape[2 if four else 1])[None]
    split = x if four else _split(x, heads)
    places = np.broadcast_to(places, (x.shape[0], places.shape[1]))
    y = _rotated(split, cos, sin, places, interleaved=bool(call.attributes.get("interleaved")))
    return y if four else _joined(y)


def onnx_rotary(call: Call) -> Result:
    """ONNX's RotaryEmbedding, of operator set 23 on: tables by position, or one row a place."""
    x, cos, sin, places = call[0], call[1], call[2], call.get(3)
    four = x.ndim == 4
    split = x if four else _split(x, call.attributes["num_heads"])
    if places is not None:
        cos, sin = cos[places], sin[places]
    size = call.attributes.get("rotary_embedding_dim") or split.shape[-1]
    c, s = cos[:, None, :, : size // 2], sin[:, None, :, : size // 2]
    y = _turned(split, c, s, interleaved=bool(call.attributes.get("interleaved")))
    return y if four else _joined(y)
