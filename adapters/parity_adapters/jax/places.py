"""Where in the model an equation comes from: scope, line of the source, names of functions."""

import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import jax

_ACTIVATIONS: Final = str(Path(jax.__file__).parent / "_src" / "nn" / "functions.py")
_TRANSFORMED: Final = re.compile(r"\w+\((.*)\)")
_HERE: Final = str(Path(__file__).parent)
_STDLIB: Final = sysconfig.get_paths()["stdlib"]


def _packages() -> tuple[str, ...]:
    found = [find_spec(name) for name in ("jax", "jaxlib", "flax")]
    return tuple(str(Path(spec.origin).parent) for spec in found if spec is not None and spec.origin)


FRAMEWORK: Final = _packages()
"""Folders of JAX and Flax."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an equation comes from.

    Attributes:
        scope: Module path or name scope, joined by ``.``.
        source: ``file:line`` of the user's innermost frame.
        labels: The function of `jax.nn` that it belongs to, the user's function, the equation of an einsum.
        strip: What the scopes within it begin with that says nothing new.
    """

    scope: str
    source: str | None
    labels: tuple[str, ...]
    strip: str = ""

    def within(self, scope: str, strip: str = "") -> "Place":
        """The same place under another scope."""
        return replace(self, scope=scope, strip=strip)


def joined(*parts: str) -> str:
    """A scope of its parts, those left out that are empty."""
    return ".".join(part for part in parts if part)


def stack(equation: Any) -> list[str]:
    """The name stack of ``equation``, outermost first, without the transformations that it went through."""
    parts = str(equation.source_info.name_stack).split("/")
    while any(_TRANSFORMED.fullmatch(part) for part in parts):
        parts = [_TRANSFORMED.sub(r"\1", part) for part in parts]
    return [part for part in parts if part]


def place_of(equation: Any, outer: Place) -> Place:
    """Where ``equation`` comes from.

    Args:
        equation: It carries a name stack and a traceback.
        outer: The place of the jaxpr which it stands in: what a function of JAX's own is part of.
    """
    parts = stack(equation)
    einsums = [part for part in parts if "->" in part]
    parts = [part for part in parts if part not in einsums]
    strip = outer.strip if not parts else ""
    if parts[:1] == [outer.strip]:
        parts = parts[1:]
    activation, function, source = "", "", None
    for file, name, line in _frames(equation):
        if file == _ACTIVATIONS:
            activation = f"jax.nn.{name}"
        elif not _is_framework(file):
            function, source = _plain(name), f"{file}:{line}"
            break
    labels = dict.fromkeys((activation, function, *einsums, *(() if source else outer.labels)))
    return Place(joined(outer.scope, *parts), source or outer.source, tuple(label for label in labels if label), strip)


def _plain(name: str) -> str:
    """A function's name without those that it is defined in; of a comprehension, that which it stands in."""
    names = [part for part in name.split(".<locals>.") if not part.startswith("<")]
    return names[-1] if names else ""


def _frames(equation: Any) -> Iterator[tuple[str, str, int]]:
    """File, function and line, innermost first, as far as the model's own code goes."""
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if frame.file_name.startswith(_HERE):
            return
        yield frame.file_name, frame.function_name, frame.line_num


def _is_framework(file: str) -> bool:
    return file.startswith((*FRAMEWORK, "<")) or (file.startswith(_STDLIB) and "site-packages" not in file)
