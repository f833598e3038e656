"""Cause: an image padded otherwise: before or after, by more or less, by other numbers than zeros."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.diagnose.borders import Border, Bordered, bordered
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.windows import Window, window_of
from parity.edits import Edit, SetAttributes, SetNumbers
from parity.graph import Site

Float64 = NDArray[np.float64]

SLIDING: Final = frozenset({"conv", "max_pool", "average_pool"})

MOST: Final = 12
"""Hypotheses at most for one region."""


@dataclass(frozen=True, slots=True)
class Padded:
    """An operator whose window slides over a padded image.

    Attributes:
        sites: Names of it and of the padding before it.
        site: The operator.
        window: Its window.
        source: The image before any padding.
        border: What is put around it along the window's axes, by whichever operator.
        uncounted: It is a mean to which its own padding does not count.
    """

    sites: tuple[str, ...]
    site: Site
    window: Window
    source: str
    border: Border
    uncounted: bool

    def sliding(self) -> tuple[int, ...]:
        """Those of the window's axes that are more than one place long."""
        return tuple(k for k, length in enumerate(self.window.kernel) if length > 1)

    def along(self, axes: Sequence[int]) -> Border:
        """The border along some of the window's axes."""
        one = self.border
        return Border(tuple(one.before[k] for k in axes), tuple(one.after[k] for k in axes), one.mode, one.value)


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each window, and each padding by itself, of the candidate's region padded as the reference's counterpart."""
    made = [*_windows(case), *_paddings(case)]
    yield from made[:MOST]


# ---------------------------------------------------------------------------------------------- windows that slide


def _windows(case: Case) -> Iterator[Hypothesis]:
    for kind in sorted(SLIDING):
        ours, theirs = _padded(case.reference, kind), _padded(case.candidate, kind)
        pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else ((a, b) for a in ours for b in theirs)
        for one, two in pairs:
            if len(one.sliding()) != len(two.sliding()):
                continue
            expected, observed = one.along(one.sliding()), two.along(two.sliding())
            if not expected.same(observed):
                places = (one.sites, two.sites)
                found = _hypothesis(expected, observed, places, _repair(two, expected, uncounted=one.uncounted))
                yield replace(found, edits=_window_edits(two, expected, observed))


def _padded(part: Part, kind: str) -> list[Padded]:
    sites = [site for site in part.sites if site.kind == kind and site.outputs[0] in part.view.dynamic]
    return [found for site in sites if (found := _padded_by(part, site)) is not None]


def _padded_by(part: Part, site: Site) -> Padded | None:
    window = window_of(part, site)
    if window is None:
        return None
    own = Border(window.before, window.after, "constant", -inf if site.kind == "max_pool" else 0.0)
    uncounted = site.kind == "average_pool" and not site.attributes.get("count_include_pad") and not own.empty
    found = bordered(part, site.inputs[0])
    if found is None:
        return Padded((site.name,), site, window, site.inputs[0], own, uncounted)
    told = Border(
        tuple(found.border.before[axis] for axis in window.axes),
        tuple(found.border.after[axis] for axis in window.axes),
        found.border.mode,
        found.border.value,
    )
    if not own.empty and (own.mode, own.value) != (told.mode, told.value):
        return None
    total = Border(
        tuple(a + b for a, b in zip(own.before, told.before, strict=True)),
        tuple(a + b for a, b in zip(own.after, told.after, strict=True)),
        told.mode,
        told.value,
    )
    return Padded((*found.sites, site.name), site, window, found.source, total, uncounted)


def _repair(padded: Padded, border: Border, *, uncounted: bool) -> Repair:
    """The candidate's own operator on an image that has the reference's border already.

    Its own padding cannot be taken off, so the image gets further places before and behind, and of the operator's
    output only the windows are kept that see none of them.
    """
    window, axes = padded.window, tuple(padded.window.axes[k] for k in padded.sliding())

    def slide(part: Part, image: Float64) -> Float64:
        widened, first = _widened(window, image)
        made = part.alone(padded.site, {padded.site.inputs[0]: widened})
        places = [slice(None)] * made.ndim
        for axis, start, length in zip(window.out_axes, first, window.places, strict=True):
            places[axis] = slice(start, start + length)
        return np.asarray(made[tuple(places)], np.float64)

    def repair(part: Part, overrides: dict[str, Array]) -> None:
        image = np.asarray(part.value(padded.source, overrides), np.float64)
        made = slide(part, border.apply(image, axes))
        if uncounted:
            zeros = Border(border.before, border.after)
            made = made / slide(part, zeros.apply(np.ones(image.shape), axes))
        if made.shape == part.value(padded.site.outputs[0]).shape:
            overrides[padded.site.outputs[0]] = made

    return repair


def _widened(window: Window, image: Float64) -> tuple[Float64, list[int]]:
    """An image with room for the operator's own padding, and at which place of the output its windows begin.

    The length stays the same modulo the stride, so that padding which follows from the size stays the same as well.
    """
    widths = [(0, 0)] * image.ndim
    first = []
    for k, axis in enumerate(window.axes):
        step, length = window.strides[k], image.shape[axis]
        before = -window.before[k] % step
        first.append((window.before[k] + before) // step)
        span = (window.kernel[k] - 1) * window.dilations[k] + 1
        needed = (first[k] + window.places[k] - 1) * step + span - window.before[k] - before
        after = max(0, needed - length)
        after += (window.lengths[k] - length - before - after) % step
        widths[axis] = (before, after)
    return np.pad(image, widths), first


# ------------------------------------------------------------------------------------------- paddings by themselves


def _paddings(case: Case) -> Iterator[Hypothesis]:
    theirs = _alone(case.candidate)
    ours = _alone(case.reference) if theirs else []
    for one, two in zip(ours, theirs, strict=False) if len(ours) == len(theirs) else ():
        expected, observed = one.dense(), two.dense()
        if len(expected.before) != len(observed.before) or expected.same(observed):
            continue
        found = _hypothesis(expected, observed, (one.bordered.sites, two.bordered.sites), _replaced(two, expected))
        yield replace(found, edits=_pad_edits(case.candidate, two, expected, observed))


@dataclass(frozen=True, slots=True)
class Alone:
    """A padding whose result is there as a tensor.

    Attributes:
        bordered: What is padded, how and by which operators.
        target: The result.
    """

    bordered: Bordered
    target: str

    def axes(self) -> tuple[int, ...]:
        """Axes that are padded."""
        one = self.bordered.border
        return tuple(k for k, pair in enumerate(zip(one.before, one.after, strict=True)) if any(pair))

    def dense(self) -> Border:
        """The border along these alone."""
        one = self.bordered.border
        before, after = (tuple(sizes[k] for k in self.axes()) for sizes in (one.before, one.after))
        return Border(before, after, one.mode, one.value)


def _alone(part: Part) -> list[Alone]:
    """The paddings of a part, by their operators, and where it has none of that kind by the numbers alone."""
    targets = [name for site in part.sites for name in site.outputs if name in part.view.dynamic]
    fused = [site.outputs[0] for site in part.sites if site.kind == "pad" and site.outputs[0] in part.view.dynamic]
    for target in [] if fused else reversed(targets):
        if (found := bordered(part, target)) is not None:
            return [Alone(found, target)]
    pairs = [(bordered(part, target), target) for target in fused]
    return [Alone(found, target) for found, target in pairs if found is not None and not found.border.empty]


def _replaced(padded: Alone, border: Border) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:
        x = np.asarray(part.value(padded.bordered.source, overrides), np.float64)
        made = border.apply(x, padded.axes())
        if made.shape == part.value(padded.target).shape:
            overrides[padded.target] = made

    return repair


# ------------------------------------------------------------------------------------------- edits of the candidate


def _window_edits(padded: Padded, expected: Border, observed: Border) -> list[Edit]:
    """The padding of an operator that has all of it itself."""
    if len(padded.sites) != 1 or (expected.mode, expected.value) != (observed.mode, observed.value):
        return []
    sizes = dict(zip(padded.sliding(), zip(expected.before, expected.after, strict=True), strict=True))
    pairs = [sizes.get(k, (0, 0)) for k in range(len(padded.window.kernel))]
    pads = [*(before for before, _ in pairs), *(after for _, after in pairs)]
    return [SetAttributes(output=padded.site.outputs[0], values={"pads": pads})]


def _pad_edits(part: Part, padded: "Alone", expected: Border, observed: Border) -> list[Edit]:
    """The sizes and the mode of an operator that only pads."""
    sites = [site for site in part.sites if site.name in padded.bordered.sites]
    if len(sites) != 1 or sites[0].kind != "pad" or expected.mode == "symmetric":
        return []
    edits: list[Edit] = []
    if (expected.before, expected.after) != (observed.before, observed.after):
        edits += _sizes(part, sites[0], padded.axes(), expected)
        if not edits:
            return []
    if expected.mode != observed.mode:
        edits.append(SetAttributes(output=sites[0].outputs[0], values={"mode": expected.mode}))
    elif expected.value != observed.value:
        return []
    return edits


def _sizes(part: Part, site: Site, axes: Sequence[int], border: Border) -> list[Edit]:
    """Other sizes of a padding, where a constant of the model holds them for all axes."""
    name = part.view.root(site.inputs[1]) if len(site.inputs) > 1 and site.inputs[1] else ""
    pads = list(site.attributes.get("pads") or [])
    entry = part.view.trace.weights.get(name)
    if entry is None or entry.signature.count != len(pads) or len(pads) <= max(axes, default=0) * 2:
        return []
    for axis, before, after in zip(axes, border.before, border.after, strict=True):
        pads[axis], pads[axis + len(pads) // 2] = before, after
    return [SetNumbers(tensor=name, numbers=np.array(pads), readers=(site.outputs[0],))]


# ---------------------------------------------------------------------------------------------------------- shared


def _hypothesis(
    expected: Border, observed: Border, places: tuple[tuple[str, ...], tuple[str, ...]], repair: Repair
) -> Hypothesis:
    ours, theirs = expected.words(observed), observed.words(expected)
    return Hypothesis(
        rule="padding",
        message=f"the candidate pads {theirs} where the reference pads {ours}",
        expected=ours,
        observed=theirs,
        fix=f"Pad the candidate's image: {ours}.",
        places={"reference": places[0], "candidate": places[1]},
        repair=repair,
    )
