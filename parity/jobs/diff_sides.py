"""The two sides of a diff: opened, run, and recorded; both at once where each is in a process of its own."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from parity.adapter import Array
from parity.align.view import GraphView
from parity.findings import Finding
from parity.graph import InputSpec
from parity.jobs.diff_options import DiffOptions
from parity.layerwise.repetition import nondeterminism, same_outputs
from parity.model_inputs import make_inputs
from parity.models import ModelReference
from parity.sides import Side, SideOptions, found_model
from parity.stopwatch import Stopwatch

Result = TypeVar("Result")

ROLES: Final = ("reference", "candidate")


@dataclass(frozen=True, slots=True)
class Opened:
    """One side ready to be compared: a session, or a recorded trace in its place.

    Attributes:
        side: The session; None for a recorded trace.
        view: The recorded trace; None for a session.
        text: How the user named it.
        dtype: Type in which it is to run; None for its own.
    """

    side: Side | None
    view: GraphView | None
    text: str
    dtype: str | None

    @property
    def specs(self) -> Mapping[str, InputSpec]:
        """What the side's model says of its inputs; nothing for a recorded trace."""
        return self.side.specs if self.side is not None else {}


@dataclass(frozen=True, slots=True)
class Observed:
    """One side's run.

    Attributes:
        outputs: Of production, by name; of the recorded run where there is nothing else.
        view: The recorded run.
        unsteady: The finding where the side does not give the same outputs twice.
    """

    outputs: Mapping[str, Array]
    view: GraphView
    unsteady: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class Both:
    """Both sides with their runs on the same inputs.

    Attributes:
        ours: The reference.
        theirs: The candidate.
        mine: The reference's run.
        yours: The candidate's.
        moved: Axes, by input, in which the candidate was given it.
        notes: What a reader should know of this, as sentences.
    """

    ours: Opened
    theirs: Opened
    mine: Observed
    yours: Observed
    moved: Mapping[str, tuple[int, ...]]
    notes: Sequence[str]


def open_sides(reference: Any, candidate: Any, options: DiffOptions, stack: ExitStack) -> tuple[Opened, Opened]:
    """Both sides, closed with the stack.

    Raises:
        InputError: A model cannot be opened as asked.
        EngineError: A framework crashed or is not installed.
    """
    found = found_model(reference), found_model(candidate)
    # A worker lives no longer than the thread that starts it: these are started here, and opened side by side.
    ours, theirs = (_prepared(role, one, options) for role, one in zip(ROLES, found, strict=True))
    sides = [one if isinstance(one, Side) else None for one in (ours, theirs)]
    for side in filter(None, sides):
        stack.callback(side.close)
    dtypes = options.reference_dtype, options.candidate_dtype
    return at_once(sides, lambda: _opened(ours, dtypes[0]), lambda: _opened(theirs, dtypes[1]))


def open_candidate(model: Any, options: DiffOptions, stack: ExitStack) -> Opened:
    """The candidate alone, opened with other options; raises as `open_sides`."""
    prepared = _prepared("candidate", found_model(model), options)
    if isinstance(prepared, Side):
        stack.callback(prepared.close)
    return _opened(prepared, options.candidate_dtype)


def made_sets(ours: Opened, theirs: Opened | None, samples: int) -> list[dict[str, Array]]:
    """Inputs of a recorded trace, or made from the signature of the side that has one, for both to take."""
    for one in (ours, theirs):
        if one is not None and one.view is not None:
            trace = one.view.trace
            return [{name: trace.array(tensor) for name, tensor in trace.ends.inputs.items()}]
    other = theirs.specs if theirs is not None else {}
    models = [one.text for one in (ours, theirs) if one is not None]
    return [make_inputs(ours.specs or other, number, other, models=models) for number in range(samples)]


def at_once(
    sides: Sequence[Side | None], one: Callable[[], Result], two: Callable[[], Result]
) -> tuple[Result, Result]:
    """The results of a call for each of two sides, made at the same time if these are in processes of their own.

    If one fails then, or the user ends it, both processes are ended: nobody waits for what nobody will use.
    """
    if not Side.apart(*sides):
        return one(), two()
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(one), pool.submit(two)]
        try:
            wait(calls, return_when=FIRST_EXCEPTION)
            for call in calls:
                if call.done():
                    call.result()
        except BaseException:
            for side in filter(None, sides):
                side.kill()
            raise
        return calls[0].result(), calls[1].result()


def _prepared(role: str, found: ModelReference | tuple[Any, str], options: DiffOptions) -> Side | ModelReference:
    """The side, not open yet; a recorded trace as it is."""
    if isinstance(found, ModelReference) and found.is_trace:
        return found
    of_reference = role == "reference"
    asked = {
        "dtype": options.reference_dtype if of_reference else options.candidate_dtype,
        "optimization": options.reference_optimization if of_reference else options.candidate_optimization,
        "threads": str(options.threads),
    }
    if not of_reference:
        asked |= {f"session_config.{key}": value for key, value in options.candidate_session_config.items()}
    how = SideOptions(
        options={key: value for key, value in asked.items() if value is not None},
        python=options.reference_python if of_reference else options.candidate_python,
        threads=options.threads,
        timeout=options.timeout,
    )
    return Side(role, found, how)


def _opened(one: Side | ModelReference, dtype: str | None) -> Opened:
    if isinstance(one, ModelReference):
        return Opened(None, GraphView.read(Path(one.text)), one.text, dtype)
    return Opened(one.open(), None, one.text, dtype)


def observe(one: Opened, given: Mapping[str, Array], folder: Path, watch: Stopwatch) -> Observed:
    """Runs a side, records it, and looks whether it repeats itself.

    The recorded run makes what production makes, bit for bit, wherever the framework lets it: it is the second run. Not
    so where random numbers are drawn: a recorder that starts from the same seed would hide that the next run differs.

    Args:
        one: The side.
        given: Its inputs.
        folder: For the trace.
        watch: Told of the time that the runs take.
    """
    if one.side is None:
        assert one.view is not None  # noqa: S101 – a side is one or the other
        return Observed(traced_outputs(one.view), one.view, ())
    with watch(f"{one.side.role}, plain run"):
        first = one.side.run(given)
    with watch(f"{one.side.role}, recorded run"):
        view = one.side.record(given, folder, {})
    draws = any(site.kind == "random" for site in view.trace.sites)
    if (not draws and same_outputs(first, traced_outputs(view))) or same_outputs(first, one.side.run(given)):
        return Observed(first, view, ())
    return Observed(first, view, [nondeterminism(one.side, given, folder.with_name(f"{folder.name}-twice"))])


def traced_outputs(view: GraphView) -> dict[str, Array]:
    """The outputs of a recorded run by name, those that are stored."""
    return {name: view.trace.array(tensor) for name, tensor in view.trace.ends.outputs.items() if tensor in view.trace}
