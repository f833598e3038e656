"""ONNX Runtime's implementations of the registered variants. A table to read.

Names: an operator with its attributes, a chain of operators joined by commas, or a call in PyTorch with ``torch.onnx``
and the exporter's arguments in parentheses; there, too, the optimisation level and the session's configuration. Without
parentheses: ONNX Runtime's defaults. Attributes that are not given have ONNX's defaults.

Which dtypes run was found on ONNX Runtime 1.32: its CPU provider has hardly any bfloat16 kernel, no erf in float64, and
computes float16 in float32, casting at the ends of a chain rather than at every operator.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import onnxruntime as ort

from parity.adapter import Implementation
from parity.functions import Variant, variant
from parity_adapters.onnxruntime import graphs
from parity_adapters.onnxruntime.arrays import OrtValue, from_numpy, to_numpy
from parity_adapters.onnxruntime.graphs import Graph, element_dtype
from parity_adapters.onnxruntime.sessions import GELU_APPROXIMATION, LEVELS, open_session, run_session, session_options

_F32: Final = ("float32", "float16")
_F64: Final = ("float64", "float32", "float16")
_ALL: Final = ("float64", "float32", "float16", "bfloat16")

_ERF: Final = variant("gelu_erf")
_TANH: Final = variant("gelu_tanh")
_QUICK: Final = variant("quick_gelu")
_CLIPPED: Final = variant("gelu_clipped")
_SILU: Final = variant("silu")

# ONNX Runtime approximates GELU with a bias only where the bias has a length that the graph knows, as in models.
_BIASED: Final = "(T[length] x, T[length] bias) => (T[length] y)"
_GATED: Final = "(T[n, 2] x) => (T[n] y)"
_GATED_BODY: Final = """
    value, gate = Split <axis = 1, num_outputs = 2> (x)
    {}
    product = Mul (value, activated)
    axis = Constant <value_ints = [1]> ()
    y = Squeeze (product, axis)
"""


def implementations() -> Iterator[Implementation]:
    """All rows; nothing is given to ONNX Runtime before a row is called."""
    for spelling in (*_GELU_OPERATORS, *_EXPORTED):
        yield from _at_every_level(spelling)
    for name, declared, body, dtypes, accuracy, default_of in _OPERATORS:
        yield _implementation(name, declared, Run(Graph(body)), dtypes, accuracy=accuracy, default_of=default_of)
    for name, declared, body, dtypes in _CHAINS:
        yield _implementation(name, declared, Run(Graph(body)), dtypes, accuracy="composed")
    for name, declared, activation, dtypes in _GATED_CHAINS:
        run = Run(Graph(_GATED_BODY.format(activation), signature=_GATED))
        yield _implementation(name, declared, run, dtypes, accuracy="composed")


@dataclass(frozen=True, slots=True)
class _Spelling:
    """One way to write GELU or a relative of it, measured at every level.

    Attributes:
        name: The call.
        declared: What it declares to compute.
        graph: The graph of it.
        dtypes: Those that run.
        run: How it was exported, for the parentheses.
        fused_from: Lowest level at which it is one float32 kernel; None if it never is.
        approximated: What it declares to compute in float32 under `GELU_APPROXIMATION`; None leaves that row out. In
            float16 nothing is approximated: ONNX Runtime has by then taken the operator apart, having no kernel for it.
        default_of: As in `Implementation`.
    """

    name: str
    declared: Variant
    graph: Graph
    dtypes: tuple[str, ...] = _F32
    run: str = ""
    fused_from: str | None = "none"
    approximated: Variant | None = None
    default_of: str | None = None


def _at_every_level(spelling: _Spelling) -> Iterator[Implementation]:
    levels = list(LEVELS)
    fused = levels[levels.index(spelling.fused_from) :] if spelling.fused_from else []
    name, declared, graph, dtypes = spelling.name, spelling.declared, spelling.graph, spelling.dtypes
    how = f"{spelling.run}, " if spelling.run else ""
    for level in levels:
        yield _implementation(
            f"{name} ({how}level={level})",
            declared,
            Run(graph, level),
            dtypes,
            accuracy="kernel" if level in fused else "composed",
            default_of=spelling.default_of if level == "all" else None,
        )
    approximated = spelling.approximated
    if approximated is None:
        return
    run = Run(graph, "all", (GELU_APPROXIMATION,))
    accuracy = "kernel" if "all" in fused else "composed"
    name = f"{name} ({how}level=all, enable_gelu_approximation"
    if approximated == declared:
        yield _implementation(f"{name})", declared, run, dtypes, accuracy=accuracy)
        return
    yield _implementation(f"{name})", approximated, run, ("float32",), accuracy=accuracy)
    yield _implementation(f"{name}, float16)", declared, run, ("float16",), accuracy=accuracy)


@dataclass(frozen=True, slots=True)
class Run:
    """A graph under optimiser settings; callable on an OrtValue, as `Implementation.function` is.

    Attributes:
        graph: What is computed.
        level: One of `LEVELS`.
        config: The session's configuration entries.
    """

    graph: Graph
    level: str = "all"
    config: tuple[tuple[str, str], ...] = ()

    def __call__(self, x: OrtValue) -> OrtValue:
        """Output of the graph; its session, one a dtype, is made at the first call."""
        element_type = x.data_type().removeprefix("tensor(").removesuffix(")")
        length = x.shape()[0] if self.graph.signature == _BIASED else None
        session, constant = _session(self, element_type, length)
        return run_session(session, {"x": x, **constant})[0]


# Rows are called one after the other, so the sessions of the last few are enough to keep.
@lru_cache(maxsize=8)
def _session(run: Run, element_type: str, length: int | None) -> tuple[ort.InferenceSession, dict[str, OrtValue]]:
    """Session of ``run`` and what it is fed beside ``x``."""
    model = run.graph.model(element_type, length=length)
    session = open_session(model, session_options(level=run.level, config=run.config))
    if length is None:
        return session, {}
    # -0.0 added to any number, -0.0 included, leaves it as it is.
    return session, {"bias": from_numpy(np.full(length, -0.0, dtype=element_dtype(model)))}


def _implementation(
    name: str,
    declared: Variant,
    run: Run,
    dtypes: tuple[str, ...],
    *,
    accuracy: str,
    default_of: str | None = None,
) -> Implementation:
    return Implementation(
        name=name,
        variant=declared,
        dtypes=dtypes,
        enter=from_numpy,
        function=run,
        leave=to_numpy,
        accuracy=accuracy,
        default_of=default_of,
    )


_GELU_OPERATORS: Final = (
    _Spelling("Gelu", _ERF, Graph("y = Gelu (x)", 20), approximated=_ERF, default_of="gelu"),
    _Spelling("Gelu[approximate=none]", _ERF, Graph('y = Gelu <approximate = "none"> (x)', 20), approximated=_ERF),
    _Spelling("Gelu[approximate=tanh]", _TANH, Graph('y = Gelu <approximate = "tanh"> (x)', 20), _F64),
    _Spelling(
        # A linear layer's bias and its GELU. The bias carries even ai.onnx's Gelu into the approximation.
        "Add,Gelu[approximate=none]",
        _ERF,
        Graph('sum = Add (x, bias) y = Gelu <approximate = "none"> (sum)', 20, _BIASED),
        fused_from="extended",
        approximated=_TANH,
    ),
    _Spelling(
        "Add,Gelu[approximate=tanh]",
        _TANH,
        Graph('sum = Add (x, bias) y = Gelu <approximate = "tanh"> (sum)', 20, _BIASED),
        fused_from="extended",
    ),
    _Spelling("com.microsoft.Gelu", _ERF, Graph("y = com.microsoft.Gelu (x)"), approximated=_TANH, default_of="gelu"),
    _Spelling(
        "com.microsoft.BiasGelu",
        _ERF,
        Graph("y = com.microsoft.BiasGelu (x, bias)", signature=_BIASED),
        approximated=_TANH,
    ),
    _Spelling("com.microsoft.FastGelu", _TANH, Graph("y = com.microsoft.FastGelu (x)"), _F64),
    _Spelling(
        "com.microsoft.FastGelu[bias]", _TANH, Graph("y = com.microsoft.FastGelu (x, bias)", signature=_BIASED), _F64
    ),
    # QuickGelu runs in float64, too, but its alpha is a float32 number and then no longer 1.702.
    _Spelling("com.microsoft.QuickGelu", _QUICK, Graph("y = com.microsoft.QuickGelu (x)"), default_of="quickgelu"),
    _Spelling("com.microsoft.QuickGelu[alpha=1.702]", _QUICK, Graph("y = com.microsoft.QuickGelu <alpha = 1.702> (x)")),
    _Spelling(
        "com.microsoft.QuickGelu[alpha=1.0]", _SILU, Graph("y = com.microsoft.QuickGelu <alpha = 1.0> (x)"), _F64
    ),
    _Spelling("Swish", _SILU, Graph("y = Swish (x)", 24), _F64, fused_from=None, default_of="swish"),
)
"""GELU and its relatives as operators."""

_LEGACY: Final = "torch.onnx, dynamo=False, opset=17"
_DYNAMO: Final = "torch.onnx, dynamo=True, opset=18"
_BOTH: Final = "torch.onnx, opset=18"
_BOTH_20: Final = "torch.onnx, opset=20"

_EXPORTED: Final = (
    _Spelling(
        "torch.nn.functional.gelu",
        _ERF,
        Graph(graphs.F_GELU_LEGACY, 17),
        run=_LEGACY,
        fused_from="extended",
        approximated=_TANH,
    ),
    _Spelling(
        "torch.nn.functional.gelu",
        _ERF,
        Graph(graphs.F_GELU_DYNAMO, 18),
        run=_DYNAMO,
        fused_from=None,
        approximated=_ERF,
    ),
    _Spelling(
        "torch.nn.functional.gelu[approximate=tanh]",
        _TANH,
        Graph(graphs.F_GELU_TANH_LEGACY, 17),
        _F64,
        run=_LEGACY,
        fused_from=None,
    ),
    _Spelling(
        "torch.nn.functional.gelu[approximate=tanh]",
        _TANH,
        Graph(graphs.F_GELU_TANH_DYNAMO, 18),
        _F64,
        run=_DYNAMO,
        fused_from=None,
    ),
    _Spelling(
        "ACT2FN[gelu_python]",
        _ERF,
        Graph(graphs.GELU_PYTHON, 18),
        run=_BOTH,
        fused_from="extended",
        approximated=_TANH,
    ),
    _Spelling(
        "ACT2FN[gelu_python]",
        _ERF,
        Graph(graphs.GELU_PYTHON, 20),
        run=_BOTH_20,
        fused_from="basic",
        approximated=_ERF,
    ),
    _Spelling("ACT2FN[gelu_new]", _TANH, Graph(graphs.GELU_NEW, 18), _F64, run=_BOTH, fused_from=None),
    _Spelling("ACT2FN[gelu_fast]", _TANH, Graph(graphs.GELU_FAST, 18), _F64, run=_BOTH, fused_from=None),
    _Spelling("ACT2FN[quick_gelu]", _QUICK, Graph(graphs.QUICK_GELU, 18), _F64, run=_BOTH, fused_from="extended"),
    # Under the approximation the legacy form becomes a clipped gelu_tanh, which is no registered variant.
    _Spelling("ACT2FN[gelu_10]", _CLIPPED, Graph(graphs.GELU_10_LEGACY, 17), run=_LEGACY, fused_from="extended"),
    _Spelling("ACT2FN[gelu_10]", _CLIPPED, Graph(graphs.GELU_10_DYNAMO, 18), run=_DYNAMO, fused_from=None),
    _Spelling("ACT2FN[gelu_10]", _CLIPPED, Graph(graphs.GELU_10, 20), run=_BOTH_20),
    _Spelling("torch.nn.functional.silu", _SILU, Graph(graphs.SILU, 18), _F64, run=_BOTH, fused_from="extended"),
)
"""GELU and its relatives as torch's exporters write them."""

_OPERATORS: Final = (
    ("Relu", variant("relu"), "y = Relu (x)", _F64, "exact", "relu"),
    ("LeakyRelu", variant("leaky_relu"), "y = LeakyRelu (x)", _F32, "exact", "leakyrelu"),
    (
        "LeakyRelu[alpha=0.2]",
        variant("leaky_relu", negative_slope=0.2),
        "y = LeakyRelu <alpha = 0.2> (x)",
        _F32,
        "exact",
        None,
    ),
    ("PRelu[slope=0.25]", variant("leaky_relu", negative_slope=0.25), "y = PRelu (x, quarter)", _F32, "exact", None),
    ("Elu", variant("elu"), "y = Elu (x)", _F32, "kernel", "elu"),
    ("Elu[alpha=1.5]", variant("elu", alpha=1.5), "y = Elu <alpha = 1.5> (x)", _F32, "kernel", None),
    ("Selu", variant("selu"), "y = Selu (x)", _F32, "kernel", "selu"),
    ("Celu", variant("celu"), "y = Celu (x)", ("float32",), "kernel", "celu"),
    ("Celu[alpha=2.0]", variant("celu", alpha=2.0), "y = Celu <alpha = 2.0> (x)", ("float32",), "kernel", None),
    ("Softplus", variant("softplus"), "y = Softplus (x)", _F32, "kernel", "softplus"),
    ("Mish", variant("mish"), "y = Mish (x)", _F32, "kernel", "mish"),
    ("HardSigmoid", variant("hard_sigmoid", slope=0.2), "y = HardSigmoid (x)", _F32, "kernel", "hardsigmoid"),
    (
        "HardSigmoid[alpha=0.16666667]",
        variant("hard_sigmoid"),
        "y = HardSigmoid <alpha = 0.16666667> (x)",
        _F32,
        "kernel",
        None,
    ),
    ("HardSwish", variant("hard_swish"), "y = HardSwish (x)", _F32, "kernel", "hardswish"),
    ("Sigmoid", variant("sigmoid"), "y = Sigmoid (x)", _F64, "kernel", "sigmoid"),
    ("Tanh", variant("tanh"), "y = Tanh (x)", _F64, "kernel", "tanh"),
    ("Softsign", variant("softsign"), "y = Softsign (x)", _F32, "kernel", "softsign"),
    (
        "ThresholdedRelu",
        variant("threshold", threshold=1.0),
        "y = ThresholdedRelu (x)",
        _F32,
        "exact",
        "thresholdedrelu",
    ),
    # Shrink runs in float64, too, but computes it in float32.
    ("Shrink", variant("hard_shrink"), "y = Shrink (x)", _F32, "exact", "shrink"),
    ("Shrink[bias=0.5]", variant("soft_shrink"), "y = Shrink <bias = 0.5> (x)", _F32, "exact", None),
    ("Clip[min=0,max=6]", variant("relu6"), "y = Clip (x, zero, six)", _F64, "exact", None),
    ("Clip[min=-1,max=1]", variant("hard_tanh"), "y = Clip (x, minus_one, one)", _F64, "exact", None),
    ("Identity", variant("identity"), "y = Identity (x)", _ALL, "exact", "identity"),
)
"""The other operators at ONNX Runtime's defaults: name, variant, body, dtypes, accuracy, default of."""

_CHAINS: Final = (
    ("Relu,Mul", variant("relu2"), "relu = Relu (x) y = Mul (relu, relu)", _F64),
    ("Softplus,Tanh,Mul", variant("mish"), "s = Softplus (x) t = Tanh (s) y = Mul (x, t)", _F32),
    ("Softplus,Sqrt", variant("sqrt_softplus"), "s = Softplus (x) y = Sqrt (s)", _F32),
    ("Tanh,Sub", variant("tanh_shrink"), "t = Tanh (x) y = Sub (x, t)", _F64),
    ("Neg,Softplus,Neg", variant("log_sigmoid"), "n = Neg (x) s = Softplus (n) y = Neg (s)", _F32),
    (
        "Mul,Add,Sqrt,Add,Mul",
        variant("squareplus"),
        "square = Mul (x, x) sum = Add (square, four) root = Sqrt (sum) twice = Add (x, root) y = Mul (twice, half)",
        _F64,
    ),
    (
        "Sub,Div,Erf,Add,Mul",
        variant("laplace"),
        "d = Sub (x, laplace_mean) z = Div (d, laplace_spread) e = Erf (z) twice = Add (e, one) y = Mul (twice, half)",
        _F32,
    ),
)
"""Variants that have no operator, as chains of them."""

_GATED_CHAINS: Final = (
    ("Split,Gelu,Mul", variant("geglu_erf"), "activated = Gelu (gate)", _F32),
    ("Split,Gelu,Mul[approximate=tanh]", variant("geglu_tanh"), 'activated = Gelu <approximate = "tanh"> (gate)', _F32),
    ("Split,Sigmoid,Mul,Mul", variant("swiglu"), "sigmoid = Sigmoid (gate) activated = Mul (gate, sigmoid)", _F64),
    ("Split,Sigmoid,Mul", variant("glu"), "activated = Sigmoid (gate)", _F64),
)
"""Gated variants on (n, 2), value and gate: name, variant, what makes ``activated`` of ``gate``, dtypes."""
