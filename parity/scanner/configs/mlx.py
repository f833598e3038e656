"""``config.json`` of a model converted for mlx-lm: that of Hugging Face, read by code that may fix the activation."""

from dataclasses import replace
from typing import Final

from parity.scanner.configs import huggingface
from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.configs.values import PRINCIPAL
from parity.scanner.knowledge.targets import answer
from parity.scanner.model import ActivationUse, Document

FORMAT: Final = "mlx"


def understands(config: ConfigFile) -> bool:
    """By the quantization that mlx-lm writes."""
    quantization = config.root.get("quantization")
    return (
        isinstance(quantization, dict) and {"group_size", "bits"} <= quantization.keys() and "model_type" in config.root
    )


def read(config: ConfigFile) -> Document:
    """As transformers reads it, but for the model types whose code in mlx-lm is known to compute something else."""
    document = huggingface.read(config)
    model_type = str(document.facts.get("model_type", ""))
    uses = tuple(_as_run(use, model_type) for use in document.activations)
    return replace(document, format=FORMAT, activations=uses, facts={**document.facts, "library": "mlx-lm"})


def _as_run(use: ActivationUse, model_type: str) -> ActivationUse:
    found = answer("mlx", use, model_type)
    if use.field not in PRINCIPAL or found.status != "differs":
        return use
    reason = f"mlx-lm {found.version}: {found.note}; transformers computes {use.variant}"
    return replace(use, variant=found.variant, basis="model-code", reason=reason, parameters={})
