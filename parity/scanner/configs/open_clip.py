"""Model configs of open_clip and of the CLIPs that were made from it."""

from collections.abc import Mapping
from typing import Any, Final

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.configs.huggingface import read_plain
from parity.scanner.json_text import Path
from parity.scanner.knowledge.names import parsed
from parity.scanner.model import Document

FORMAT: Final = "open_clip"

TOWERS: Final = ("text_cfg", "vision_cfg")


def understands(config: ConfigFile) -> bool:
    """By the two towers and the size of what they share."""
    root, _ = _model(config)
    return "embed_dim" in root and any(isinstance(root.get(tower), dict) for tower in TOWERS)


def read(config: ConfigFile) -> Document:
    """The flag ``quick_gelu``, the arguments of the towers' activations, and fields of towers of another kind."""
    root, path = _model(config)
    read_plain(config, {"none": ""})
    if root.get("quick_gelu") is False:
        config.add(
            (*path, "quick_gelu"), False, parsed("gelu_erf"), "config", reason="nn.GELU of open_clip's own towers"
        )
    for tower in TOWERS:
        _arguments(config, root.get(tower), (*path, tower))
    if not config.uses:
        config.report(
            "config-unknown-activation",
            "note",
            path,
            "No field names an activation. open_clip then computes exact GELU, but weights published by OpenAI, and "
            "those trained from them, need quick_gelu: true, which is up to 0.0203 away (at x = -2.27).",
            fix='Add "quick_gelu": true if the weights are of that kind.',
        )
    return config.document(FORMAT, library="open_clip", towers=_towers(root))


def _model(config: ConfigFile) -> tuple[Mapping[str, Any], Path]:
    """The model's own part, and where it is: ``open_clip_config.json`` has it under ``model_cfg``."""
    inner = config.root.get("model_cfg")
    return (inner, ("model_cfg",)) if isinstance(inner, dict) else (config.root, ())


def _arguments(config: ConfigFile, tower: Any, path: Path) -> None:
    """``act_kwargs`` of a tower, which make nn.GELU the tanh form."""
    arguments = tower.get("act_kwargs") if isinstance(tower, dict) else None
    if isinstance(arguments, dict) and arguments.get("approximate") in ("tanh", "none"):
        value = arguments["approximate"]
        found = parsed("gelu_tanh" if value == "tanh" else "gelu_erf")
        config.add((*path, "act_kwargs", "approximate"), value, found, "config", reason="argument of nn.GELU")


def _towers(root: Mapping[str, Any]) -> dict[str, str]:
    """What kind each tower is; ``quick_gelu`` speaks of those of open_clip itself."""
    kinds = {}
    for name in TOWERS:
        tower = root.get(name)
        if not isinstance(tower, dict):
            continue
        if "timm_model_name" in tower:
            kinds[name] = "timm, which ignores quick_gelu"
        elif "hf_model_name" in tower:
            kinds[name] = "transformers, which ignores quick_gelu"
        elif isinstance(tower.get("layers"), list):
            kinds[name] = "ResNet of ReLU, which ignores quick_gelu"
        else:
            kinds[name] = "Transformer of open_clip"
    return kinds
