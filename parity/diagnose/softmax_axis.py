"""Cause: a softmax over another axis."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.align.layout import Layout
from parity.diagnose.attention import attentions
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.norms import names
from parity.diagnose.numbers import Float64, mapping, same, wide
from parity.diagnose.softmaxes import Softmax, axes_in_words, softmax, softmaxes
from parity.edits import SetAttributes
from parity.graph import Site

MOST: Final = 8
"""Hypotheses at most for one region."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A softmax with its numbers, one inside of a fused attention too.

    Attributes:
        sites: Its operators.
        x: What goes in.
        axes: Over which it is taken.
        put: Puts other results in the place of its own.
    """

    sites: tuple[Site, ...]
    x: Float64
    axes: tuple[int, ...]
    put: Callable[[Float64, dict[str, Array]], None]

    @property
    def words(self) -> str:
        """Over what it is taken."""
        return axes_in_words(self.axes, self.x.ndim)


def examine(case: Case) -> Iterator[Hypothesis]:
    """Each softmax of the candidate's region over the axis of the reference's."""
    ours, theirs = list(_known(case.reference)), list(_known(case.candidate))
    pairs = zip(ours, theirs, strict=True) if len(ours) == len(theirs) else product(ours, theirs)
    for one, two in islice(pairs, MOST):
        layout = mapping(one.x, two.x)
        if layout is None:
            continue
        right = layout.apply(softmax(one.x, one.axes))
        if not same(right, softmax(two.x, two.axes)):
            yield _hypothesis(one, two, _told(one, two, layout), right)


def _told(one: _Known, two: _Known, layout: Layout) -> str:
    """The candidate's axis in words, counted as the reference's tensor lies where both are the last."""
    theirs = softmax(two.x, two.axes)
    for axis in range(one.x.ndim):
        if two.words == one.words and same(layout.apply(softmax(one.x, (axis,))), theirs):
            return axes_in_words((axis,), one.x.ndim)
    return two.words


def _known(part: Part) -> Iterator[_Known]:
    for one in softmaxes(part.view, part.sites):
        yield _Known(one.sites, wide(part, one.source), one.axes, partial(_put, one))
    for attention in attentions(part):
        if attention.fused:
            yield _Known(attention.sites, attention.logits, (attention.axis,), attention.put_weights)


def _put(one: Softmax, numbers: Float64, overrides: dict[str, Array]) -> None:
    with np.errstate(divide="ignore"):
        overrides[one.target] = np.log(numbers) if one.logarithm else numbers


def _hypothesis(one: _Known, two: _Known, observed: str, right: Float64) -> Hypothesis:
    return Hypothesis(
        rule="softmax-axis",
        message=f"the candidate's softmax is over {_article(observed)} where the reference's is over "
        f"{_article(one.words)}",
        expected=one.words,
        observed=observed,
        fix=f"Take the softmax over the {one.words}; ONNX before opset 13 flattens all axes from `axis` on.",
        places={"reference": names(one.sites), "candidate": names(two.sites)},
        repair=_repair(two, right),
        edits=_edits(two, right),
    )


def _article(words: str) -> str:
    """An axis in a sentence: ``flattened from axis 1`` is no name of one."""
    start = "flattened from "
    return f"all axes from {words.removeprefix(start)} on as one" if words.startswith(start) else f"the {words}"


def _edits(two: _Known, right: Float64) -> list[SetAttributes]:
    """The axis of the candidate's operator, where it is one that can be taken over the right axis."""
    (first, *rest) = two.sites
    if rest or first.kind not in {"softmax", "log_softmax"}:
        return []
    axes = [axis for axis in range(two.x.ndim) if same(softmax(two.x, (axis,)), right)]
    if first.attributes.get("flattened"):
        axes = [axis for axis in axes if two.x.ndim - 1 == axis]
    return [SetAttributes(output=first.outputs[0], values={"axis": axis}) for axis in axes[-1:]]


def _repair(two: _Known, right: Float64) -> Repair:
    def repair(part: Part, overrides: dict[str, Array]) -> None:  # noqa: ARG001 – the type's signature
        two.put(right, overrides)

    return repair
