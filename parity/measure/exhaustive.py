"""One implementation over every float32 there is, chunk by chunk; runs in a worker.

Four thousand million exact results take the better part of an hour, so a chunk's results are a `Tally` that merges with
those of its neighbours, and whoever called can keep the tally and go on from it another day.

The gradient is left out: its exact values cost as much again as those of the function.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from parity.adapter import Adapter, Array, Implementation
from parity.compare import Comparison, compare
from parity.compare.comparison import Sums
from parity.dtypes import float_dtype
from parity.functions import Variant
from parity.inputs import CORE
from parity.measure.activation import Float64, Profile, Row, absolute_error, nonfinite, overflowed, usable
from parity.ulps import ulp
from parity.worker import Message

DTYPE: Final = "float32"

EVERYTHING: Final = 2**32
"""Bit patterns of a float32."""

CHUNK: Final = 2**20
"""Inputs of one call of the implementation, and between two messages: about half a second's work."""

BLOCK: Final = 2**16
"""Inputs whose exact results are in memory at once: they stay in cache."""

SMALLEST_NORMAL: Final = float(ml_dtypes.finfo(float_dtype(DTYPE)).smallest_normal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What consecutive bit patterns came to; fields as in `Row` and `Profile`, where not said.

    Attributes:
        comparison: The exact results against the implementation's; positions count from the first bit pattern.
        scaled_ulp: Largest over all inputs; None where nothing defines it.
        core_scaled_ulp: Largest at |x| <= 20, and the input where it is.
        core_max_ulp: Likewise in ulp at the exact result.
        nonfinite: Number of inputs whose result is not finite though it could be, or the reverse.
    """

    comparison: Comparison
    scaled_ulp: float | None
    core_scaled_ulp: tuple[float, float]
    core_max_ulp: tuple[float, float]
    lost_below: float | None
    flushes: bool
    nonfinite: int
    nonfinite_core: float | None
    nonfinite_beyond: float | None

    @property
    def count(self) -> int:
        """Bit patterns seen."""
        return self.comparison.count

    def merge(self, other: "Tally") -> "Tally":
        """The tally of these bit patterns and, set behind them, those of ``other``."""
        return Tally(
            comparison=self.comparison.merge(other.comparison),
            scaled_ulp=max((one for one in (self.scaled_ulp, other.scaled_ulp) if one is not None), default=None),
            core_scaled_ulp=max(self.core_scaled_ulp, other.core_scaled_ulp, key=lambda worst: worst[0]),
            core_max_ulp=max(self.core_max_ulp, other.core_max_ulp, key=lambda worst: worst[0]),
            lost_below=_nearer(self.lost_below, other.lost_below),
            flushes=self.flushes or other.flushes,
            nonfinite=self.nonfinite + other.nonfinite,
            nonfinite_core=_nearer(self.nonfinite_core, other.nonfinite_core),
            nonfinite_beyond=_nearer(self.nonfinite_beyond, other.nonfinite_beyond),
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, from which `from_json` makes the same tally again, to the last bit."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Tally":
        """The tally that `to_json` wrote.

        Raises:
            KeyError, TypeError: A field is missing, unknown or not of its type.
        """
        fields, comparison = _tuples(values), _tuples(values["comparison"])
        comparison["sums"] = Sums(*comparison["sums"])
        fields["comparison"] = Comparison(**comparison)
        return cls(**fields)

    def row_of(self, profile: Profile, start: int) -> Row:
        """The line of the suite's results for the implementation of ``profile``.

        Args:
            profile: Its float32 measurement.
            start: The first bit pattern that was seen.
        """
        worst = self.comparison.worst_index
        return replace(
            blank_row(profile),
            exhaustive=self.count == EVERYTHING,
            count=self.count,
            max_ulp=self.comparison.max_ulp,
            mean_ulp=self.comparison.mean_ulp,
            max_abs=self.comparison.max_abs,
            worst_x=None if worst is None else float(floats(start + worst[0], start + worst[0] + 1)[0]),
            scaled_ulp=self.scaled_ulp,
            nonfinite=self.nonfinite,
        )

    def widen(self, profile: Profile) -> Profile:
        """``profile`` with what these inputs add to it, for the same checks as without them."""
        return replace(
            profile,
            scaled_ulp=max(profile.scaled_ulp, self.core_scaled_ulp, key=lambda worst: worst[0]),
            max_ulp=max(profile.max_ulp, self.core_max_ulp, key=lambda worst: worst[0]),
            lost_below=_nearer(profile.lost_below, self.lost_below),
            flushes=profile.flushes or self.flushes,
            nonfinite_core=_nearer(profile.nonfinite_core, self.nonfinite_core),
            nonfinite_beyond=_nearer(profile.nonfinite_beyond, self.nonfinite_beyond),
        )


def exhaust(
    adapter: Adapter, *, implementation: str, start: int, stop: int, chunk: int, tally: Mapping[str, Any] | None
) -> Iterator[Message]:
    """Job: measures an implementation on a range of bit patterns; yields the tally so far after each chunk.

    Args:
        adapter: The adapter.
        implementation: Name of the implementation, of a variant with one input.
        start: First bit pattern, read as an unsigned integer.
        stop: The one behind the last.
        chunk: Bit patterns a call.
        tally: What an earlier run came to from ``start`` on, as JSON values, to go on from; None to begin.
    """
    one = next(one for one in adapter.activations() if one.name == implementation)
    seen = None if tally is None else Tally.from_json(tally)
    position = start + (seen.count if seen else 0)
    while position < stop:
        found = measured(one, position, min(position + chunk, stop))
        seen = seen.merge(found) if seen else found
        position = start + seen.count
        yield Message({"tally": seen.to_json()})


def measured(one: Implementation, start: int, stop: int) -> Tally:
    """The tally of one call of the implementation on the bit patterns from ``start`` up to ``stop``."""
    x = floats(start, stop)
    y = usable(one(x), x.shape)
    tally: Tally | None = None
    for low in range(0, len(x), BLOCK):
        block = slice(low, low + BLOCK)
        found = _tally(x[block], y[block], one.variant, floor=1.0 if one.accuracy == "composed" else 0.0)
        tally = tally.merge(found) if tally else found
    assert tally is not None  # noqa: S101 – a range is not empty
    return tally


def blank_row(profile: Profile) -> Row:
    """The line of an exhaustive measurement before it has numbers: whose it is, and over which inputs."""
    return Row(
        adapter=profile.adapter,
        implementation=profile.implementation,
        declared=profile.declared,
        identified=profile.identified,
        dtype=DTYPE,
        regime="all",
    )


def floats(start: int, stop: int) -> NDArray[np.float32]:
    """The float32 numbers whose bit patterns, as unsigned integers, are those from ``start`` up to ``stop``."""
    return np.arange(start, stop, dtype=np.uint64).astype(np.uint32).view(np.float32)


def _tally(x: Array, y: Array, variant: Variant, *, floor: float) -> Tally:
    """Statistics by the definitions of `parity.measure.activation.Bench`."""
    result = y.dtype.name
    with np.errstate(invalid="ignore"):  # signalling NaNs are among the bit patterns
        inputs, values = x.astype(np.float64), y.astype(np.float64)
    exact = overflowed(variant.value(x), DTYPE)
    size, height = np.abs(inputs), np.abs(exact)
    core = size <= CORE
    normal = (size >= 4 * SMALLEST_NORMAL) & (height >= SMALLEST_NORMAL)
    error = absolute_error(values, exact)
    scaled = np.where(normal, error / ulp(np.maximum(np.maximum(size, height), floor), result), np.nan)
    wrong = nonfinite(values, exact)
    zero = values == 0
    finite = scaled[np.isfinite(scaled)]
    return Tally(
        comparison=compare(exact, y, dtype=result, threads=1),
        scaled_ulp=float(finite.max()) if finite.size else None,
        core_scaled_ulp=_worst(scaled, inputs, core),
        core_max_ulp=_worst(error / ulp(exact, result), inputs, core & normal),
        lost_below=_nearest(inputs, zero & normal & core),
        flushes=bool((zero & ~normal & (height >= 2 * float(ulp(0.0, result)))).any()),
        nonfinite=int(np.count_nonzero(wrong)),
        nonfinite_core=_nearest(inputs, wrong & core),
        nonfinite_beyond=_nearest(inputs, wrong & ~core & np.isfinite(inputs)),
    )


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with the tuples again that JSON made lists of."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _worst(error: Float64, x: Float64, where: NDArray[np.bool_]) -> tuple[float, float]:
    """Largest finite error among ``where`` and the input it is at; 0 at 0 where there is none."""
    masked = np.where(where & np.isfinite(error), error, 0.0)
    at = int(np.argmax(masked))
    return (float(masked[at]), float(x[at])) if masked[at] else (0.0, 0.0)


def _nearest(x: Float64, where: NDArray[np.bool_]) -> float | None:
    """The input of least magnitude among ``where``."""
    found = x[where]
    return float(found[np.argmin(np.abs(found))]) if found.size else None


def _nearer(a: float | None, b: float | None) -> float | None:
    """That of least magnitude; of equal ones the first."""
    return min((one for one in (a, b) if one is not None), key=abs, default=None)
