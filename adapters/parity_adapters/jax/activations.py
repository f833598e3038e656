"""The functions of `jax.nn`, `flax.linen` and `flax.nnx`, and how each is run: eager, jitted, in 64-bit mode.

Flax re-exports the functions of `jax.nn`. Users look for its GELU by name, so that has rows of its own; its
other activations would only repeat those of `jax.nn`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity.adapter import Implementation
from parity.functions import Variant, variant
from parity_adapters.jax.arrays import from_numpy, to_numpy, x64

Function = Callable[[jax.Array], jax.Array]

EAGER, JIT, X64 = "", " (jit)", " (x64)"
"""How a row is run, as it stands in its name."""

NARROW = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call as a user types it.

    ``modes`` are those worth a row of their own; ``narrow`` the dtypes that it accepts outside of 64-bit mode.
    """

    name: str
    variant: Variant
    function: Function
    accuracy: str = "composed"
    default_of: str | None = None
    modes: tuple[str, ...] = (EAGER, X64)
    narrow: tuple[str, ...] = NARROW


def implementations() -> tuple[Implementation, ...]:
    """Every row; those of Flax only where it is installed."""
    calls = [*_gelu("jax.nn", jax.nn), *_by_hand(), *_jax_nn()]
    if find_spec("flax"):
        from flax import linen, nnx  # noqa: PLC0415 – Flax need not be installed beside JAX

        calls += [*_gelu("flax.linen", linen), *_gelu("flax.nnx", nnx)]
    return tuple(_row(call, mode) for call in calls for mode in call.modes)


def _row(call: _Call, mode: str) -> Implementation:
    wide = mode == X64
    run: Function = jax.jit(call.function) if mode == JIT else call.function
    pull: Function = partial(_pull, call.function)
    # An eager reverse pass compiles operator by operator, three times as slow; only where eager and jitted are to
    # be set side by side it is worth the wait.
    eager_pull = mode != JIT and JIT in call.modes
    differentiate: Function = pull if eager_pull else jax.jit(pull)
    return Implementation(
        name=call.name + mode,
        variant=call.variant,
        dtypes=("float64",) if wide else call.narrow,
        enter=_in_x64(from_numpy) if wide else from_numpy,
        function=_in_x64(_finished(run)) if wide else _finished(run),
        leave=to_numpy,
        gradient=_in_x64(_finished(differentiate)) if wide else _finished(differentiate),
        accuracy=call.accuracy,
        default_of=call.default_of,
    )


def _pull(function: Function, x: jax.Array) -> jax.Array:
    """The derivative of an elementwise ``function``: ones, pulled back."""
    y, pull_back = jax.vjp(function, x)
    (gradient,) = pull_back(jnp.ones_like(y))
    return gradient


def _finished(function: Function) -> Function:
    """``function``, returning only when its result is there: JAX dispatches asynchronously."""
    return lambda x: jax.block_until_ready(function(x))


def _in_x64(function: Callable[[Any], jax.Array]) -> Callable[[Any], jax.Array]:
    def wide(x: Any) -> jax.Array:
        with x64():
            return function(x)

    return wide


def _gelu(module_name: str, module: Any) -> Iterator[_Call]:
    name, modes = f"{module_name}.gelu", (EAGER, JIT, X64)
    erf, tanh = variant("gelu_erf"), variant("gelu_tanh")
    yield _Call(name, tanh, module.gelu, default_of="gelu", modes=modes)
    yield _Call(f"{name}[approximate=True]", tanh, partial(module.gelu, approximate=True), modes=modes)
    yield _Call(f"{name}[approximate=False]", erf, partial(module.gelu, approximate=False), modes=modes)


def _by_hand() -> Iterator[_Call]:
    erf, modes = variant("gelu_erf"), (EAGER, JIT, X64)
    yield _Call(
        "x*jax.scipy.stats.norm.cdf(x)",
        erf,
        lambda x: x * jax.scipy.stats.norm.cdf(x),
        modes=modes,
        narrow=("float32",),  # jax.scipy.special.ndtr, which it calls, refuses the 16-bit types
    )
    yield _Call(
        "0.5*x*(1+jax.scipy.special.erf(x/sqrt(2)))",
        erf,
        lambda x: 0.5 * x * (1 + jax.scipy.special.erf(x / float(np.sqrt(2)))),
        modes=modes,
    )


def _jax_nn() -> Iterator[_Call]:
    """The other activations; a function that this JAX does not have has no row."""
    table: tuple[tuple[str, Variant, str, dict[str, float]], ...] = (
        ("relu", variant("relu"), "exact", {}),
        ("relu6", variant("relu6"), "exact", {}),
        ("leaky_relu", variant("leaky_relu"), "composed", {}),
        ("leaky_relu", variant("leaky_relu", negative_slope=0.2), "composed", {"negative_slope": 0.2}),
        ("elu", variant("elu"), "composed", {}),
        ("elu", variant("elu", alpha=0.5), "composed", {"alpha": 0.5}),
        ("selu", variant("selu"), "composed", {}),
        ("celu", variant("celu"), "composed", {}),
        ("celu", variant("celu", alpha=0.5), "composed", {"alpha": 0.5}),
        ("softplus", variant("softplus"), "composed", {}),
        ("mish", variant("mish"), "composed", {}),
        ("silu", variant("silu"), "composed", {}),
        ("swish", variant("silu"), "composed", {}),
        ("sigmoid", variant("sigmoid"), "composed", {}),
        ("log_sigmoid", variant("log_sigmoid"), "composed", {}),
        ("hard_sigmoid", variant("hard_sigmoid"), "composed", {}),
        ("hard_silu", variant("hard_swish"), "composed", {}),
        ("hard_swish", variant("hard_swish"), "composed", {}),
        ("hard_tanh", variant("hard_tanh"), "exact", {}),
        ("tanh", variant("tanh"), "kernel", {}),
        ("soft_sign", variant("softsign"), "composed", {}),
        ("squareplus", variant("squareplus"), "composed", {}),
        ("squareplus", variant("squareplus", b=1.0), "composed", {"b": 1.0}),
        ("sparse_plus", variant("sparse_plus"), "composed", {}),
        ("sparse_sigmoid", variant("sparse_sigmoid"), "composed", {}),
        ("identity", variant("identity"), "exact", {}),
    )
    jitted = ("silu", "sigmoid", "softplus", "relu", "tanh")
    for name, declared, accuracy, flags in table:
        function = getattr(jax.nn, name, None)
        if function is None:
            continue
        brackets = "".join(f"[{flag}={value}]" for flag, value in flags.items())
        yield _Call(
            f"jax.nn.{name}{brackets}",
            declared,
            partial(function, **flags) if flags else function,
            accuracy,
            # jax.nn.hard_silu is everybody else's hard_swish.
            None if flags else "hardswish" if name == "hard_silu" else name.replace("_", ""),
            (EAGER, JIT, X64) if name in jitted else (EAGER, X64),
        )
    # The last axis holds value then gate: jax.nn.glu splits it in halves and gates with the second.
    yield _Call("jax.nn.glu", variant("glu"), lambda x: jax.nn.glu(x)[:, 0], default_of="glu")
