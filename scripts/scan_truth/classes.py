"""The model classes of transformers."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING

NEEDED: Final[Mapping[str, dict[str, Any]]] = {
    "autoformer": {"prediction_length": 8},
    "informer": {"prediction_length": 8},
    "time_series_transformer": {"prediction_length": 8},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
}
"""Values without which a model cannot be built or run, by model type."""


def model_types() -> list[str]:
    """Every model type that ``AutoModel`` has a class for."""
    return [name for name in CONFIG_MAPPING_NAMES if CONFIG_MAPPING[name] in MODEL_MAPPING]


def base_class(owner: type[PreTrainedConfig]) -> type[PreTrainedModel] | None:
    """The class that ``AutoModel`` takes for a config; None where it has none."""
    try:
        kinds = MODEL_MAPPING[owner]
    except (KeyError, ValueError):  # ValueError: it names a class that is not there
        return None
    kind: type[PreTrainedModel] = kinds[0] if isinstance(kinds, tuple | list) else kinds
    return kind


def heads(owner: type[PreTrainedConfig]) -> list[type[PreTrainedModel]]:
    """The other models of a config that stand beside its base class."""
    base = base_class(owner)
    try:
        module = import_module(base.__module__ if base else owner.__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return []
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, PreTrainedModel)
        and one.__module__ == module.__name__
        and getattr(one, "config_class", None) is owner
        and one is not base
        and not one.__name__.endswith("PreTrainedModel")
    ]
