"""Resizing along one axis after another, in every convention that the frameworks have; in float64.

The words are ONNX's. Each convention is a matrix for each axis, so that one function serves images of any layout.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

COORDINATES: Final = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
"""How a place of the output becomes one of the input."""

NEAREST: Final = ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil")
"""How a place between two numbers chooses one of them."""

CUBIC: Final = (-0.75, -0.5)
"""Coefficients of the cubic kernel."""


@dataclass(frozen=True, slots=True)
class Form:
    """One convention.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: One of `COORDINATES`.
        nearest_mode: One of `NEAREST`; empty for other modes.
        cubic: Coefficient of the cubic kernel; 0 for other modes.
        antialias: The kernel is widened when the image shrinks.
        inside: Only numbers inside the image are weighted, and the weights made to sum to 1; otherwise its border is
            repeated.
        factor: Places follow from a factor as a user would give it, and not from the two sizes.
    """

    mode: str
    coordinates: str
    nearest_mode: str = ""
    cubic: float = 0.0
    antialias: bool = False
    inside: bool = False
    factor: bool = False

    def words(self, other: "Form") -> str:
        """What it has that ``other`` has not, in ONNX's words."""
        told = [
            ("mode", self.mode),
            ("coordinates", self.coordinates),
            ("nearest_mode", self.nearest_mode),
            ("cubic", f"cubic coefficient {self.cubic:g}"),
            ("antialias", "antialias" if self.antialias else "no antialias"),
            ("inside", "outside excluded" if self.inside else "border repeated"),
            ("factor", "scale as given" if self.factor else "scale from the sizes"),
        ]
        differing = [word for name, word in told if word and getattr(self, name) != getattr(other, name)]
        return ", ".join(differing[:1] if self.mode != other.mode else differing)

    def apply(self, x: Float64, axes: Sequence[int], sizes: Sequence[int]) -> Float64:
        """``x`` resized along ``axes`` to ``sizes``."""
        for axis, size in zip(axes, sizes, strict=True):
            x = np.moveaxis(np.tensordot(self.matrix(x.shape[axis], size), x, (1, axis)), 0, axis)
        return x

    def matrix(self, before: int, after: int) -> Float64:
        """What makes ``after`` numbers of ``before``."""
        scale = _factor(before, after) if self.factor else after / before
        places = _places(self.coordinates, before, after, scale)
        matrix = np.zeros((after, before))
        if self.mode == "nearest":
            matrix[np.arange(after), np.clip(_rounded(places, self.nearest_mode), 0, before - 1)] = 1.0
            return matrix
        wide = 1 / scale if self.antialias and scale < 1 else 1.0
        reach = ceil((2 if self.mode == "cubic" else 1) * wide)
        taps = np.floor(places).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
        distance = np.abs(places[:, None] - taps) / wide
        weights = _cubic(distance, self.cubic) if self.mode == "cubic" else np.maximum(0.0, 1.0 - distance)
        if self.inside:
            weights = np.where((taps < 0) | (taps >= before), 0.0, weights)
        if self.inside or wide > 1:
            weights = weights / weights.sum(1, keepdims=True)
        np.add.at(matrix, (np.arange(after)[:, None], np.clip(taps, 0, before - 1)), weights)
        return matrix


def forms() -> Iterator[Form]:
    """Every convention, the usual ones first."""
    for coordinates in COORDINATES:
        for rounding in NEAREST:
            yield Form("nearest", coordinates, rounding)
    for antialias, inside in ((False, False), (False, True), (True, True), (True, False)):
        for coordinates in COORDINATES[:4]:
            yield Form("linear", coordinates, antialias=antialias, inside=inside)
            for cubic in CUBIC:
                yield Form("cubic", coordinates, cubic=cubic, antialias=antialias, inside=inside)
    for coordinates in ("half_pixel", "asymmetric"):
        yield Form("linear", coordinates, factor=True)
        yield Form("nearest", coordinates, "floor", factor=True)
        yield Form("cubic", coordinates, cubic=CUBIC[0], factor=True)


def declared(told: Mapping[str, object]) -> Form | None:
    """The convention that the attributes of a `resize` operator tell; None where they leave it open."""
    mode, coordinates = str(told.get("mode", "")), str(told.get("coordinates", ""))
    if mode not in {"nearest", "linear", "cubic"} or coordinates not in COORDINATES:
        return None
    rounding = str(told.get("nearest_mode") or "round_prefer_floor") if mode == "nearest" else ""
    cubic = float(str(told.get("cubic_coefficient") or CUBIC[0])) if mode == "cubic" else 0.0
    antialias = bool(told.get("antialias")) and mode != "nearest"
    inside = bool(told.get("exclude_outside")) and mode != "nearest"
    return Form(mode, coordinates, rounding, cubic, antialias, inside or antialias)


def _factor(before: int, after: int) -> float:
    """The simplest factor of which ``after`` is the whole part of the product; their ratio where there is none."""
    for denominator in range(1, 11):
        numerator = ceil(after / before * denominator)
        if floor(before * numerator / denominator) == after:
            return numerator / denominator
    return after / before


def _places(coordinates: str, before: int, after: int, scale: float) -> Float64:
    """Where each place of the output lies in the input."""
    place = np.arange(after, dtype=np.float64)
    if coordinates == "align_corners":
        return place * ((before - 1) / max(after - 1, 1))
    if coordinates == "asymmetric":
        return place / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (place + 0.5) / scale
    if coordinates == "pytorch_half_pixel" and after == 1:
        return place
    return (place + 0.5) / scale - 0.5


def _rounded(places: Float64, rounding: str) -> NDArray[np.int64]:
    near = np.round(places, 9)  # what is whole but for rounding is whole
    found = {
        "floor": np.floor(near),
        "ceil": np.ceil(near),
        "round_prefer_floor": np.ceil(near - 0.5),
        "round_prefer_ceil": np.floor(near + 0.5),
    }[rounding]
    return found.astype(np.int64)


def _cubic(d: Float64, a: float) -> Float64:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
