"""What a config or a graph really means: which variant each activation field or subgraph computes, without running it.

The package can be called, and ``parity.scan(…)`` is the function of that name: it bears the name of the command.
"""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """This package."""

    def __call__(self, what: Any, *arguments: Any, **options: Any) -> Any:
        """`parity.jobs.scan.scan` for files and folders, `parity.jobs.scan_live.scan_live` for a live model."""
        if isinstance(what, str | os.PathLike | list | tuple):
            return import_module("parity.jobs.scan").scan(what, *arguments, **options)
        return import_module("parity.jobs.scan_live").scan_live(what, *arguments, **options)


sys.modules[__name__].__class__ = _Package
