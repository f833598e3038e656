"""How much each cause matters: the outputs once more with that cause alone mended, and with all of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from parity.adapter import Array
from parity.diagnose.diagnosis import Fault
from parity.diagnose.impact import Mending, mended_outputs
from parity.errors import ParityError
from parity.findings import Finding
from parity.layerwise.ends import OutputRow
from parity.layerwise.measuring import Measurer

MOST: Final = 8
"""Causes whose impact is computed at most, each at the cost of a run; those that act first."""

Compare = Callable[[Mapping[str, Array]], Sequence[OutputRow]]
"""Rows of the outputs, given the candidate's."""


def with_impact(
    measurer: Measurer,
    found: Sequence[tuple[Finding, Sequence[Fault]]],
    rows: Sequence[OutputRow],
    compare: Compare,
) -> list[Finding]:
    """The findings, those that are faults with their impact on each output where it can be computed.

    Args:
        measurer: Traces and sessions of both sides.
        found: Findings with the faults that they tell of.
        rows: Outputs as they are.
        compare: Makes rows of other outputs of the candidate.
    """
    if measurer.teacher is None or measurer.pupil is None:
        return [finding for finding, _ in found]
    shared = Counter(place for _, faults in found for place in {_place(fault) for fault in faults})
    told, tried = [], 0
    for finding, faults in found:
        mendings = _mendings(faults, shared) if finding.severity == "error" and tried < MOST else None
        if mendings:
            tried += 1
            told.append(replace(finding, impact=_impact(measurer, mendings, rows, compare)))
        else:
            told.append(finding)
    return told


def _place(fault: Fault) -> str:
    return fault.layer.region.pair.candidate if fault.layer is not None else ""


def _mendings(faults: Sequence[Fault], shared: Mapping[str, int]) -> list[Mending] | None:
    """What mends a cause wherever it acts; None where it cannot be mended by itself.

    Args:
        faults: The places of the cause, and several faults at one where they are alike.
        shared: How many causes act at a place.
    """
    mendings: dict[str, Mending] = {}
    for fault in faults:
        if fault.layer is None:
            return None
        place = _place(fault)
        alone = shared[place] == 1
        if not alone and (fault.hypothesis.repair is None or place in mendings):
            return None
        mendings[place] = Mending(fault.layer, None if alone else fault.hypothesis.repair)
    return list(mendings.values())


def _impact(
    measurer: Measurer, mendings: Sequence[Mending], rows: Sequence[OutputRow], compare: Compare
) -> dict[str, Any]:
    try:
        mended = {row.name: row for row in compare(mended_outputs(measurer, mendings))}
    except ParityError as error:
        return {"reason": error.message}
    outputs = []
    for row in rows:
        after = mended.get(row.name)
        if after is None or not row.relative or after.relative is None:
            continue
        outputs.append(
            {
                "output": row.name,
                "relative_error": row.relative,
                "mended_relative_error": after.relative,
                "share": 1.0 - after.relative / row.relative,
                "top1_changes": row.top1_changes,
                "mended_top1_changes": after.top1_changes,
                "kl": row.kl,
                "mended_kl": after.kl,
            }
        )
    return {"outputs": outputs} if outputs else {}
