"""Which activation modules a model has, and which of them each field of its config governs; built without memory."""

import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import getsourcefile
from sys import modules
from typing import Any, Final

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel, activations

from scan_knowledge.config_classes import PROBE, activation_keys, fields
from scan_knowledge.source import read_in
from scan_truth.classes import NEEDED, base_class, heads
from scan_truth.shrinking import LADDER, Shrink, read, shrink

SECONDS: Final = 90
"""After which the building of a model is given up."""

RUNGS: Final = (Shrink(1, images=False, vocabulary=False), *LADDER)
"""How a model is made small: its widths cost nothing, its layers do."""

MODULES: Final[Mapping[str, str]] = {
    "GELU:none": "gelu_erf", "GELU:tanh": "gelu_tanh", "SiLU": "silu", "ReLU": "relu", "ReLU6": "relu6",
    "LeakyReLU": "leaky_relu", "Mish": "mish", "Hardswish": "hard_swish", "Hardsigmoid": "hard_sigmoid",
    "Sigmoid": "sigmoid", "Tanh": "tanh", "ELU": "elu", "SELU": "selu", "CELU": "celu", "GLU": "glu",
    "PReLU": "leaky_relu[negative_slope=0.25]", "Softplus": "softplus",
}  # fmt: skip
"""Modules of PyTorch, and what they compute."""

KEY_OF_CLASS: Final[Mapping[str, str]] = {
    (one if isinstance(one, type) else one[0]).__name__: key
    for key, one in reversed(activations.ACT2CLS.items())
    if (one if isinstance(one, type) else one[0]).__module__ == activations.__name__
}
"""Key of ``ACT2FN`` by class."""

Path = tuple[str, ...]

Module = tuple[str, str]
"""Scope and kind of an activation module; modules of a list of layers are one."""


class GivenUp(Exception):  # noqa: N818 – not an error: the model is counted as not built
    """Building took too long."""


@dataclass(slots=True)
class Build:
    """What was measured of the models of one config class.

    Attributes:
        governs: Modules that a field governs, by class of the config and field.
        own: Modules that no field governs.
        classes: Classes of the base model's modules.
        unread: Fields of parts, by key of the part, that change nothing in this model although the part is in it.
    """

    governs: dict[tuple[str, str], set[Module]] = field(default_factory=dict)
    own: list[Module] = field(default_factory=list)
    classes: set[type[nn.Module]] = field(default_factory=set)
    unread: dict[str, list[str]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Names of the classes."""
        return {one.__name__ for one in self.classes}

    @property
    def files(self) -> list[str]:
        """Source files of the classes."""
        found = {getsourcefile(modules[one.__module__]) for one in self.classes}
        return sorted(file for file in found if file)


def build_all(owners: Mapping[type[PreTrainedConfig], list[str]]) -> tuple[dict[str, Build], dict[str, str]]:
    """Every model that can be built: what was measured, and why the others were not, by name of the config class."""

    def give_up(_signal: int, _frame: object) -> None:
        raise GivenUp

    signal.signal(signal.SIGALRM, give_up)
    builds: dict[str, Build] = {}
    failures: dict[str, str] = {}
    for number, owner in enumerate(owners):
        if base_class(owner) is None:
            continue
        signal.alarm(SECONDS)
        try:
            builds[owner.__name__] = measured(owner)
        except GivenUp:
            failures[owner.__name__] = "takes too long"
        except Exception as error:  # noqa: BLE001 – whatever it raises, it is not built
            failures[owner.__name__] = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        finally:
            signal.alarm(0)
        if number % 50 == 0:
            print(f"{number} of {len(owners)} config classes, {len(builds)} models built", flush=True)
    return builds, failures


def measured(owner: type[PreTrainedConfig]) -> Build:
    """What governs the activations of the models of a config class.

    Raises:
        Exception: None can be built; it is that of the first try.
    """
    saved, model = _smallest(owner)
    plain = _activations(model)
    build = Build(
        classes={type(one) for one in model.modules() if type(one).__module__.startswith("transformers.models")}
    )
    for path, holder in _places(saved.config()):
        changed = saved.changed(path, plain)
        if not changed and any(path[-1] in read_in(file, but=build.names) for file in build.files):
            changed = _changed_in_heads(saved, path)
        if not changed and len(path) == 2 and _has_part(model, path[0]):
            build.unread.setdefault(path[0], []).append(path[1])
        if not changed and len(path) > 1:
            changed = set(_changed_alone(holder.__class__, path[-1]))
        build.governs.setdefault((type(holder).__name__, path[-1]), set()).update(changed)
    governed = set().union(*build.governs.values()) if build.governs else set()
    build.own = [one for one in plain if one not in governed]
    return build


def unread_fields(builds: Mapping[str, Build]) -> set[tuple[str, str]]:
    """(config class, field) that changes nothing in any build, and that in one of them no other class reads."""
    read_somewhere, unread = set(), set()
    for build in builds.values():
        elsewhere = {name for file in build.files for name in read_in(file, but=build.names)}
        for place, changed in build.governs.items():
            if changed:
                read_somewhere.add(place)
            elif place[1] not in elsewhere:
                unread.add(place)
    return unread - read_somewhere


@dataclass(frozen=True, slots=True)
class _Saved:
    """A config as it is saved, and the model that is built from it.

    Attributes:
        owner: Class of the config.
        kind: Class of the model.
        document: The JSON.
    """

    owner: type[PreTrainedConfig]
    kind: type[PreTrainedModel]
    document: Mapping[str, Any]

    def config(self) -> PreTrainedConfig:
        """The config read back."""
        return read(self.owner, json.dumps(self.document))

    def built(self) -> PreTrainedModel:
        """The model, without memory."""
        with torch.device("meta"):
            model: PreTrainedModel = self.kind._from_config(self.config())  # noqa: SLF001 – as the Auto classes do
        return model

    def changed(self, path: Path, plain: Sequence[Module]) -> set[Module]:
        """Modules in which the model differs from ``plain`` where a field has another value."""
        try:
            now = _activations(self._with_probe(path).built())
        except GivenUp:
            raise
        except Exception as error:  # noqa: BLE001 – a field whose change is refused is read
            meant = _variant(self._value(path))
            return {("", str(error)), *(one for one in plain if _variant(one[1]) == meant)}
        return {*plain} ^ {*now}

    def _value(self, path: Path) -> Any:
        value: Any = self.config()
        for name in path:
            value = getattr(value, name, None)
        return value

    def _with_probe(self, path: Path) -> "_Saved":
        old = self._value(path)
        document: dict[str, Any] = json.loads(json.dumps(self.document))
        holder = document
        for name in path[:-1]:
            if not isinstance(holder.get(name), dict):
                holder[name] = {}
            holder = holder[name]
        holder[path[-1]] = not old if isinstance(old, bool) else PROBE
        return replace(self, document=document)


def _variant(key: Any) -> str:
    """What a key of ``ACT2FN`` computes; the kind of a module of PyTorch says so itself."""
    return activation_keys().get(key, str(key))


def _smallest(owner: type[PreTrainedConfig]) -> tuple[_Saved, PreTrainedModel]:
    """A small config of which a model can be built, and the model."""
    first: Exception | None = None
    kinds = [kind for kind in (base_class(owner), *heads(owner)) if kind]
    for how in RUNGS if kinds else ():
        try:
            config = shrink(owner(**NEEDED.get(owner.model_type, {})), how)
            saved = _Saved(owner, kinds[0], json.loads(config.to_json_string(use_diff=True)))
            return saved, saved.built()
        except GivenUp:
            raise
        except Exception as error:  # noqa: BLE001 – the next one may do
            first = first or error
    raise first or NotImplementedError(f"{owner.__name__} has no model")


def _places(config: PreTrainedConfig, path: Path = ()) -> Iterator[tuple[Path, PreTrainedConfig]]:
    """Every activation field of a config and those in it: path and config that holds it."""
    for name in fields(type(config), config):
        yield (*path, name), config
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig) and len(path) < 4:
            yield from _places(value, (*path, name))


def _changed_in_heads(saved: _Saved, path: Path) -> set[Module]:
    """The same in the first of a config's other models in which it changes anything."""
    for kind in heads(saved.owner):
        head = replace(saved, kind=kind)
        try:
            plain = _activations(head.built())
        except GivenUp:
            raise
        except Exception:  # noqa: BLE001, S112 – this head cannot be built
            continue
        changed = head.changed(path, plain)
        if changed:
            return {(f"{kind.__name__}: {scope}", what) for scope, what in changed}
    return set()


@cache
def _changed_alone(owner: Any, name: str) -> frozenset[Module]:
    """The same where a part is a model by itself."""
    try:
        saved, _ = _smallest(owner)
    except GivenUp:
        raise
    except Exception:  # noqa: BLE001 – it is none
        return frozenset()
    return frozenset(_changed_in_heads(saved, (name,)))


def _has_part(model: PreTrainedModel, key: str) -> bool:
    """Whether a model has a part that was built from this nested config."""
    config = getattr(model.config, key, None)
    return any(getattr(one, "config", None) is config for one in model.modules())


def _kind(module: nn.Module) -> str:
    """What an activation module computes, by its class; empty for any other module."""
    name = type(module).__name__
    if type(module).__module__ == activations.__name__:
        return KEY_OF_CLASS.get(name, "")
    if name == "GELU":
        name = f"GELU:{module.approximate}"
    return MODULES.get(name, "") if type(module).__module__.startswith("torch.nn") else ""


def _activations(model: nn.Module) -> list[Module]:
    """Every activation module of a model, in its order."""
    kinds = ((re.sub(r"\.\d+(?=\.|$)", ".*", name), _kind(module)) for name, module in model.named_modules())
    return list(dict.fromkeys((scope, kind) for scope, kind in kinds if kind))
