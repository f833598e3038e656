"""Operators that move, choose, repeat or join numbers, or make them of nothing."""

import math
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from parity.adapter import Array
from parity_adapters.onnxruntime import synthetic
from parity_adapters.onnxruntime.exact.call import Call, Result, is_float


def reshape(call: Call) -> Result:
    """To a shape in which 0 keeps a dimension (unless ``allowzero``) and -1 is what is left."""
    x, shape = call[0], [int(i) for i in call[1]]
    if not call.attributes.get("allowzero"):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return x.reshape(shape)


def flatten(call: Call) -> Result:
    """To two dimensions, cut before ``axis``."""
    x, axis = call[0], call.attributes["axis"]
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), -1) if x.size else x.reshape(math.prod(x.shape[:axis]), 0)


def squeeze(call: Call) -> Result:
    """Without the dimensions of size 1 that ``axes`` name, or all of them."""
    axes = call.ints(1, "axes")
    return np.squeeze(call[0], None if axes is None else tuple(axes))


def unsqueeze(call: Call) -> Result:
    """With new dimensions of size 1."""
    return np.expand_dims(call[0], tuple(call.ints(1, "axes") or ()))


def expand_dims(call: Call) -> Result:
    """With one new dimension of size 1."""
    return np.expand_dims(call[0], int(call[1].reshape(-1)[0]))


def transpose(call: Call) -> Result:
    """With the axes in the order ``perm``, by default reversed."""
    return np.transpose(call[0], call.attributes.get("perm"))


def reorder_input(call: Call) -> Result:
    """Into blocks: seen unblocked, nothing, or a change of layout."""
    return np.moveaxis(call[0], -1, 1) if call.attributes.get("channels_last") else call[0]


def reorder_output(call: Call) -> Result:
    """Out of blocks: seen unblocked, nothing, or a change of layout."""
    return np.moveaxis(call[0], 1, -1) if call.attributes.get("channels_last") else call[0]


def slice_(call: Call) -> Result:
    """Ranges of some axes."""
    starts, ends = call.ints(1, "starts") or [], call.ints(2, "ends") or []
    axes = call.ints(3, "axes") or list(range(len(starts)))
    steps = call.ints(4, "steps") or [1] * len(starts)
    x = call[0]
    index: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis] = _range(start, end, step, x.shape[axis])
    return x[tuple(index)]


def _range(start: int, end: int, step: int, size: int) -> slice:
    if step > 0 or end >= -size:
        return slice(start, end, step)
    return slice(start, None, step)  # backwards to the very beginning


def split(call: Call) -> Result:
    """Parts along an axis: by sizes, or so many that are as equal as can be."""
    x, axis = call[0], call.attributes.get("axis", 0)
    sizes = call.ints(1, "split")
    if sizes is None:
        parts = call.attributes.get("num_outputs") or call.outputs
        size = -(-x.shape[axis] // parts)
        ends = [min(size * (i + 1), x.shape[axis]) for i in range(parts - 1)]
    else:
        ends = np.cumsum(sizes)[:-1].tolist()
    return tuple(np.split(x, ends, axis))


def concat(call: Call) -> Result:
    """Inputs one after another along an axis."""
    return np.concatenate(call.present(), call.attributes["axis"])


def gather(call: Call) -> Result:
    """Slices of ``axis`` by index."""
    return np.take(call[0], call[1], call.attributes["axis"])


def gather_elements(call: Call) -> Result:
    """Elements by index along ``axis``."""
    x, index, axis = call[0], call[1], call.attributes["axis"]
    return np.take_along_axis(_leading(x, index.shape, axis), _from_zero(index, x.shape[axis]), axis)


def _leading(x: Array, shape: tuple[int, ...], axis: int) -> Array:
    """The part of ``x`` that is as large as ``shape`` in all dimensions but ``axis``."""
    return x[tuple(slice(None) if i == axis % x.ndim else slice(size) for i, size in enumerate(shape))]


def _from_zero(index: Array, size: int) -> Array:
    return np.where(index < 0, index + size, index)


def gather_nd(call: Call) -> Result:
    """Slices by tuples of indices, after ``batch_dims`` shared dimensions."""
    x, index, shared = call[0], call[1], call.attributes.get("batch_dims", 0)
    batch = x.shape[:shared]
    flat = x.reshape(-1, *x.shape[shared:])
    tuples = index.reshape(flat.shape[0], -1, index.shape[-1])
    rows = np.arange(flat.shape[0])[:, None]
    found = flat[(rows, *np.moveaxis(tuples, -1, 0))]
    return found.reshape(*batch, *index.shape[shared:-1], *found.shape[2:])


_SCATTERED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter_elements(call: Call) -> Result:
    """``data`` with elements put in, or added, multiplied … by index along ``axis``."""
    x, index, updates = call[0].copy(), call[1], call[2]
    axis = call.attributes["axis"] % x.ndim
    place: list[Any] = list(np.indices(index.shape, sparse=True))
    place[axis] = _from_zero(index, x.shape[axis])
    return _put(x, tuple(place), updates, call.attributes.get("reduction", "none"))


def scatter_nd(call: Call) -> Result:
    """``data`` with slices put in, or added, multiplied … by tuples of indices."""
    x, index, updates = call[0].copy(), call[1], call[2]
    return _put(x, tuple(np.moveaxis(index, -1, 0)), updates, call.attributes.get("reduction", "none"))


def _put(x: Array, place: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    if reduction == "none":
        x[place] = updates
    else:
        _SCATTERED[reduction].at(x, place, updates)
    return x


def expand(call: Call) -> Result:
    """Repeated along dimensions of size 1; a smaller target dimension leaves the input's."""
    shape = np.broadcast_shapes(call[0].shape, tuple(int(i) for i in call[1]))
    return np.broadcast_to(call[0], shape)


def tile(call: Call) -> Result:
    """Repeated as a whole."""
    return np.tile(call[0], [int(i) for i in call[1]])


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def pad(call: Call) -> Result:
    """With numbers before and after each axis; negative ones cut off."""
    x, pads = call[0], call.ints(1, "pads") or []
    given = call.get(2)
    value = call.attributes.get("value", 0.0) if given is None or not given.size else given.reshape(-1)[0]
    axes = call.ints(3, "axes") or list(range(len(pads) // 2))
    sizes = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        sizes[axis] = (pads[i], pads[i + len(axes)])
    cut = tuple(slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(sizes, x.shape, strict=True))
    mode = call.attributes.get("mode", "constant")
    grown = [(max(0, a), max(0, b)) for a, b in sizes]
    filling = {"constant_values": np.asarray(value, x.dtype)} if mode == "constant" else {}
    return np.pad(x[cut], grown, _PAD_MODES[mode], **filling)  # type: ignore[call-overload]


def trilu(call: Call) -> Result:
    """The upper or lower triangle, zeros elsewhere."""
    k = 0 if call.get(1) is None else int(call[1].reshape(-1)[0])
    return (np.triu if call.attributes["upper"] else np.tril)(call[0], k)


def depth_to_space(call: Call) -> Result:
    """Channels to pixels."""
    x, b = call[0], call.attributes["blocksize"]
    n, c, h, w = x.shape
    if call.attributes.get("mode", "DCR") == "DCR":
        return x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)


def space_to_depth(call: Call) -> Result:
    """Pixels to channels."""
    x, b = call[0], call.attributes["blocksize"]
    n, c, h, w = x.shape
    order = (0, 3, 5, 1, 2, 4) if call.attributes.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return x.reshape(n, c, h // b, b, w // b, b).transpose(order).reshape(n, c * b * b, h // b, w // b)


def one_hot(call: Call) -> Result:
    """``off`` everywhere but ``on`` at the indices along a new axis."""
    index, depth, (off, on) = call[0].astype(np.int64), int(call[1].reshape(-1)[0]), call[2]
    axis = call.attributes["axis"]
    place = np.arange(depth).reshape([-1] + [1] * (-axis - 1 if axis < 0 else index.ndim - axis))
    return np.where(np.expand_dims(_from_zero(index, depth), axis) == place, on, off)


def reverse_sequence(call: Call) -> Result:
    """The beginning of each sequence of a batch reversed."""
    time, batch = call.attributes["time_axis"], call.attributes["batch_axis"]
    x = np.moveaxis(call[0], (batch, time), (0, 1)).copy()
    for row, length in zip(x, call[1], strict=True):
        row[: int(length)] = row[: int(length)][::-1]
    return np.moveaxis(x, (0, 1), (batch, time))


def compress(call: Call) -> Result:
    """The slices of ``axis``, or the elements, where the condition holds."""
    return np.compress(call[1], call[0], call.attributes.get("axis"))


def shape_of(call: Call) -> Result:
    """The shape, or a range of it."""
    return np.array(call[0].shape[call.attributes.get("start", 0) : call.attributes.get("end")], np.int64)


def filled(call: Call) -> Result:
    """One number everywhere."""
    value = call.attributes.get("value")
    number = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    number = number.astype(call.dtype) if is_float(number.dtype) else number
    return np.full([int(i) for i in call[0]], number.reshape(-1)[0])


def eye_like(call: Call) -> Result:
    """Ones on a diagonal."""
    dtype = call.attributes.get("dtype")
    kind = helper.tensor_dtype_to_np_dtype(dtype) if dtype else call[0].dtype
    rows, columns = call[0].shape
    return np.eye(rows, columns, call.attributes["k"], call.dtype if is_float(kind) else kind)


def range_(call: Call) -> Result:
    """Numbers from a start up to a limit."""
    start, limit, step = (x.reshape(-1)[0] for x in call.present())
    count = max(0, math.ceil((limit - start) / step))
    return start + np.arange(count, dtype=call[0].dtype) * step


def cut_or_joined(call: Call) -> Result:
    """See `synthetic`."""
    return tuple(synthetic.run(call.op, call.present(), call.attributes))
