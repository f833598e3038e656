"""Opens what a model reference names: a SavedModel, a Keras or TFLite file, a factory in a Python file, an object."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from parity.adapter import Session, not_opened
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.errors import InputError
from parity.python_file import import_file
from parity_adapters.tensorflow.lite_session import LiteSession
from parity_adapters.tensorflow.models import CallableModel, KerasModel, SignatureModel
from parity_adapters.tensorflow.runtime import keras, reset_uids, tf
from parity_adapters.tensorflow.session import GraphSession

READS: Final = (
    "a folder with saved_model.pb, *.keras, *.h5, *.tflite, tf:FILE.py:NAME, "
    "and in this process Keras models and functions"
)
OPTIONS: Final = ("dtype", "threads")
DEFAULT_SIGNATURE: Final = "serving_default"


def opened(adapter: str, model: Any, options: Mapping[str, str]) -> Session:
    """The session of a model.

    Args:
        adapter: Name of the adapter, for messages.
        model: A reference or a live object.
        options: ``dtype`` and ``threads``.

    Raises:
        InputError: It cannot be opened, or an option means nothing here.
    """
    for option in options:
        if option not in OPTIONS:
            raise InputError(
                f"The option '{option}' means nothing to the {adapter} adapter.",
                hint=f"It takes: {', '.join(OPTIONS)}.",
            )
    dtype = options.get("dtype")
    if dtype is not None:
        float_dtype(dtype)
    if not isinstance(model, str | Path):
        return _live(adapter, model, None, dtype)
    reset_uids()  # Keras counts its layers' names through a process: they are to be those of the first model in one
    reference = str(model)
    if reference.startswith("tf:"):
        return _made(adapter, reference, dtype)
    return _file(adapter, Path(reference), options)


def _file(adapter: str, path: Path, options: Mapping[str, str]) -> Session:
    dtype = options.get("dtype")
    if not path.exists():
        raise InputError(f"There is no file or folder '{path}'.", hint=f"The {adapter} adapter opens {READS}.")
    if path.suffix in {".keras", ".h5"}:
        return GraphSession(KerasModel(_in_dtype(_load_keras(path), dtype), dtype=dtype))
    if path.suffix == ".tflite" or (path.is_dir() and (path / "saved_model.pb").is_file()):
        if dtype is not None:
            raise InputError(
                f"The types of '{path}' are fixed; it cannot be run in {dtype}.",
                hint="Leave the dtype out, or save the model in that type.",
            )
        return LiteSession(path, _threads(options)) if path.suffix == ".tflite" else _saved_model(path)
    raise not_opened(adapter, str(path), READS)


def _threads(options: Mapping[str, str]) -> int | None:
    threads = options.get("threads")
    if threads is not None and not (threads.isdecimal() and int(threads)):
        raise InputError(f"'{threads}' is no number of threads.", hint="Give a whole number of at least 1.")
    return None if threads is None else int(threads)


def _saved_model(path: Path) -> Session:
    try:
        loaded = tf.saved_model.load(str(path))
    except Exception as error:
        raise InputError(
            f"TensorFlow cannot load the SavedModel '{path}': {_first_line(error)}",
            hint="Is the folder complete, with its variables?",
        ) from error
    signatures = dict(loaded.signatures)
    if DEFAULT_SIGNATURE not in signatures and len(signatures) != 1:
        raise InputError(
            f"The SavedModel '{path}' has no signature '{DEFAULT_SIGNATURE}'.",
            hint=f"It has: {', '.join(sorted(signatures)) or 'none'}. Give one that name when it is saved.",
        )
    signature = signatures.get(DEFAULT_SIGNATURE) or next(iter(signatures.values()))
    return GraphSession(SignatureModel(signature, loaded))


def _load_keras(path: Path) -> Any:
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        raise InputError(
            f"Keras cannot load '{path}': {_first_line(error)}",
            hint="A model with code of its own (a Lambda layer, a class) can be opened through tf:FILE.py:NAME.",
        ) from error


def _made(adapter: str, reference: str, dtype: str | None) -> Session:
    """The session of what a factory of a Python file returns."""
    path, _, name = reference.removeprefix("tf:").rpartition(":")
    if not path or not name:
        raise InputError(f"'{reference}' names no factory.", hint="Write tf:FILE.py:NAME.")
    module = _imported(Path(path))
    factory = getattr(module, name, None)
    if not callable(factory):
        found = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InputError.unknown(f"function in {path}", name, found)
    try:
        made = factory()
    except Exception as error:
        raise InputError(
            f"{name}() in {path} failed: {_first_line(error)}",
            hint="It is called without arguments and returns a tf.Module, a Keras model or a function.",
        ) from error
    if not callable(made):
        raise InputError(
            f"{name}() in {path} returned a {type(made).__name__}.",
            hint="It should return a tf.Module with __call__, a Keras model or a function.",
        )
    return _live(adapter, made, Path(path).resolve().parent, dtype)


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"There is no file '{path}'.", hint="Write tf:FILE.py:NAME.")
    try:
        return import_file(path)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"'{path}' cannot be imported: {_first_line(error)}", hint="Does `python` run it by itself?"
        ) from error


def _live(adapter: str, model: Any, sources: Path | None, dtype: str | None) -> Session:
    if isinstance(model, keras.Model):
        return GraphSession(KerasModel(_in_dtype(model, dtype), sources, dtype))
    if not callable(model):
        raise not_opened(adapter, f"{type(model).__module__}.{type(model).__qualname__}", READS)
    return GraphSession(CallableModel(model, sources=sources, dtype=dtype))


def _in_dtype(model: Any, dtype: str | None) -> Any:
    """The Keras model built again with all its inputs, layers and variables in ``dtype``."""
    if dtype is None:
        return model
    classes = {type(layer).__name__: type(layer) for layer in model._flatten_layers()}  # noqa: SLF001 – nested ones too
    try:
        with keras.saving.custom_object_scope(classes):
            made = type(model).from_config(_recast(model.get_config(), dtype))
        made.set_weights(model.get_weights())
    except Exception as error:
        raise InputError(
            f"This Keras model cannot be built again in {dtype}: {_first_line(error)}",
            hint=f"Build it so: keras.config.set_dtype_policy('{dtype}') before its layers are made.",
        ) from error
    return made


def _recast(config: Any, dtype: str) -> Any:
    """A Keras configuration with every floating-point type and policy exchanged for ``dtype``."""
    if isinstance(config, list | tuple):
        return type(config)(_recast(part, dtype) for part in config)
    if not isinstance(config, dict):
        return config
    return {
        key: dtype if key == "dtype" and _is_floating(value) else _recast(value, dtype) for key, value in config.items()
    }


def _is_floating(value: Any) -> bool:
    name = value.get("config", {}).get("name", "") if isinstance(value, dict) else value
    return isinstance(name, str) and name.rpartition("_")[2] in FLOAT_DTYPES


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
