"""``config.json`` of timm."""

from typing import Final

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.configs.huggingface import read_plain
from parity.scanner.knowledge.names import parsed
from parity.scanner.model import Document

FORMAT: Final = "timm"

BY_ARCHITECTURE: Final = {
    "_quickgelu": "quick_gelu",
    "siglip": "gelu_tanh",
    "gemma": "gelu_tanh",
}
"""What timm's code names for architectures with this in their name; documented, not measured."""


def understands(config: ConfigFile) -> bool:
    """By the name of the architecture and what timm keeps with it."""
    root = config.root
    return isinstance(root.get("architecture"), str) and bool(
        {"pretrained_cfg", "num_features", "model_args"} & root.keys()
    )


def read(config: ConfigFile) -> Document:
    """The arguments of the model, else what the name of the architecture stands for."""
    read_plain(config, {"none": ""})
    architecture = config.root["architecture"]
    found = next((variant for part, variant in BY_ARCHITECTURE.items() if part in architecture), None)
    if found and not config.uses:
        config.add(
            ("architecture",),
            architecture,
            parsed(found),
            "model-code",
            reason="act_layer of this architecture in timm",
        )
    return config.document(FORMAT, library="timm", architecture=architecture[:200])
