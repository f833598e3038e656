"""``parity suite --exhaustive``: chosen implementations over all 2^32 inputs of float32, on all processors, resumable.

The bit patterns are cut into slices. Each is measured in a worker of its own, and what it came to is saved from time to
time, so that a run that is killed goes on from there. The tallies of the slices are merged in their order: the numbers
depend neither on the number of processors nor on how often the run was ended.
"""

import os
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from parity.errors import EngineError, InputError
from parity.findings import Finding
from parity.functions import parse
from parity.installation import adapter_statuses
from parity.jobs import exhaustive_state
from parity.jobs.suite_verdict import finding_of_failure
from parity.measure.activation import Profile, Row, Selection
from parity.measure.exhaustive import CHUNK, DTYPE, EVERYTHING, Tally, blank_row, floats
from parity.worker import Worker

SPEED: Final = 1.8e6
"""Inputs a second on one processor, of a GELU: the exact results take the time. Measured on a 2-core x86-64 server."""

Progress = Callable[[str, int, int], None]
"""Is told the implementation, how many Mi inputs of it are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustive:
    """How the exhaustive measurement is done.

    Attributes:
        state: Folder in which it is saved how far the run has come; one in the user's cache folder if None.
        start: First bit pattern, read as an unsigned integer.
        stop: The one behind the last.
        slices: Parts that are measured independently of each other; fewer where one would be less than a chunk.
        chunk: Inputs of one call of an implementation.
        save_every: Seconds between two savings of a slice.
    """

    state: Path | None = None
    start: int = 0
    stop: int = EVERYTHING
    slices: int = 16
    chunk: int = CHUNK
    save_every: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one implementation.

    Attributes:
        profile: Its float32 measurement, with what all inputs add to it.
        row: The line for the results.
        findings: On crashes, and on saved states that could not be used.
        failed: Whether its framework crashed, hung or refused.
    """

    profile: Profile
    row: Row
    findings: tuple[Finding, ...]
    failed: bool


@dataclass(slots=True)
class _Slice:
    """One slice of one implementation, and what became of it."""

    profile: Profile
    key: Mapping[str, Any]
    path: Path
    tally: Tally | None = None
    notes: list[str] = field(default_factory=list)
    error: EngineError | None = None

    @property
    def size(self) -> int:
        """Bit patterns in it."""
        return int(self.key["stop"]) - int(self.key["start"])

    @property
    def position(self) -> int:
        """The first bit pattern that is not done."""
        return int(self.key["start"]) + (self.tally.count if self.tally else 0)


def check_selection(adapters: Sequence[str], selection: Selection, timeout: float) -> None:
    """Refuses to measure float32 exhaustively where nobody chose what of.

    Args:
        adapters: Names of the adapters that would be measured.
        selection: The filters.
        timeout: Seconds that a worker may stay silent.

    Raises:
        InputError: float32 is filtered out, or neither an implementation nor a variant was chosen; with what all of
            them would cost.
    """
    if selection.dtypes and DTYPE not in selection.dtypes:
        raise InputError(
            "--exhaustive is about float32, which --dtype leaves out.", hint=f"Add --dtype {DTYPE}, or leave it out."
        )
    if selection.implementations or selection.variants:
        return
    with ThreadPoolExecutor(_processors()) as pool:
        count = sum(pool.map(lambda name: _implementations(name, timeout), adapters))
    hours = EVERYTHING / SPEED / 3600
    raise InputError(
        f"--exhaustive would try all 2^32 inputs on {count} implementations, of about {hours:.1g} hours of a processor "
        f"each: about {count * hours / _processors():.0f} hours on the {_processors()} processors here.",
        hint="Choose some with --implementation NAME or --variant NAME.",
    )


def exhaust(
    profiles: Sequence[Profile],
    versions: Mapping[str, Mapping[str, str]],
    settings: Exhaustive,
    *,
    timeout: float,
    parallel: int | None,
    progress: Progress | None,
) -> list[Outcome]:
    """Measures implementations over all float32 inputs.

    Args:
        profiles: What the suite measured of them in float32.
        versions: By adapter, the versions that can change a result.
        settings: How it is done.
        timeout: Seconds that a worker may stay silent before it counts as hung.
        parallel: Workers at a time; as many as there are processors if None.
        progress: Called from other threads as chunks are done.

    Returns:
        An outcome for each profile.

    Raises:
        InputError: The state's folder cannot be written to.
    """
    folder = settings.state or exhaustive_state.default_folder()
    exhaustive_state.prepare(folder)
    whole = [profile for profile in profiles if parse(profile.declared).arity == 1]
    slices = {_name(profile): _slices(profile, versions, settings, folder) for profile in whole}
    run = _Run(slices, settings, timeout, progress)
    pool = ThreadPoolExecutor(parallel or _processors())
    try:
        futures = [pool.submit(run.measure, one) for own in slices.values() for one in own]
        for future in futures:
            future.result()
    finally:
        # Ctrl-C arrives here: what is under way is saved, what is not begun is left.
        run.ended.set()
        pool.shutdown(wait=True, cancel_futures=True)
    return [_outcome(profile, slices.get(_name(profile))) for profile in profiles]


def _implementations(adapter: str, timeout: float) -> int:
    """How many implementations of an adapter take float32; none where it does not load."""
    try:
        with Worker(adapter, timeout=timeout) as worker:
            # The first message is how many there are; the worker is ended before it has measured any.
            messages = worker.call("parity.measure.activation:measure", {"selection": {"dtypes": [DTYPE]}})
            return int(next(messages).data["total"])
    except EngineError:
        return 0


def _processors() -> int:
    return os.cpu_count() or 1


def _name(profile: Profile) -> tuple[str, str]:
    return profile.adapter, profile.implementation


def _slices(
    profile: Profile, versions: Mapping[str, Mapping[str, str]], settings: Exhaustive, folder: Path
) -> list[_Slice]:
    total = settings.stop - settings.start
    count = max(1, min(settings.slices, total // settings.chunk))
    bounds = [settings.start + total * number // count for number in range(count + 1)]
    common = _key(profile, versions[profile.adapter])
    slices = []
    for start, stop in pairwise(bounds):
        key = common | {"chunk": settings.chunk, "start": start, "stop": stop}
        slices.append(_Slice(profile, key, exhaustive_state.path_of(folder, key)))
    return slices


def _key(profile: Profile, versions: Mapping[str, str]) -> dict[str, Any]:
    """All that can change what is measured of an implementation on given inputs."""
    return {
        "adapter": profile.adapter,
        "implementation": profile.implementation,
        "declared": profile.declared,
        "accuracy": profile.accuracy,
        "versions": dict(versions),
        "distribution": adapter_statuses()[profile.adapter].distribution,
        "parity": version("framework-parity"),
        # Kernels differ by instruction set.
        "machine": f"{platform.machine()} {platform.processor()}",
    }


class _Run:
    """What the threads share.

    Args:
        slices: By implementation.
        settings: How it is done.
        timeout: Seconds that a worker may stay silent.
        progress: Is told how far each implementation is.
    """

    def __init__(
        self,
        slices: Mapping[tuple[str, str], Sequence[_Slice]],
        settings: Exhaustive,
        timeout: float,
        progress: Progress | None,
    ) -> None:
        self.ended = threading.Event()
        self._slices, self._settings, self._timeout, self._progress = slices, settings, timeout, progress
        self._lock = threading.Lock()

    def measure(self, one: _Slice) -> None:
        """Measures one slice from where it was left."""
        own = self._slices[_name(one.profile)]
        if self.ended.is_set() or any(other.error for other in own):
            return
        one.tally, unusable = exhaustive_state.load(one.path, one.key)
        if one.tally and one.tally.count > one.size:
            one.tally, unusable = None, "it is of a longer slice"
        if unusable:
            one.notes.append(f"The saved state {one.path} was not used, since {unusable}; its slice started afresh.")
        self._tell(own)
        if one.position < one.key["stop"]:
            try:
                self._converse(one, own)
            except EngineError as error:
                one.error = error

    def _converse(self, one: _Slice, own: Sequence[_Slice]) -> None:
        arguments = {name: one.key[name] for name in ("implementation", "start", "stop", "chunk")}
        arguments["tally"] = one.tally.to_json() if one.tally else None
        saved = time.monotonic()
        try:
            with Worker(one.profile.adapter, timeout=self._timeout) as worker:
                for message in worker.call("parity.measure.exhaustive:exhaust", arguments):
                    one.tally = Tally.from_json(message.data["tally"])
                    self._tell(own)
                    if self.ended.is_set():
                        return
                    if time.monotonic() - saved >= self._settings.save_every:
                        self._save(one)
                        saved = time.monotonic()
        finally:
            self._save(one)

    def _save(self, one: _Slice) -> None:
        if one.tally is None:
            return
        try:
            exhaustive_state.save(one.path, one.key, one.tally)
        except OSError as error:
            # Hours of measuring are worth more than the chance to go on with them.
            note = f"The state could not be saved in {one.path.parent}: {error.strerror}."
            if note not in one.notes:
                one.notes.append(note)

    def _tell(self, own: Sequence[_Slice]) -> None:
        if self._progress:
            done = sum(one.tally.count for one in own if one.tally)
            total = sum(one.size for one in own)
            with self._lock:
                self._progress(": ".join(_name(own[0].profile)), done >> 20, total >> 20)


def _outcome(profile: Profile, slices: Sequence[_Slice] | None) -> Outcome:
    blank = blank_row(profile)
    if slices is None:
        row = replace(blank, status="unsupported", reason="gated: its inputs are pairs, of which there are 2^64")
        return Outcome(profile=profile, row=row, findings=(), failed=False)
    findings = tuple(_note(profile, note) for note in dict.fromkeys(note for one in slices for note in one.notes))
    broken = next((one for one in slices if one.error), None)
    if broken and broken.error:
        last = min(broken.position + broken.key["chunk"], broken.key["stop"]) - 1
        edges = f"{floats(broken.position, broken.position + 1)[0]:.9g} and {floats(last, last + 1)[0]:.9g}"
        where = f"among the inputs between {edges} (bit patterns {broken.position:#010x} to {last:#010x})"
        failure = finding_of_failure(profile.adapter, (profile.implementation, DTYPE, profile.declared), broken.error)
        return Outcome(
            profile=profile,
            row=replace(blank, status=broken.error.status, reason=f"{broken.error.message.rstrip('.')}, {where}"),
            findings=(*findings, failure),
            failed=True,
        )
    tally = reduce(Tally.merge, [one.tally for one in slices if one.tally])
    row = tally.row_of(profile, slices[0].key["start"])
    return Outcome(profile=tally.widen(profile), row=row, findings=findings, failed=False)


def _note(profile: Profile, message: str) -> Finding:
    return Finding(
        rule="unexplained",
        severity="note",
        message=message,
        location={"candidate": f"{profile.adapter}: {profile.implementation}"},
    )
