"""``config.json`` of Hugging Face, and every config of unknown make with fields of the same names.

Where transformers knows the model type, what it does with a field is known from its own classes; elsewhere a name is
read as most libraries read it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.configs.fields import Fields
from parity.scanner.json_text import Path, Repeating, cut, shown
from parity.scanner.knowledge import models
from parity.scanner.knowledge.models import Model
from parity.scanner.knowledge.names import is_flag, may_hold_function
from parity.scanner.model import Document

FORMAT: Final = "config"

NOT_MODEL_CODE: Final = frozenset({"AutoTokenizer", "AutoProcessor", "AutoImageProcessor", "AutoFeatureExtractor"})
"""Keys of ``auto_map`` that say nothing about the model."""

ASIDE: Final = frozenset(
    {"task_specific_params", "quantization_config", "activation_checkpointing", "generation_config"}
)
"""Objects that describe no part of the model."""


def understands(config: ConfigFile) -> bool:
    """Any JSON document: without a field of a known name nothing is found in it."""
    return isinstance(config.json.value, dict | list)


def read_plain(config: ConfigFile, names: Mapping[str, str]) -> None:
    """Takes down every activation of a config of another library, in which some names mean something of their own."""
    _Walk(config, Fields(config, "", custom=False, names=names)).document(None)


def read(config: ConfigFile) -> Document:
    """Every activation that the config chooses, and those that its model's class or code chooses where it does not."""
    root = config.root
    name = root.get("model_type")
    name = name if isinstance(name, str) else ""
    custom = _has_own_code(root)
    version = config.versions.get(models.LIBRARY, "")
    fields = Fields(config, version, custom=custom)
    _Walk(config, fields).document(models.model(name, version) if name and not custom else None)
    if custom and not config.uses:
        config.report(
            "config-unknown-activation",
            "note",
            ("auto_map",),
            f"The code of this model stands in its own repository (auto_map in {config.file}), and no field names an "
            "activation: which one it computes is not known from this file.",
            fix="Scan the exported graph, or the live model with parity.scan(model).",
        )
    saved = root.get("transformers_version")
    of_transformers = bool(name or saved)
    return config.document(
        FORMAT,
        model_type=cut(name) or None,
        library=models.LIBRARY if of_transformers else None,
        version=(version or models.measured_version()) if of_transformers else None,
        saved_with=cut(saved) if isinstance(saved, str) else None,
        custom_code=custom or None,
    )


def _has_own_code(root: Mapping[str, Any]) -> bool:
    """Whether the model's code comes with the config and not with transformers."""
    mapping = root.get("auto_map")
    return isinstance(mapping, dict) and any(key not in NOT_MODEL_CODE for key in mapping)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Goes through one config.

    Attributes:
        config: The config.
        fields: Takes down what the fields of an object mean.
    """

    config: ConfigFile
    fields: Fields

    def document(self, model: Model | None) -> None:
        """All of it."""
        root = self.config.json.value
        if isinstance(root, dict):
            self.node(root, (), model)
        elif isinstance(root, list):
            self.children(root, (), None, [])

    def node(self, node: Mapping[str, Any], path: Path, model: Model | None, *, inner: bool = False) -> None:
        """One object: its fields, those absent from it, and the objects in it.

        Args:
            node: The object.
            path: Where it is.
            model: The model that it configures.
            inner: Whether it is part of another model, whose code was measured with this one in it.
        """
        present = {key: value for key, value in node.items() if may_hold_function(key) or is_flag(key)}
        if isinstance(node, Repeating):
            self.fields.repeated(node, path, present)
        if not model:
            if present:
                self.fields.unmodelled(node, path, present)
            self.children(node, path, None, [])
            return
        flat = self.flattened(node, model, present)
        self.fields.modelled(node, path, flat or model, present)
        if not inner:
            self.fields.literals(node, path, model)
        replaced = [key for key in model.replaced_by_dict if isinstance(node.get(f"{key}_dict"), dict)]
        self.children(node, path, model, replaced)
        self.parts(node, path, model, {flat.name} if flat else set(), replaced)

    def children(
        self, holder: Mapping[str, Any] | list[Any], path: Path, model: Model | None, replaced: list[str]
    ) -> None:
        """The objects in an object or a list, but for those that another replaces."""
        pairs: Iterable[tuple[Any, Any]] = holder.items() if isinstance(holder, Mapping) else enumerate(holder)
        for key, value in pairs:
            if self.config.full:
                return
            if isinstance(value, dict) and key not in ASIDE and str(key).removesuffix("_dict") not in replaced:
                self.node(value, (*path, key), self.model_of(value, key, model), inner=model is not None)
            elif isinstance(value, list):
                self.children(value, (*path, key), None, [])

    def parts(self, node: Mapping[str, Any], path: Path, model: Model, flat: set[str], replaced: list[str]) -> None:
        """The nested configs that the model's class makes where the config has none, or has two."""
        for key, name in model.sub_configs.items():
            part = models.model(name, self.fields.version)
            if not part or name in flat or name == model.name:
                continue
            part = part.without(model.unread.get(key, ()))
            if key in replaced:
                self.replaced(node, key, path, part)
            elif node.get(key) is None:
                self.fields.modelled({}, (*path, key), part, {})

    def replaced(self, node: Mapping[str, Any], key: str, path: Path, part: Model) -> None:
        """A nested config that the one called ``KEY_dict`` replaces, with the defaults of what it leaves out."""
        other = node[f"{key}_dict"]
        given = {name: other[name] for name in part.fields if name in other}
        self.fields.modelled(other, (*path, key), part, given)
        written = node.get(key)
        if not isinstance(written, dict):
            return
        for name, about in part.fields.items():
            effective = other.get(name, about.default)
            if name in written and written[name] != effective:
                self.config.report(
                    "config-conflict",
                    "error",
                    (*path, key, name),
                    f"{shown((*path, key, name))} = {cut(repr(written[name]))}, but {key}_dict stands beside {key}: "
                    f"{self.fields.library} takes all fields from there, and this one is {cut(repr(effective))}"
                    f"{'' if name in other else ' by default'}.",
                    fix=f"Take {key}_dict out.",
                )

    def flattened(self, node: Mapping[str, Any], model: Model, present: Mapping[str, Any]) -> Model | None:
        """The text part of a model of several parts, where its fields stand in the object itself."""
        name = model.sub_configs.get("text_config")
        part = models.model(name, self.fields.version) if name and "text_config" not in node else None
        own = {model.aliases.get(key, key) for key in present}
        return part if part and own & part.fields.keys() and not own & model.fields.keys() else None

    def model_of(self, node: Mapping[str, Any], key: str | int, parent: Model | None) -> Model | None:
        """The model that a nested object configures."""
        if self.fields.custom or self.fields.names:
            return None
        own = node.get("model_type")
        inner = models.model(own, self.fields.version) if isinstance(own, str) else None
        if not parent or not isinstance(key, str):
            return inner
        name = parent.sub_configs.get(key)
        if not inner and name:
            inner = models.model(name, self.fields.version)
        return inner.without(parent.unread.get(key, ())) if inner else None
