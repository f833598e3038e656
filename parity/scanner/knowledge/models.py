"""What transformers does with the fields of each model type's config."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from parity.scanner.knowledge.files import data
from parity.scanner.knowledge.names import Named, number, parsed

LIBRARY: Final = "transformers"


PARAMETERS: Final[Mapping[str, tuple[str, float]]] = {
    "quick_gelu": ("alpha", 1.702),
    "leaky_relu": ("negative_slope", 0.01),
}
"""The parameter of a variant that configs hold, and its default."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a config class.

    Attributes:
        default: What the class puts there; None where it has none.
        read: Whether any model of that class reads it.
        values: What the class or the model makes of some values: value → key of ``ACT2FN`` (``gelu`` → ``gelu_new``).
        always: What the class makes of any value; empty where it does not.
        overridden_by: The field that wins where both are given; empty where none does.
        optional: Where alone it is read, if the model as it is usually made has no such part; empty otherwise.
        reason: Why, where ``read`` or ``values`` need one.
        evidence: ``measured here``, ``source read``, ``documented``, or ``assumed`` where only a name speaks for it.
    """

    default: Any = None
    read: bool = True
    values: Mapping[str, str] = field(default_factory=dict)
    always: str = ""
    overridden_by: str = ""
    optional: str = ""
    reason: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Literal:
    """An activation that the model's code names, whatever the config says.

    Attributes:
        variant: The function.
        scope: Modules that compute it.
        reason: Where it stands.
        instead_of: The field that a reader would take for it; empty where there is none.
        parameter: The field of the config that holds the variant's parameter, or of one in it, as in
            ``vocoder_config.leaky_relu_slope``; empty where there is none.
    """

    variant: str
    scope: str
    reason: str
    instead_of: str = ""
    parameter: str = ""

    def named(self, node: Mapping[str, Any]) -> Named:
        """The function, with the parameter that the config ``node`` gives it."""
        found = parsed(self.variant)
        value = number(_at(node, self.parameter)) if self.parameter else None
        if value is None:
            return found
        name, default = PARAMETERS[found.variant]
        return Named(found.variant, {} if value == default else {name: value})


@dataclass(frozen=True, slots=True)
class Model:
    """One model type of transformers.

    Attributes:
        name: ``model_type``, or the class where a sub-config has none.
        fields: Its activation fields.
        aliases: Other names of fields, by the name in the file: ``hidden_act`` → ``activation_function``.
        sub_configs: Model type by the key of a nested config.
        replaced_by_dict: Nested configs that one of the same name with ``_dict`` after it replaces.
        literals: Activations in the model's code.
        unread: Fields of nested configs that this model does not read, by the key of the config, though others do.
    """

    name: str
    fields: Mapping[str, Field]
    aliases: Mapping[str, str]
    sub_configs: Mapping[str, str]
    replaced_by_dict: tuple[str, ...]
    literals: tuple[Literal, ...]
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def without(self, names: Iterable[str]) -> "Model":
        """The same, where nothing reads these fields."""
        unread = {name: replace(self.fields[name], read=False) for name in names if name in self.fields}
        return replace(self, fields={**self.fields, **unread}) if unread else self


def _at(node: Any, field: str) -> Any:
    """What a config holds under a name with dots; None where it has no such field."""
    for part in field.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def measured_version() -> str:
    """The version of transformers that this knowledge was taken from."""
    return str(data(LIBRARY)["provenance"]["version"])


@cache
def activation(name: str) -> Named | None:
    """What ``ACT2FN[name]`` computes; None where there is no such key."""
    found = data(LIBRARY)["activations"].get(name)
    return parsed(found) if found else None


def activation_names() -> list[str]:
    """All keys of ``ACT2FN``."""
    return list(data(LIBRARY)["activations"])


@cache
def model(name: str, version: str = "") -> Model | None:
    """What is known of a model type.

    Args:
        name: ``model_type``.
        version: The version that runs it; empty for the one measured.
    """
    entry = data(LIBRARY)["models"].get(name)
    if entry is None:
        return None
    fields = {key: Field(**value) for key, value in entry.get("fields", {}).items()}
    for change in data("history")["changes"]:
        if version and change["model_type"] == name and _within(version, change):
            fields[change["field"]] = Field(**change["field_then"])
    return Model(
        name=name,
        fields=fields,
        aliases=entry.get("aliases", {}),
        sub_configs=entry.get("sub_configs", {}),
        replaced_by_dict=tuple(entry.get("replaced_by_dict", ())),
        literals=tuple(Literal(**one) for one in entry.get("literals", ())),
        unread={key: tuple(names) for key, names in entry.get("unread", {}).items()},
    )


def _within(version: str, change: Mapping[str, Any]) -> bool:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 – asked for in few scans, and slow to load

    try:
        asked = Version(version)
    except InvalidVersion:
        return False
    return Version(change["since"]) <= asked < Version(change["before"])
