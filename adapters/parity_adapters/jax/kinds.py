"""JAX's primitives in the words of `parity.graph`: kind, canonical attributes, and the order of a site's inputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, slots=True)
class Seen:
    """One call of a primitive as it stands in the jaxpr: what a kind is told by.

    Attributes:
        op: Name of the primitive.
        params: Its parameters.
        inputs: Abstract values that it reads.
        outputs: Abstract values that it makes.
        fixed: For each input, whether it is a number of the model and not made from its inputs.
    """

    op: str
    params: Mapping[str, Any]
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    fixed: Sequence[bool]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a call is.

    Attributes:
        kind: One of `parity.graph.KINDS`, or "".
        attributes: By canonical name; JSON values.
        order: Places of the primitive's inputs in the order that the kind has them; empty where it is the same.
    """

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[int, ...] = ()


PLAIN: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("copy", "copy_p", "stop_gradient", "optimization_barrier", "device_put", "reduce_precision"), "identity"
    ),
    **dict.fromkeys(("sharding_constraint", "mesh_cast", "pvary", "name"), "identity"),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), "reshape"),
    **dict.fromkeys(("slice", "dynamic_slice", "rev"), "slice"),
    **dict.fromkeys(("dynamic_update_slice", "scatter", "scatter-add", "scatter_add", "scatter-update"), "scatter"),
    **dict.fromkeys(
        ("scatter_mul", "scatter-mul", "scatter_min", "scatter-min", "scatter_max", "scatter-max"), "scatter"
    ),
    **dict.fromkeys(("iota", "empty", "full"), "constant"),
    **dict.fromkeys(("add", "add_any"), "add"),
    "sub": "sub",
    "mul": "mul",
    "rem": "mod",
    "pow": "pow",
    "neg": "neg",
    "abs": "abs",
    "max": "maximum",
    "min": "minimum",
    **dict.fromkeys(("and", "or", "not", "xor"), "logic"),
    "floor": "floor",
    "ceil": "ceil",
    "sign": "sign",
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "square": "square",
    "sin": "sin",
    "cos": "cos",
    "erf": "erf",
    "tanh": "tanh",
    "logistic": "sigmoid",
    **dict.fromkeys(("erfc", "erf_inv", "exp2", "expm1", "log1p", "cbrt", "tan", "asin", "acos", "atan"), "pointwise"),
    **dict.fromkeys(("atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma", "digamma"), "pointwise"),
    **dict.fromkeys(("nextafter", "real", "imag", "conj", "complex", "population_count", "clz"), "pointwise"),
    **dict.fromkeys(("igamma", "igammac", "polygamma", "zeta", "regularized_incomplete_beta"), "pointwise"),
    **dict.fromkeys(("bessel_i0e", "bessel_i1e"), "pointwise"),
    **dict.fromkeys(("shift_left", "shift_right_logical", "shift_right_arithmetic"), "pointwise"),
    **dict.fromkeys(("random_bits", "random_seed", "random_wrap", "random_unwrap", "random_fold_in"), "random"),
    **dict.fromkeys(("random_split", "random_clone", "random_gamma", "threefry2x32", "rng_bit_generator"), "random"),
    "rng_uniform": "random",
    **dict.fromkeys(("while", "scan", "cond"), "control"),
}
"""Primitives whose kind is all there is to say."""


def _reduction(seen: Seen) -> Meaning:
    kinds = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_or": "any"}
    attributes = {"axes": [int(axis) for axis in seen.params["axes"]], "keepdims": False}
    return Meaning(kinds.get(seen.op, ""), attributes)


def _argmax(seen: Seen) -> Meaning:
    attributes = {"axes": [int(axis) for axis in seen.params["axes"]], "keepdims": False}
    return Meaning("argmax" if seen.op == "argmax" else "", attributes)


def _cumsum(seen: Seen) -> Meaning:
    attributes = {"axes": [int(seen.params["axis"])], "reverse": bool(seen.params["reverse"])}
    return Meaning("cumsum" if seen.op == "cumsum" else "", attributes)


def _sort(seen: Seen) -> Meaning:
    return Meaning("sort", {"axes": [int(seen.params["dimension"])]})


def _topk(seen: Seen) -> Meaning:
    axis = seen.params.get("axis", len(seen.inputs[0].shape) - 1)
    return Meaning("topk", {"axes": [int(axis)], "k": int(seen.params["k"])})


def _div(seen: Seen) -> Meaning:
    whole = jnp.issubdtype(seen.outputs[0].dtype, jnp.integer)
    return Meaning("div", {"rounding": "trunc"} if whole else {})


def _integer_pow(seen: Seen) -> Meaning:
    exponent = int(seen.params["y"])
    kinds = {2: "square", -1: "reciprocal"}
    return Meaning(kinds.get(exponent, "pow"), {"exponent": exponent})


def _clamp(_: Seen) -> Meaning:
    return Meaning("clip", order=(1, 0, 2))


def _select(seen: Seen) -> Meaning:
    # JAX has the case for false first, everybody else that for true.
    return Meaning("where", order=(0, 2, 1)) if len(seen.inputs) == 3 else Meaning("")


def _compare(seen: Seen) -> Meaning:
    return Meaning("compare", {"comparison": seen.op.removesuffix("_to")})


def _cast(seen: Seen) -> Meaning:
    before, after = seen.inputs[0].dtype, seen.outputs[0].dtype
    return Meaning("identity" if before == after else "cast", {"to": str(after)})


def _round(seen: Seen) -> Meaning:
    even = "EVEN" in str(seen.params["rounding_method"])
    return Meaning("round", {"mode": "half_to_even" if even else "half_away_from_zero"})


def _broadcast(seen: Seen) -> Meaning:
    shape = [int(size) for size in seen.outputs[0].shape]
    grown = prod(seen.inputs[0].shape) != prod(shape)
    return Meaning("expand" if grown else "reshape", {"shape": shape})


def _transpose(seen: Seen) -> Meaning:
    return Meaning("transpose", {"axes": [int(axis) for axis in seen.params["permutation"]]})


def _concatenate(seen: Seen) -> Meaning:
    return Meaning("concat", {"axis": int(seen.params["dimension"])})


def _along(kind: str) -> Callable[[Seen], Meaning]:
    return lambda seen: Meaning(kind, {"axis": int(seen.params.get("axis", 0))})


def _pad(seen: Seen) -> Meaning:
    config = seen.params["padding_config"]
    if all(low <= 0 and high <= 0 and inner == 0 for low, high, inner in config):
        return Meaning("slice")
    pads = [int(low) for low, _, _ in config] + [int(high) for _, high, _ in config]
    return Meaning("pad", {"pads": pads, "interior": [int(inner) for _, _, inner in config], "mode": "constant"})


def _gather(seen: Seen) -> Meaning:
    sizes, shape = tuple(seen.params["slice_sizes"]), tuple(seen.inputs[0].shape)
    numbers = seen.params["dimension_numbers"]
    rows = sizes == (1, *shape[1:]) and tuple(numbers.start_index_map) == (0,)
    return Meaning("embedding" if rows and seen.fixed[0] and len(shape) > 1 else "gather", {"axis": 0} if rows else {})


def _matmul(seen: Seen) -> Meaning:
    numbers = seen.params.get("dimension_numbers")
    if not isinstance(numbers, tuple):
        return Meaning("matmul")
    (left, right), (batch_left, batch_right) = numbers
    places = {"contracting": (left, right), "batch": (batch_left, batch_right)}
    return Meaning("matmul", {name: [[int(axis) for axis in side] for side in two] for name, two in places.items()})


def _conv(seen: Seen) -> Meaning:
    params = seen.params
    left, right, out = params["dimension_numbers"]
    padding = params["padding"]
    attributes = {
        "kernel": [int(seen.inputs[1].shape[axis]) for axis in right[2:]],
        "strides": [int(step) for step in params["window_strides"]],
        "pads": [int(low) for low, _ in padding] + [int(high) for _, high in padding],
        "dilations": [int(step) for step in params["rhs_dilation"]],
        "groups": int(params["feature_group_count"]),
        "data_format": _layout(left),
        "layouts": [[int(axis) for axis in spec] for spec in (left, right, out)],
    }
    stretched = [int(step) for step in params["lhs_dilation"]]
    if all(step == 1 for step in stretched):
        return Meaning("conv", attributes)
    return Meaning("conv_transpose", {**attributes, "strides": stretched})


def _layout(spec: Sequence[int]) -> str:
    """``NHWC`` or similar from a specification (batch, channel, spatial axes…)."""
    names = "NC" + "HWD"[: len(spec) - 2]
    return "".join(name for _, name in sorted(zip(spec, names, strict=True)))


def _window(seen: Seen) -> Meaning:
    """A window that slides over the spatial axes: all but the first, and but the channels where one can tell them."""
    window = [int(size) for size in seen.params["window_dimensions"]]
    channels = 1 if len(window) > 2 and window[1] == 1 and window[-1] != 1 else len(window) - 1
    spatial = [axis for axis in range(1, len(window)) if axis != channels] if len(window) > 2 else [*range(len(window))]
    padding = seen.params["padding"]
    steps = seen.params.get("window_dilation") or [1] * len(window)
    attributes = {
        "kernel": [window[axis] for axis in spatial],
        "strides": [int(seen.params["window_strides"][axis]) for axis in spatial],
        "pads": [int(padding[axis][0]) for axis in spatial] + [int(padding[axis][1]) for axis in spatial],
        "dilations": [int(steps[axis]) for axis in spatial],
        "data_format": "NC" + "HWD"[: len(spatial)] if channels == 1 else "N" + "HWD"[: len(spatial)] + "C",
    }
    return Meaning("max_pool" if seen.op == "reduce_window_max" else "", attributes)


DETAILED: Final[dict[str, Callable[[Seen], Meaning]]] = {
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_or", "reduce_and"), _reduction),
    **dict.fromkeys(("argmax", "argmin"), _argmax),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), _cumsum),
    "sort": _sort,
    **dict.fromkeys(("top_k", "approx_top_k"), _topk),
    "div": _div,
    "integer_pow": _integer_pow,
    "clamp": _clamp,
    "select_n": _select,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "lt_to", "le_to", "eq_to", "is_finite"), _compare),
    **dict.fromkeys(("convert_element_type", "bitcast_convert_type"), _cast),
    "round": _round,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "stack": _along("concat"),
    **dict.fromkeys(("split", "unstack"), _along("split")),
    "pad": _pad,
    "gather": _gather,
    **dict.fromkeys(("dot_general", "ragged_dot", "ragged_dot_general"), _matmul),
    "conv_general_dilated": _conv,
    **dict.fromkeys(("reduce_window_max", "reduce_window_sum", "reduce_window_min"), _window),
}
"""Primitives whose attributes a cause may be found through."""


_TOLD: Final = frozenset({"dimension_numbers", "permutation", "new_dtype", "y", "window_strides", "padding"})
"""Parameters that stand in canonical attributes."""


def meaning(seen: Seen) -> Meaning:
    """Kind, attributes and order of inputs of one call.

    Attributes that have no canonical name follow under JAX's own, as far as they are numbers and text.
    """
    found = DETAILED[seen.op](seen) if seen.op in DETAILED else Meaning(PLAIN.get(seen.op, ""))
    params = {name: _plain(value) for name, value in seen.params.items() if name not in _TOLD}
    own = {name: value for name, value in params.items() if value is not None}
    return Meaning(found.kind, {**own, **found.attributes}, found.order)


def _plain(value: Any) -> Any:
    """``value`` in JSON's types; None where it has no such form, or says nothing."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if isinstance(value, np.dtype):
        return str(value)
    if isinstance(value, tuple | list):
        items = [_plain(item) for item in value]
        return None if None in items else items
    return None
