"""Operators that fold an axis, and softmax."""

from collections.abc import Callable

import numpy as np

from parity.adapter import Array
from parity_adapters.onnxruntime.exact.call import Call, Result

Fold = Callable[..., Array]


def reduction(fold: Fold) -> Callable[[Call], Result]:
    """Operator that folds the axes asked for by ``fold(x, axis=…, keepdims=…)``."""

    def run(call: Call) -> Result:
        x, axes = call[0], call.ints(1, "axes")
        if not axes and call.attributes.get("noop_with_empty_axes"):
            return x
        return np.asarray(fold(x, axis=tuple(axes) if axes else None, keepdims=bool(call.attributes["keepdims"])))

    return run


def total(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    """Sum in the type of ``x``."""
    return np.asarray(np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype))


def product(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    """Product in the type of ``x``."""
    return np.asarray(np.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype))


def largest(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    """Maximum; of nothing the smallest number of the type."""
    low = -np.inf if x.dtype.kind == "f" else False if x.dtype == np.bool_ else np.iinfo(x.dtype).min
    return np.asarray(np.max(x, axis=axis, keepdims=keepdims, initial=low))


def smallest(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    """Minimum; of nothing the largest number of the type."""
    high = np.inf if x.dtype.kind == "f" else True if x.dtype == np.bool_ else np.iinfo(x.dtype).max
    return np.asarray(np.min(x, axis=axis, keepdims=keepdims, initial=high))


def length(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    """Euclidean norm."""
    return np.asarray(np.sqrt(total(x * x, axis, keepdims)).astype(x.dtype))


def log_sum_exp(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    """Log of the sum of exp, without overflow."""
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    logs = np.log(total(np.exp(x - top), axis, keepdims=True)) + top
    return logs if keepdims else np.squeeze(logs, axis)


def extreme_index(call: Call) -> Result:
    """Index of the largest or smallest number of an axis, the first or the last."""
    x, axis = call[0], call.attributes["axis"]
    find = np.argmax if call.op == "ArgMax" else np.argmin
    if call.attributes.get("select_last_index"):
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
    else:
        found = find(x, axis)
    return np.expand_dims(found, axis) if call.attributes["keepdims"] else np.asarray(found)


def top_k(call: Call) -> Result:
    """The k largest or smallest numbers of an axis and their indices, the first of equals first."""
    x, axis = call[0], call.attributes["axis"]
    k = int(call[1].reshape(-1)[0]) if call.get(1) is not None else call.attributes["k"]
    if call.attributes.get("largest", 1):
        last = x.shape[axis] - 1
        index = last - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        index = np.argsort(x, axis, kind="stable")
    index = np.take(index, range(k), axis)
    return np.take_along_axis(x, index, axis), index


def running(fold: Fold, neutral: int) -> Callable[[Call], Result]:
    """Operator of ``fold`` up to each element, without it if ``exclusive``, from the end if ``reverse``."""

    def run(call: Call) -> Result:
        axis = int(call[1].reshape(-1)[0])
        x = np.flip(call[0], axis) if call.attributes["reverse"] else call[0]
        if call.attributes["exclusive"]:
            first = np.full_like(np.take(x, [0], axis), neutral)
            x = np.concatenate([first, np.take(x, range(x.shape[axis] - 1), axis)], axis)
        found = fold(x, axis, dtype=x.dtype)
        return np.flip(found, axis) if call.attributes["reverse"] else found

    return run


def softmax(x: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """exp(x) over its sum."""
    top = np.max(x, axis=axis, keepdims=True)
    powers = np.exp(x - np.where(np.isneginf(top), 0, top))
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True))


def _softmax_axes(call: Call) -> tuple[int, ...]:
    """One axis, or before operator set 13 all from it on."""
    axis, rank = call.attributes["axis"] % call[0].ndim, call[0].ndim
    return (axis,) if call.opset >= 13 else tuple(range(axis, rank))


def softmax_of(call: Call) -> Result:
    """Softmax in either form."""
    return softmax(call[0], _softmax_axes(call))


def log_softmax_of(call: Call) -> Result:
    """Logarithm of softmax in either form."""
    return call[0] - log_sum_exp(call[0], _softmax_axes(call), keepdims=True)
