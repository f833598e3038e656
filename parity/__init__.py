"""framework-parity: find out whether a model computes the same thing in two frameworks, runtimes or exports.

Public names are resolved when they are first used, so that ``import parity`` costs nothing and loads no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parity.compare import Comparison
    from parity.errors import EngineError, InputError, ParityError
    from parity.functions import Variant, variant
    from parity.jobs.doctor import doctor
    from parity.jobs.identify import identify
    from parity.jobs.suite import suite

__all__ = [
    "Comparison",
    "EngineError",
    "InputError",
    "ParityError",
    "Variant",
    "doctor",
    "identify",
    "suite",
    "variant",
]

_HOMES = {
    "Comparison": "parity.compare",
    "EngineError": "parity.errors",
    "InputError": "parity.errors",
    "ParityError": "parity.errors",
    "Variant": "parity.functions",
    "doctor": "parity.jobs.doctor",
    "identify": "parity.jobs.identify",
    "suite": "parity.jobs.suite",
    "variant": "parity.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'parity' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
