"""framework-parity: find out whether a model computes the same thing in two frameworks, runtimes or exports.

Public names are resolved when they are first used, so that ``import parity`` costs nothing and loads no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parity.assertion import assert_parity
    from parity.compare import Comparison
    from parity.errors import EngineError, InputError, ParityError
    from parity.functions import Variant, variant
    from parity.jobs.activations import (
        ActivationList,
        ActivationSite,
        Replacement,
        activations,
        replace_activation,
    )
    from parity.jobs.check import CheckOptions, CheckReport, check
    from parity.jobs.diff import DiffOptions, DiffReport, diff
    from parity.jobs.doctor import doctor
    from parity.jobs.identify import identify
    from parity.jobs.record import RecordOptions, record
    from parity.jobs.scan_any import scan
    from parity.jobs.suite import suite

__all__ = [
    "ActivationList",
    "ActivationSite",
    "CheckOptions",
    "CheckReport",
    "Comparison",
    "DiffOptions",
    "DiffReport",
    "EngineError",
    "InputError",
    "ParityError",
    "RecordOptions",
    "Replacement",
    "Variant",
    "activations",
    "assert_parity",
    "check",
    "diff",
    "doctor",
    "identify",
    "record",
    "replace_activation",
    "scan",
    "suite",
    "variant",
]

_HOMES = {
    "ActivationList": "parity.jobs.activations",
    "ActivationSite": "parity.jobs.activations",
    "CheckOptions": "parity.jobs.check",
    "CheckReport": "parity.jobs.check",
    "Comparison": "parity.compare",
    "DiffOptions": "parity.jobs.diff",
    "DiffReport": "parity.jobs.diff",
    "EngineError": "parity.errors",
    "InputError": "parity.errors",
    "ParityError": "parity.errors",
    "RecordOptions": "parity.jobs.record",
    "Replacement": "parity.jobs.activations",
    "Variant": "parity.functions",
    "activations": "parity.jobs.activations",
    "assert_parity": "parity.assertion",
    "check": "parity.jobs.check",
    "diff": "parity.jobs.diff",
    "doctor": "parity.jobs.doctor",
    "identify": "parity.jobs.identify",
    "record": "parity.jobs.record",
    "replace_activation": "parity.jobs.activations",
    "scan": "parity.jobs.scan_any",
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
