"""Parity as an assertion, for tests of models."""

from typing import Any

from parity.jobs.diff import DiffOptions, DiffReport, diff
from parity.report.diff import render

WIDTH = 120
"""Columns of the report in the message of a failed assertion."""


def assert_parity(
    reference: Any, candidate: Any, inputs: Any = None, *, options: DiffOptions | None = None
) -> DiffReport:
    """Asserts that the candidate computes what the reference computes, up to rounding, and that this run could tell.

    Args:
        reference: The trusted side, as for `parity.diff`: a model reference or a live object.
        candidate: The side on trial, likewise.
        inputs: Arrays by name in call order, a file of them, or a list of either; None to have them made.
        options: As for `parity.diff`.

    Returns:
        The report of a pass.

    Raises:
        AssertionError: The verdict is another one; the message is the report, as ``parity diff`` writes it.
        InputError: A model or the inputs cannot be used.
        EngineError: An engine crashed or hung.
    """
    return asserted(diff(reference, candidate, inputs, options=options))


def asserted(report: DiffReport) -> DiffReport:
    """The report, if it is one of a pass.

    Raises:
        AssertionError: It is another one; the message is the report as text.
    """
    if report.verdict != "pass":
        raise AssertionError(render(report, colour=False, width=WIDTH))
    return report
