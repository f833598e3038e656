"""Regions measured where their numbers are made, so that a tensor crosses from one side to the other once at most.

The candidate's worker runs its regions on the reference's numbers and leaves what they make in files; the reference's
worker computes its own in float64 beside them, and tells of each no more than a few numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from parity.adapter import Adapter, Array, Session, UnsupportedPrecisionError
from parity.align.layout import Layout, distance
from parity.compare.local import local_error
from parity.measure.session import moved, recorded, session_of
from parity.trace.shards import Shard, write_shard
from parity.worker import Message

FORCED = "forced"
"""Name of the one array in a file that `force` writes."""


def force(
    adapter: Adapter,  # noqa: ARG001 – the signature of jobs
    token: str,
    regions: Sequence[Mapping[str, Any]],
) -> Iterator[Message]:
    """Runs regions as production would on recorded numbers; one message a region.

    Args:
        adapter: Of this worker.
        token: Of the session.
        regions: As `parity.measure.session.evaluate_regions` takes them, each with ``file``, where its output is to go,
            in the place of what is there.
    """
    session = session_of(token)
    for region in regions:
        write_shard(Path(region["file"]), {FORCED: _evaluated(session, region, "native")}, over=True)
        yield Message({})


def measure(
    adapter: Adapter,  # noqa: ARG001
    token: str,
    regions: Sequence[Mapping[str, Any]],
) -> Iterator[Message]:
    """What each region of the candidate does to the reference's numbers, against the exact result.

    The message of a region has ``propagated``, the distance of the free runs; ``unequal`` for whole numbers and truth
    values, the share of elements that are not the same; for others ``measure``, the fields of a
    `parity.compare.local.LocalError` without what needs the candidate in float64; and ``unsupported`` in its place
    where an operator has no float64.

    Args:
        adapter: Of this worker, the reference's.
        token: Of the session.
        regions: As `parity.measure.session.evaluate_regions` takes them, each with ``forced`` (the file that `force`
            wrote), ``dtype`` (in which both are meant to be computed), ``twin`` (the precision in
            which the reference's region is to be the twin; None for its recorded numbers), ``layout`` (to the
            candidate's), ``recorded`` and ``free`` (the tensor of the reference's and of the candidate's free run).
    """
    session = session_of(token)
    for region in regions:
        layout = Layout.of(region["layout"])
        ours, theirs = layout.apply(recorded(region["recorded"])), recorded(region["free"])
        found: dict[str, Any] = {"propagated": distance(ours, theirs)}
        made = Shard(Path(region["forced"])).read(FORCED)
        if ours.dtype.kind in "iub":
            found["unequal"] = float(np.mean(made.reshape(ours.shape) != ours)) if ours.size else 0.0
        else:
            try:
                exact = layout.apply(_evaluated(session, region, "float64"))
                twin = ours if region["twin"] is None else layout.apply(_evaluated(session, region, region["twin"]))
                measured = local_error(
                    exact=exact, twin=twin, candidate=made, candidate_exact=None, dtype=region["dtype"]
                )
                found["measure"] = asdict(measured)
            except UnsupportedPrecisionError as error:
                found["unsupported"] = error.message
        yield Message(found)


def _evaluated(session: Session, region: Mapping[str, Any], precision: str) -> Array:
    given = {name: moved(source) for name, source in region["given"].items()}
    return np.asarray(session.evaluate(region["sites"], given, [region["wanted"]], precision)[region["wanted"]])
