"""``--prove``: known faults put into a copy of the reference, and whether each is found with these inputs."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from parity.align.layout import distance
from parity.align.view import GraphView
from parity.diagnose.chains import Prober
from parity.diagnose.known_faults import KnownFault, known_faults
from parity.errors import InputError, ParityError
from parity.findings import Finding
from parity.jobs.diff_options import DiffOptions
from parity.jobs.diff_run import RunResult, Task, compare
from parity.jobs.diff_sides import Both, Observed, Opened, traced_outputs
from parity.layerwise.location import words

PLACES: Final = 2
"""Faults of each kind, at random places."""

SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """One known fault and what the comparison made of it.

    Attributes:
        kind: What it is, in words.
        place: Where, in words.
        change: What it does to the first tensor that it changes, in units of that tensor's spread.
        caught: The comparison found a difference that is not there without it.
        named: By the right rule.
        placed: At the right place.
        found: Rules of what was found.
        advice: For one that was not caught: what inputs would show it.
    """

    kind: str
    place: str
    change: float
    caught: bool
    named: bool
    placed: bool
    found: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the comparison can see with these inputs.

    Attributes:
        injected: Each fault that was tried.
        catch_rate: Share of them that was caught; None where the model has no place for any.
        absent: Kinds for which the model, run on these inputs, has no place.
        failed: Faults that could not be put in, and why.
    """

    injected: Sequence[Injected]
    catch_rate: float | None
    absent: Sequence[str]
    failed: Sequence[str]


def check_prove(reference: Opened) -> None:
    """Refuses what cannot be changed.

    Raises:
        InputError: The reference is a recorded trace.
    """
    if reference.side is None:
        raise InputError(
            "--prove changes the reference, and this one is a recorded trace.", hint="Name the model in its place."
        )


def prove(both: Both, known: RunResult, task: Task, options: DiffOptions) -> Proof:
    """Compares the candidate with the reference again and again, with another known fault in the reference each time.

    Args:
        both: Both sides with their runs.
        known: What the comparison found without any fault put in.
        task: What they were run on.
        options: What else is asked.
    """
    side, view = both.ours.side, both.mine.view
    assert side is not None  # noqa: S101 – `check_prove` refuses traces
    faults = known_faults(view, side, Prober(view, side).activations())
    chosen = list(_chosen(faults))
    injected, failed = [], []
    for number, fault in enumerate(chosen):
        task.progress("known faults", number, len(chosen))
        folder = task.folder / f"known-fault-{number}"
        try:
            mutant = side.mutant(view, fault.mutation(), folder / "mutant")
            changed = GraphView.read(folder / "mutant")
            faulty = replace(
                both,
                ours=replace(both.ours, side=mutant),
                mine=Observed(traced_outputs(changed), changed, ()),
            )
            quiet = Task(task.given, folder, lambda _name, _done, _total: None, impact=False)
            result = compare(faulty, quiet, replace(options, repro=None))
        except ParityError as error:
            failed.append(f"{fault.kind} at {words(fault.place)}: {error.message}")
            continue
        injected.append(_judged(fault, _change(view, changed, fault.tensor), result, known))
        shutil.rmtree(folder)
    task.progress("known faults", len(chosen), len(chosen))
    rate = sum(one.caught for one in injected) / len(injected) if injected else None
    absent = [kind for kind, found in faults.items() if not found]
    return Proof(injected=injected, catch_rate=rate, absent=absent, failed=failed)


def _chosen(faults: Mapping[str, Sequence[KnownFault]]) -> Iterable[KnownFault]:
    """Some faults of each kind, the same ones each time."""
    random = np.random.default_rng(SEED)
    for found in faults.values():
        for place in sorted(random.choice(len(found), min(PLACES, len(found)), replace=False)) if found else ():
            yield found[int(place)]


def _change(before: GraphView, after: GraphView, tensor: str) -> float:
    """How far a fault moves the tensor that it changes first."""
    if tensor not in before.trace or tensor not in after.trace:
        return 0.0
    return distance(before.trace.array(tensor), after.trace.array(tensor))


def _judged(fault: KnownFault, change: float, result: RunResult, known: RunResult) -> Injected:
    there = {_key(one) for one in known.findings}
    found = [one for one in result.findings if one.severity == "error" and _key(one) not in there]
    placed = [one for one in found if _is_at(one, fault)]
    altered = {rule for rule, *_ in _told_at(fault, result) ^ _told_at(fault, known)}
    rules = tuple(dict.fromkeys([*(one.rule for one in found), *sorted(altered)]))
    return Injected(
        kind=fault.kind,
        place=words(fault.place),
        change=change,
        caught=bool(rules),
        named=any(rule in fault.rules for rule in rules),
        placed=bool(placed or altered),
        found=rules,
        advice="" if rules else fault.advice,
    )


def _key(finding: Finding) -> tuple[str, str]:
    place = finding.location.get("reference")
    return finding.rule, str(place.get("tensor") if isinstance(place, Mapping) else place)


def _told_at(fault: KnownFault, run: RunResult) -> set[tuple[str, str, str]]:
    """What a comparison told of the very place in which a fault was put: the pair may differ there without it too."""
    return {
        (one.rule, one.expected or "", one.observed or "")
        for one, group in run.faults
        if one.severity == "error" and any(_names(each.reference) & _names(fault.place) for each in group)
    }


def _is_at(finding: Finding, fault: KnownFault) -> bool:
    """Whether a finding names the operator, the tensor or the module in which a fault was put."""
    place: Any = finding.location.get("reference")
    if not isinstance(place, Mapping):
        return False
    scope, own = str(place.get("scope", "")), str(fault.place.get("scope", ""))
    inside = bool(own and scope) and (scope == own or scope.startswith(f"{own}."))
    return inside or bool(_names(place) & _names(fault.place))


def _names(place: Mapping[str, Any]) -> set[str]:
    return {name for name in (place.get("site"), place.get("tensor"), *place.get("names", ())) if name}
