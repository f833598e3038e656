"""A production session, and the graph that it really runs.

ONNX Runtime rewrites a graph before it runs it, and saves on demand what it made. That saved graph, run with the
optimiser off, calls the same kernels in the same order as production.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import onnx
import onnxruntime as ort

from parity.errors import InputError
from parity_adapters.onnxruntime.opening import Options, Source
from parity_adapters.onnxruntime.sessions import reason, session_options

_LARGE: Final = 1024
"""Weights of more bytes are saved beside the graph, from where they are read when they are needed."""

_SAVING: Final = {
    "session.optimized_model_external_initializers_file_name": "weights.bin",
    "session.optimized_model_external_initializers_min_size_in_bytes": str(_LARGE),
    "session.disable_prepacking": "1",  # the graph is the same without, and it never runs
}
"""Configuration entries of the session that saves the graph."""


@dataclass(frozen=True, slots=True)
class Production:
    """What runs when the model is deployed.

    Attributes:
        session: On the CPU provider.
        optimised: The model that it made of the file; large weights are in ``folder``.
        folder: Where that is, to be cleaned up.
    """

    session: ort.InferenceSession
    optimised: onnx.ModelProto
    folder: TemporaryDirectory[str]


def capture(source: Source, chosen: Options) -> Production:
    """Makes a production session and saves the graph that it runs.

    Raises:
        InputError: ONNX Runtime does not take the model.
    """
    given = str(source.path) if source.path else _serialized(source)
    folder = TemporaryDirectory(prefix="parity-onnxruntime-", ignore_cleanup_errors=True)
    saved = Path(folder.name) / "optimised.onnx"
    try:
        options = _options(source, chosen)
        options.optimized_model_filepath = str(saved)
        for key, value in _SAVING.items():
            options.add_session_config_entry(key, value)
        # A session that saves its graph keeps the weights twice: it is another one than what runs.
        ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        optimised = onnx.load(saved, load_external_data=False)
        session = ort.InferenceSession(given, _options(source, chosen), providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        folder.cleanup()
        raise _refused(source, error) from error
    return Production(session, optimised, folder)


def _options(source: Source, chosen: Options) -> ort.SessionOptions:
    """Of the production session."""
    options = session_options(level=chosen.level, config=chosen.config, threads=chosen.threads)
    if source.path is None and source.folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(source.folder))
    return options


def _serialized(source: Source) -> bytes:
    try:
        return bytes(source.model.SerializeToString())
    except Exception as error:  # of protobuf, whose two implementations raise different ones
        raise InputError(
            f"{source.name} is too large to be given in memory.", hint="Save it to a file and name that."
        ) from error


def _refused(source: Source, error: Exception) -> InputError:
    text = reason(error)
    hint = "Check it with `onnx.checker.check_model`, and that its operator set is one that this version knows."
    if "Could not find an implementation" in text:
        hint = "ONNX Runtime's CPU provider lacks that operator in that type; convert the model to float32."
    if "is not a registered function/op" in text or "custom op" in text.lower():
        hint = "Libraries of custom operators are not loaded; use a model of ONNX's and ONNX Runtime's own operators."
    return InputError(f"ONNX Runtime {ort.__version__} does not open {source.name}: {text}", hint=hint)
