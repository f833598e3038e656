"""Cause: an image resized in another convention: other coordinates, rounding, kernel, or no antialiasing.

Which convention a side has is told by its numbers: it is the one that makes of the resize's input its output. So it
does not matter whether the side has one operator for it or many.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.interpolation import Form, declared, forms
from parity.edits import SetAttributes

Float64 = NDArray[np.float64]

CLOSE: Final = 1e-5
"""Greatest difference, relative to the image's greatest number, up to which a convention is taken for the one."""

IMAGES: Final = 2
"""Channels of the image by which conventions are tried."""

PAIRS: Final = 24
"""Pairs of tensors of one part at most between which a resize of several operators is looked for."""

MOST: Final = 12
"""Hypotheses at most for one region."""


@dataclass(frozen=True, slots=True)
class Resize:
    """One resize of a part.

    Attributes:
        sites: Names of its operators.
        source: Tensor that it reads.
        target: Tensor that it makes.
        axes: Axes that it changes.
        sizes: Their lengths before and after.
        form: Its convention.
    """

    sites: tuple[str, ...]
    source: str
    target: str
    axes: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]
    form: Form


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each resize of the candidate's region in the convention of the reference's counterpart."""
    theirs = _resizes(case.candidate)
    ours = _resizes(case.reference) if theirs else []
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else ((a, b) for a in ours for b in theirs)
    for one, two in list(pairs)[:MOST]:
        if one.form == two.form or one.sizes != two.sizes:
            continue
        expected, observed = one.form.words(two.form), two.form.words(one.form)
        yield Hypothesis(
            rule="resize-coordinates",
            message=f"the candidate resizes with {observed} where the reference has {expected}",
            expected=expected,
            observed=observed,
            fix=f"Make the candidate's resize {expected}.",
            places={"reference": one.sites, "candidate": two.sites},
            repair=_repair(two, one.form),
            edits=_edits(case.candidate, two, one.form),
        )


def _edits(part: Part, resize: Resize, form: Form) -> list[SetAttributes]:
    """The convention as the attributes of the candidate's operator, where it is one; only those that change."""
    sites = [site for site in part.sites if site.name in resize.sites]
    if len(sites) != 1 or sites[0].kind != "resize" or form.factor:
        return []
    wanted = {"mode": form.mode, "coordinates": form.coordinates, "antialias": int(form.antialias)}
    if form.mode == "nearest":
        wanted["nearest_mode"] = form.nearest_mode
    elif not form.antialias:
        wanted["exclude_outside"] = int(form.inside)
    if form.mode == "cubic":
        wanted["cubic_coefficient"] = form.cubic
    now = {"nearest_mode": "round_prefer_floor", "exclude_outside": 0, **sites[0].attributes}
    values = {name: value for name, value in wanted.items() if now.get(name) != value}
    return [SetAttributes(output=sites[0].outputs[0], values=values)] if values else []


def _repair(resize: Resize, form: Form) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:
        x = np.asarray(part.value(resize.source, overrides), np.float64)
        overrides[resize.target] = form.apply(x, resize.axes, [after for _, after in resize.sizes])

    return repair


def _resizes(part: Part) -> list[Resize]:
    """The resizes of a part, by their operators, and where it has none of that kind by the numbers alone."""
    fused = [site for site in part.sites if site.kind == "resize"]
    found = [_resize(part, site.inputs[0], site.outputs[0], (site.name,), declared(site.attributes)) for site in fused]
    if not fused:
        found = [_composed(part)]
    return [one for one in found if one is not None]


def _composed(part: Part) -> Resize | None:
    """The widest span of operators that together resize."""
    pairs = 0
    names = [name for site in part.sites for name in site.outputs if name in part.view.dynamic]
    for target in reversed(names):
        for source in [*part.given, *names[: names.index(target)]]:
            if not _resizing(part, source, target):
                continue
            pairs += 1
            found = _resize(part, source, target, part.between(source, target), None)
            if found is not None or pairs >= PAIRS:
                return found
    return None


def _resizing(part: Part, source: str, target: str) -> bool:
    """Whether two tensors are of one rank, and some of their axes but not all of them of other lengths."""
    first, second = part.view.entry(source), part.view.entry(target)
    if first is None or second is None or len(first.shape) != len(second.shape):
        return False
    if not first.signature.count or not second.signature.count:
        return False
    changed = sum(n != m for n, m in zip(first.shape, second.shape, strict=True))
    return 0 < changed < len(first.shape)


def _resize(part: Part, source: str, target: str, sites: tuple[str, ...], first: Form | None) -> Resize | None:
    """The resize that makes ``target`` of ``source``; None where no convention does, or nothing is resized."""
    if not _resizing(part, source, target):
        return None
    x, y = (np.asarray(part.value(name), np.float64) for name in (source, target))
    axes = tuple(axis for axis in range(x.ndim) if x.shape[axis] != y.shape[axis])
    sizes = tuple((x.shape[axis], y.shape[axis]) for axis in axes)
    some, made = _some(x, axes), _some(y, axes)
    if not (np.isfinite(some).all() and np.isfinite(made).all()):
        return None
    for form in ([first] if first is not None else []) + [*forms()]:
        if np.allclose(form.apply(some, axes, [after for _, after in sizes]), made, rtol=0, atol=_limit(some)):
            return Resize(sites, source, target, axes, sizes, form)
    return None


def _some(x: Float64, axes: tuple[int, ...]) -> Float64:
    """A few of the images."""
    return x[tuple(slice(None) if axis in axes else slice(IMAGES) for axis in range(x.ndim))]


def _limit(x: Float64) -> float:
    return CLOSE * max(float(np.max(np.abs(x), initial=0.0)), 1e-30)
