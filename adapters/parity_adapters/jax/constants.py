"""Names for the arrays that a function closes over: where in its module they are kept."""

from collections.abc import Callable, Iterable
from functools import partial
from inspect import getclosurevars, unwrap
from types import FunctionType, ModuleType
from typing import Any, Final

import jax
import numpy as np

from parity.adapter import Array
from parity_adapters.jax.arrays import is_key

_DEEPEST: Final = 8
"""Containers within each other that are looked into."""


def address(array: Array) -> tuple[int, int]:
    """Where the numbers of ``array`` lie and how many bytes they are: its transpose has the same."""
    return int(array.__array_interface__["data"][0]), array.nbytes


def closed_over(function: Callable[..., Any]) -> dict[tuple[int, int], str]:
    """Name of each array within reach of ``function`` by its `address`, as ``W.layers.0.kernel``."""
    found: dict[tuple[int, int], str] = {}
    _collect("", _surroundings(function), found, set(), 0)
    return found


def _surroundings(function: Any) -> dict[str, Any]:
    """By name what ``function`` can see beside its arguments: what is bound to it, its closure, its module."""
    if isinstance(function, partial):
        bound = {f"arguments.{place}": value for place, value in enumerate(function.args)}
        return {**_surroundings(function.func), **function.keywords, **bound}
    owner = getattr(function, "__self__", function)
    own = vars(owner) if hasattr(owner, "__dict__") else {}
    function = unwrap(getattr(function, "__func__", function))
    if not isinstance(function, FunctionType):
        return dict(own)
    seen = getclosurevars(function)
    module = {name: value for name, value in function.__globals__.items() if not name.startswith("__")}
    return {**own, **seen.nonlocals, **module}


def _collect(name: str, value: Any, found: dict[tuple[int, int], str], seen: set[int], depth: int) -> None:
    if isinstance(value, np.ndarray | jax.Array):
        if not isinstance(value, jax.core.Tracer) and not is_key(value.dtype):
            found.setdefault(address(np.asarray(value)), name)
    elif depth < _DEEPEST and id(value) not in seen:
        seen.add(id(value))
        for key, item in _items(value):
            _collect(f"{name}.{key}" if name else str(key), item, found, seen, depth + 1)


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    if isinstance(value, ModuleType | type | FunctionType) or not hasattr(value, "__dict__"):
        return ()
    return list(vars(value).items())
