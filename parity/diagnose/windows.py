"""Windows that slide over an image, as convolutions and pools have them: along which axes, and what each one sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.case import Part
from parity.graph import Site

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """A window as one operator slides it; every field has one entry for each axis that it slides along.

    Attributes:
        axes: Axes of the input.
        out_axes: The same in the output.
        kernel: Its places.
        strides: Its steps.
        dilations: Distances of its places.
        before: The operator's own padding at the beginning.
        after: And at the end.
        lengths: Lengths of the input.
        places: Lengths of the output.
    """

    axes: tuple[int, ...]
    out_axes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    lengths: tuple[int, ...]
    places: tuple[int, ...]

    def counts(self, low: Sequence[int], high: Sequence[int], rank: int) -> Float64:
        """How many of its places lie in ``low <= place < high``, at each place of the output; broadcasts against it.

        Args:
            low: First place of the input that counts, for each axis; the input begins at 0.
            high: The one behind the last.
            rank: Dimensions of the output.
        """
        total = np.ones([1] * rank)
        for k, axis in enumerate(self.out_axes):
            starts = np.arange(self.places[k]) * self.strides[k] - self.before[k]
            seen = starts[:, None] + np.arange(self.kernel[k]) * self.dilations[k]
            number = np.count_nonzero((seen >= low[k]) & (seen < high[k]), axis=1)
            total = total * number.reshape([-1 if place == axis else 1 for place in range(rank)])
        return total


def window_of(part: Part, site: Site) -> Window | None:
    """The window of a convolution, a pool or a sum over windows; None where its shape is not known."""
    image, made = (part.view.entry(name) for name in (site.inputs[0], site.outputs[0]))
    kernel = site.attributes.get("kernel") or _kernel_of_weight(part, site)
    if image is None or made is None or not kernel:
        return None
    count, told = len(kernel), site.attributes
    axes, out_axes = _axes(told, len(image.shape), count)
    pads = _stretched(told.get("pads"), 2 * count, 0)
    return Window(
        axes=axes,
        out_axes=out_axes,
        kernel=tuple(kernel),
        strides=_stretched(told.get("strides"), count, 1),
        dilations=_stretched(told.get("dilations"), count, 1),
        before=pads[:count],
        after=pads[count:],
        lengths=tuple(image.shape[axis] for axis in axes),
        places=tuple(made.shape[axis] for axis in out_axes),
    )


def _kernel_of_weight(part: Part, site: Site) -> Sequence[int]:
    """The kernel of a convolution whose weight has it at its end, behind the channels."""
    entry = part.view.entry(site.inputs[1]) if site.kind == "conv" else None
    return entry.shape[2:] if entry is not None else ()


def _stretched(values: Sequence[int] | None, count: int, default: int) -> tuple[int, ...]:
    if not values:
        return (default,) * count
    return tuple(values) if len(values) == count else (values[0],) * count


def _axes(told: Any, rank: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes of the input and of the output that a window of ``count`` axes slides along."""
    if "layouts" in told:
        left, _, out = told["layouts"]
        return tuple(left[2:]), tuple(out[2:])
    last = str(told.get("data_format", "")).endswith("C") or bool(told.get("channels_last"))
    first = rank - count - 1 if last else rank - count
    axes = tuple(range(first, first + count))
    return axes, axes
