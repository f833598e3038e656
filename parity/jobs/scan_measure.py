"""``parity scan --measure``: what is known of a target, held against the target itself where it is installed."""

from collections.abc import Iterable, Iterator

from parity.errors import ParityError
from parity.findings import Finding
from parity.jobs.identify import identify
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
    try:
        found = identify(call).variant
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


def _note(target: str, message: str) -> Finding:
    location = {"file": "", "path": target, "line": None}
    return Finding(rule="target-differs", severity="note", message=message, location=location)
