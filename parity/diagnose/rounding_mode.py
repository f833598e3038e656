"""Cause: fractions made whole in another way: integer division and remainders of negatives, casts, rounding of halves.

How a side rounds is told by its numbers: a tensor of whole numbers that is, in some mode, the rounding of a fraction
found before it. So one operator that divides and rounds is as good as five that do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.graph import Site

Float64 = NDArray[np.float64]


def _half_away(x: Float64) -> Float64:
    found: Float64 = np.copysign(np.floor(np.abs(x) + 0.5), x)
    return found


MODES: Final[Mapping[str, Callable[[Float64], Float64]]] = {
    "floor": np.floor,
    "towards zero": np.trunc,
    "half to even": np.rint,
    "half away from zero": _half_away,
    "half up": lambda x: np.asarray(np.floor(x + 0.5), np.float64),
    "ceil": np.ceil,
}
"""Ways to make a fraction whole."""

DECLARED: Final = {
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "towards zero",
    "cast": "towards zero",
    "round": "half to even",
}
"""The mode that a kind of operator has where its attributes do not say another."""

ROUNDED: Final = {"floor": "floor", "trunc": "towards zero", "half_away_from_zero": "half away from zero"}
"""Modes by the words of the attributes ``rounding`` of divisions and ``mode`` of rounding."""

REACH: Final = 12
"""Operators behind a division among which its rounding is looked for."""

MOST: Final = 12
"""Hypotheses at most for one region."""

HALF: Final = 0.5
"""What is added before the rest is cut off, by those who round so."""

SNAP: Final = 1e-9
"""Distance from a whole number up to which a fraction is one, relative to its size: what float64 leaves of a ratio."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """One place where a part makes fractions whole.

    Attributes:
        sites: Names of its operators.
        target: The tensor of whole numbers, or of remainders.
        fraction: What is made whole.
        mode: How.
        remainder: Dividend and divisor, where what is left of the division is kept and not its result.
    """

    sites: tuple[str, ...]
    target: str
    fraction: Float64
    mode: str
    remainder: tuple[Float64, Float64] | None = None

    def made(self, mode: str, fraction: Float64 | None = None) -> Float64:
        """The tensor as another mode would make it."""
        whole = MODES[mode](self.fraction if fraction is None else fraction)
        if self.remainder is None:
            return whole
        dividend, divisor = self.remainder
        return dividend - divisor * whole


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each rounding of the candidate's region in every other mode, those that the reference has first."""
    theirs = roundings(case.candidate)
    ours = roundings(case.reference) if theirs else []
    order = dict.fromkeys([*(one.mode for one in ours), *MODES])
    made = 0
    for two in theirs:
        now = two.made(two.mode)
        tried = [now]
        for mode in order:
            other = two.made(mode)
            if any(np.array_equal(other, one) for one in tried) or made >= MOST:
                continue
            tried.append(other)
            made += 1
            places = {"reference": _sites(ours, mode), "candidate": two.sites}
            yield _hypothesis(mode, two, other, places)


def _sites(ours: Sequence[Rounding], mode: str) -> tuple[str, ...]:
    """Sites of the reference that round in a mode; all that round where none does."""
    exact = [one for one in ours if one.mode == mode] or ours
    return tuple(dict.fromkeys(name for one in exact for name in one.sites))


def _hypothesis(mode: str, rounding: Rounding, numbers: Float64, places: Mapping[str, Sequence[str]]) -> Hypothesis:
    what = "takes the remainder of a division rounded" if rounding.remainder is not None else "rounds"
    below = "; they differ below zero" if {mode, rounding.mode} == {"floor", "towards zero"} else ""
    return Hypothesis(
        rule="rounding-mode",
        message=f"the candidate {what} {_told(rounding.mode)} where the reference rounds {_told(mode)}{below}",
        expected=mode,
        observed=rounding.mode,
        fix=f"Round in the candidate: {mode}.",
        places=places,
        repair=_repair(rounding, numbers),
    )


def _told(mode: str) -> str:
    return {"floor": "down (floor)", "ceil": "up (ceil)"}.get(mode, mode)


def _repair(rounding: Rounding, numbers: Float64) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:
        own = part.value(rounding.target)
        overrides[rounding.target] = numbers.reshape(own.shape).astype(own.dtype)

    return repair


# --------------------------------------------------------------------------------------------- where a part rounds


def roundings(part: Part) -> list[Rounding]:
    """The places where a part makes fractions whole, in execution order, as far as its numbers show them."""
    if not any(_rounds(part, site) for site in part.sites):
        return []
    part.values([name for site in part.sites for name in site.outputs if name])
    found: list[Rounding] = []
    taken: set[str] = set()
    for k, site in enumerate(part.sites):
        for plain in [] if site.name in taken else _unrounded(part, site):
            one = _rounding(part, k, plain)
            if one is not None:
                found.append(one)
                taken.update(one.sites)
    return found


def _rounds(part: Part, site: Site) -> bool:
    """Whether a site itself makes fractions whole."""
    if site.kind in {"floor", "ceil", "round", "trunc", "mod"}:
        return True
    return site.kind in {"div", "cast"} and (_whole(part, site.outputs[0]) or bool(site.attributes.get("rounding")))


def _whole(part: Part, name: str) -> bool:
    entry = part.view.entry(name)
    return entry is not None and entry.dtype.startswith(("int", "uint"))


def _rounding(part: Part, k: int, plain: Rounding) -> Rounding | None:
    """The rounding that begins at site number ``k``: its last mode, at the first operator whose numbers show that."""
    if not np.isfinite(plain.fraction).all() or (plain.fraction == np.rint(plain.fraction)).all():
        return None
    after = _after(part, k)
    shown = [(place, mode) for place, one in enumerate(after) if (mode := _mode(plain, part.value(one.outputs[0])))]
    if not shown:
        return None
    mode = shown[-1][1]
    place = next(place for place, one in shown if one == mode)
    sites = tuple(one.name for one in after[: place + 1])
    return replace(plain, sites=sites, target=after[place].outputs[0], mode=mode)


def _mode(plain: Rounding, value: Array) -> str:
    """The mode in which a rounding gives some numbers, the likely one of several; empty for none."""
    if value.shape != plain.fraction.shape:
        return ""
    limit = 0.0 if plain.remainder is None else SNAP * max(1.0, float(np.max(np.abs(plain.remainder[1]))))
    for mode in dict.fromkeys([plain.mode, *MODES]):
        if np.allclose(plain.made(mode), np.asarray(value, np.float64), rtol=0, atol=limit):
            return mode
    return ""


def _after(part: Part, k: int) -> list[Site]:
    """Site number ``k`` and those right behind it that its numbers go into."""
    site = part.sites[k]
    reached = set(site.outputs)
    found = [site]
    for one in part.sites[k + 1 : k + 1 + REACH]:
        if any(name in reached for name in one.inputs) and one.outputs and one.outputs[0]:
            reached.update(one.outputs)
            found.append(one)
    return found


def _unrounded(part: Part, site: Site) -> Iterator[Rounding]:
    """What a site makes whole, or what may be made whole behind it, with the mode that its kind tells."""
    if not site.outputs or site.outputs[0] not in part.view.dynamic:
        return
    if site.kind in {"div", "mod"}:
        above, below = (np.asarray(part.value(name), np.float64) for name in site.inputs[:2])
        if not below.all():
            return
        told = "towards zero" if _whole(part, site.outputs[0]) else "floor"
        plain = Rounding((), "", _snapped(above / below), ROUNDED.get(str(site.attributes.get("rounding", "")), told))
        if site.kind == "mod":
            yield replace(plain, remainder=(above, below))
        yield plain
    elif site.kind in DECLARED and _rounds(part, site) and not _whole(part, site.inputs[0]):
        mode = ROUNDED.get(str(site.attributes.get("mode", "")), DECLARED[site.kind])
        name = _before_half(part, site.inputs[0])
        yield Rounding((), "", _snapped(np.asarray(part.value(name), np.float64)), mode)


def _before_half(part: Part, name: str) -> str:
    """The tensor that a half was added to or taken from to make ``name``; ``name`` itself where it was not so made."""
    maker = part.view.site_of(name)
    if maker is None or maker not in part.sites or maker.kind not in {"add", "sub"}:
        return name
    for one, other in (maker.inputs[:2], maker.inputs[1::-1]):
        if (np.abs(np.asarray(part.value(other), np.float64)) == HALF).all():
            return one
    return name


def _snapped(x: Float64) -> Float64:
    """Without what rounding puts between a whole number and a ratio that is meant to be one."""
    whole = np.rint(x)
    return np.where(np.abs(x - whole) <= SNAP * np.maximum(1.0, np.abs(x)), whole, x)
