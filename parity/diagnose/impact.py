"""Impact: what the candidate's final outputs become when the causes of some regions alone are mended.

The candidate runs on its own inputs. Where it comes to a region that is to be mended, the reference's operators make
that region's tensor out of what the candidate has at its boundary, and the candidate goes on with that. Where several
causes share a region, one alone is mended by its own repair.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from parity.adapter import Array
from parity.align.view import GraphView
from parity.diagnose.case import Part, Repair
from parity.errors import EngineError
from parity.layerwise.measuring import Layer, Measurer


@dataclass(frozen=True, slots=True)
class Mending:
    """One region to be mended.

    Attributes:
        layer: Which.
        repair: What makes the candidate right there; None to have the reference's operators in the place of its own.
    """

    layer: Layer
    repair: Repair | None = None


def mended_outputs(measurer: Measurer, mendings: Sequence[Mending]) -> dict[str, Array]:
    """The candidate's outputs by name with some regions mended.

    Args:
        measurer: Traces and sessions of both sides.
        mendings: Each of another region.

    Raises:
        EngineError: An operator cannot be computed on such numbers.
        InputError: An operator reads what is not there.
    """
    in_order = sorted(mendings, key=lambda one: measurer.candidate.order(one.layer.region.pair.candidate))
    run = _Run(measurer, in_order)
    for one in in_order:
        run.mend(one)
    return run.outputs()


@dataclass
class _Run:
    """A run of the candidate, operator by operator, that stops at each mended region.

    Attributes:
        measurer: Traces and sessions of both sides.
        mendings: In the order in which the candidate comes to them.
        live: Tensors that operators or mendings yet to come read, by name.
        at: Position of the next operator.
    """

    measurer: Measurer
    mendings: Sequence[Mending]
    live: dict[str, Array] = field(default_factory=dict)
    at: int = 0

    def __post_init__(self) -> None:
        trace = self._view.trace
        self.live.update({name: trace.read(name) for name in trace.ends.inputs.values()})
        self._last = {name: places[-1] for name, places in self._view.consumers.items()}
        for one in self.mendings:
            self._last.update(
                (pair.candidate, max(self._last.get(pair.candidate, 0), self._end(one)))
                for pair in one.layer.region.boundary
            )
        self._last.update(dict.fromkeys(trace.ends.outputs.values(), len(trace.sites)))

    @property
    def _view(self) -> GraphView:
        return self.measurer.candidate

    def mend(self, one: Mending) -> None:
        """Goes on to the region's tensor and puts the right one in its place."""
        self._advance(self._end(one))
        made = self._reference(one.layer) if one.repair is None else self._repaired(one)
        self.live[one.layer.region.pair.candidate] = made
        self._forget(self.at)

    def _end(self, one: Mending) -> int:
        """The position after the operator that makes the region's tensor."""
        return self._view.order(one.layer.region.pair.candidate) + 1

    def outputs(self) -> dict[str, Array]:
        """Goes on to the end; the outputs by name."""
        ends = self._view.trace.ends.outputs
        self._advance(len(self._view.trace.sites))
        return {name: self.live[tensor] for name, tensor in ends.items() if tensor in self.live}

    def _advance(self, end: int) -> None:
        """Runs the operators before position ``end``."""
        pupil = self.measurer.pupil
        assert pupil is not None  # noqa: S101 – impact is of candidates that can be run
        sites = self._view.trace.sites[self.at : end]
        made = dict.fromkeys(name for site in sites for name in site.outputs if name)
        needed = [name for name in made if self._last.get(name, -1) >= end]
        if needed:
            read = {name for site in sites for name in site.inputs}
            given = {name: array for name, array in self.live.items() if name in read}
            self.live.update(pupil.evaluate([site.name for site in sites], given, needed, "native"))
        self.at = end

    def _forget(self, end: int) -> None:
        for name in [name for name in self.live if self._last.get(name, -1) < end]:
            del self.live[name]

    def _reference(self, layer: Layer) -> Array:
        """What the reference's operators make of the candidate's numbers."""
        teacher, region, trace = self.measurer.teacher, layer.region, self.measurer.reference.trace
        assert teacher is not None  # noqa: S101
        given = {pair.reference: pair.layout.inverse.apply(self.live[pair.candidate]) for pair in region.boundary}
        for name in (*region.reference_settled, *trace.ends.inputs.values()):
            given.setdefault(name, trace.read(name))
        wanted = region.pair.reference
        return region.pair.layout.apply(teacher.evaluate(region.reference_sites, given, [wanted], "native")[wanted])

    def _repaired(self, one: Mending) -> Array:
        """What the candidate's operators make of them with one of their causes repaired."""
        region, view = one.layer.region, self._view
        given: dict[str, Array] = {pair.candidate: self.live[pair.candidate] for pair in region.boundary}
        for name in (*region.candidate_settled, *view.trace.ends.inputs.values()):
            given.setdefault(name, view.trace.read(name))
        sites = tuple(view.trace.sites[view.by_name[name]] for name in region.candidate_sites)
        part = Part(view, self.measurer.pupil, sites, given, region.pair.candidate)
        overrides: dict[str, Array] = {}
        assert one.repair is not None  # noqa: S101 – asked before
        one.repair(part, overrides)
        if not overrides:
            raise EngineError("The cause cannot be mended alone.")
        return np.asarray(part.values([part.target], overrides, "native")[part.target])
