"""What the value of a field means: for a class of transformers, and where nothing is known of the model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from parity.scanner.json_text import Path
from parity.scanner.knowledge import models
from parity.scanner.knowledge.models import Field, Model
from parity.scanner.knowledge.names import Named, flag, function_fields, is_flag, name_in, named, parsed
from parity.scanner.model import Basis

MOST_ITEMS: Final = 1_000
"""Items of a list of activations that are read."""

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

PRINCIPAL: Final = (
    *("hidden_act", "hidden_activation", "activation_function", "activation_fn", "act_fn", "activation", "afn"),
    *("dense_act_fn", "feed_forward_proj", "ff_activation", "ffn_act_fn"),
)
"""Names for the one activation of a feed-forward block, old and new, in all libraries."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one value comes to.

    Attributes:
        path: Where it stands.
        value: The value.
        named: The function it means; None where that is not known.
        basis: Why it means that.
        reason: What a reader should know about it.
    """

    path: Path
    value: Any
    named: Named | None
    basis: Basis = "config"
    reason: str = ""

    @property
    def variant(self) -> str | None:
        """The function's name."""
        return self.named.variant if self.named else None


def known(path: Path, value: Any, field: Field, model: Model) -> list[Reading]:
    """What a field of a class of transformers means: nothing where its value chooses no activation."""
    if isinstance(value, bool):
        chosen = flag(model.name, value) or flag(str(path[-1]), value)
        return [Reading(path, value, chosen)] if chosen else []
    if isinstance(value, dict):
        key = name_in(value)
        return known((*path, key), value[key], field, model) if key else []
    if isinstance(value, list):
        items = (known((*path, index), one, field, model) for index, one in enumerate(value))
        return [reading for readings in items for reading in readings]
    if value is None:
        return []
    return [_known_name(path, value, field)]


def _known_name(path: Path, value: Any, field: Field) -> Reading:
    """What a class makes of a value that is no list and no object."""
    if not isinstance(value, str):
        return Reading(path, value, None)
    if field.always:
        basis: Basis = "config" if value == field.always else "model-code"
        return Reading(path, value, models.activation(field.always), basis, field.reason)
    if value in field.values:
        return Reading(path, value, models.activation(field.values[value]), "model-code", field.reason)
    plain = value.removeprefix("gated-") if path[-1] == "feed_forward_proj" else value
    reason = field.optional or (field.reason if field.evidence else "")
    return Reading(path, value, models.activation(plain), "config", reason)


def plain(path: Path, value: Any, names: Mapping[str, str] = NO_NAMES) -> Iterator[Reading]:
    """What a field means where nothing is known of the model.

    Args:
        path: Where the field stands.
        value: Its value. What names no function counts only in a field that holds nothing else.
        names: What some names mean in the library at hand: a variant, or nothing for what is no activation.
    """
    key = next(part for part in reversed(path) if isinstance(part, str))
    if isinstance(value, bool):
        chosen = flag(key, value) if is_flag(key) else None
        if chosen:
            yield Reading(path, value, chosen)
    elif isinstance(value, list):
        for index, one in enumerate(value[:MOST_ITEMS]):
            if isinstance(one, str):
                yield from plain((*path, index), one, names)
    elif isinstance(value, dict):
        inner = name_in(value)
        if inner and (named(value[inner]) or value[inner] in names):
            yield from plain((*path, inner), value[inner], names)
    elif value is not None:
        yield from _plain_name(path, value, key, names)


def _plain_name(path: Path, value: Any, key: str, names: Mapping[str, str]) -> Iterator[Reading]:
    """A single name, or a number in the place of one."""
    found = None
    if isinstance(value, str):
        if names.get(value) == "":
            return
        found = parsed(names[value]) if value in names else named(value)
    if found or key in function_fields():
        yield Reading(path, value, found)


def counterpart(key: str, effective: Mapping[str, str | None]) -> str | None:
    """The field among ``effective`` that chooses the same activation as ``key`` does by its name."""
    if key not in PRINCIPAL:
        return None
    return next((name for name in effective if name in PRINCIPAL and name != key), None)
