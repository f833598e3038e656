"""The report of a diff as text: which layers are shown."""

import pytest

from parity.jobs.diff_run import LayerRow
from parity.report.diff import shown


def rows(*statuses: str) -> list[LayerRow]:
    """The earlier, the larger the excess."""
    return [
        LayerRow(
            reference=f"t{k}",
            candidate=f"c{k}",
            aligned_by="value",
            confidence=1.0,
            op="Op",
            dtype="float32",
            propagated_error=0.0,
            local_error=None,
            excess=None if status == "untested" else 10.0 - k,
            gap=None,
            visible=1e-6,
            status=status,
            scope="",
        )
        for k, status in enumerate(statuses)
    ]


@pytest.mark.parametrize(
    ("statuses", "places"),
    [
        ([], []),
        (["ok"], [0]),
        (["ok"] * 9, [0, 1, 2]),
        (["ok"] * 6 + ["function"] + ["ok"] * 3, [0, 1, 2, 5, 6, 7]),
        (["ok"] * 6 + ["untested"] * 3, [0, 1, 2]),
        (["overflow", *["ok"] * 8], [0, 1, 2]),
        (["ok"] * 8 + ["rounding"], [0, 1, 2, 7, 8]),
    ],
)
def test_the_guilty_their_neighbours_and_the_worst_others(statuses: list[str], places: list[int]) -> None:
    assert shown(rows(*statuses)) == places
