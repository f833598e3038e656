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

_WEIGHTS: Final = "weights.bin"
_LARGE: Final = 1024
"""Weights of more bytes are saved beside the graph, from where they are read when they are needed."""


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
    options = session_options(level=chosen.level, threads=chosen.threads)
    saved = Path(folder.name) / "optimised.onnx"
    options.optimized_model_filepath = str(saved)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", _WEIGHTS)
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", str(_LARGE))
    if source.path is None and source.folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(source.folder))
    try:
        for key, value in chosen.config:
            options.add_session_config_entry(key, value)
        session = ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        optimised = onnx.load(saved, load_external_data=False)
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        folder.cleanup()
        raise _refused(source, error) from error
    return Production(session, optimised, folder)


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
