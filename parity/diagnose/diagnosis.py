"""From measured layers to findings: each guilty region explained, equal faults told once."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from parity.align.alignment import CONFIDENCE, Alignment, Pair
from parity.align.regions import Region, find_region
from parity.compare.local import ratio, rms
from parity.diagnose import activation, causes, conditioning, fixes, quantization
from parity.diagnose.case import Case, Hypothesis, Part
from parity.diagnose.chains import Activation, Prober
from parity.diagnose.error_shape import error_shape
from parity.diagnose.explain import Explained, explain
from parity.diagnose.rearranging import rearranged
from parity.errors import EngineError
from parity.findings import Finding, counted
from parity.graph import Site
from parity.layerwise.location import location, module, words
from parity.layerwise.measuring import Layer, Measurer

SEEN: Final = 0.1
"""Standard error of a coefficient below which these inputs tell 1 from 0."""

HALF: Final = 0.5

DOUBTFUL: Final = CONFIDENCE["weights"]
"""Confidence below which a pair may be none: names alone vouch for it, or numbers that are only near one another."""

PLACES: Final = 12
"""Places named in the evidence of one finding."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One cause at one place.

    Attributes:
        order: Position of the place in the reference's execution.
        hypothesis: The cause.
        share: Share of the region's gap that it explains; None where that was not tried.
        layer: The guilty layer; None where only a probe told.
        reference: Place in the reference.
        candidate: Place in the candidate.
        evidence: Numbers.
    """

    order: int
    hypothesis: Hypothesis
    share: float | None
    layer: Layer | None
    reference: dict[str, Any]
    candidate: dict[str, Any]
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found of two aligned models.

    Attributes:
        findings: Faults, the one that acts first first; equal ones at several places are one.
        groups: For each finding the faults that it tells of.
        activations: Activations of both sides, counterparts side by side.
        alone: Activations of the reference to which none of the candidate's could be set.
        excused: Layers, by the reference's tensor, that are no farther off than rounded inputs would take them.
        layers: The layers, without those of pairs that turned out to be none.
    """

    findings: tuple[Finding, ...]
    groups: tuple[tuple[Fault, ...], ...]
    activations: tuple[tuple[Activation, Activation], ...]
    alone: tuple[Activation, ...]
    excused: frozenset[str]
    layers: tuple[Layer, ...]

    @property
    def unexplained(self) -> list[Layer]:
        """Layers that nothing explains."""
        faults = (fault for group in self.groups for fault in group if fault.hypothesis.rule == "unexplained")
        return [fault.layer for fault in faults if fault.layer is not None]

    @property
    def faults(self) -> bool:
        """Whether anything is wrong."""
        return any(one.severity == "error" for one in self.findings)


class Doctor:
    """Explains the guilty layers of one comparison.

    Args:
        measurer: Traces and sessions of both sides.
        alignment: Their aligned tensors.
    """

    def __init__(self, measurer: Measurer, alignment: Alignment) -> None:
        self.measurer = measurer
        self.alignment = alignment
        self._excused: set[str] = set()

    @cached_property
    def _activations(self) -> tuple[list[Activation], list[tuple[Activation, Activation]]]:
        """The reference's activations, and counterparts of both sides; each is probed once."""
        measurer = self.measurer
        ours = Prober(measurer.reference, measurer.teacher).activations()
        theirs = Prober(measurer.candidate, measurer.pupil).activations()
        views = measurer.reference, measurer.candidate
        return ours, list(activation.counterparts(views, self.alignment, ours, theirs))

    def diagnose(self, layers: Sequence[Layer], tick: Callable[[int, int], None]) -> Diagnosis:
        """The findings of some layers, and of activations that differ where the layers do not show it."""
        found = self._diagnosed(layers, tick)
        otherwise = rearranged(self.measurer, self.alignment, found.layers, found.unexplained)
        if otherwise is not None:
            found = self._diagnosed(otherwise, tick)
        return self._reconsidered(found, tick) or found

    def _reconsidered(self, found: Diagnosis, tick: Callable[[int, int], None]) -> Diagnosis | None:
        """The diagnosis without doubtful pairs, in modules where nothing explains some of them or what is made of them.

        Where two modules do the same in another way, operators of one name need not do the same, and numbers that are
        only near one another may be those of another step. None where these pairs are not what was wrong: then
        something is left that nothing explains.
        """
        views = self.measurer.reference, self.measurer.candidate
        near = {pair.reference for one in found.unexplained for pair in (one.region.pair, *one.region.boundary)}
        modules = {
            self._module(one)
            for one in found.layers
            if one.guilty and one.region.pair.reference in near and one.region.pair.confidence < DOUBTFUL
        }
        doubtful = _doubtful(one.region for one in found.layers if self._module(one) in modules)
        if not doubtful:
            return None
        for pair in doubtful.values():
            self.alignment.drop(pair)
        kept = [one for one in found.layers if one.region.pair.reference not in doubtful]
        stale = [one for one in kept if one.reads(doubtful)]
        regions = [find_region(*views, self.alignment, one.region.pair) for one in stale]
        fresh = {one.region.pair.reference: one for one in self.measurer.measure(regions)}
        again = self._diagnosed([fresh.get(one.region.pair.reference, one) for one in kept], tick)
        if again.faults and not again.unexplained:
            return again
        for pair in doubtful.values():
            self.alignment.add(pair)
        return None

    def _module(self, layer: Layer) -> str:
        site = self.measurer.reference.site_of(layer.region.pair.reference)
        return "" if site is None else site.scope

    def _diagnosed(self, layers: Sequence[Layer], tick: Callable[[int, int], None]) -> Diagnosis:
        ours, pairs = self._activations
        known = [found for one, two in pairs if (found := activation.compare(one, two))]
        guilty = [layer for layer in layers if layer.guilty]
        faults = []
        explained: set[str] = set()
        for k, layer in enumerate(guilty):
            tick(k, len(guilty))
            for fault in self._faults(layer, known, ours):
                faults.append(fault)
                explained.update(fault.hypothesis.places.get("candidate", ()))
        faults += [
            self._unseen(difference, layers)
            for difference in known
            if difference.candidate.chain.sites[-1].name not in explained
        ]
        groups = _grouped(faults)
        paired = {one.chain.target for one, _ in pairs}
        return Diagnosis(
            findings=tuple(_finding(group, self._framework) for group in groups),
            groups=groups,
            activations=tuple(pairs),
            alone=tuple(one for one in ours if one.telling and one.chain.target not in paired),
            excused=frozenset(self._excused),
            layers=tuple(layers),
        )

    def case(self, layer: Layer) -> Case | None:
        """A layer with both parts ready to be evaluated; None for traces alone and for complex numbers."""
        measurer, region = self.measurer, layer.region
        if measurer.reference.trace.tensors[region.pair.reference].dtype.startswith("complex"):
            return None
        if measurer.teacher is None or measurer.pupil is None or layer.status == "untested":
            return None
        recorded = measurer.reference.trace
        ours, theirs = {}, {}
        for pair in region.boundary:
            array = recorded.array(pair.reference)
            ours[pair.reference], theirs[pair.candidate] = array, pair.layout.apply(array)
        for view, given, settled in (
            (measurer.reference, ours, region.reference_settled),
            (measurer.candidate, theirs, region.candidate_settled),
        ):
            for name in (*settled, *view.trace.ends.inputs.values()):
                given.setdefault(name, view.trace.array(name))
        pair = region.pair
        return Case(
            region,
            Part(measurer.reference, measurer.teacher, self._sites(layer, candidate=False), ours, pair.reference),
            Part(measurer.candidate, measurer.pupil, self._sites(layer, candidate=True), theirs, pair.candidate),
            layer.measure,
            layer.dtype,
        )

    def _sites(self, layer: Layer, *, candidate: bool) -> tuple[Site, ...]:
        view = self.measurer.candidate if candidate else self.measurer.reference
        names = layer.region.candidate_sites if candidate else layer.region.reference_sites
        return tuple(view.trace.sites[view.by_name[name]] for name in names)

    def _faults(self, layer: Layer, known: Sequence[activation.Difference], ours: Sequence[Activation]) -> list[Fault]:
        case = self.case(layer)
        if case is None:
            return self._by_probe(layer, known) or [self._unexplained(layer)]
        examiners = {
            "function": causes.of_function(known, ours),
            "rounding": causes.ROUNDING,
            "overflow": [*causes.OVERFLOW, *causes.of_function(known, ours)],
        }[layer.status]
        try:
            if layer.status == "rounding" and conditioning.is_noise(case):
                return self._excuse(layer)
            if layer.status == "function":
                meant = quantization.examine(case)
                if meant is not None:
                    return [*self._excuse(layer), self._fault(layer, meant, None, {})]
                found = explain(case, examiners)
                faults = self._from_explained(layer, case, found)
            else:
                first = next((one for examine in examiners for one in examine(case)), None)
                faults = [self._fault(layer, first, None, {})] if first else []
        except EngineError:
            faults = []
        if not faults and layer.status == "function" and conditioning.is_noise(case):
            return self._excuse(layer)
        return faults or [self._unexplained(layer)]

    def _excuse(self, layer: Layer) -> list[Fault]:
        self._excused.add(layer.region.pair.reference)
        return []

    def _by_probe(self, layer: Layer, known: Sequence[activation.Difference]) -> list[Fault]:
        """The differing activations in a region that cannot be evaluated on both sides."""
        return [
            self._fault(layer, self._difference(difference), None, {})
            for difference in known
            if difference.candidate.chain.sites[-1].name in layer.region.candidate_sites
        ]

    @property
    def _framework(self) -> str:
        """The candidate's adapter; empty where only a trace is there."""
        return "" if self.measurer.pupil is None else self.measurer.pupil.adapter

    def _difference(self, difference: activation.Difference) -> Hypothesis:
        return activation.hypothesis(self.measurer.teacher, difference, self._framework)

    def _from_explained(self, layer: Layer, case: Case, found: Explained) -> list[Fault]:
        evidence = projection(case)
        if found.causes and all(one.severity == "note" for one in found.causes):
            self._excuse(layer)
        return [self._fault(layer, one, share, evidence) for one, share in zip(found.causes, found.shares, strict=True)]

    def _fault(self, layer: Layer, one: Hypothesis, share: float | None, evidence: dict[str, Any]) -> Fault:
        return Fault(
            order=self.measurer.reference.order(layer.region.pair.reference),
            hypothesis=one,
            share=share,
            layer=layer,
            reference=self._place(layer, one, candidate=False),
            candidate=self._place(layer, one, candidate=True),
            evidence={**_numbers(layer), **evidence, **one.evidence},
        )

    def _place(self, layer: Layer, one: Hypothesis, *, candidate: bool) -> dict[str, Any]:
        """Where a cause acts: at the operators that it names, or at the one that makes the region's tensor."""
        named = one.places.get("candidate" if candidate else "reference", ())
        view = self.measurer.candidate if candidate else self.measurer.reference
        sites = [view.trace.sites[view.by_name[name]] for name in named if name in view.by_name]
        tensor = layer.region.pair.candidate if candidate else layer.region.pair.reference
        if not sites:
            sites = list(self._sites(layer, candidate=candidate)[-1:])
        place = location(sites, tensor)
        others = [name for name in named if name not in view.by_name]
        if others:
            place["names"] = [*others, *place.get("names", [])]
        return place

    def _unexplained(self, layer: Layer) -> Fault:
        ours, theirs = self._sites(layer, candidate=False), self._sites(layer, candidate=True)
        hypothesis = Hypothesis(
            rule="unexplained",
            message="none of the known causes explains the difference",
            expected="",
            observed="",
            fix="Compare these operators with the reference's one by one; "
            "parity diff --repro DIR saves both with their inputs."
            if self.measurer.teacher is not None and self.measurer.pupil is not None
            else "Run the diff on the model itself in place of its trace: then causes can be tried.",
        )
        pair = layer.region.pair
        return Fault(
            order=self.measurer.reference.order(pair.reference),
            hypothesis=hypothesis,
            share=None,
            layer=layer,
            reference=location(ours, pair.reference),
            candidate=location(theirs, pair.candidate),
            evidence={**_numbers(layer), **self._shape(layer)},
        )

    def _shape(self, layer: Layer) -> dict[str, str]:
        """What the candidate's error in a region looks like."""
        case = self.case(layer)
        if case is None:
            return {}
        target = case.candidate.target
        try:
            native = case.candidate.values([target], precision="native")[target].astype(np.float64)
            exact = case.exact
        except EngineError:
            return {}
        if case.whole:
            return {}
        with np.errstate(invalid="ignore"):  # infinities of a mask
            return {"error_shape": error_shape(native.reshape(exact.shape) - exact, exact)}

    def _unseen(self, difference: activation.Difference, layers: Sequence[Layer]) -> Fault:
        """Activations that differ where these inputs do not show it beyond rounding."""
        one = self._difference(difference)
        ours, theirs = difference.reference.chain, difference.candidate.chain
        evidence: dict[str, Any] = {"seen_by": "probe"}
        layer = next((one for one in layers if one.region.pair.reference == ours.target), None)
        case = self.case(layer) if layer is not None else None
        if layer is not None and case is not None:
            evidence |= _numbers(layer) | projection(case)
        return Fault(
            order=self.measurer.reference.order(ours.target),
            hypothesis=one,
            share=None,
            layer=None,
            reference=location(ours.sites, ours.target),
            candidate=location(theirs.sites, theirs.target),
            evidence={**evidence, **one.evidence},
        )


def _doubtful(regions: Iterable[Region]) -> dict[str, Pair]:
    """Pairs that may be none, and those by numbers that were made of their numbers; by the reference's tensor.

    Args:
        regions: In execution order.
    """
    found: dict[str, Pair] = {}
    for region in regions:
        made = region.pair.reason == "value" and any(one.reference in found for one in region.boundary)
        if made or region.pair.confidence < DOUBTFUL:
            found[region.pair.reference] = region.pair
    return found


def projection(case: Case) -> dict[str, Any]:
    """The candidate's error projected on the difference of the two functions: 1 where it is this difference and noise.

    With its standard error, the residuals taken as independent; see `parity.functions.identify`.
    """
    if case.measure is None:
        return {}
    target = case.candidate.target
    try:
        native = case.candidate.values([target], precision="native")[target].astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinities of a mask
            error, step = native.reshape(case.exact.shape) - case.exact, case.gap
    except EngineError:
        return {}
    fine = np.isfinite(error) & np.isfinite(step)
    power = float(np.vdot(step[fine], step[fine]))
    if power == 0:
        return {}
    coefficient = float(np.vdot(error[fine], step[fine])) / power
    rest = error[fine] - coefficient * step[fine]
    spread = max(rms(rest), case.measure.floor)
    return {"coefficient": coefficient, "standard_error": spread / float(np.sqrt(power))}


def _numbers(layer: Layer) -> dict[str, Any]:
    measure = layer.measure
    if measure is None:
        return {} if layer.unequal is None else {"unequal": layer.unequal}
    return {
        "excess": measure.excess,
        "noise_floor": measure.floor,
        "local_error": measure.error,
        "relative_error": ratio(measure.error, measure.scale),
        "max_abs": measure.max_abs,
        "function_gap": measure.gap_excess,
    }


def _grouped(faults: Sequence[Fault]) -> tuple[tuple[Fault, ...], ...]:
    """Faults of the same kind together, the one that acts first first."""
    groups: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in sorted(faults, key=lambda one: one.order):
        one = fault.hypothesis
        key = (one.rule, one.expected, one.observed)
        if one.rule in {"weights", "unexplained"}:
            key = (*key[:2], f"{one.observed}{fault.order}")
        groups.setdefault(key, []).append(fault)
    return tuple(map(tuple, groups.values()))


def _sites(fault: Fault) -> tuple[str, str]:
    """The operators of either side at which a fault acts: several regions may hold the same ones."""
    ours, theirs = (str(place.get("site", place["tensor"])) for place in (fault.reference, fault.candidate))
    return ours, theirs


def _finding(faults: Sequence[Fault], framework: str) -> Finding:
    first = faults[0]
    one = first.hypothesis
    by_place = {_sites(fault): _told(fault.reference) for fault in faults}
    places = list(dict.fromkeys(by_place.values()))
    where = words(first.reference)
    also = f" and at {counted(len(by_place) - 1, 'further place')}" if len(by_place) > 1 else ""
    unseen = _how_seen(first.evidence) if first.layer is None else ""
    shares = [fault.share for fault in faults if fault.layer is first.layer and fault.share is not None]
    evidence = dict(first.evidence)
    if len(by_place) > 1:
        evidence["places"] = places[:PLACES]
        evidence["count"] = len(by_place)
    if shares:
        evidence["share"] = sum(shares)
    return Finding(
        rule=one.rule,
        severity=one.severity,
        message=f"At {where or 'the model itself'}{also}: {one.message}{unseen}.",
        fix=fixes.fix_of(framework, one),
        location={"reference": first.reference, "candidate": first.candidate},
        expected=one.expected or None,
        observed=one.observed or None,
        evidence=evidence,
    )


def _told(place: Mapping[str, Any]) -> str:
    """A place in a list: its module, or else its source line and operator."""
    name = module(place)
    return name if place.get("scope") and not name.isdecimal() else words(place)


def _how_seen(evidence: Mapping[str, Any]) -> str:
    """How a difference below the rounding of these inputs is known."""
    coefficient, error = evidence.get("coefficient", 0.0), evidence.get("standard_error", math.inf)
    if error < SEEN and abs(coefficient - 1) < HALF:
        said = f"the error is {coefficient:.2f} ± {error:.1g} times the difference of the two"
        return f"; it is smaller than the rounding and seen through it: {said}"
    return "; these inputs do not show it beyond rounding, probing both does"
