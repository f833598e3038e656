"""The passes that measure: regions on the reference's numbers, in float64 on both sides and as production runs them."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from parity.adapter import Array
from parity.align.layout import distance
from parity.align.regions import Region
from parity.align.view import GraphView
from parity.compare.local import LocalError, local_error
from parity.dtypes import float_dtype
from parity.layerwise.alignment import with_folder
from parity.layerwise.precision import declared_dtype, region_dtype
from parity.sides import Side

GAP: Final = 3.0
"""Distance of the two functions, in noise floors, from which they are two: rounded constants and weights stay below."""

SPARSE_GAP: Final = 24.0
"""Likewise for the largest single element, where the difference sits in few of them."""

ROUNDING: Final = 24.0
"""Rounding over the noise floor from which it is more than another order of the same sums."""

JUMP: Final = 30.0
"""Growth of the inherited error from which a region differs by itself, where there are only two traces."""

EXCESS: Final = 12.0
"""Excess from which a region differs whose function cannot be computed in float64 on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One region with what was measured of it.

    Attributes:
        region: Which.
        dtype: The type in which it is meant to be computed.
        propagated: Distance of the two free runs at its tensor, in units of the reference's spread.
        measure: Its local error; None for whole numbers, and where it could not be compared.
        unequal: For whole numbers and truth values: the share of elements that are not the same; None for others.
        status: ``ok``, ``function``, ``rounding``, ``overflow``, ``untested`` or ``excused``, which is farther off than
            rounding, and no farther than rounded inputs or the bytes that its tensors declare would take it.
        reason: Why it is untested.
    """

    region: Region
    dtype: str
    propagated: float
    measure: LocalError | None
    unequal: float | None = None
    status: str = "ok"
    reason: str = ""

    @property
    def guilty(self) -> bool:
        """Whether it differs by its own fault."""
        return self.status in {"function", "rounding", "overflow"}

    def reads(self, names: Container[str]) -> bool:
        """Whether it is made of one of these tensors of the reference."""
        return any(pair.reference in names for pair in self.region.boundary)


@dataclass(frozen=True, slots=True)
class Measurer:
    """Both sides' traces and sessions, with what they declare.

    Attributes:
        reference: The reference's trace.
        candidate: The candidate's.
        teacher: The reference's session; None where there is only a trace.
        pupil: The candidate's session; likewise.
        reference_dtype: As `declared_dtype` says, or the option.
        candidate_dtype: Likewise.
    """

    reference: GraphView
    candidate: GraphView
    teacher: Side | None
    pupil: Side | None
    reference_dtype: str
    candidate_dtype: str

    @classmethod
    def of(
        cls,
        views: tuple[GraphView, GraphView],
        sides: tuple[Side | None, Side | None],
        dtypes: tuple[str | None, str | None],
    ) -> "Measurer":
        """With the declared types found out where no option says them."""
        found = [declared_dtype(view, dtype) for view, dtype in zip(views, dtypes, strict=True)]
        return cls(*views, *sides, *found)

    def measure(self, regions: Sequence[Region]) -> Iterator[Layer]:
        """The layers of some regions, one after the other; only one region's numbers are held at a time.

        Both functions are computed in float64, so that it shows how far they are apart whatever the rounding.
        """
        dtypes = [self.dtype(region) for region in regions]
        groups: dict[tuple[str, ...], list[int]] = {}
        for k, region in enumerate(regions):
            twin = self.twin(region)
            recorded = twin is None and self.taught
            groups.setdefault(("float64",) if recorded else ("float64", twin or "native"), []).append(k)
        layers: dict[int, Layer] = {}
        for precisions, places in groups.items():
            some = [regions[k] for k in places]
            ours = self._evaluated(self.teacher, some, precisions, candidate=False)
            theirs = self._evaluated(self.pupil, some, ("float64", "native"), candidate=True)
            for k, one, two in zip(places, ours, theirs, strict=True):
                layers[k] = self._layer(regions[k], dtypes[k], one, two)
        yield from (layers[k] for k in range(len(regions)))

    @property
    def taught(self) -> bool:
        """Whether the candidate is run on the reference's numbers; else it is a trace, and the reference on its."""
        return self.pupil is not None or self.teacher is None

    def request(self, region: Region, *, candidate: bool) -> dict[str, Any]:
        """What a side's worker is told of a region."""
        sites = region.candidate_sites if candidate else region.reference_sites
        view = self.candidate if candidate else self.reference
        numbers = self.reference if self.taught else self.candidate
        given = {}
        for pair in region.boundary:
            name = pair.candidate if candidate else pair.reference
            given[name] = with_folder(pair.source(for_candidate=candidate, of_candidate=not self.taught), numbers)
        settled = region.candidate_settled if candidate else region.reference_settled
        for name in (*settled, *view.trace.ends.inputs.values()):  # inputs that the other side does not have
            given.setdefault(name, {"tensor": name, "layout": None, "folder": str(view.trace.folder)})
        wanted = region.pair.candidate if candidate else region.pair.reference
        return {"sites": list(sites), "given": given, "wanted": wanted}

    def _evaluated(
        self, side: Side | None, regions: Sequence[Region], precisions: Sequence[str], *, candidate: bool
    ) -> Iterator[dict[str, Array]]:
        if side is None:
            yield from ({} for _ in regions)
            return
        requests = [self.request(region, candidate=candidate) for region in regions]
        for message in side.regions(requests, precisions):
            yield dict(message.arrays)

    def twin(self, region: Region) -> str | None:
        """The precision in which the reference's region is the twin; None where its recorded numbers are of it."""
        dtype = self.dtype(region)
        return None if dtype == self.reference.trace.tensors[region.pair.reference].dtype else dtype

    def dtype(self, region: Region) -> str:
        """The type in which a region is meant to be computed."""
        ends = [region.pair.candidate, *(pair.candidate for pair in region.boundary)]
        return region_dtype(self.candidate, self.candidate_dtype, ends)

    def _layer(self, region: Region, dtype: str, ours: dict[str, Array], theirs: dict[str, Array]) -> Layer:
        pair = region.pair
        recorded = pair.layout.apply(self.reference.trace.array(pair.reference))
        free = self.candidate.trace.array(pair.candidate)
        layer = Layer(region=region, dtype=dtype, propagated=distance(recorded, free), measure=None)
        mine = {precision: pair.layout.apply(array) for precision, array in ours.items()}
        twin = mine.get(dtype, recorded) if self.taught else mine.get(dtype, mine.get("native", recorded))
        return judged(layer, Results(mine.get("float64"), twin, theirs.get("native", free), theirs.get("float64")))


@dataclass(frozen=True, slots=True)
class Results:
    """What a region gave, all in the candidate's layout.

    Attributes:
        exact: The reference's region in float64; None where it cannot be computed so.
        twin: The reference's region in the candidate's precision.
        candidate: The candidate's output.
        candidate_exact: The candidate's region in float64; likewise.
    """

    exact: Array | None
    twin: Array
    candidate: Array
    candidate_exact: Array | None


def judged(layer: Layer, results: Results) -> Layer:
    """A layer with its measure and status."""
    twin, candidate, own = results.twin, results.candidate, results.candidate_exact
    if twin.dtype.kind in "iub":
        return by_unequal(layer, float(np.mean(candidate.reshape(twin.shape) != twin)) if twin.size else 0.0)
    if results.exact is not None:
        measure = local_error(
            exact=results.exact, twin=twin, candidate=candidate, candidate_exact=own, dtype=layer.dtype
        )
    elif own is not None:  # the roles changed: how far the reference's numbers are from the candidate's function
        measure = local_error(exact=own, twin=candidate, candidate=twin, candidate_exact=None, dtype=layer.dtype)
    else:
        return replace(layer, status="untested", reason="neither side can be computed in float64 here")
    return replace(layer, measure=measure, status=judge(measure))


def by_unequal(layer: Layer, unequal: float) -> Layer:
    """A layer of whole numbers or truth values, a share ``unequal`` of which is not the same."""
    return replace(layer, unequal=unequal, status="function" if unequal else "ok")


def by_jumps(layers: Sequence[Layer]) -> list[Layer]:
    """Layers of two traces, of which nothing can be computed: guilty is where the inherited error jumps up."""
    errors: dict[str, float] = {}
    found = []
    for layer in layers:
        errors[layer.region.pair.reference] = layer.propagated
        before = max((errors.get(pair.reference, 0.0) for pair in layer.region.boundary), default=0.0)
        least = 4 * float(ml_dtypes.finfo(float_dtype(layer.dtype)).eps)
        jumps = layer.propagated > JUMP * max(before, least)
        found.append(replace(layer, status="function" if jumps else "ok") if layer.status == "untested" else layer)
    return found


def judge(measure: LocalError) -> str:
    """The status of a region by its numbers alone."""
    if measure.finite_lost or measure.finite_gained:
        return "overflow"
    if measure.gap_excess is None or measure.max_gap is None or measure.rounding_excess is None:
        return "function" if measure.excess > EXCESS else "ok"
    if measure.gap_excess > GAP or measure.max_gap > SPARSE_GAP:
        return "function"
    return "rounding" if measure.rounding_excess > ROUNDING else "ok"
