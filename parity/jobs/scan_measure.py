"""``parity scan --measure``: what is known of a target, held against the target itself where it is installed."""

from collections.abc import Iterable, Iterator

from parity.errors import EngineError, ParityError
from parity.findings import Finding
from parity.jobs.identify import identify
from parity.jobs.suite import suite
from parity.scanner.knowledge.targets import GATED, measurements


def measured(targets: Iterable[str]) -> Iterator[Finding]:
    """A note for each function of a target that computes what is known of it, an error for one that does not.

    What is not installed is not measured, and a note says so.
    """
    for target in targets:
        entries = list(measurements(target))
        if not entries:
            yield _note(target, f"Nothing of {target} can be measured from here: what is said of it is not checked.")
        for call, known in entries:
            yield _compared(target, call, known)


def _compared(target: str, call: str, known: str) -> Finding:
    adapter, _, implementation = call.partition("/")
    try:
        found = _by_suite(adapter, implementation) if implementation else identify(call).variant
    except ParityError as error:
        return _note(target, f"{call} of {target} was not measured: {error.message}")
    if found == GATED.get(known, known):
        return _note(target, f"Measured: {call} of {target} computes {found}, as is known of it.")
    return Finding(
        rule="target-differs",
        severity="error",
        message=f"Measured: {call} of {target} computes {found or 'no known function'}, but {known} is what is "
        "known of it: the version installed is another.",
        location={"file": "", "path": target, "line": None},
        expected=known,
        observed=found,
    )


def _by_suite(adapter: str, implementation: str) -> str | None:
    """What the suite identifies an implementation as; a framework's own graph is built and run for it."""
    report = suite(adapters=[adapter], implementations=[implementation], dtypes=["float32"])
    failed = next((row for row in report.results if row.identified is None and row.reason), None)
    if failed is not None:
        raise EngineError(failed.reason)
    return report.results[0].identified


def _note(target: str, message: str) -> Finding:
    location = {"file": "", "path": target, "line": None}
    return Finding(rule="target-differs", severity="note", message=message, location=location)
