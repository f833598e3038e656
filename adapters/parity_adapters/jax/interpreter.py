"""Jaxprs, equation by equation, in a precision of choice.

`apply` computes one equation on concrete arrays or on tracers, so that `interpret` can be run as it is, be jitted, or
be made into a jaxpr again: this is how the body of a loop, or a whole function, gets another floating-point type.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core, source_info_util

from parity_adapters.jax.arrays import NATIVE, in_precision, is_float, is_key, numbers
from parity_adapters.jax.places import FRAMEWORK

_CALLS: Final = frozenset(
    {
        *("jit", "pjit", "closed_call", "core_call", "core_closed_call", "xla_call", "named_call"),
        *("remat", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    }
)
"""Primitives that do nothing but call their jaxpr."""

_BODIES: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr")

_JAX_NN: Final = str(Path(jax.__file__).parent / "_src" / "nn")


def inlined(equation: Any) -> core.ClosedJaxpr | None:
    """What ``equation`` calls, where a call is all that it is."""
    if equation.primitive.name not in _CALLS:
        return None
    body = next((equation.params[name] for name in _BODIES if name in equation.params), None)
    return None if body is None else _closed(body)


@lru_cache(maxsize=256)
def _closed(body: Any) -> core.ClosedJaxpr:
    return body if isinstance(body, core.ClosedJaxpr) else core.ClosedJaxpr(body, ())


def called(equation: Any, body: core.ClosedJaxpr) -> str:
    """Name of the function that ``equation`` calls; empty where it has none, or is inside JAX or Flax.

    A ``_where`` of `jax.numpy` is nothing that its user called; a ``silu`` of `jax.nn` is.
    """
    about = getattr(body.jaxpr, "debug_info", None)
    name, _, place = str(getattr(about, "func_src_info", "") or "").partition(" at ")
    name = str(equation.params.get("name") or name)
    inside = place.startswith(FRAMEWORK) and not place.startswith(_JAX_NN)
    return "" if inside or not name.isidentifier() else name


def is_drop(variable: Any) -> bool:
    """Whether an equation throws this output away."""
    return isinstance(variable, core.DropVar)


def is_literal(atom: Any) -> bool:
    """Whether an equation has this input as a number of its own."""
    return isinstance(atom, core.Literal)


def live(jaxpr: core.Jaxpr) -> list[Any]:
    """The equations that the outputs of ``jaxpr`` need: what the compiler leaves."""
    needed = {atom for atom in jaxpr.outvars if not is_literal(atom)}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if needed.isdisjoint(equation.outvars):
            continue
        needed.update(atom for atom in equation.invars if not is_literal(atom))
        kept.append(equation)
    return kept[::-1]


def interpret(closed: core.ClosedJaxpr, arguments: Sequence[Any], precision: str) -> list[Any]:
    """Outputs of ``closed`` on ``arguments``, whose floating-point numbers are in ``precision`` already."""
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.invars, arguments, strict=True))
    known |= {name: constant(value, precision) for name, value in zip(jaxpr.constvars, closed.consts, strict=True)}

    def read(atom: Any) -> Any:
        return constant(atom.val, precision, atom.aval.dtype) if is_literal(atom) else known[atom]

    for equation in live(jaxpr):
        inputs = [read(atom) for atom in equation.invars]
        body = inlined(equation)
        about = equation.source_info
        stack = source_info_util.current_name_stack() + about.name_stack
        if body is not None and (name := called(equation, body)):
            stack = stack.extend(name)
        with source_info_util.user_context(about.traceback, name_stack=stack):
            made = apply(equation, inputs, precision) if body is None else interpret(body, inputs, precision)
        known.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def constant(value: Any, precision: str, dtype: Any = None) -> Any:
    """A number of the model in ``precision``."""
    dtype = value.dtype if dtype is None else dtype
    return value if is_key(dtype) else numbers(value, in_precision(dtype, precision))


def apply(equation: Any, inputs: Sequence[Any], precision: str) -> list[Any]:
    """Outputs of one equation.

    Args:
        equation: Its primitive, parameters and abstract values are read.
        inputs: Concrete arrays or tracers, floating-point ones in ``precision``. That of ``integer_pow`` may be
            followed by an exponent of shape () that stands in the place of its own.
        precision: "native", or one of `parity.dtypes.FLOAT_DTYPES`.

    Raises:
        Exception: JAX's own, where it has no such kernel.
    """
    primitive, params = equation.primitive, equation.params
    if primitive.name == "integer_pow" and len(inputs) == 2:
        inputs = inputs[:1] if float(inputs[1]) == params["y"] else inputs
        if len(inputs) == 2:
            return [jax.lax.pow(inputs[0], jnp.broadcast_to(inputs[1], inputs[0].shape))]
    if precision != NATIVE:
        special = _SPECIAL.get(primitive.name)
        if special is not None:
            return special(equation, inputs, precision)
        params = retyped(params, precision)
    made = primitive.bind(*inputs, **params)
    return list(made) if primitive.multiple_results else [made]


def _convert(equation: Any, inputs: Sequence[Any], precision: str) -> list[Any]:
    """A cast from one floating-point type to another is left out."""
    if is_float(inputs[0].dtype) and is_float(equation.outvars[0].aval.dtype):
        return list(inputs)
    return [equation.primitive.bind(*inputs, **retyped(equation.params, precision))]


def _bits(equation: Any, inputs: Sequence[Any], precision: str) -> list[Any]:
    """Bits are those of the model's own types, whatever the precision around them."""
    own = [jax.lax.convert_element_type(inputs[0], equation.invars[0].aval.dtype)]
    made = equation.primitive.bind(*own, **equation.params)
    return [jax.lax.convert_element_type(made, in_precision(made.dtype, precision))]


_SPECIAL: Final[Mapping[str, Callable[[Any, Sequence[Any], str], list[Any]]]] = {
    "convert_element_type": _convert,
    "reduce_precision": _convert,
    "bitcast_convert_type": _bits,
}


def retyped(params: Mapping[str, Any], precision: str) -> dict[str, Any]:
    """Parameters of a primitive with every floating-point type in them, jaxprs included, turned to ``precision``."""
    return {name: _retyped(value, precision) for name, value in params.items()}


def _retyped(value: Any, precision: str) -> Any:
    if isinstance(value, np.dtype):
        return in_precision(value, precision)
    if isinstance(value, core.ClosedJaxpr):
        return _rewritten(value, precision)
    if isinstance(value, core.Jaxpr):
        return _rewritten(_closed(value), precision).jaxpr
    if isinstance(value, tuple):
        items = (_retyped(item, precision) for item in value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, jax.lax.DotAlgorithm | jax.lax.DotAlgorithmPreset):
        return None
    return value


@lru_cache(maxsize=256)
def _rewritten(closed: core.ClosedJaxpr, precision: str) -> core.ClosedJaxpr:
    inputs = [jax.ShapeDtypeStruct(aval.shape, in_precision(aval.dtype, precision)) for aval in closed.in_avals]
    made: core.ClosedJaxpr = jax.make_jaxpr(lambda *arguments: interpret(closed, arguments, precision))(*inputs)
    return made
