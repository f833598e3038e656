"""Probe inputs for activations: which numbers a function is tried on, and in which regime each lies.

All regimes of one dtype make one array, so that an implementation is traced, compiled and called once a dtype.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from parity.dtypes import float_dtype

REGIMES: Final = ("all", "dense", "normal", "tails", "subnormal", "special")
"""Names of the regimes; ``all`` exists for 16-bit dtypes and is every one of their 65,536 bit patterns."""

CORE: Final = 20.0
"""Magnitude up to which an implementation must be finite: where activations live. The dense grid ends here."""

SEED: Final = 20261129

_LANDMARKS: Final = (1.0, 0.5, 0.751791524693564, 1.4142135623730951, 1.88457, 2.0187, 2.2704, 2.69894, 3.0, 6.0)
"""Kinks, zeros and greatest differences of the GELU family."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Inputs and the positions of each regime in them.

    Attributes:
        x: Shape (n,), or (n, 2) for gated variants with the regime said of the gate.
        regimes: Positions by regime; one position may stand in several.
        exhaustive: Regimes that hold every number of the dtype that belongs there.
    """

    x: NDArray[Any]
    regimes: Mapping[str, NDArray[np.intp]]
    exhaustive: frozenset[str]


def probe(dtype: str, arity: int = 1, *, seed: int = SEED) -> Probe:
    """The probe inputs of a dtype: all bit patterns of a 16-bit one, a sample by regime of a wider one."""
    kind = float_dtype(dtype)
    random = np.random.default_rng(seed)
    parts = [_patterns(kind)] if kind.itemsize == 2 else _samples(kind)
    normal = random.standard_normal(16_384).astype(kind)
    x = np.concatenate([*parts, normal])
    body = np.arange(len(x) - len(normal))
    regimes = {name: body[mask] for name, mask in _masks(x[: len(body)], kind).items()}
    regimes["normal"] = np.arange(len(body), len(x))
    exhaustive: frozenset[str] = frozenset()
    if kind.itemsize == 2:
        regimes["all"] = body
        exhaustive = frozenset(regimes) - {"normal"}
    if arity == 2:
        values = random.standard_normal(len(x)).astype(kind)
        x = np.stack([values, x], axis=1)
    return Probe(x, {name: regimes[name] for name in REGIMES if name in regimes}, exhaustive)


def _patterns(kind: np.dtype[Any]) -> NDArray[Any]:
    """Every number of a 16-bit dtype, by bit pattern."""
    return np.arange(2**16, dtype=np.uint16).view(kind)


def _masks(x: NDArray[Any], kind: np.dtype[Any]) -> dict[str, NDArray[np.bool_]]:
    with np.errstate(invalid="ignore"):  # signalling NaN
        size = np.abs(x.astype(np.float64))
    smallest = float(ml_dtypes.finfo(kind).smallest_normal)
    finite = np.isfinite(size)
    subnormal = (size < smallest) & (size > 0)
    special = ~finite | (size == 0) | (size == float(ml_dtypes.finfo(kind).max)) | (size == smallest)
    return {
        "dense": finite & (size <= CORE) & ~subnormal & ~special,
        "tails": finite & (size > CORE) & ~special,
        "subnormal": subnormal,
        "special": special,
    }


def _samples(kind: np.dtype[Any]) -> list[NDArray[Any]]:
    """Numbers of a wide dtype: a grid, magnitudes evenly spaced in the exponent, subnormals and special values."""
    info = ml_dtypes.finfo(kind)
    smallest, largest = float(info.smallest_normal), float(info.max)
    grid = np.linspace(-CORE, CORE, 16_001)
    small = np.geomspace(smallest, 1.0, 1_000)
    beyond = np.concatenate([np.linspace(CORE, 1_000.0, 1_000), np.geomspace(1_000.0, largest / 2, 1_000)])
    # 2.0**k of the subnormals: odd multiples of the smallest one, so that every bit length occurs.
    tiny = np.unique(
        np.concatenate([[1.0, 2.0, 3.0], np.geomspace(1.0, smallest / float(info.smallest_subnormal), 500)]).astype(
            np.int64
        )
    )
    subnormal = (tiny * float(info.smallest_subnormal))[:-1]
    special = np.array([0.0, np.inf, largest, smallest, *_LANDMARKS])
    one_sided = np.concatenate([small, beyond, subnormal, special])
    return [grid.astype(kind), one_sided.astype(kind), (-one_sided).astype(kind), np.array([np.nan], dtype=kind)]
