"""Configs of sentence-transformers' own modules, whose activations are classes by their path."""

from typing import Final

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.configs.huggingface import read_plain
from parity.scanner.model import Document

FORMAT: Final = "sentence_transformers"


def understands(config: ConfigFile) -> bool:
    """By the fields of its Dense layer, or the version that it writes."""
    dense = {"in_features", "out_features", "activation_function"} <= config.root.keys()
    return dense or "sentence_transformers" in str(config.root.get("__version__", ""))


def read(config: ConfigFile) -> Document:
    """Every field with the path of a class in it."""
    read_plain(config, {"none": ""})
    return config.document(FORMAT, library="sentence-transformers")
