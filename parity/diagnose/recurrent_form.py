"""Cause: a recurrent layer of another form: the reset gate, the order of gates, a bias, the direction, the first state.

Where the candidate has an operator for the layer, that is run in each other form on its own weights. Where only the
reference has one, the reference is run in each other form, and the one is told that gives the candidate's numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.diagnose.case import Case, Hypothesis, Part, Repair
from parity.diagnose.recurrent import ACTIVATIONS, GATES, Direction, Fused, Network, fused, overrides

Float64 = NDArray[np.float64]
Change = Callable[[Direction], Direction]

BIASES: Final = ((("rb",), "bias of the state"), (("wb",), "bias of the input"), (("wb", "rb"), "biases"))
"""Biases of a direction by which a side may differ, in words."""

ENOUGH: Final = 0.9
"""Share of the gap that a form must explain where it is tried in the reference."""

ORDERS: Final = {"lstm": ("ifgo", "iofg", "igfo", "ifog", "figo"), "gru": ("rzn", "zrn", "rnz"), "rnn": ("n",)}
"""Orders of the gates that frameworks have."""


@dataclass(frozen=True, slots=True)
class Variation:
    """One aspect of a network in another form.

    Attributes:
        own: The form that it has, in words.
        other: The other form.
        network: The network in that one.
    """

    own: str
    other: str
    network: Network


def examine(case: Case) -> Iterator[Hypothesis]:
    """Every other form of the recurrent layers of the region, all of them in the same one."""
    theirs, ours = fused(case.candidate), fused(case.reference)
    if theirs:
        yield from _in_candidate(case, ours, theirs)
    elif ours:
        yield from _in_reference(case, ours)


# ------------------------------------------------------------------------------ the candidate has such an operator


def _in_candidate(case: Case, ours: list[Fused], theirs: list[Fused]) -> Iterator[Hypothesis]:
    lists = [[*_taken_over(one, _counterpart(ours, k, len(theirs))), *variations(one)] for k, one in enumerate(theirs)]
    places = {"reference": _sites(case.reference, ours), "candidate": [one.site.name for one in theirs]}
    for first in lists[0]:
        chosen = [next((v for v in some if (v.own, v.other) == (first.own, first.other)), None) for some in lists]
        networks = [one.network if v is None else v.network for one, v in zip(theirs, chosen, strict=True)]
        yield _hypothesis(first.other, first.own, places, _repair(theirs, networks))


def _counterpart(ours: list[Fused], k: int, count: int) -> Fused | None:
    return ours[k] if len(ours) == count else None


def _sites(part: Part, ours: list[Fused]) -> list[str]:
    return [one.site.name for one in ours] or [site.name for site in part.sites]


def _repair(theirs: list[Fused], networks: list[Network]) -> Repair:
    def repair(part: Part, changed: dict[str, Array]) -> None:
        for one, network in zip(theirs, networks, strict=True):
            changed.update(overrides(part, one, network, changed))

    return repair


def _taken_over(one: Fused, ours: Fused | None) -> Iterator[Variation]:
    """Biases and first states that the reference has and the candidate has not."""
    if ours is None:
        return
    pairs = list(zip(_flat(one.network), _flat(ours.network), strict=False))
    if len(_flat(one.network)) == len(_flat(ours.network)):
        for names, words in BIASES:
            if all(not getattr(a, name).any() and getattr(b, name).any() for a, b in pairs for name in names):
                network = one.network.each(_with(names, [b for _, b in pairs]))
                yield Variation(f"no {words}", f"{words}", network)
    states = ours.network.states
    if any(map(_given, states)) and not any(map(_given, one.network.states)):
        yield Variation("zeros as first state", "first state given", replace(one.network, states=states))


def _flat(network: Network) -> list[Direction]:
    return [one for layer in network.layers for one in layer]


def _with(names: tuple[str, ...], others: list[Direction]) -> Change:
    """Takes some biases from other directions, one after the other."""
    left = iter(others)

    def change(one: Direction) -> Direction:
        other = next(left)
        return replace(one, **{name: getattr(other, name) for name in names})

    return change


def _given(state: Float64 | None) -> bool:
    return state is not None and bool(state.any())


# ------------------------------------------------------------------------------- the reference has such an operator


def _in_reference(case: Case, ours: list[Fused]) -> Iterator[Hypothesis]:
    own = np.asarray(case.candidate.value(case.candidate.target), np.float64)
    lists = [[*_dropped(one), *variations(one)] for one in ours]
    for first in lists[0]:
        changed: dict[str, Array] = {}
        for one, some in zip(ours, lists, strict=True):
            found = next((v for v in some if (v.own, v.other) == (first.own, first.other)), None)
            changed.update(overrides(case.reference, one, found.network if found else one.network, changed))
        made = np.asarray(case.reference.value(case.reference.target, changed), np.float64)
        moved = case.region.pair.layout.apply(made).reshape(case.exact.shape)
        if case.size(own.reshape(moved.shape) - moved) <= (1 - ENOUGH) * case.size(case.gap):
            places = {
                "reference": [one.site.name for one in ours],
                "candidate": [site.name for site in case.candidate.sites],
            }
            yield _hypothesis(first.own, first.other, places, _exact(case.exact))


def _exact(numbers: Float64) -> Repair:
    def repair(part: Part, changed: dict[str, Array]) -> None:
        changed[part.target] = numbers

    return repair


def _dropped(one: Fused) -> Iterator[Variation]:
    """Biases and first states left out."""
    for names, words in BIASES:
        network = one.network.each(_without(names))
        yield Variation(f"{words}", f"no {words}", network)
    if any(_given(state) for state in one.network.states):
        network = replace(one.network, states=tuple(None for _ in one.network.states))
        yield Variation("first state given", "zeros as first state", network)


def _without(names: tuple[str, ...]) -> Change:
    return lambda one: replace(one, **{name: np.zeros_like(getattr(one, name)) for name in names})


# ----------------------------------------------------------------------------------------------------------- forms


def variations(one: Fused) -> Iterator[Variation]:
    """A network in each other form that its own weights allow."""
    network = one.network
    if network.cell == "gru":
        own, other = (_reset(after) for after in (network.reset_after, not network.reset_after))
        yield Variation(own, other, replace(network, reset_after=not network.reset_after))
    yield from _orders(one)
    yield from _directions(network)
    yield from _other_activations(network)
    if network.cell == "lstm":
        for shift in (1.0, -1.0):
            words = "more" if shift > 0 else "less"
            yield Variation("forget bias as stored", f"forget bias 1 {words}", network.each(_forgetting(shift)))


def _reset(after: bool) -> str:
    return f"reset {'after' if after else 'before'} the matmul"


def _orders(one: Fused) -> Iterator[Variation]:
    cell = one.network.cell
    for order in ORDERS[cell]:
        if order != one.order:
            # the block that stands where `order` has a gate is that gate's
            places = [GATES[cell].index(one.order[order.index(gate)]) for gate in GATES[cell]]
            words = [f"gates in the order {', '.join(letters)}" for letters in (one.order, order)]
            yield Variation(words[0], words[1], one.network.each(_reordered(places)))


def _reordered(places: list[int]) -> Change:
    def change(one: Direction) -> Direction:
        return replace(one, w=one.w[places], r=one.r[places], wb=one.wb[places], rb=one.rb[places])

    return change


def _directions(network: Network) -> Iterator[Variation]:
    layer = network.layers[0]
    if len(layer) == 1:
        words = ["from the last step to the first", "from the first step to the last"]
        own, other = words if layer[0].backward else reversed(words)
        yield Variation(own, other, network.each(lambda one: replace(one, backward=not one.backward)))
        return
    forward = network.each(lambda one: replace(one, backward=False))
    yield Variation("the second direction backwards", "both directions forwards", forward)


def _other_activations(network: Network) -> Iterator[Variation]:
    for role, words in (("gate", "gates"), ("new", "new state"), ("out", "output")):
        if (role == "gate" and network.cell == "rnn") or (role == "out" and network.cell != "lstm"):
            continue
        own = getattr(network, role)
        for name in ACTIVATIONS:
            if name != own and (("sigmoid" in name) == (role == "gate") or name == "sigmoid"):
                changed: dict[str, Any] = {role: name}
                yield Variation(f"{own} for the {words}", f"{name} for the {words}", replace(network, **changed))


def _forgetting(shift: float) -> Change:
    def change(one: Direction) -> Direction:
        wb = one.wb.copy()
        wb[1] += shift
        return replace(one, wb=wb)

    return change


def _hypothesis(expected: str, observed: str, places: dict[str, list[str]], repair: Repair) -> Hypothesis:
    return Hypothesis(
        rule="recurrent-form",
        message=f"the candidate's recurrent layer has {observed} where the reference's has {expected}",
        expected=expected,
        observed=observed,
        fix=_fix(expected),
        places=places,
        repair=repair,
    )


def _fix(expected: str) -> str:
    if expected.startswith("reset"):
        value = int(expected == "reset after the matmul")
        return f"Set linear_before_reset to {value} (reset_after={bool(value)} in Keras)."
    return f"Give the candidate's layer {expected}."
