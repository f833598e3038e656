"""What the activation fields of one object of a config mean together: given, absent, ignored, at odds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.configs.values import PRINCIPAL, Reading, counterpart, known, plain
from parity.scanner.json_text import Path, Repeating, cut, shown
from parity.scanner.knowledge import models
from parity.scanner.knowledge.files import data
from parity.scanner.knowledge.models import Field, Literal, Model
from parity.scanner.knowledge.names import LONGEST_NAME, named, parsed

FOREIGN: Final = "the model's own code may read it otherwise, or not at all"


@dataclass(frozen=True, slots=True)
class Fields:
    """Takes down what the fields of objects mean.

    Attributes:
        config: The config, in which all that is found is taken down.
        version: The version of transformers that runs it; empty for the one that was measured.
        custom: Whether the model's code is not that of transformers.
        names: What some names mean in another library than transformers.
    """

    config: ConfigFile
    version: str
    custom: bool
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def library(self) -> str:
        """The library whose reading of the config this is, with its version."""
        return f"{models.LIBRARY} {self.version or models.measured_version()}"

    def unmodelled(self, node: Mapping[str, Any], path: Path, present: Mapping[str, Any]) -> None:
        """The fields ``present`` in an object of which no class is known."""
        schema = next((one for one in data("schemas")["schemas"] if all(key in node for key in one["keys"])), None)
        effective: dict[str, str | None] = {}
        for key, value in present.items():
            for reading in plain((*path, key), value, self.names):
                if schema and key == schema["field"] and value in schema["values"]:
                    self.of_schema(reading, schema)
                    continue
                self.take(reading, FOREIGN if self.custom else "")
                effective.setdefault(key, reading.variant)
        self.agreement(path, present, effective, [key for key in PRINCIPAL if key in present])

    def of_schema(self, reading: Reading, schema: Mapping[str, Any]) -> None:
        """A value that means something else in the code base that the config belongs to."""
        chosen = schema["values"][reading.value]
        why = f"{schema['name']}: {schema['reason']}"
        self.config.add(reading.path, reading.value, parsed(chosen) if chosen else None, "config", reason=why)
        self.config.report(
            "config-unknown-activation",
            "note" if chosen else "warning",
            reading.path,
            f"'{reading.value}' in a config of {why}.",
            fix="Compare outputs with the reference model.",
        )

    def modelled(self, node: Mapping[str, Any], path: Path, model: Model, present: Mapping[str, Any]) -> None:
        """The fields ``present`` in an object whose class is known, and those that it leaves to the class."""
        effective: dict[str, str | None] = {}
        unread: list[str] = []
        given: set[str] = set()
        for key, value in present.items():
            name = model.aliases.get(key, key)
            about = model.fields.get(name)
            if not about or not about.read:
                unread.append(key)
                continue
            given.add(name)
            heir = _heir(path, about, model, present)
            for reading in known((*path, key), value, about, model):
                self.take(_yielding(reading, heir) if heir else reading)
                effective.setdefault(key, reading.variant)
        self.defaults(path, model, given, effective)
        self.agreement(path, present, effective, _rivals(model, given, unread, effective))
        for key in unread:
            if present[key] is not None and not isinstance(present[key], bool):
                self.unread(node, (*path, key), model, effective)

    def defaults(self, path: Path, model: Model, given: set[str], effective: dict[str, str | None]) -> None:
        """The fields that the config leaves to the model's class."""
        reason = f"absent; the default of '{model.name}' in {self.library}"
        for name, about in model.fields.items():
            passed_over = name in given or not about.read or about.default is None or about.optional
            if passed_over or about.overridden_by in given:
                continue
            for reading in known((*path, name), about.default, about, model):
                self.config.add(reading.path, reading.value, reading.named, "class-default", reason=reason)
                effective.setdefault(name, reading.variant)

    def literals(self, node: Mapping[str, Any], path: Path, model: Model) -> None:
        """Activations of the model's code that no field speaks of."""
        for one in model.literals:
            found = one.named(node)
            if not one.instead_of:
                place = f"{shown(path)}: {one.scope}" if path else one.scope
                self.config.add(path, None, found, "model-code", reason=one.reason, scope=one.scope, place=place)
            elif one.instead_of not in node:
                here = (*path, one.instead_of)
                self.config.add(here, None, found, "model-code", reason=one.reason, scope=one.scope)

    def unread(self, node: Mapping[str, Any], path: Path, model: Model, effective: Mapping[str, str | None]) -> None:
        """A field of an activation that no code of the model reads."""
        key = str(path[-1])
        value = node[key]
        meant = next((reading.variant for reading in plain(path, value)), None)
        literal = next((one for one in model.literals if one.instead_of == key), None)
        other = counterpart(key, effective)
        if literal:
            instead, same = self.instead(literal, node, path, meant)
        elif other:
            instead, same = f"{other} counts, which means {effective[other]}", effective[other] == meant
        elif meant:
            self.config.add(path, value, None, "model-code", reason="nothing reads this field")
            about = model.fields.get(model.aliases.get(key, key))
            instead, same = "nothing takes its place", about is not None and about.default == value
        else:
            return
        self.config.report(
            "config-ignored-field",
            "note" if same else "warning",
            path,
            f"{shown(path)} = {cut(repr(value))} is not read by '{model.name}' in {self.library}: {instead}.",
            fix="" if same else f"Take '{key}' out, or make it say what is computed.",
            expected=meant,
            observed=literal.variant if literal else effective.get(other or ""),
        )

    def instead(self, literal: Literal, node: Mapping[str, Any], path: Path, meant: str | None) -> tuple[str, bool]:
        """Takes down what the code computes in the place of an unread field; what that is, and whether it is meant."""
        found = literal.named(node)
        self.config.add(path, node[str(path[-1])], found, "model-code", reason=literal.reason, scope=literal.scope)
        return f"its code computes {found.variant}", found.variant == meant

    def agreement(
        self, path: Path, present: Mapping[str, Any], effective: Mapping[str, str | None], rivals: list[str]
    ) -> None:
        """Fields for the same activation that mean different functions."""
        said = {key: effective.get(key) or _meant(present[key]) for key in rivals if key in present}
        chosen = {key: variant for key, variant in said.items() if variant}
        if len(set(chosen.values())) < 2:
            return
        words = " and ".join(f"{key} = {cut(repr(present[key]), 40)} ({variant})" for key, variant in chosen.items())
        counted = next((key for key in chosen if key in effective), "")
        self.config.report(
            "config-conflict",
            "error",
            (*path, next(iter(chosen))),
            f"Fields for the same activation disagree: {words}.",
            fix=f"Make them agree, or keep {counted} alone." if counted else "Keep one.",
            expected=chosen.get(counted),
        )

    def repeated(self, node: Repeating, path: Path, present: Mapping[str, Any]) -> None:
        """Keys that stand twice in one object."""
        for key, earlier in node.earlier.items():
            differ = any(repr(one) != repr(node[key]) for one in earlier)
            if key not in present and not (differ and isinstance(node[key], dict)):
                continue
            between = f", first as {cut(repr(earlier[0]), 40)}, last as {cut(repr(node[key]), 40)}" if differ else ""
            self.config.report(
                "config-conflict",
                "error" if differ else "warning",
                (*path, key),
                f"{shown((*path, key))} stands {len(earlier) + 1} times{between}; readers take the last.",
                fix="Keep one of them.",
            )

    def take(self, reading: Reading, reason: str = "") -> None:
        """Takes down a field that counts; a name that means nothing is a finding too."""
        self.config.add(reading.path, reading.value, reading.named, reading.basis, reason=reading.reason or reason)
        if reading.named:
            return
        name = reading.value if isinstance(reading.value, str) and len(reading.value) <= LONGEST_NAME else ""
        near = get_close_matches(name.lower(), models.activation_names(), n=1, cutoff=0.6)
        self.config.report(
            "config-unknown-activation",
            "warning",
            reading.path,
            f"{shown(reading.path)} = {cut(repr(reading.value))} names no activation that is known.",
            fix=f"Did you mean '{near[0]}'?" if near else "",
        )


def _heir(path: Path, about: Field, model: Model, present: Mapping[str, Any]) -> Reading | None:
    """What the field that overrides another one means, where it is given."""
    heir, value = about.overridden_by, present.get(about.overridden_by)
    if value is None or heir not in model.fields:
        return None
    return next(iter(known((*path, heir), value, model.fields[heir], model)), None)


def _yielding(reading: Reading, heir: Reading) -> Reading:
    """A reading where another field overrides it."""
    if heir.variant == reading.variant:
        return reading
    return replace(reading, named=heir.named, basis="model-code", reason=f"'{heir.path[-1]}' overrides it")


def _rivals(model: Model, given: set[str], unread: list[str], effective: Mapping[str, str | None]) -> list[str]:
    """Fields that choose the same activation of a model: an unread one and that which is read, or one and its heir."""
    heirs = {about.overridden_by: name for name, about in model.fields.items() if about.overridden_by in given}
    if heirs:
        return [*heirs, *heirs.values()]
    old = [key for key in PRINCIPAL if key in unread]
    new = next((key for key in PRINCIPAL if key in effective), None)
    return [new, *old] if new and old else []


def _meant(value: Any) -> str | None:
    """What a value would mean by its name alone."""
    found = named(value) if isinstance(value, str) else None
    return found.variant if found else None
