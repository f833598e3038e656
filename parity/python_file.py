"""A user's Python file as a module: what ``torch:FILE.py:NAME`` and its like ask to be executed."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from parity.errors import InputError


def import_file(path: Path) -> ModuleType:
    """The file as a module under a name of its own, so that two files called model.py do not meet.

    Raises:
        InputError: Python does not import files of this kind.
        Exception: Whatever the code in it raises.
    """
    name = f"_parity_{sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError(f"'{path}' is no Python file.", hint="Write FILE.py:NAME.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        with imports_from(path.resolve().parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def imports_from(folder: Path) -> Iterator[None]:
    """A context in which the modules beside a file can be imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
