"""Cause: a rotary embedding that turns other pairs, the other way, or by other angles."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.align.view import MOVES, GraphView
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.norms import names
from parity.diagnose.numbers import Float64, mapping, readers, same, wide
from parity.diagnose.rotations import HALVES, PAIRS, Rotation, rotations, trigonometric
from parity.graph import Site

MOST: Final = 4
"""Hypotheses at most of one sort for one region."""

NEAR: Final = 6
"""Operators between a selection and the cosines and sines at most."""

SAME_BASE: Final = 0.02
"""Relative difference of bases up to which they are the same."""

DIGITS: Final = 9
"""Decimals to which angles are read."""

SAME_ANGLE: Final = 1e-4
"""Difference of angles up to which they are the same."""


def examine(case: Case) -> Iterator[Hypothesis]:
    """The candidate's rotations done as the reference's; where the region holds only a piece of one, that piece.

    A model with sines and no cosines, or the other way, has no rotary embedding.
    """
    if any(set(trigonometric(part).values()) != {"cos", "sin"} for part in (case.reference, case.candidate)):
        return
    ours, theirs = rotations(case.reference), rotations(case.candidate)
    found = list(_whole(case, ours, theirs))
    yield from found
    if not found:
        yield from _pieces(case)
        yield from _tables(case)


def _whole(case: Case, ours: list[Rotation], theirs: list[Rotation]) -> Iterator[Hypothesis]:
    for one, two in islice(product(ours, theirs), MOST * MOST):
        x, y = wide(case.reference, one.source), wide(case.candidate, two.source)
        layout = mapping(x, y)
        if layout is None:
            continue
        turned = np.empty(x.size)
        turned[one.own.reshape(-1)] = wide(case.reference, one.target).reshape(-1)
        angles = np.empty(x.size)
        angles[one.own.reshape(-1)] = one.angles.reshape(-1)
        right = layout.apply(turned.reshape(x.shape)).reshape(-1)[two.own]
        if same(right, wide(case.candidate, two.target)):
            continue
        words = _words(one, two, layout.apply(angles.reshape(x.shape)).reshape(-1)[two.own])
        yield _hypothesis(words, one.sites, two.sites, {two.target: right})


def _words(one: Rotation, two: Rotation, angles: Float64) -> tuple[str, str]:
    if one.pairing != two.pairing:
        return one.pairing, two.pairing
    if _alike(angles, -two.angles):
        return "turned forwards", "turned backwards"
    return _angle_words(angles, two.angles)


def _alike(one: Float64, two: Float64) -> bool:
    """Whether angles are the same, whole turns aside."""
    return bool(np.abs(np.exp(1j * one) - np.exp(1j * two)).max() < SAME_ANGLE)


def _angle_words(ours: Float64, theirs: Float64) -> tuple[str, str]:
    """Two arrays of angles of one shape, by what they follow from: the base of the frequencies, the first position."""
    first, second = _base(ours), _base(theirs)
    if first and second and abs(first - second) > SAME_BASE * first:
        return f"theta {_plain(first)}", f"theta {_plain(second)}"
    starts = [0 if (_rows(angles) == 0).all(axis=-1).any() else 1 for angles in (ours, theirs)]
    if starts[0] != starts[1]:
        return f"positions from {starts[0]}", f"positions from {starts[1]}"
    return "its angles", "other angles"


def _plain(base: float) -> str:
    return f"{float(f'{base:.3g}'):.0f}"


def _rows(angles: Float64) -> Float64:
    """Angles by position and pair: the two axes along which they vary."""
    for axis in range(angles.ndim):
        first = np.take(angles, [0], axis)
        if _alike(np.broadcast_to(first, angles.shape), angles):
            angles = first
    plain = angles.squeeze()
    return plain if plain.ndim == 2 else angles.reshape(1, -1)


def _base(angles: Float64) -> float | None:
    """The base of the geometric frequencies, read from the position after the first one."""
    for row in np.abs(_rows(angles)):
        if abs(row.max() - 1.0) < SAME_ANGLE:
            frequencies = np.unique(np.round(row, DIGITS))[::-1]
            return float(frequencies[1] ** -len(frequencies)) if len(frequencies) > 1 and frequencies[1] > 0 else None
    return None


def _hypothesis(
    words: tuple[str, str], reference: tuple[Site, ...], candidate: tuple[Site, ...], numbers: Mapping[str, Array]
) -> Hypothesis:
    expected, observed = words
    return Hypothesis(
        rule="rotary-form",
        message=f"the candidate's rotary embedding is of another form: {observed}, where the reference has {expected}",
        expected=expected,
        observed=observed,
        fix=f"Rotate as the reference does ({expected}), or permute the weights of queries and keys to match.",
        places={"reference": names(reference), "candidate": names(candidate)},
        repair=_put(numbers),
    )


def _put(numbers: Mapping[str, Array]) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:  # noqa: ARG001 – the type's signature
        overrides.update(numbers)

    return repair


def _pieces(case: Case) -> Iterator[Hypothesis]:
    """Elements that the candidate takes, or puts, in pairs where the reference does so by halves, or the other way."""
    ours, theirs = _selections(case.reference), _selections(case.candidate)
    forms, others = {one.form for one in ours}, {two.form for two in theirs}
    if len(forms) != 1 or len(others) != 1 or forms == others:
        return
    numbers = {two.tensor: two.other for two in theirs}
    words = (forms.pop(), others.pop())
    yield _hypothesis(words, tuple(one.site for one in ours), tuple(two.site for two in theirs), numbers)


@dataclass(frozen=True, slots=True)
class _Selection:
    """Half of the elements of an axis taken out of it, or two such halves put together.

    Attributes:
        site: By which operator.
        tensor: The tensor that it makes.
        form: By halves of the axis, or every other element.
        other: What the other form would make.
    """

    site: Site
    tensor: str
    form: str
    other: Float64


def _selections(part: Part) -> list[_Selection]:
    tables = trigonometric(part)
    found = []
    for site in part.sites:
        if site.kind == "concat" and len(site.inputs) == 2 and _turned(part.view, site.inputs[0], tables):
            found.append(_put_together(part, site))
        elif site.kind in {"slice", "split", "gather"} and site.inputs[0] in part.view.dynamic:
            found.extend(_taken(part, site, name) for name in site.outputs if _multiplied(part.view, name, tables))
    return [one for one in found if one is not None]


def _taken(part: Part, site: Site, name: str) -> _Selection | None:
    whole, piece = wide(part, site.inputs[0]), wide(part, name)
    for joined in (whole, whole.reshape(*whole.shape[:-2], -1)):
        length = joined.shape[-1] // 2
        if 2 * piece.size != whole.size or 2 * length != joined.shape[-1] or length < 2:
            continue
        for k in (0, 1):
            half, pair = joined[..., k * length : (k + 1) * length], joined[..., k::2]
            if same(half, piece):
                return _Selection(site, name, HALVES, pair.reshape(piece.shape))
            if same(pair, piece):
                return _Selection(site, name, PAIRS, half.reshape(piece.shape))
    return None


def _put_together(part: Part, site: Site) -> _Selection | None:
    one, two = (wide(part, name) for name in site.inputs)
    whole = wide(part, site.outputs[0])
    if one.shape != two.shape or one.size * 2 != whole.size or one.ndim == 0:
        return None
    half, pair = np.concatenate([one, two], -1), np.stack([one, two], -1)
    if same(half, whole):
        return _Selection(site, site.outputs[0], HALVES, pair.reshape(whole.shape))
    return _Selection(site, site.outputs[0], PAIRS, half.reshape(whole.shape)) if same(pair, whole) else None


def _multiplied(view: GraphView, tensor: str, tables: Mapping[str, str]) -> bool:
    """Whether a tensor is multiplied by cosines or sines."""
    return any(site.kind == "mul" and any(name in tables for name in site.inputs) for site, _ in readers(view, tensor))


def _turned(view: GraphView, tensor: str, tables: Mapping[str, str]) -> bool:
    """Whether a tensor is a sum of products with cosines or sines."""
    waiting = [tensor]
    for _ in range(NEAR):
        site = view.site_of(waiting.pop(0)) if waiting else None
        if site is not None and site.kind == "mul" and any(name in tables for name in site.inputs):
            return True
        if site is not None and site.kind in MOVES | {"add", "sub", "neg"}:
            waiting.extend(site.inputs)
    return False


def _tables(case: Case) -> Iterator[Hypothesis]:
    """Cosines and sines of the candidate replaced by those of the reference."""
    ours, theirs = (list(_used(part)) for part in (case.reference, case.candidate))
    replaced: dict[str, Float64] = {}
    found: list[tuple[str, tuple[str, str], Site, Site]] = []
    for yours, other, kind in theirs:
        wrong = wide(case.candidate, other)
        likely = [(mine, wide(case.reference, name)) for mine, name, kind_too in ours if kind_too == kind]
        fits = [(mine, fit) for mine, right in likely if (fit := _fitting(right, wrong)) is not None]
        if fits and not any(same(right, wrong) for _, right in fits):
            mine, right = fits[0]
            replaced[other] = right
            found.append((kind, _table_words(right, wrong, kind), mine, yours))
    if found:
        words = next((one[1] for one in found if one[0] == "cos"), found[0][1])
        yield _hypothesis(words, tuple(one[2] for one in found), tuple(one[3] for one in found), replaced)


def _fitting(right: Float64, wrong: Float64) -> Float64 | None:
    """A table in another's shape, which may hold each number once where the first holds it twice, or twice."""
    if right.size == 2 * wrong.size and _repeat(right):
        right = right[..., : right.shape[-1] // 2] if _repeat(right) == HALVES else right[..., ::2]
    elif 2 * right.size == wrong.size and _repeat(wrong):
        right = np.concatenate([right, right], -1) if _repeat(wrong) == HALVES else np.repeat(right, 2, -1)
    return right.reshape(wrong.shape) if right.size == wrong.size else None


def _used(part: Part) -> Iterator[tuple[Site, str, str]]:
    """Sites of a region that multiply by cosines or sines, with the table and its kind."""
    tables = trigonometric(part)
    for site in part.sites:
        if site.kind == "mul":
            yield from ((site, name, tables[name]) for name in site.inputs if name in tables)


def _table_words(right: Float64, wrong: Float64, kind: str) -> tuple[str, str]:
    repeats = [_repeat(table) for table in (right, wrong)]
    if repeats[0] and repeats[1] and repeats[0] != repeats[1]:
        return repeats[0], repeats[1]
    if same(right, -wrong):
        return "turned forwards", "turned backwards"
    inverse = np.arccos if kind == "cos" else np.arcsin
    ours, theirs = (inverse(np.clip(table, -1.0, 1.0)) for table in (right, wrong.reshape(right.shape)))
    return _angle_words(ours, theirs)


def _repeat(table: Float64) -> str:
    """How a table holds each number twice."""
    length = table.shape[-1] // 2 if table.ndim else 0
    if length and same(table[..., :length], table[..., length : 2 * length]):
        return HALVES
    return PAIRS if length and same(table[..., ::2], table[..., 1::2]) else ""
