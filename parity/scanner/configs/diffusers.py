"""``config.json`` of diffusers, whose names mean more than the function: a feed-forward layer."""

from typing import Final

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.configs.huggingface import read_plain
from parity.scanner.model import Document

FORMAT: Final = "diffusers"

NAMES: Final = {
    "gelu-approximate": "gelu_tanh",
    "geglu": "geglu_erf",
    "geglu-approximate": "quick_gelu",
    "swiglu": "swiglu",
    "linear-silu": "silu",
}
"""What the names of ``FeedForward`` compute; read in the source of diffusers 0.42.1. ``geglu-approximate`` is
``ApproximateGELU``, x·σ(1.702x), and gates nothing."""


def understands(config: ConfigFile) -> bool:
    """By the class or the version that diffusers writes into it."""
    return "_class_name" in config.root or "_diffusers_version" in config.root


def read(config: ConfigFile) -> Document:
    """Every field with the name of a function."""
    read_plain(config, NAMES)
    version = config.root.get("_diffusers_version")
    return config.document(
        FORMAT,
        library="diffusers",
        saved_with=version if isinstance(version, str) else None,
        class_name=config.root.get("_class_name"),
    )
