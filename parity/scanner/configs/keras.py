"""Configs of Keras: layers within layers, each with its activation by name, as a function or as a layer of its own."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.json_text import Path, cut
from parity.scanner.knowledge.files import data
from parity.scanner.knowledge.names import Named, may_hold_function, named, number, parsed
from parity.scanner.model import Document

FORMAT: Final = "keras"

MAIN_VERSION: Final = "3"
"""Keras whose functions are meant where a config does not say which it is of."""


def understands(config: ConfigFile) -> bool:
    """By the class and config of its outermost layer."""
    root = _model(config.root)
    return isinstance(root.get("class_name"), str) and isinstance(root.get("config"), dict | list)


def read(config: ConfigFile, version: str = "") -> Document:
    """The activation of every layer.

    Args:
        config: The config.
        version: Of Keras, where another file says so.
    """
    written = config.root.get("keras_version")
    version = version or (written if isinstance(written, str) else "")
    for path, value, found, reason in _activations(config.json.value, (), _Names(version)):
        if config.full:
            break
        config.add(path, value, found, "model-code" if reason else "config", reason=reason)
        if found is None:
            config.report(
                "config-unknown-activation",
                "warning",
                path,
                f"{cut(repr(value))} is no activation of Keras: it is a function of the model's own code.",
                fix="Look at the function that is registered under this name.",
            )
    return config.document(FORMAT, library="keras", version=cut(version) or None)


def _model(root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model itself: weights files of old keep it under ``model_config``."""
    inner = root.get("model_config")
    return inner if isinstance(inner, dict) else root


class _Names:
    """What names mean in one version of Keras."""

    def __init__(self, version: str) -> None:
        known = data("keras")
        major = version.partition(".")[0] or MAIN_VERSION
        self.functions: Mapping[str, str] = {**known["functions"], **known["functions_of"].get(major, {})}
        self.layers: Mapping[str, str] = known["layers"]
        self.backbones: Mapping[str, str] = known["backbones"]

    def function(self, name: str) -> Named | str | None:
        """What a function computes; its name where it is no elementwise activation, None where it is unknown."""
        last = name.rpartition(">")[2]
        if last not in self.functions:
            return named(last)
        found = self.functions[last]
        return parsed(found) if found else last


def _activations(value: Any, path: Path, names: _Names) -> Iterator[tuple[Path, Any, Named | None, str]]:
    """Place, value, function and reason of every activation in a part of a config."""
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from _activations(one, (*path, index), names)
    if not isinstance(value, dict):
        return
    yield from _of_layer(value, path, names)
    for key, one in value.items():
        if not may_hold_function(key):
            yield from _activations(one, (*path, key), names)
            continue
        place, name = _named_at(one, (*path, key))
        if not isinstance(name, str):
            yield from _activations(one, (*path, key), names)
            continue
        found = names.function(name)
        if not isinstance(found, str) and not (found and found.variant == "identity"):
            yield place, name, found, ""


def _named_at(value: Any, path: Path) -> tuple[Path, Any]:
    """Where the name of a function stands: in the field, or in the object that describes a function."""
    if isinstance(value, dict) and value.get("class_name") == "function":
        key = "config" if isinstance(value.get("config"), str) else "registered_name"
        return (*path, key), value.get(key)
    return path, value


def _of_layer(layer: Mapping[str, Any], path: Path, names: _Names) -> Iterator[tuple[Path, Any, Named | None, str]]:
    """The activation that a layer is, or that the class of a backbone names in its code."""
    name, inner = layer.get("class_name"), layer.get("config")
    if not isinstance(name, str):
        return
    place = (*path, "class_name")
    if name in names.layers:
        found = parsed(names.layers[name])
        yield place, name, Named(found.variant, {**found.parameters, **_slope(found, inner)}), ""
    elif name in names.backbones:
        yield place, name, parsed(names.backbones[name]), f"KerasHub's {name} names it, whatever the checkpoint says"


def _slope(found: Named, config: Any) -> dict[str, float]:
    """The parameter of a layer, which older versions call ``alpha``."""
    own = {"leaky_relu": "negative_slope", "elu": "alpha"}.get(found.variant)
    if own is None or not isinstance(config, dict):
        return {}
    value = number(config.get(own, config.get("alpha")))
    return {} if value is None else {own: value}
