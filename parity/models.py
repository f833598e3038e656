"""Model references: what a user types for a model, and which adapter reads it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parity.discovery import discover
from parity.errors import InputError

PREFIXES: Final = {
    "torch": "torch",
    "jax": "jax",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "hf": "transformers",
    "onnx": "onnxruntime",
}
"""What stands before a colon, and the adapter that it names."""

SUFFIXES: Final = {
    ".onnx": "onnxruntime",
    ".pt2": "torch",
    ".pt": "torch",
    ".pth": "torch",
    ".ts": "torch",
    ".torchscript": "torch",
    ".tflite": "tensorflow",
    ".keras": "tensorflow",
    ".h5": "tensorflow",
    ".jaxexport": "jax",
}
"""How a model file's name ends, and the adapter that reads it."""

FORMS: Final = (
    "A model is a file (.onnx, .pt2, .pt, .tflite, .keras, .jaxexport), a folder (SavedModel, Hugging Face, recorded "
    "trace), or torch:FILE.py:NAME, jax:FILE.py:NAME, tf:FILE.py:NAME, hf:DIR. One of an adapter of your own begins "
    "with that adapter's name and a colon."
)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model as the user named it.

    Attributes:
        text: What the user typed.
        adapter: Name of the adapter that opens it; empty for a recorded trace.
    """

    text: str
    adapter: str

    @property
    def is_trace(self) -> bool:
        """Whether it is a recorded trace and not a model."""
        return not self.adapter


def model_reference(text: str) -> ModelReference:
    """What the user typed, with the adapter that opens it.

    Raises:
        InputError: There is no such file or folder, or nothing here reads it.
    """
    prefix, colon, rest = text.partition(":")
    if colon and prefix in PREFIXES:
        _check_file(text, prefix, rest)
        return ModelReference(text, PREFIXES[prefix])
    path = Path(text)
    if not path.exists() and colon and prefix in discover():
        return ModelReference(text, prefix)
    if not text or not path.exists():
        raise InputError(f"There is no file or folder '{text}'.", hint=FORMS)
    if path.is_dir():
        return ModelReference(text, _folder_adapter(path))
    adapter = SUFFIXES.get(path.suffix.lower())
    if adapter is None:
        raise InputError(f"'{text}' is of no format that is read here.", hint=FORMS)
    return ModelReference(text, adapter)


def _check_file(text: str, prefix: str, rest: str) -> None:
    if prefix in {"hf", "onnx", "keras"}:
        if not rest or not Path(rest).exists():
            raise InputError(f"There is no file or folder '{rest}', of which '{text}' speaks.", hint=FORMS)
        return
    file, colon, name = rest.rpartition(":")
    if not colon or not name or not file:
        raise InputError(
            f"'{text}' does not say what to call.", hint=f"Write {prefix}:FILE.py:NAME, NAME being the factory."
        )
    if not Path(file).is_file():
        raise InputError(f"There is no file '{file}', of which '{text}' speaks.", hint=FORMS)


def _folder_adapter(path: Path) -> str:
    """The adapter that reads a folder; empty for a recorded trace."""
    if (path / "manifest.json").is_file() or (path / "manifest.unfinished").is_file():
        return ""
    if (path / "saved_model.pb").is_file():
        return "tensorflow"
    if (path / "config.json").is_file():
        return "transformers"
    raise InputError(
        f"The folder '{path}' holds no model that is read here.",
        hint="A SavedModel has saved_model.pb, a Hugging Face folder config.json, a recorded trace manifest.json.",
    )
