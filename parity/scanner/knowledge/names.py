"""Which function a name means where no library says otherwise, and which fields hold such names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from parity.scanner.knowledge.files import data

_FIELD: Final = re.compile(r"(?:.*_)?(?:act|activation|afn)(?:_?(?:fn|func|function|layer|type|name))?", re.IGNORECASE)

_CALL: Final = re.compile(r"(?P<name>[\w.\->]{1,120})\((?P<arguments>[^()]{0,120})\)")

LARGEST: Final = 1e30
"""A number beyond which no parameter is one."""

LONGEST_NAME: Final = 160
"""Characters beyond which a string is no name of a function."""


@dataclass(frozen=True, slots=True)
class Named:
    """A function by name.

    Attributes:
        variant: One of ``parity.functions.VARIANTS``.
        parameters: Those that differ from the variant's defaults.
    """

    variant: str
    parameters: Mapping[str, float]


def number(value: Any) -> float | None:
    """A parameter as a config gives it; None for what can be none: JSON has NaN, and whole numbers beyond any float."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
    return float(value) if fits else None


@cache
def parsed(text: str) -> Named:
    """What a data file writes as ``leaky_relu[negative_slope=0.25]``."""
    name, _, rest = text.partition("[")
    items = (item.split("=") for item in rest.rstrip("]").split(",") if item)
    return Named(name, {key: float(value) for key, value in items})


@cache
def function_fields() -> frozenset[str]:
    """Names of fields that hold nothing but an activation."""
    return frozenset(data("fields")["functions"])


def flag(field: str, value: bool) -> Named | None:
    """What a field that is true or false chooses; None where that alone chooses nothing."""
    chosen = data("fields")["flags"].get(field, {}).get("true" if value else "false")
    return parsed(chosen) if chosen else None


def is_flag(field: str) -> bool:
    """Whether a field chooses an activation by being true or false."""
    return field in data("fields")["flags"]


@cache
def may_hold_function(field: str) -> bool:
    """Whether a field's name looks as if it held an activation; what stands in it decides."""
    return len(field) <= LONGEST_NAME and (field in function_fields() or _FIELD.fullmatch(field) is not None)


def named(value: str) -> Named | None:
    """The function that a name means in most libraries; None for a name that means none, or not the same in all.

    Args:
        value: ``gelu_new``, ``torch.nn.modules.activation.GELU``, ``nn.GELU(approximate='tanh')``, ``keras_hub>gelu`` …
    """
    if len(value) > LONGEST_NAME:
        return None
    call = _CALL.fullmatch(value.strip())
    name = (call["name"] if call else value).strip()
    last = re.split(r"[.>]", name)[-1].lower()
    if call and last == "gelu" and "tanh" in call["arguments"]:
        last = "gelu_tanh"
    found = data("names")["names"].get(last)
    return parsed(found) if found else None


def name_in(value: Any) -> str | None:
    """The name under which an object describes a function: ``{"name": "silu"}``, ``{"class_name": "ReLU"}``."""
    return next(
        (key for key in ("name", "type", "class_name", "_target_", "function") if isinstance(value.get(key), str)), None
    )
