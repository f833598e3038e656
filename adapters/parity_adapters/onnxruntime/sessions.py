"""Models to sessions: the one way in which this adapter hands a graph to ONNX Runtime."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import onnx
import onnxruntime as ort

from parity.adapter import Array
from parity_adapters.onnxruntime.arrays import OrtValue, from_numpy, to_numpy

LEVELS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    }
)
"""Optimisation level by name, in ascending order; "all" is ONNX Runtime's default."""

GELU_APPROXIMATION: Final = ("optimization.enable_gelu_approximation", "1")
"""The session's configuration entry that allows the optimiser to replace erf by tanh in GELU."""

_FATAL = 4
_LONGEST = 400
_STATUS = r"(\[ONNXRuntimeError\] : \d+ : \w+ : )?"
_PREFIX = re.compile(
    rf"^{_STATUS}(Load model from .*? failed:|Exception during initialization: )?"
    rf"(/onnxruntime_src/\S+ [^\[]*?onnxruntime::.*?\) (?=[A-Z\[]))?{_STATUS}"
)


def session_options(
    *, level: str = "all", config: Sequence[tuple[str, str]] = (), threads: int = 1
) -> ort.SessionOptions:
    """Options of a production session but for its threads and its log.

    Args:
        level: One of `LEVELS`.
        config: Configuration entries, key and value.
        threads: How many one operator may use.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    # ONNX Runtime's pool heeds no OMP_NUM_THREADS: it would take every core, and spin on it, beside the other workers.
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # What it has to say about a graph that it refuses comes as an exception as well.
    options.log_severity_level = _FATAL
    for key, value in config:
        options.add_session_config_entry(key, value)
    return options


def open_session(model: onnx.ModelProto, options: ort.SessionOptions) -> ort.InferenceSession:
    """Session on the CPU provider.

    Raises:
        Exception: ONNX Runtime's own (``NotImplemented``, ``InvalidGraph``, …) where it cannot run ``model``.
    """
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def reason(error: Exception) -> str:
    """What ONNX Runtime says is wrong, in one line without the parts that tell a user nothing."""
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return _PREFIX.sub("", text)[:_LONGEST]


def run_session(session: ort.InferenceSession, feeds: Mapping[str, OrtValue]) -> list[OrtValue]:
    """Outputs of ``session`` in the model's order."""
    outputs: list[OrtValue] = session.run_with_ort_values(None, dict(feeds))
    return outputs


def run_model(model: onnx.ModelProto, inputs: Sequence[Array], *, level: str = "all") -> list[Array]:
    """Outputs of ``model`` on ``inputs``, both in the model's order, at optimisation ``level``."""
    session = open_session(model, session_options(level=level))
    feeds = {spec.name: from_numpy(x) for spec, x in zip(session.get_inputs(), inputs, strict=True)}
    return [to_numpy(value) for value in run_session(session, feeds)]
