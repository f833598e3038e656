"""Cause: an average that is divided by another number: padding counted or not, or a length that was baked in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.diagnose.borders import Border, bordered
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.windows import Window, window_of
from parity.edits import SetAttributes
from parity.graph import LAYOUT, Site

Float64 = NDArray[np.float64]

SAME: Final = 1e-6
"""Relative difference up to which two divisors are one."""

LARGEST_WEIGHT: Final = 1_000_000
"""Elements of a convolution's weight up to which it is looked at as a mean."""


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each average of the candidate's region divided as the reference may divide it."""
    yield from _windows(case)
    yield from _whole_axes(case)


# ---------------------------------------------------------------------------------------------- windows that slide


def _windows(case: Case) -> Iterator[Hypothesis]:
    ours = [site.name for site in case.reference.sites if _sums_windows(case.reference, site)]
    for site in case.candidate.sites:
        if not _sums_windows(case.candidate, site):
            continue
        known = _divisors(case.candidate, site) | _overrides(case.reference)
        declared = _declared(case.candidate, site)
        tried: list[Float64] = []
        for observed in [declared] if declared in known else list(known):
            for expected, divisor in known.items():
                factor = known[observed] / divisor
                if np.allclose(factor, 1, rtol=SAME) or any(_alike(factor, one) for one in tried):
                    continue
                tried.append(factor)
                yield _hypothesis(expected, observed, {"reference": ours, "candidate": [site.name]}, site, factor)


def _sums_windows(part: Part, site: Site) -> bool:
    """Whether a site adds up the numbers of windows, all with one weight."""
    if not site.outputs[0] or site.outputs[0] not in part.view.dynamic:
        return False
    if site.kind == "conv":
        return _is_mean(part, site)
    return site.kind == "average_pool" or "reduce_window_sum" in site.op


def _is_mean(part: Part, site: Site) -> bool:
    entry = part.view.trace.weights.get(site.inputs[1])
    if entry is None or entry.signature.count > LARGEST_WEIGHT:
        return False
    numbers = np.asarray(part.weight(site.inputs[1])).astype(np.float64)
    used = numbers[numbers != 0]
    return used.size > 1 and bool(np.ptp(used) <= SAME * abs(used[0]))


def _declared(part: Part, site: Site) -> str:
    """What an average pool says that it counts; empty for sums that are divided by another operator."""
    if site.kind != "average_pool":
        return ""
    if "divisor" in site.attributes:
        return _by(site.attributes["divisor"])
    counted = site.attributes.get("count_include_pad") or _border(part, site) is not None
    return "padding counted" if counted else "padding not counted"


def _divisors(part: Part, site: Site) -> dict[str, Float64]:
    """What each place of the output can be divided by, by what is counted; broadcasts against the output."""
    window, made = window_of(part, site), part.view.entry(site.outputs[0])
    if window is None or made is None:
        return {}
    before, after = _explicit(part, site, window)
    rank = len(made.shape)
    inner = [length - high for length, high in zip(window.lengths, after, strict=True)]
    ends = [length + high for length, high in zip(window.lengths, window.after, strict=True)]
    found = {
        "padding counted": window.counts([-low for low in window.before], ends, rank),
        "padding not counted": window.counts(before, inner, rank),
        "all places of the window counted": np.full([1] * rank, float(prod(window.kernel))),
    }
    if "divisor" in site.attributes:
        found[_by(site.attributes["divisor"])] = np.full([1] * rank, float(site.attributes["divisor"]))
    return {name: divisor for name, divisor in found.items() if (divisor > 0).all()}


def _border(part: Part, site: Site) -> Border | None:
    """The numbers that other operators put around the image before; None where none did, or no constant."""
    found = bordered(part, site.inputs[0])
    return found.border if found is not None and found.border.mode == "constant" else None


def _explicit(part: Part, site: Site, window: Window) -> tuple[list[int], list[int]]:
    """How wide such a border is, along the window's axes."""
    border = _border(part, site)
    if border is None:
        return [0] * len(window.axes), [0] * len(window.axes)
    return [border.before[axis] for axis in window.axes], [border.after[axis] for axis in window.axes]


def _overrides(part: Part) -> dict[str, Float64]:
    """Divisors that pools of a part are told outright."""
    numbers = [site.attributes["divisor"] for site in part.sites if site.attributes.get("divisor")]
    return {_by(number): np.array(float(number)) for number in numbers}


def _by(number: float) -> str:
    return f"divided by {number:g}"


# ------------------------------------------------------------------------------------------------- axes as a whole


@dataclass(frozen=True, slots=True)
class Average:
    """A sum over axes with what it is divided by.

    Attributes:
        sites: Names of the operators.
        site: The one that adds up.
        count: How many numbers it adds up.
        divisor: What their sum is divided by, in all.
        baked: Whether that is a number of the model and does not follow from the input.
    """

    sites: tuple[str, ...]
    site: Site
    count: int
    divisor: Float64
    baked: bool

    def words(self, other: "Average") -> str:
        """What it divides by, as one would say it."""
        if self.divisor.size > 1:
            return "divided by a count that the data give"
        number = float(self.divisor.reshape(-1)[0])
        if abs(number - self.count) <= SAME * self.count:
            return f"divided by the length, {self.count}"
        if self.baked and other.divisor.size == 1 and number == round(number):
            return f"length {number:g} baked in"
        return _by(number)


def _whole_axes(case: Case) -> Iterator[Hypothesis]:
    ours, theirs = _averages(case.reference), _averages(case.candidate)
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else ((a, b) for a in ours for b in theirs)
    for one, two in pairs:
        ratio = _ratio(two.divisor, one.divisor)
        if ratio is None or one.count != two.count or np.allclose(ratio, 1, rtol=SAME):
            continue
        places = {"reference": one.sites, "candidate": two.sites}
        yield _hypothesis(one.words(two), two.words(one), places, two.site, ratio)


def _ratio(theirs: Float64, ours: Float64) -> Float64 | None:
    """The candidate's divisors over the reference's, in the candidate's shape; None where the shapes do not fit."""
    if ours.size not in {1, theirs.size} and theirs.size != 1:
        return None
    mine = ours.reshape(-1)[0] if ours.size == 1 else ours.reshape(theirs.shape) if theirs.size > 1 else ours
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Float64 = np.asarray(theirs / mine, np.float64)
    return ratio if np.isfinite(ratio).all() else None


def _averages(part: Part) -> list[Average]:
    """Sums and means over axes with the numbers that divide them, but for those that a square root is taken of."""
    found = (_average(part, site) for site in part.sites if site.kind in {"sum", "mean"})
    return [one for one in found if one is not None]


def _average(part: Part, site: Site) -> Average | None:
    source, made = part.view.entry(site.inputs[0]), part.view.entry(site.outputs[0])
    if source is None or made is None or site.outputs[0] not in part.view.dynamic or not made.signature.count:
        return None
    count = source.signature.count // made.signature.count
    divisor: Float64 = np.array(float(count) if site.kind == "mean" else 1.0)
    sites, baked, at = [site.name], False, site.outputs[0]
    while True:
        readers = [one for one in part.sites if at in one.inputs]
        if any(one.kind in {"sqrt", "rsqrt", "pow"} for one in readers):
            return None
        if len(readers) != 1 or not (scale := _scale(part, readers[0], at)):
            break
        divisor = divisor / scale.factor
        baked |= scale.told
        at = readers[0].outputs[0]
        sites.append(readers[0].name)
    return Average(tuple(sites), site, count, divisor, baked)


@dataclass(frozen=True, slots=True)
class _Scale:
    factor: Float64
    told: bool


def _scale(part: Part, reader: Site, at: str) -> _Scale | None:
    """What a reader of an average multiplies it by; None where it does something else."""
    if reader.kind in LAYOUT:
        return _Scale(np.array(1.0), told=False)
    if (
        reader.kind not in {"mul", "div"}
        or len(reader.inputs) != 2
        or (reader.kind == "div" and reader.inputs[0] != at)
    ):
        return None
    other = reader.inputs[1] if reader.inputs[0] == at else reader.inputs[0]
    number = part.scalar(other)
    if number is None and not _counts(part, other):
        return None
    value = np.asarray(part.value(other) if number is None else number, np.float64)
    if not value.all():
        return None
    return _Scale(1 / value if reader.kind == "div" else value, told=number is not None)


def _counts(part: Part, name: str) -> bool:
    """Whether a tensor is made in the region by counting: a sum, or the shape of something."""
    site = part.view.site_of(part.view.origin(name))
    while site is not None and site.kind in {"clip", "maximum", "cast", "reshape", "expand"} and site.inputs:
        site = part.view.site_of(site.inputs[0])
    return site in part.sites and site is not None and site.kind in {"sum", "constant", ""}


# ---------------------------------------------------------------------------------------------------------- shared


def _alike(a: Float64, b: Float64) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=SAME)


def _hypothesis(
    expected: str, observed: str, places: Mapping[str, list[str] | tuple[str, ...]], site: Site, factor: Float64
) -> Hypothesis:
    return Hypothesis(
        rule="pooling-divisor",
        message=f"the candidate's average is {_told(observed)} where the reference's is {_told(expected)}",
        expected=expected,
        observed=observed,
        fix=_fix(expected),
        places=places,
        repair=_repair(site, factor),
        edits=_edits(expected, site),
    )


def _edits(expected: str, site: Site) -> list[SetAttributes]:
    """Whether the candidate's pool counts its own padding."""
    if site.kind != "average_pool" or not expected.startswith("padding") or not any(site.attributes.get("pads", ())):
        return []
    return [SetAttributes(output=site.outputs[0], values={"count_include_pad": expected == "padding counted"})]


def _told(words: str) -> str:
    return words if words.startswith("divided") else f"divided with {words}"


def _fix(expected: str) -> str:
    if expected.startswith("padding"):
        return f"Set count_include_pad to {str(expected == 'padding counted').lower()} in the candidate."
    return f"Have the candidate's average {expected}."


def _repair(site: Site, factor: Float64) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:
        target = site.outputs[0]
        overrides[target] = np.asarray(part.value(target, overrides), np.float64) * factor

    return repair
