"""A guilty region as the causes see it: both sides' operators, the numbers that go in, and what comes out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.regions import Region
from parity.align.view import GraphView
from parity.compare.local import LocalError, rms
from parity.edits import Edit
from parity.findings import Severity
from parity.graph import Site
from parity.sides import Side

Float64 = NDArray[np.float64]


@dataclass
class Part:
    """One side's operators of a region.

    Attributes:
        view: The trace they are of.
        side: Who evaluates them; None where only a trace is there.
        sites: They, in execution order.
        given: The numbers at the boundary, in this side's layout.
        target: Name of the tensor that they make.
    """

    view: GraphView
    side: Side | None
    sites: tuple[Site, ...]
    given: Mapping[str, Array]
    target: str
    _known: dict[str, Array] = field(default_factory=dict)
    _weights: dict[str, Array] = field(default_factory=dict)

    @property
    def framework(self) -> str:
        """The adapter of its model; empty where only a trace is there."""
        return "" if self.side is None else self.side.adapter

    def values(
        self, names: Sequence[str], overrides: Mapping[str, Array] | None = None, precision: str = "float64"
    ) -> dict[str, Array]:
        """Tensors of the region on its given numbers.

        Args:
            names: Which.
            overrides: Tensors, weights among them, whose numbers are to be others.
            precision: As in `parity.adapter.Session.evaluate`.

        Raises:
            UnsupportedPrecisionError: An operator cannot be computed so.
        """
        if overrides or precision != "float64":
            return self._evaluate(names, overrides or {}, precision)
        missing = [name for name in names if name not in self._known]
        if missing:
            self._known.update(self._evaluate(missing, {}, precision))
        return {name: self._known[name] for name in names}

    def value(self, name: str, overrides: Mapping[str, Array] | None = None) -> Array:
        """One tensor, in float64."""
        return self.values([name], overrides)[name]

    def _evaluate(self, names: Sequence[str], overrides: Mapping[str, Array], precision: str) -> dict[str, Array]:
        assert self.side is not None  # noqa: S101 – a case is made of parts that can be evaluated
        return self.side.evaluate([site.name for site in self.sites], {**self.given, **overrides}, names, precision)

    def alone(self, site: Site, given: Mapping[str, Array]) -> Array:
        """What one operator makes of other numbers, also of another shape, in float64; its weights are its own."""
        assert self.side is not None  # noqa: S101
        return self.side.evaluate(self.view.with_static([site]), given, [site.outputs[0]])[site.outputs[0]]

    def between(self, source: str, target: str) -> tuple[str, ...]:
        """Names of the sites on the way from one tensor to another."""
        reached, needed = {source}, {target}
        onward = []
        for site in self.sites:
            if any(name in reached for name in site.inputs):
                reached.update(name for name in site.outputs if name)
                onward.append(site)
        back = []
        for site in reversed(onward):
            if any(name in needed for name in site.outputs):
                needed.update(name for name in site.inputs if name)
                back.append(site.name)
        return tuple(reversed(back))

    def weight(self, name: str) -> Array:
        """The numbers of a weight."""
        if name not in self._weights:
            if name in self.view.trace:
                self._weights[name] = self.view.trace.array(name)
            else:
                assert self.side is not None  # noqa: S101
                self._weights.update(self.side.weights([name]))
        return self._weights[name]

    def scalar(self, name: str) -> float | None:
        """The number that a weight of one element is; None for any other tensor."""
        entry = self.view.trace.weights.get(name)
        if entry is None or entry.signature.count != 1:
            return None
        return float(np.asarray(self.weight(name)).reshape(-1)[0].astype(np.float64))

    @cached_property
    def weight_names(self) -> tuple[str, ...]:
        """Weights that the sites read, in order."""
        names = (name for site in self.sites for name in site.inputs if name in self.view.trace.weights)
        return tuple(dict.fromkeys(names))


Repair = Callable[[Part, dict[str, Array]], None]
"""Puts into the overrides what a part would hold without the fault, or with it; may evaluate the part with those that
are there already."""


def put(name: str, numbers: Float64) -> Repair:
    """Gives a tensor or weight these numbers."""

    def repair(part: Part, overrides: dict[str, Array]) -> None:  # noqa: ARG001 – the type's signature
        overrides[name] = numbers

    return repair


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One cause that may explain a region.

    Attributes:
        rule: Its kind, from the contract.
        message: What is wrong, as a sentence that begins with the place's operator; numbers are added by the caller.
        expected: What the reference has.
        observed: What the candidate has.
        fix: What to change, as one can type it.
        places: Names by side: the operators or tensors where it acts.
        repair: Makes the candidate right; None where its operators do not let it be tried.
        injection: Makes the reference wrong in the same way; likewise.
        evidence: Numbers of its own.
        severity: ``note`` where it explains and is no fault.
        edits: What mends it in the candidate's file; none where that is not known.
    """

    rule: str
    message: str
    expected: str
    observed: str
    fix: str = ""
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repair: Repair | None = None
    injection: Repair | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = "error"
    edits: Sequence[Edit] = ()


@dataclass
class Case:
    """A region whose functions differ.

    Attributes:
        region: Which.
        reference: The reference's part.
        candidate: The candidate's part.
        measure: How far they are apart; None for whole numbers and truth values.
        dtype: The type in which both are meant to be computed.
    """

    region: Region
    reference: Part
    candidate: Part
    measure: LocalError | None
    dtype: str

    @cached_property
    def whole(self) -> bool:
        """Whether the region makes whole numbers or truth values, which are the same or not."""
        return self.reference.value(self.reference.target).dtype.kind in "iub"

    @cached_property
    def exact(self) -> Float64:
        """The reference's output in float64, in the candidate's layout."""
        return self.reference_output({})

    def reference_output(self, overrides: Mapping[str, Array]) -> Float64:
        """What the reference makes with some overrides, in float64 and in the candidate's layout."""
        value = self.reference.value(self.reference.target, overrides)
        return self.region.pair.layout.apply(np.asarray(value, np.float64))

    @cached_property
    def gap(self) -> Float64:
        """The candidate's output in float64 less the reference's."""
        return self.residual({})

    def residual(self, repaired: Mapping[str, Array], injected: Mapping[str, Array] | None = None) -> Float64:
        """What is left of the gap with some overrides in the candidate, and others in the reference."""
        value = np.asarray(self.candidate.value(self.candidate.target, repaired), np.float64)
        exact = self.exact
        if injected:
            exact = self.reference_output(injected)
        with np.errstate(invalid="ignore"):  # equal infinities of a mask
            return np.where(value.reshape(exact.shape) == exact, 0.0, value.reshape(exact.shape) - exact)

    def share(self, repaired: Mapping[str, Array], injected: Mapping[str, Array] | None = None) -> float:
        """Share of the gap that goes away with these overrides; at most 1, below 0 if worse.

        The gap's size is its root mean square, and for whole numbers the number of elements that are not the same.
        """
        before, after = self.size(self.gap), self.size(self.residual(repaired, injected))
        return 1.0 - after / before if before else 0.0

    def size(self, gap: Float64) -> float:
        """How large a gap is."""
        return float(np.count_nonzero(gap)) if self.whole else finite_rms(gap)


def finite_rms(array: Float64) -> float:
    """Root mean square of the finite elements; infinite where there are none, or some are NaN."""
    fine = array[np.isfinite(array)]
    return rms(fine) if fine.size == array.size else (rms(fine) + 1.0) * 1e30
