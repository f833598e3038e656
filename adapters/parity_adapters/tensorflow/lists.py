"""TensorFlow's lists of tensors, with which loops collect what their steps make, as lists of named values."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from parity_adapters.tensorflow.runtime import tf
from parity_adapters.tensorflow.values import Element, Held, Row, TensorList, Value

if TYPE_CHECKING:
    from parity_adapters.tensorflow.walk import Place, Walk

Handler = Callable[["Walk", Any, list[Any], "Place"], Held]


def _number(value: Value) -> int:
    return int(value.tensor)


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(int(size) for size in value.tensor.numpy().reshape(-1)) if value.tensor.shape.rank else ()


def _reserve(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    del walk, place
    count = 0 if op.type == "EmptyTensorList" else _number(inputs[1])
    return TensorList((None,) * count, op.get_attr("element_dtype"), _shape(inputs[0]))


def _from_tensor(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    del walk, op, place
    source = inputs[0]
    rows = tuple(Row(source, number) for number in range(source.tensor.shape[0]))
    return TensorList(rows, source.tensor.dtype, tuple(source.tensor.shape[1:]))


def _set_item(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    del walk, op, place
    elements: TensorList = inputs[0]
    return elements.with_element(_number(inputs[1]), inputs[2])


def _get_item(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    elements = inputs[0]
    return _read(walk, op, elements, elements.elements[_number(inputs[1])], place)


def _read(walk: "Walk", op: Any, elements: TensorList, element: Element, place: "Place") -> Value:
    """An element as a value: a row is cut out of its source, and one that was never set is zeros."""
    if isinstance(element, Value):
        return element
    if element is None:
        return Value(tf.zeros(_element_shape(elements), elements.dtype))
    types = {"Tparams": elements.dtype, "Tindices": tf.int32, "Taxis": tf.int32, "batch_dims": 0}
    inputs = [element.source, Value(tf.constant(element.number)), Value(tf.constant(0))]
    return walk.told(op, inputs, place, run=("GatherV2", types))[0]


def _element_shape(elements: TensorList) -> tuple[int, ...]:
    for element in elements.elements:
        if isinstance(element, Value):
            return tuple(element.tensor.shape)
        if isinstance(element, Row):
            return tuple(element.source.tensor.shape[1:])
    return tuple(max(size, 0) for size in elements.shape)


def _stack(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    elements = inputs[0]
    whole = elements.whole()
    return whole if whole is not None else _packed(walk, op, elements, place)


def _packed(walk: "Walk", op: Any, elements: TensorList, place: "Place") -> Value:
    if not elements.elements:
        return Value(tf.zeros((0, *_element_shape(elements)), elements.dtype))
    values = [_read(walk, op, elements, element, place) for element in elements.elements]
    attributes = {"N": len(values), "T": elements.dtype, "axis": 0}
    return walk.told(op, values, place, run=("Pack", attributes))[0]


def _gather(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    elements = inputs[0]
    chosen = tuple(elements.elements[int(number)] for number in inputs[1].tensor.numpy())
    return _packed(walk, op, replace(elements, elements=chosen), place)


def _scatter(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    """``TensorListScatterIntoExistingList`` and ``TensorListScatterV2``."""
    del walk, place
    made: TensorList
    if op.type == "TensorListScatterIntoExistingList":
        made, source, indices = inputs
    else:
        source, indices = inputs[:2]
        made = TensorList((), source.tensor.dtype, tuple(source.tensor.shape[1:]))
    for row, number in enumerate(indices.tensor.numpy()):
        made = made.with_element(int(number), Row(source, row))
    return made


def _push(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    del walk, op, place
    elements: TensorList = inputs[0]
    return elements.with_element(len(elements.elements), inputs[1])


def _resize(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    del walk, op, place
    elements: TensorList = inputs[0]
    size = _number(inputs[1])
    kept = elements.elements[:size]
    return replace(elements, elements=(*kept, *[None] * (size - len(kept))))


def _length(walk: "Walk", op: Any, inputs: list[Any], place: "Place") -> Held:
    length = tf.constant(len(inputs[0].elements), tf.int32)
    return Value(length, walk.naming.tensor(f"{place.name(op.name)}:0"), lambda: length, static=True)


LISTS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("TensorListReserve", "EmptyTensorList"), _reserve),
    "TensorListFromTensor": _from_tensor,
    "TensorListSetItem": _set_item,
    "TensorListGetItem": _get_item,
    "TensorListStack": _stack,
    "TensorListGather": _gather,
    **dict.fromkeys(("TensorListScatterV2", "TensorListScatterIntoExistingList"), _scatter),
    "TensorListPushBack": _push,
    "TensorListResize": _resize,
    "TensorListLength": _length,
}
"""Operator on lists to what it does; each is told the walk, the operator, its inputs and the place."""
