"""What is put around an image: how much of it on each side, and of which numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.case import Part
from parity.graph import Site

Float64 = NDArray[np.float64]

MODES: Final = {"reflect": "reflected", "edge": "border repeated", "symmetric": "mirrored", "wrap": "wrapped around"}
"""NumPy's modes beside the constant one, in words."""


@dataclass(frozen=True, slots=True)
class Border:
    """Padding along some axes.

    Attributes:
        before: Places put at the beginning, for each axis.
        after: And at the end.
        mode: As NumPy's `pad` calls it.
        value: That of ``constant``.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: str = "constant"
    value: float = 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing is put anywhere."""
        return not any(self.before) and not any(self.after)

    def same(self, other: "Border") -> bool:
        """Whether it does the same as another one."""
        if (self.before, self.after) != (other.before, other.after):
            return False
        return self.empty or (self.mode, self.value) == (other.mode, other.value)

    def apply(self, x: Float64, axes: Sequence[int]) -> Float64:
        """``x`` with the border around it.

        Raises:
            ValueError: A border is longer than what it is made of.
        """
        widths = [(0, 0)] * x.ndim
        for axis, low, high in zip(axes, self.before, self.after, strict=True):
            widths[axis] = (low, high)
        return _padded(x, widths, self.mode, self.value)

    def words(self, other: "Border") -> str:
        """It as one would say it; what it is made of only where that of ``other`` differs, or is not zeros."""
        if self.empty:
            return "none"
        sizes = list(dict.fromkeys(_side(*pair) for pair in zip(self.before, self.after, strict=True)))
        size = " and ".join(sizes)
        if (self.mode, self.value) == (other.mode, other.value) or other.empty:
            return size if self.mode == "constant" else f"{MODES[self.mode]}, {size}"
        return f"{MODES.get(self.mode) or _constant(self.value)}, {size}"


def _padded(x: Float64, widths: Sequence[tuple[int, int]], mode: str, value: float) -> Float64:
    extra: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
    found: Float64 = np.pad(x, widths, mode=mode, **extra)  # type: ignore[call-overload]
    return found


def _side(before: int, after: int) -> str:
    if before == after:
        return f"{before} on each side"
    same = "SAME: " if after == before + 1 else ""
    return f"{same}{before} before, {after} after"


def _constant(value: float) -> str:
    return "zeros" if value == 0 else f"{value:g}"


def border_of(part: Part, site: Site) -> Border | None:
    """The border that an operator of kind ``pad`` puts, over all axes of its input; its mode is told by the numbers."""
    source, target = site.inputs[0], site.outputs[0]
    entry, pads = part.view.entry(source), list(site.attributes.get("pads") or [])
    if entry is None or min(pads, default=0) < 0:
        return None
    rank, count = len(entry.shape), len(pads) // 2
    lead = (0,) * (rank - count)
    before, after = (*lead, *pads[:count]), (*lead, *pads[count:])
    return _told_by_numbers(part.value(source), part.value(target), before, after)


def composed_border(part: Part, source: str, target: str) -> Border | None:
    """The border that several operators together put around ``source`` to make ``target``; None where they do not."""
    x, y = part.value(source), part.value(target)
    if x.ndim != y.ndim or not x.size or any(n < m for m, n in zip(x.shape, y.shape, strict=True)):
        return None
    grown = [n - m for m, n in zip(x.shape, y.shape, strict=True)]
    if not any(grown) or any(growth > 2 * length for growth, length in zip(grown, x.shape, strict=True)):
        return None
    for before in np.ndindex(*[growth + 1 for growth in grown]):
        inner = y[tuple(slice(low, low + length) for low, length in zip(before, x.shape, strict=True))]
        if np.array_equal(inner, x):
            after = tuple(growth - low for growth, low in zip(grown, before, strict=True))
            return _told_by_numbers(x, y, before, after)
    return None


@dataclass(frozen=True, slots=True)
class Bordered:
    """A tensor that is another one with a border around it.

    Attributes:
        sites: Names of the operators that put it there.
        source: The tensor inside.
        border: Over all axes.
    """

    sites: tuple[str, ...]
    source: str
    border: Border


def bordered(part: Part, target: str) -> Bordered | None:
    """How a tensor of a part was padded: by the operator that makes it, or by several from a given tensor on."""
    maker = part.view.site_of(target)
    if maker is None or maker not in part.sites:
        return None
    if maker.kind == "pad":
        border = border_of(part, maker)
        return None if border is None else Bordered((maker.name,), maker.inputs[0], border)
    for source in part.given:
        if _grows(part, source, target):
            border = composed_border(part, source, target)
            if border is not None:
                return Bordered(part.between(source, target), source, border)
    return None


def _grows(part: Part, source: str, target: str) -> bool:
    first, second = part.view.entry(source), part.view.entry(target)
    return (
        first is not None
        and second is not None
        and len(first.shape) == len(second.shape)
        and first.shape != second.shape
        and all(n <= m for n, m in zip(first.shape, second.shape, strict=True))
    )


def _told_by_numbers(x: Float64, y: Float64, before: tuple[int, ...], after: tuple[int, ...]) -> Border | None:
    if not any(before) and not any(after):
        return Border(before, after)
    widths = list(zip(before, after, strict=True))
    frame = np.pad(np.zeros(x.shape, np.bool_), widths, constant_values=True)
    if frame.shape != y.shape:
        return None
    if np.ptp(y[frame]) == 0:
        return Border(before, after, "constant", float(y[frame][0]))
    for mode in MODES:
        try:
            if np.array_equal(_padded(x, widths, mode, 0.0), y):
                return Border(before, after, mode)
        except ValueError:
            continue
    return None
