"""What config classes do with values of activation fields: defaults, rewrites, what they derive and refuse."""

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import torch
import transformers
from transformers import PreTrainedConfig, activations
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

from parity.functions.identify import identify

FIELD: Final = re.compile(
    r"(?:.*_)?(?:act|activation|afn)(?:_(?:fn|func|function|layer|type|str|name))?|feed_forward_proj|conv_glu_type"
)
"""Names of fields that may hold an activation."""

NO_FUNCTIONS: Final = {"is_gated_act"}
"""Fields with such names that hold none."""

PROBE: Final = "mish"
"""An activation that no model's code names."""


@cache
def activation_keys() -> dict[str, str]:
    """What each key of ``ACT2FN`` computes."""
    keys: dict[str, str] = {}
    for key in activations.ACT2CLS:
        module = activations.ACT2FN[key].to(torch.float64)
        keys[key] = "xielu" if key == "xielu" else _variant(module)
    return keys


def _variant(call: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """The variant that a callable computes, with its parameters."""
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    found = identify(x.numpy(), call(x).detach().numpy().astype(np.float64)).variant
    return str(found) if found else ""


def config_classes() -> dict[type[PreTrainedConfig], list[str]]:
    """Every config class, with the names under which a config asks for it: model types, else that of the class."""
    found: dict[type[PreTrainedConfig], list[str]] = defaultdict(list)
    for name in CONFIG_MAPPING_NAMES:
        found[CONFIG_MAPPING[name]].append(name)
    for owner in list(found):
        for inner in getattr(owner, "sub_configs", {}).values():
            if inner not in found and inner is not transformers.AutoConfig:
                found[inner].append(getattr(inner, "model_type", "") or inner.__name__)
    return found


def fields(owner: type[PreTrainedConfig], made: PreTrainedConfig | None) -> dict[str, Any]:
    """Activation fields of a class with their defaults."""
    declared = {name for base in owner.__mro__ for name in vars(base).get("__annotations__", {})}
    names = {name for name in declared | set(vars(made) if made else ()) if FIELD.fullmatch(name)} - NO_FUNCTIONS
    defaults = {name: getattr(made, name, getattr(owner, name, None)) for name in names}
    return {name: value for name, value in sorted(defaults.items()) if isinstance(value, str | bool | dict | None)}


def config_knowledge(owner: type[PreTrainedConfig]) -> dict[str, Any]:
    """Defaults, rewrites and nested configs of one class."""
    made = _made(owner)
    found: dict[str, dict[str, Any]] = {}
    for name, default in fields(owner, made).items():
        found[name] = {"default": default, "values": _rewrites(owner, name, default)}
    if "feed_forward_proj" in found and "dense_act_fn" in found:
        found["feed_forward_proj"] |= _derived(owner)
        found["dense_act_fn"]["default"] = None
    aliases = {alias: name for alias, name in getattr(owner, "attribute_map", {}).items() if FIELD.fullmatch(alias)}
    subs = {}
    for key, inner in getattr(owner, "sub_configs", {}).items():
        actual = type(getattr(made, key, None)) if inner is transformers.AutoConfig else inner
        if issubclass(actual, PreTrainedConfig) and actual is not PreTrainedConfig:
            subs[key] = getattr(actual, "model_type", "") or actual.__name__
    replaced = [key for key in subs if _replaces(owner, key)]
    return {"fields": found, "aliases": aliases, "sub_configs": subs, "replaced_by_dict": replaced}


def _made(owner: type[PreTrainedConfig], **values: Any) -> PreTrainedConfig | None:
    try:
        return owner(**values)
    except Exception:  # noqa: BLE001 – whatever a config class raises, it refuses the values
        return None


def _rewrites(owner: type[PreTrainedConfig], name: str, default: Any) -> dict[str, str]:
    """Values that the class replaces, with what by."""
    if not isinstance(default, str | None):
        return {}
    kept = ((value, getattr(_made(owner, **{name: value}), name, value)) for value in activations.ACT2CLS)
    return {value: now for value, now in kept if now != value and isinstance(now, str)}


def _derived(owner: type[PreTrainedConfig]) -> dict[str, Any]:
    """What ``feed_forward_proj`` makes of ``dense_act_fn``, where it is not the name after ``gated-``."""
    values = {}
    for key in activations.ACT2CLS:
        made = _made(owner, feed_forward_proj=f"gated-{key}")
        if made and made.dense_act_fn != key:
            values[f"gated-{key}"] = made.dense_act_fn
    return {"values": values, "overridden_by": "dense_act_fn", "read": True}


def _replaces(owner: type[PreTrainedConfig], key: str) -> bool:
    """Whether ``KEY_dict`` replaces all of the nested config ``KEY``, its defaults included, as in CLIP."""
    alone = getattr(_made(owner, **{key: {"hidden_act": PROBE}}), key, None)
    both = getattr(_made(owner, **{key: {"hidden_act": PROBE}, f"{key}_dict": {}}), key, None)
    return getattr(alone, "hidden_act", None) == PROBE and getattr(both, "hidden_act", PROBE) != PROBE
