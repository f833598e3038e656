"""What building does not show, read in the source of models as text: fields that heads read, and functional calls."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from scan_knowledge.config_classes import FIELD, activation_keys

CALLS: Final[Mapping[str, str]] = {
    "F.gelu": "gelu_erf", "F.gelu:tanh": "gelu_tanh", "F.silu": "silu", "F.relu": "relu", "F.mish": "mish",
    "F.elu": "elu", "F.leaky_relu": "leaky_relu", "F.glu": "glu", "F.hardswish": "hard_swish", "F.relu6": "relu6",
    "torch.relu": "relu",
}  # fmt: skip
"""Functions of PyTorch, and what they compute."""

_MODULE: Final = re.compile(r"^(?:torch\.)?nn\.functional\.|^functional\.|^F\.")


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def classes_of(file: str) -> Iterator[ast.ClassDef]:
    """Classes of a file."""
    return (node for node in _tree(file).body if isinstance(node, ast.ClassDef))


@cache
def _read_by(file: str) -> Mapping[str, frozenset[str]]:
    """Activation fields that each class of a file reads of a config."""
    return {node.name: frozenset(_reads(node)) for node in classes_of(file)}


def read_in(file: str, *, but: set[str]) -> set[str]:
    """Activation fields that classes of a file read of a config, some classes left out."""
    return {field for name, fields in _read_by(file).items() if name not in but for field in fields}


def options(file: str, fields: set[str]) -> dict[str, Any]:
    """Fields that the source reads by ``getattr`` and no config class has: they count where a file gives them."""
    return {name: {} for owner in classes_of(file) for name in _reads(owner, by_name=True) if name not in fields}


def functional(file: str, built: set[str]) -> dict[str, list[str]]:
    """Activations called in classes that were built, and in functions that these call: variant → places.

    A slope is that which the config gives: ``leaky_relu[negative_slope=leaky_relu_slope]``.

    Args:
        file: The source.
        built: Names of classes.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for owner in _used(_tree(file), built):
        texts = _texts(owner)
        squared: set[ast.AST] = set()
        for call in (one for one in ast.walk(owner) if isinstance(one, ast.Call)):
            variant = _called(call, texts)
            if variant == "leaky_relu" and len(call.args) > 1:
                variant += f"[negative_slope={_slope(call.args[1])}]"
            if ast.unparse(call.func) == "torch.square" and isinstance(call.args[0], ast.Call):
                variant = "relu2" if _called(call.args[0], texts) == "relu" else ""
                squared.add(call.args[0])
            if variant and call not in squared:
                found[variant].append(f"{owner.name} ({Path(file).name}:{call.lineno})")
    return found


def _slope(slope: ast.expr) -> str:
    """A number as it is written, or the field of the config by whose name a class keeps it."""
    return slope.attr if isinstance(slope, ast.Attribute) else ast.unparse(slope)


def _texts(owner: ast.AST) -> dict[str, str]:
    """Texts that a class puts into attributes: ``self.activation = "silu"``."""
    return {
        ast.unparse(one.targets[0]): str(one.value.value)
        for one in ast.walk(owner)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
    }


def _called(call: ast.Call, texts: Mapping[str, str]) -> str:
    """The activation that a call is: of PyTorch's functions, or ``ACT2FN["silu"](x)``; empty for any other."""
    name = _MODULE.sub("F.", ast.unparse(call.func))
    if isinstance(call.func, ast.Subscript) and ast.unparse(call.func.value) == "ACT2FN":
        key = call.func.slice
        text = str(key.value) if isinstance(key, ast.Constant) else texts.get(ast.unparse(key), "")
        return activation_keys().get(text, "")
    if any(word.arg == "approximate" and "tanh" in ast.unparse(word.value) for word in call.keywords):
        name += ":tanh"
    return CALLS.get(name, "")


def _used(tree: ast.Module, built: set[str]) -> list[ast.ClassDef | ast.FunctionDef]:
    """Classes of a file by name, and its functions that they name or that other such functions do."""
    used: list[ast.ClassDef | ast.FunctionDef] = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in built
    ]
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for owner in used:  # it grows
        named = {one.id for one in ast.walk(owner) if isinstance(one, ast.Name)}
        used += [functions.pop(name) for name in named & functions.keys()]
    return used


def _reads(node: ast.AST, *, by_name: bool = False) -> Iterator[str]:
    """Names of activation fields that a piece of source reads of a config; ``by_name`` only those of ``getattr``."""
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute):
            if not by_name and FIELD.fullmatch(one.attr) and "config" in ast.unparse(one.value):
                yield one.attr
        elif isinstance(one, ast.Call) and ast.unparse(one.func) == "getattr" and isinstance(one.args[1], ast.Constant):
            name = str(one.args[1].value)
            if FIELD.fullmatch(name):
                yield name
