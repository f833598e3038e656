"""Configs in JSON: read once, then understood by the dialect whose marks they bear."""

from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.json_text import JsonText
from parity.scanner.model import Document
from parity.scanner.source import Source

FORMAT: Final = "json"

LARGEST: Final = 32 << 20
"""Bytes of a JSON file that are read."""

DIALECTS: Final = ("keras", "sentence_transformers", "diffusers", "open_clip", "timm", "mlx", "huggingface")
"""In the order in which a config is offered to them; the last takes any."""


class Dialect(Protocol):
    """What every module of `parity.scanner.configs` offers."""

    def understands(self, config: ConfigFile) -> bool:
        """Whether the config bears the marks of this dialect."""
        ...

    def read(self, config: ConfigFile) -> Document:
        """What its fields mean."""
        ...


def recognises(path: Path, head: bytes) -> bool:
    """By its name, or by a brace or bracket as the first character."""
    return path.suffix.lower() == ".json" or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read(source: Source) -> Document:
    """The activations of a config.

    Raises:
        Unreadable: It is no JSON, too large or nested too deep.
    """
    config = ConfigFile(source.file, source.path, JsonText(source.read(LARGEST), source.file), source.versions)
    for name in DIALECTS:
        dialect: Dialect = cast("Dialect", import_module(f"parity.scanner.configs.{name}"))
        if dialect.understands(config):
            return dialect.read(config)
    return config.document(FORMAT)
