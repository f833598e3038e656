"""Calls what a user named on probe inputs; runs in a worker, where the framework is."""

import importlib
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parity.adapter import Adapter, Array
from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.worker import Message, first_line


def evaluate(adapter: Adapter, module: str, name: str, folder: str, x: Array) -> Iterator[Message]:
    """Job: the outputs ``y`` of a callable at ``x``.

    Args:
        adapter: Makes the tensors that the callable is given.
        module: A dotted module, or the path of a Python file, which is executed.
        name: Name of the callable in it, dots allowed. A class is called without arguments first, as for a layer.
        folder: The user's folder, searched for modules after everything installed.
        x: Inputs, shape (n,).

    Raises:
        InputError: There is no such callable, or it is none of one tensor that returns another of its shape.
    """
    function = _callable(module, name, folder)
    try:
        if isinstance(function, type):
            function = function()
        y = _outputs(adapter, function, x)
    except (Exception, SystemExit) as error:
        tensor = f"{x.dtype.name} tensor of the adapter '{adapter.name}'"
        raise InputError(
            f"{module}:{name} cannot be called on one {tensor}: {type(error).__name__}: {first_line(error)}",
            hint="Name a function of one tensor; --adapter chooses whose tensors, --dtype their type.",
        ) from error
    if y.dtype.name not in FLOAT_DTYPES:
        raise InputError(
            f"{module}:{name} returned {y.dtype.name} for {x.dtype.name}.",
            hint=f"Name a function that returns one of {', '.join(FLOAT_DTYPES)}.",
        )
    if y.shape != x.shape:
        raise InputError(
            f"{module}:{name} returned shape {y.shape} for an input of shape {x.shape}; an activation keeps the shape.",
            hint="Name an elementwise function of one tensor.",
        )
    yield Message({"versions": dict(adapter.versions())}, {"y": y})


def _outputs(adapter: Adapter, function: Callable[[Any], Any], x: Array) -> Array:
    """The outputs at ``x``; of a function of one Python number, as those written with `math` are, one by one."""
    try:
        return adapter.leave(function(adapter.enter(x)))
    except (TypeError, ValueError, RuntimeError) as error:
        try:
            one = function(0.5)
        except Exception:  # noqa: BLE001 – it is no such function, and the first error is the one to tell
            raise error from None
        if not isinstance(one, float):
            raise
    return np.array([_number(function, float(one)) for one in x]).astype(x.dtype)


def _number(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except (ArithmeticError, ValueError):  # math.exp(1000) raises where a tensor would hold infinity
        return math.nan


def _callable(module: str, name: str, folder: str) -> Callable[[Any], Any]:
    found: Any = _load_file(Path(module)) if module.endswith(".py") else _load_module(module, folder)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError.unknown(f"name in {module}", part, [one for one in dir(found) if not one.startswith("_")])
        found = getattr(found, part)
    if not callable(found):
        raise InputError(
            f"{module}:{name} is a {type(found).__name__} and cannot be called.",
            hint="Name a function or a layer class.",
        )
    function: Callable[[Any], Any] = found
    return function


def _load_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be loaded as Python.")
    sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{path} does not run: {type(error).__name__}: {first_line(error)}", hint="Mend the file, or name another."
        ) from error
    return module


def _load_module(name: str, folder: str) -> Any:
    sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        # torch.nn:functional.gelu and keras.activations:gelu are modules; tf.nn:gelu is an attribute of one.
        parent, _, last = name.rpartition(".")
        if parent:
            try:
                return getattr(_load_module(parent, folder), last)
            except AttributeError:
                pass
        raise InputError(
            f"There is no module '{name}' to import: {first_line(error)}",
            hint="Name an installed module, or a file as path/to/file.py:function.",
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"The module '{name}' does not import: {type(error).__name__}: {first_line(error)}",
            hint="Mend the module, or name another.",
        ) from error
