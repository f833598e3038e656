"""``parity suite --timing``: time per element of each implementation, with no other adapter beside it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from parity.errors import EngineError
from parity.findings import Finding
from parity.measure.activation import Selection
from parity.measure.timing import SIZES, TimingRow
from parity.worker import Worker

RESTARTS: Final = 5
"""Crashes of one adapter after which the rest of it is given up."""

Progress = Callable[[str, int, int], None]
"""Is told the adapter, how many pairs of dtype and size are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """What the timing of one adapter found.

    Attributes:
        rows: One an implementation, dtype and size.
        findings: On workers that crashed or hung.
    """

    rows: tuple[TimingRow, ...]
    findings: tuple[Finding, ...]


def time_adapter(
    name: str,
    selection: Selection,
    *,
    sizes: Sequence[int] = SIZES,
    timeout: float,
    progress: Progress | None,
) -> Timings:
    """Times what is selected of an adapter, on one thread; in a new worker after each crash that has a name.

    Args:
        name: Name of the adapter.
        selection: The filters.
        sizes: Elements of a call, rising.
        timeout: Seconds that a worker may stay silent before it counts as hung.
        progress: Called as pairs of dtype and size are done.
    """
    rows: list[TimingRow] = []
    findings: list[Finding] = []
    skip: list[Sequence[Any]] = []
    done = total = 0
    for _ in range(RESTARTS + 1):
        begun: tuple[str, str, int] | None = None
        try:
            with Worker(name, timeout=timeout) as worker:
                arguments = {"selection": asdict(selection), "sizes": sizes, "skip": skip}
                for message in worker.call("parity.measure.timing:time_activations", arguments):
                    data = message.data
                    begun = None
                    if "total" in data:
                        total = data["total"]
                    elif "begin" in data:
                        begun = data["begin"]
                    elif "rows" in data:
                        rows += [TimingRow(**row) for row in data["rows"]]
                        skip.append(data["group"])
                        done += 1
                        if progress:
                            progress(f"{name} (time)", done, total)
        except EngineError as error:
            findings.append(_failure(name, begun, error))
            if begun is None:
                break  # nobody can be named, so that a new worker would die there again
            implementation, dtype, size = begun
            skip.append([dtype, size, implementation])
        else:
            break
    return Timings(rows=tuple(rows), findings=tuple(findings))


def _failure(adapter: str, begun: tuple[str, str, int] | None, error: EngineError) -> Finding:
    at = f" It was timing {begun[0]} in {begun[1]} on {begun[2]:,} elements." if begun else " It was timing."
    where = f"{adapter}: {begun[0]}" if begun else adapter
    return Finding(
        rule="unexplained",
        severity="warning",
        message=f"{error.message}{at}",
        fix=error.hint,
        location={"candidate": where},
        evidence={"status": error.status},
    )
