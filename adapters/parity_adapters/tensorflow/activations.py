"""The activation functions of TensorFlow and Keras, each with the variant that its documentation declares.

A row names the call as it is typed; the callable is looked up by that very name, so the two cannot disagree. A row
without flags is the API's default and an implementation of its own.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Final

from parity.adapter import Implementation
from parity.dtypes import FLOAT_DTYPES
from parity.functions import Variant, variant
from parity_adapters.tensorflow.arrays import Tensor, from_numpy, to_numpy
from parity_adapters.tensorflow.modes import MODES, Call, Run, eager
from parity_adapters.tensorflow.runtime import keras, tf
from parity_adapters.tensorflow.tflite import tflite

ALL_DTYPES: Final = tuple(FLOAT_DTYPES)

GELU_ERF: Final = variant("gelu_erf")
GELU_TANH: Final = variant("gelu_tanh")


@dataclass(frozen=True, slots=True)
class Row:
    """One call: the API's dotted name below its root, the declared variant, its accuracy class and explicit flags."""

    api: str
    declared: Variant
    accuracy: str
    flags: dict[str, Any] = field(default_factory=dict)


GELU: Final = (
    ("tf.nn", Row("gelu", GELU_ERF, "composed")),
    ("keras.activations", Row("gelu", GELU_ERF, "composed")),
    # The same package, the opposite default.
    ("keras.ops", Row("gelu", GELU_TANH, "composed")),
    *(
        (root, Row("gelu", declared, "composed", {"approximate": approximate}))
        for root in ("tf.nn", "keras.activations", "keras.ops")
        for approximate, declared in ((False, GELU_ERF), (True, GELU_TANH))
    ),
)
"""Root and row of each GELU call; these are run in every mode."""

TF_NN: Final = (
    Row("relu", variant("relu"), "exact"),
    Row("relu6", variant("relu6"), "exact"),
    Row("leaky_relu", variant("leaky_relu", negative_slope=0.2), "exact"),
    Row("leaky_relu", variant("leaky_relu", negative_slope=0.01), "exact", {"alpha": 0.01}),
    Row("elu", variant("elu"), "kernel"),
    Row("selu", variant("selu"), "kernel"),
    Row("softplus", variant("softplus"), "composed"),
    Row("softsign", variant("softsign"), "composed"),
    Row("sigmoid", variant("sigmoid"), "composed"),
    Row("tanh", variant("tanh"), "kernel"),
    Row("silu", variant("silu"), "composed"),
    Row("swish", variant("silu"), "composed"),
    # The sigmoid approximation of GELU is written so in TensorFlow.
    Row("silu", variant("quick_gelu", alpha=1.702), "composed", {"beta": 1.702}),
)

KERAS_BOTH: Final = (
    Row("relu", variant("relu"), "exact"),
    Row("relu6", variant("relu6"), "exact"),
    Row("leaky_relu", variant("leaky_relu", negative_slope=0.2), "exact"),
    Row("leaky_relu", variant("leaky_relu", negative_slope=0.01), "exact", {"negative_slope": 0.01}),
    Row("elu", variant("elu"), "kernel"),
    Row("elu", variant("elu", alpha=0.5), "kernel", {"alpha": 0.5}),
    Row("selu", variant("selu"), "kernel"),
    Row("celu", variant("celu"), "composed"),
    Row("celu", variant("celu", alpha=0.5), "composed", {"alpha": 0.5}),
    Row("softplus", variant("softplus"), "composed"),
    Row("softsign", variant("softsign"), "composed"),
    Row("sigmoid", variant("sigmoid"), "composed"),
    Row("log_sigmoid", variant("log_sigmoid"), "composed"),
    Row("tanh", variant("tanh"), "kernel"),
    Row("silu", variant("silu"), "composed"),
    Row("swish", variant("silu"), "composed"),
    Row("hard_sigmoid", variant("hard_sigmoid"), "composed"),
    Row("hard_silu", variant("hard_swish"), "composed"),
    Row("hard_swish", variant("hard_swish"), "composed"),
    Row("hard_tanh", variant("hard_tanh"), "exact"),
    Row("hard_shrink", variant("hard_shrink"), "exact"),
    Row("hard_shrink", variant("hard_shrink", threshold=1.0), "exact", {"threshold": 1.0}),
    Row("soft_shrink", variant("soft_shrink"), "exact"),
    Row("soft_shrink", variant("soft_shrink", threshold=1.0), "exact", {"threshold": 1.0}),
    Row("tanh_shrink", variant("tanh_shrink"), "composed"),
    Row(
        "threshold", variant("threshold", threshold=0.5, value=0.25), "exact", {"threshold": 0.5, "default_value": 0.25}
    ),
    Row("squareplus", variant("squareplus"), "composed"),
    Row("squareplus", variant("squareplus", b=1.0), "composed", {"b": 1.0}),
    Row("sparse_plus", variant("sparse_plus"), "composed"),
    Row("sparse_sigmoid", variant("sparse_sigmoid"), "exact"),
    Row("glu", variant("glu"), "composed"),
)
"""In ``keras.activations`` and in ``keras.ops``, which do not always agree."""

KERAS_ACTIVATIONS: Final = (
    Row("mish", variant("mish"), "composed"),
    Row("linear", variant("identity"), "exact"),
    Row("relu", variant("leaky_relu", negative_slope=0.01), "exact", {"negative_slope": 0.01}),
    Row("relu", variant("relu6"), "exact", {"max_value": 6.0}),
)

KERAS_LAYERS: Final = (
    Row("ReLU", variant("relu"), "exact"),
    # 0.3 here, 0.2 in keras.activations.
    Row("LeakyReLU", variant("leaky_relu", negative_slope=0.3), "exact"),
    Row("ELU", variant("elu"), "kernel"),
)
"""Layers take flags when they are built, and cast what they are given to their compute dtype."""

COMPILED: Final = (
    ("tf.nn", Row("elu", variant("elu"), "composed")),
    ("tf.nn", Row("selu", variant("selu"), "composed")),
    ("tf.nn", Row("softplus", variant("softplus"), "composed")),
    ("tf.nn", Row("sigmoid", variant("sigmoid"), "composed")),
    ("tf.nn", Row("tanh", variant("tanh"), "kernel")),
    ("tf.nn", Row("silu", variant("silu"), "composed")),
    ("keras.activations", Row("mish", variant("mish"), "composed")),
)
"""Functions for which XLA has another algorithm than TensorFlow's own kernel."""

_SAME_NAME: Final = {"swish": "silu", "hardsilu": "hardswish"}
"""Other names of one function, to the name under which defaults are compared."""


def implementations() -> Iterator[Implementation]:
    """Every row that the installed versions have, in the order of the tables."""
    for root, row in GELU:
        for mode in MODES:
            yield from _calls(root, row, mode)
    yield from _written_out()
    yield from _activation_layers()
    yield from _tflite()
    others = (
        ("tf.nn", TF_NN),
        ("keras.activations", KERAS_BOTH),
        ("keras.activations", KERAS_ACTIVATIONS),
        ("keras.ops", KERAS_BOTH),
    )
    for root, rows in others:
        for row in rows:
            yield from _calls(root, row)
    for root, row in COMPILED:
        yield from _calls(root, row, "xla")
    for row in KERAS_LAYERS:
        layer = _resolve(f"keras.layers.{row.api}")()
        yield _implementation(
            f"keras.layers.{row.api}",
            row.declared,
            eager(layer),
            dtypes=("float32",),
            accuracy=row.accuracy,
            default_of=_bare(row.api),
        )


def _calls(root: str, row: Row, mode: str = "") -> Iterator[Implementation]:
    """The row's call run in one mode; nothing where the installed version has no such API."""
    function = _resolve(f"{root}.{row.api}")
    if function is None:
        return
    call = partial(function, **row.flags) if row.flags else function
    if row.declared.arity > 1:
        call = _last_axis_dropped(call)
    flags = ",".join(f"{key}={value}" for key, value in row.flags.items())
    yield _implementation(
        _name(f"{root}.{row.api}[{flags}]" if flags else f"{root}.{row.api}", mode),
        row.declared,
        MODES[mode](call),
        accuracy=row.accuracy,
        default_of=None if row.flags or mode else _bare(row.api),
    )


def _implementation(
    name: str,
    declared: Variant,
    run: Run,
    *,
    accuracy: str,
    dtypes: tuple[str, ...] = ALL_DTYPES,
    default_of: str | None = None,
) -> Implementation:
    return Implementation(
        name=name,
        variant=declared,
        dtypes=dtypes,
        enter=from_numpy,
        function=run.function,
        leave=to_numpy,
        gradient=run.gradient,
        accuracy=accuracy,
        default_of=default_of,
    )


def _name(call: str, mode: str) -> str:
    return f"{call} ({mode})" if mode else call


def _resolve(name: str) -> Any:
    """The object at a dotted name that starts with ``tf`` or ``keras``, or None where there is none."""
    root, *path = name.split(".")
    return reduce(lambda owner, part: getattr(owner, part, None), path, {"tf": tf, "keras": keras}[root])


def _bare(api: str) -> str:
    name = api.lower().replace("_", "")
    return _SAME_NAME.get(name, name)


def _last_axis_dropped(gated: Call) -> Call:
    """A gated unit halves the last axis: from (n, 2) it makes (n, 1), and this makes (n,) of it."""
    return lambda x: tf.squeeze(gated(x), -1)


def erf_form(x: Tensor) -> Tensor:
    """GELU as it is written by hand, every operator in the tensor's dtype; loses all digits for large negative x."""
    return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2.0)))


def erf_form_in_float32(x: Tensor) -> Tensor:
    """The same in float32, cast back: how BERT code of the mixed-precision years guards its GELU."""
    return tf.cast(erf_form(tf.cast(x, tf.float32)), x.dtype)


ERF_FORM: Final = "0.5*x*(1+tf.math.erf(x/sqrt(2)))"


def _written_out() -> Iterator[Implementation]:
    for mode in ("", "tf.function", "xla"):
        yield _implementation(_name(ERF_FORM, mode), GELU_ERF, MODES[mode](erf_form), accuracy="composed")
        yield _implementation(
            _name("tf.cast(0.5*x32*(1+tf.math.erf(x32/sqrt(2))),x.dtype)", mode),
            GELU_ERF,
            MODES[mode](erf_form_in_float32),
            dtypes=("float16", "bfloat16"),
            accuracy="kernel",
        )


def _activation_layers() -> Iterator[Implementation]:
    """``keras.layers.Activation("gelu")`` under the default policy and both mixed ones.

    A layer casts its input to the compute dtype of its policy and computes there, so only tensors of that dtype
    show what it does. ``dtype=`` sets for one layer what ``keras.mixed_precision.set_global_policy`` sets for all.
    """
    for policy, dtype in (("float32", "float32"), ("mixed_float16", "float16"), ("mixed_bfloat16", "bfloat16")):
        for mode in ("", "tf.function", "xla"):
            run = ", ".join(part for part in ("" if policy == "float32" else policy, mode) if part)
            yield _implementation(
                _name('keras.layers.Activation("gelu")', run),
                GELU_ERF,
                MODES[mode](keras.layers.Activation("gelu", dtype=policy)),
                dtypes=(dtype,),
                accuracy="composed",
                default_of=None if run else "gelu",
            )


def _tflite() -> Iterator[Implementation]:
    """TFLite's GELU operator, which the converter makes of ``tf.nn.gelu`` and of the written-out erf form."""
    sources: tuple[tuple[str, Variant, Callable[..., Tensor]], ...] = (
        ("tf.nn.gelu[approximate=False]", GELU_ERF, partial(tf.nn.gelu, approximate=False)),
        ("tf.nn.gelu[approximate=True]", GELU_TANH, partial(tf.nn.gelu, approximate=True)),
        (ERF_FORM, GELU_ERF, erf_form),
    )
    for name, declared, call in sources:
        for mode, delegate in (("tflite", True), ("tflite, builtin", False)):
            yield Implementation(
                name=_name(name, mode),
                variant=declared,
                dtypes=("float32",),
                enter=lambda x: x,
                function=tflite(call, delegate=delegate),
                leave=lambda y: y,
                accuracy="kernel",
            )
