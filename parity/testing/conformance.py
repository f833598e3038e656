"""The conformance checks, one function each, over all implementations of an adapter.

A check yields every problem that it finds, so that one run shows all that is wrong. Calls are few and of few
lengths, because a compiling framework compiles each length anew.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Final

import ml_dtypes
import numpy as np

from parity.adapter import Adapter, Array, Implementation
from parity.dtypes import FLOAT_DTYPES
from parity.errors import ParityError
from parity.functions import FORMULAS, Variant, variant

BOUND: Final[Mapping[str, float]] = {
    "float64": 2.0**-15,
    "float32": 2.0**-15,
    "float16": 2.0**-7,
    "bfloat16": 2.0**-4,
}
"""How far a value or gradient may be from the exact one, as a multiple of ``max(1, |input|, |exact|)``.

By the coarser of the input's and the output's dtype. About 8 ulp of 1 in the 16-bit types, which a chain of
rounded operators keeps; 256 ulp in float32, which leaves room for fast kernels and still tells erf from tanh. No less
in float64: ONNX Runtime 1.32's FastGelu and the gradient of torch 2.13's hardsigmoid have float32 constants there.
For gated implementations ``|input|`` is the product over value and gate, because the error of one is multiplied
by the other.
"""

NAME: Final = re.compile(r"[^\s\[\]]+(\[[^\[\]\n]+\])*( \([^()\n]+\))?")
"""The call without spaces, flags in brackets, how it was run in parentheses after one space."""

SHOWN: Final = 10
"""Problems that a message lists in full."""


class _Subject:
    """The adapter under test. Its rows are built once: that can mean loading and compiling models."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    @cached_property
    def implementations(self) -> tuple[Implementation, ...]:
        return tuple(self.adapter.activations())

    def cases(self) -> Iterator[tuple[Implementation, str, str]]:
        """Each implementation with each of its dtypes, and the words that name the two."""
        for implementation in self.implementations:
            for dtype in implementation.dtypes:
                yield implementation, dtype, f"'{implementation.name}' {dtype}"


def conformance_checks(adapter: Adapter) -> dict[str, Callable[[], None]]:
    """The checks of `CHECK_NAMES`, bound to one adapter.

    Args:
        adapter: The object that the entry point names. It is not used before the first check is called.

    Returns:
        Name to check, in the order to run them in: a later one relies on what earlier ones establish. A check
        raises AssertionError where the adapter is at fault, and lets the adapter's own exceptions through.
    """
    subject = _Subject(adapter)
    return {name: partial(_run, check, subject) for name, check in _CHECKS.items()}


def _run(check: Callable[[_Subject], Iterator[str]], subject: _Subject) -> None:
    problems = list(check(subject))
    if problems:
        rest = [f"… and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise AssertionError("\n".join([*problems[:SHOWN], *rest]))


def check_protocol(subject: _Subject) -> Iterator[str]:
    """The adapter has what `parity.adapter.Adapter` asks for, and its methods can be called."""
    for member in ("name", "versions", "activations", "open"):
        if not hasattr(subject.adapter, member):
            yield f"{subject.adapter!r} has no '{member}', which parity.adapter.Adapter asks for."
        elif member != "name" and not callable(getattr(subject.adapter, member)):
            yield f"'{member}' of {subject.adapter!r} cannot be called."


def check_name(subject: _Subject) -> Iterator[str]:
    """The name is a lower-case identifier, as an entry point and ``--adapter`` need it."""
    name: object = subject.adapter.name
    if not (isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9_-]*", name)):
        yield f"The adapter's name is {name!r}, expected lower-case letters, digits, '-' and '_'."


def check_versions(subject: _Subject) -> Iterator[str]:
    """At least one version, and each a string that says something."""
    versions: Mapping[Any, Any] = subject.adapter.versions()
    if not versions:
        yield "versions() is empty: a result without versions cannot be explained later."
    for key, value in versions.items():
        if not (isinstance(key, str) and key and isinstance(value, str) and value):
            yield f"versions() maps {key!r} to {value!r}, expected non-empty strings."


def check_activations(subject: _Subject) -> Iterator[str]:
    """There are implementations, and they are of the right type."""
    if not subject.implementations:
        yield "activations() is empty."
    rows: tuple[object, ...] = subject.implementations
    for row in rows:
        if not isinstance(row, Implementation):
            yield f"activations() holds {row!r}, expected a parity.adapter.Implementation."


def check_names_unique(subject: _Subject) -> Iterator[str]:
    """No name occurs twice: reports and filters go by it."""
    for name, count in Counter(i.name for i in subject.implementations).items():
        if count > 1:
            yield f"'{name}' is the name of {count} implementations, expected one."


def check_names_well_formed(subject: _Subject) -> Iterator[str]:
    """Names read ``call[flags] (how it was run)``; ``default_of`` is a bare lower-case name."""
    for implementation in subject.implementations:
        name, default_of = implementation.name, implementation.default_of
        if not NAME.fullmatch(name):
            yield f"'{name}' does not read call[flags] (how it was run), with no spaces in the call."
        if default_of is not None and not re.fullmatch(r"[a-z][a-z0-9]*", default_of):
            yield f"'{name}' has default_of {default_of!r}, expected lower-case letters and digits."


def check_variants(subject: _Subject) -> Iterator[str]:
    """Declared variants are those of the registry."""
    for implementation in subject.implementations:
        if not _registered(implementation.variant):
            yield f"'{implementation.name}' declares {implementation.variant!r}, which is not registered."


def _registered(declared: object) -> bool:
    if not isinstance(declared, Variant) or declared.name not in FORMULAS:
        return False
    try:
        return variant(declared.name, **dict(declared.parameters)) == declared
    except ParityError:
        return False


def check_dtypes(subject: _Subject) -> Iterator[str]:
    """Dtypes are known ones, at least one, none twice."""
    for implementation in subject.implementations:
        name, dtypes = implementation.name, implementation.dtypes
        if not dtypes or len(set(dtypes)) < len(dtypes) or not set(dtypes) <= set(FLOAT_DTYPES):
            yield f"'{name}' has dtypes {dtypes!r}, expected some of {', '.join(FLOAT_DTYPES)}, each once."


def check_round_trip(subject: _Subject) -> Iterator[str]:
    """``leave(enter(x))`` is x to the bit, for every float16 and bfloat16 number; NaNs stay NaN."""
    for implementation, dtype, where in subject.cases():
        x = _every_kind_of_number(dtype)
        if implementation.variant.arity == 2:
            x = np.stack([x, x[::-1]], axis=1)
        back = np.asarray(implementation.leave(implementation.enter(x)))
        if back.dtype != x.dtype or back.shape != x.shape:
            yield f"{where}: leave(enter(x)) is {back.dtype}{back.shape}, expected {x.dtype}{x.shape}."
            continue
        bits = np.dtype(f"u{x.itemsize}")
        with np.errstate(invalid="ignore"):  # isnan of a signalling bfloat16 NaN warns
            differ = np.where(np.isnan(x), ~np.isnan(back), back.view(bits) != x.view(bits))
        if differ.any():
            first = np.unravel_index(np.argmax(differ), differ.shape)
            yield f"{where}: leave(enter(x)) at x = {x[first]} got {back[first]}; {differ.sum()} numbers change."


def _every_kind_of_number(dtype: str) -> Array:
    """All numbers of a 16-bit type; of a wider one zeros, subnormals, limits, infinities, NaN of either sign."""
    kind = FLOAT_DTYPES[dtype]
    if kind.itemsize == 2:
        return np.arange(2**16, dtype=np.uint16).view(kind)
    limits = ml_dtypes.finfo(kind)
    positive = [0, limits.smallest_subnormal, limits.smallest_normal, limits.eps, 0.1, 1, limits.max, np.inf, np.nan]
    return np.array([*positive, *(-number for number in positive), -0.0], dtype=kind)


def check_shape_and_dtype(subject: _Subject) -> Iterator[str]:
    """As many elements come out as went in, in one of the float dtypes."""
    for implementation, dtype, where in subject.cases():
        x = _grid(implementation, dtype)
        y: object = implementation(x)
        if not isinstance(y, np.ndarray):
            yield f"{where}: got a {type(y).__name__}, expected a NumPy array."
        elif y.shape != x.shape[:1] or y.dtype not in FLOAT_DTYPES.values():
            yield f"{where}: {x.dtype}{x.shape} in, got {y.dtype}{y.shape}, expected {x.shape[:1]} of a float dtype."


def check_values(subject: _Subject) -> Iterator[str]:
    """Values on (-8, 8) are within `BOUND` of the declared variant's."""
    for implementation, dtype, where in subject.cases():
        x = _grid(implementation, dtype)
        exact = implementation.variant.value(x)
        yield from _far_off(f"{where}, declared {implementation.variant}", x, implementation(x), exact)


def check_gradients(subject: _Subject) -> Iterator[str]:
    """Gradients on (-8, 8), where there are any, are within `BOUND` of the declared variant's derivative."""
    for implementation, dtype, where in subject.cases():
        x = _grid(implementation, dtype)
        got = implementation.derivative(x)
        if got is None:
            continue
        if got.shape != x.shape:
            yield f"{where}: the gradient has shape {got.shape}, expected {x.shape}."
            continue
        exact = implementation.variant.derivative(x)
        yield from _far_off(f"{where}, gradient of {implementation.variant}", x, got, exact)


def check_input_unchanged(subject: _Subject) -> Iterator[str]:
    """Neither value nor gradient writes into the caller's array."""
    for implementation, dtype, where in subject.cases():
        for what, call in (("value", implementation), ("gradient", implementation.derivative)):
            x = _grid(implementation, dtype)
            before = x.copy()
            call(x)
            if x.tobytes() != before.tobytes():
                at = np.argwhere(x != before)[0, 0]
                yield f"{where}: the {what} changed its input, at {at} from {before[at]} to {x[at]}."


def check_determinism(subject: _Subject) -> Iterator[str]:
    """The same input twice gives the same bits."""
    for implementation, dtype, where in subject.cases():
        x = _grid(implementation, dtype)
        first, second = implementation(x), implementation(x)
        if first.tobytes() != second.tobytes():
            at = np.argmax(first != second)
            yield f"{where}: at x = {x[at]} got {first[at]}, then {second[at]}, expected the same twice."


def check_short_inputs(subject: _Subject) -> Iterator[str]:
    """Inputs of length 0 and 1 give results of that length or an exception; they do not end the process.

    In the first dtype of each implementation only: each length may be a compilation.
    """
    for implementation in subject.implementations:
        for length in (0, 1):
            x = _grid(implementation, implementation.dtypes[0])[:length]
            where = f"'{implementation.name}' {x.dtype}, input of length {length}"
            try:
                y = implementation(x)
            except SystemExit as error:
                yield f"{where}: got {error!r}, expected a result or an Exception."
                continue
            except Exception:  # noqa: BLE001, S112 – refusing is allowed, in whatever way the framework refuses
                continue
            if y.shape != (length,):
                yield f"{where}: got shape {y.shape}, expected ({length},) or an Exception."
            else:
                yield from _far_off(where, x, y, implementation.variant.value(x))


def check_open(subject: _Subject) -> Iterator[str]:
    """Opening what is no model raises a ParityError, which the command line can show."""
    nonsense = "no-such-model.nonsense"
    try:
        subject.adapter.open(nonsense, {})
    except ParityError:
        return
    except Exception as error:  # noqa: BLE001 – the type of the error is what is checked
        yield f"open('{nonsense}') raised {error!r}, expected a parity.errors.ParityError."
    else:
        yield f"open('{nonsense}') returned, expected a parity.errors.ParityError."


def _grid(implementation: Implementation, dtype: str) -> Array:
    """Odd multiples of 1/32 in (-8, 8): exact in every dtype and on no kink of a registered function.

    Shape (256,), or (256, 2) for gated variants with the two columns in different order.
    """
    x = np.arange(-255, 256, 2) / 32
    if implementation.variant.arity == 2:
        x = np.stack([x, np.roll(x[::-1], 64)], axis=1)
    return x.astype(FLOAT_DTYPES[dtype])


def _far_off(where: str, x: Array, got: Array, exact: Array) -> Iterator[str]:
    """The worst element of ``got`` that is no number or outside of `BOUND`, if there is one."""
    size = np.maximum(np.abs(x.astype(np.float64)), 1)
    if x.ndim == 2:
        size = size.prod(axis=1, keepdims=exact.ndim == 2)
    limit = max(BOUND[str(x.dtype)], BOUND[str(got.dtype)]) * np.maximum(size, np.abs(exact))
    error = np.abs(got.astype(np.float64) - exact)
    error[np.isnan(error)] = np.inf
    if (error > limit).any():
        worst = np.unravel_index(np.argmax(error / limit), error.shape)
        yield (
            f"{where}: at x = {x[worst[0]]} got {got[worst]}, expected {exact[worst]:.9g} within {limit[worst]:.3g}; "
            f"{(error > limit).sum()} of {error.size} are outside."
        )


_CHECKS: Final[Mapping[str, Callable[[_Subject], Iterator[str]]]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_protocol,
        check_name,
        check_versions,
        check_activations,
        check_names_unique,
        check_names_well_formed,
        check_variants,
        check_dtypes,
        check_round_trip,
        check_shape_and_dtype,
        check_values,
        check_gradients,
        check_input_unchanged,
        check_determinism,
        check_short_inputs,
        check_open,
    )
}

CHECK_NAMES: Final[tuple[str, ...]] = tuple(_CHECKS)
"""Names of the checks, in the order to run them in."""
