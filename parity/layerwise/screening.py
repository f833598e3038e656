"""Every aligned tensor as a layer: a quick look at all of them, and a close one at those that are not plainly fine.

The quick look runs the candidate on the reference's numbers as production does, and the reference in float64. Where the
candidate is no farther from that than the twin is, its function is the reference's: the distance of two functions and
the rounding of one do not cancel at every element. The close look has the candidate in float64 too.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from parity.align.alignment import Alignment
from parity.align.regions import Region, find_region
from parity.compare.local import LocalError
from parity.layerwise.alignment import with_folder
from parity.layerwise.measuring import Layer, Measurer, by_jumps, by_unequal
from parity.sides import Side
from parity.stopwatch import Stopwatch

NEAR: Final = 2.0
"""Excess up to which a layer is plainly fine."""

NEAR_AT_MOST: Final = 8.0
"""Likewise for the largest single error, over the twin's largest."""

BATCH: Final = 4
"""Regions that one side's worker does at a time; meanwhile the other side's does those before."""

AHEAD: Final = 3
"""Batches that the candidate's worker has done at most before the reference's has."""

Tick = Callable[[int, int], None]


def measured_layers(measurer: Measurer, alignment: Alignment, tick: Tick, watch: Stopwatch) -> list[Layer]:
    """Every aligned tensor that is no input, in the reference's order, with the local error of its region.

    Args:
        measurer: Traces and sessions of both sides.
        alignment: Their aligned tensors.
        tick: Told how many are done, of how many.
        watch: Told of the time that the passes take.
    """
    pairs = sorted(
        (pair for pair in alignment if pair.reason != "input" and pair.reference in measurer.reference.producer),
        key=lambda pair: measurer.reference.order(pair.reference),
    )
    regions = [find_region(measurer.reference, measurer.candidate, alignment, pair) for pair in pairs]
    both = measurer.teacher is not None and measurer.pupil is not None
    found = _screened(measurer, regions, tick, watch) if both else {}
    left = [k for k in range(len(regions)) if k not in found]
    with watch("closer look"):
        for k, layer in zip(left, measurer.measure([regions[k] for k in left]), strict=True):
            found[k] = layer
            tick(len(found), len(regions))
    layers = [found[k] for k in range(len(regions))]
    return layers if measurer.teacher is not None or measurer.pupil is not None else by_jumps(layers)


def _screened(measurer: Measurer, regions: Sequence[Region], tick: Tick, watch: Stopwatch) -> dict[int, Layer]:
    """The layers that are plainly fine, by their number."""
    teacher, pupil = measurer.teacher, measurer.pupil
    assert teacher is not None and pupil is not None  # noqa: S101, PT018 – asked before
    folder = measurer.candidate.trace.folder
    # The files are few, and written over: fresh pages cost more than what most operators compute.
    tasks = [(k, region, str(folder / f"forced-{k % (BATCH * (AHEAD + 1))}")) for k, region in enumerate(regions)]
    found: dict[int, Layer] = {}

    def measure(batch: Sequence[tuple[int, Region, str]]) -> None:
        told = teacher.measure([_request(measurer, region, file) for _, region, file in batch])
        with watch("reference, exact"):
            for (k, region, _), facts in zip(batch, told, strict=True):
                layer = _fine(measurer, region, facts)
                if layer is not None:
                    found[k] = layer
                    tick(len(found), len(regions))

    apart = Side.apart(teacher, pupil)
    pool = ThreadPoolExecutor(1)
    waiting: deque[Future[None]] = deque()
    try:
        for start in range(0, len(tasks), BATCH):
            batch = tasks[start : start + BATCH]
            if len(waiting) > AHEAD:
                waiting.popleft().result()
            with watch("candidate, forced"):
                pupil.force([{**measurer.request(region, candidate=True), "file": file} for _, region, file in batch])
            if not apart:
                measure(batch)
                continue
            waiting.append(pool.submit(measure, batch))
        for one in waiting:
            one.result()
    except KeyboardInterrupt:
        teacher.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for file in {file for _, _, file in tasks}:
            Path(file).unlink(missing_ok=True)
    return found


def _request(measurer: Measurer, region: Region, file: str) -> dict[str, Any]:
    """What the reference's worker is told of a region; see `parity.measure.regions.measure`."""
    pair = region.pair
    return {
        **measurer.request(region, candidate=False),
        "forced": file,
        "dtype": measurer.dtype(region),
        "twin": measurer.twin(region),
        "layout": pair.layout.as_json(),
        "recorded": with_folder({"tensor": pair.reference}, measurer.reference),
        "free": with_folder({"tensor": pair.candidate}, measurer.candidate),
    }


def _fine(measurer: Measurer, region: Region, facts: dict[str, Any]) -> Layer | None:
    """The layer, if what the reference's worker told of it needs no closer look."""
    layer = Layer(region=region, dtype=measurer.dtype(region), propagated=facts["propagated"], measure=None)
    if facts.get("unequal") is not None:
        return by_unequal(layer, facts["unequal"])
    if "measure" not in facts:
        return None
    measure = LocalError(**facts["measure"])
    lost = measure.finite_lost or measure.finite_gained
    if lost or measure.excess > NEAR or measure.max_excess > NEAR_AT_MOST:
        return None
    return Layer(region=region, dtype=layer.dtype, propagated=layer.propagated, measure=measure)
