"""A session with one known fault in it, made of a session without."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from parity.adapter import Adapter, Array, Session, Sink, bind
from parity.graph import InputSpec, Traced
from parity.measure.mutations import Mutation, unpacked
from parity.measure.session import opened, session_of, trace_of
from parity.trace.store import Trace, TraceWriter
from parity.worker import Message


class Mutant:
    """Satisfies `parity.adapter.Session`; it speaks of the run that ``free`` is the record of, and of no other.

    Args:
        session: The model as it is.
        free: Its recorded run.
        mutation: The fault.
    """

    def __init__(self, session: Session, free: Trace, mutation: Mutation) -> None:
        self._session = session
        self._free = free
        self._mutation = mutation
        self._sites = {
            site.name: mutation.changed(site) if site.name == mutation.site else site
            for site in free.sites
            if site.name not in mutation.hidden
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The session is not this one's to close."""

    def inputs(self) -> Mapping[str, InputSpec]:
        """See `parity.adapter.Session.inputs`."""
        return self._session.inputs()

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Outputs by name, operator by operator."""
        ends = self._free.ends
        made = self.evaluate(list(self._sites), self._bound(inputs), list(ends.outputs.values()), "native")
        return {name: made[tensor] for name, tensor in ends.outputs.items()}

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """See `parity.adapter.Session.trace`; each operator runs by itself on what those before it made."""
        live = self._bound(inputs)
        sites = list(self._sites.values())
        last = {name: k for k, site in enumerate(sites) for name in site.inputs}
        for k, site in enumerate(sites):
            names = [name for name in site.outputs if name]
            given = {name: live[name] for name in site.inputs if name in live}
            made = {
                name: np.asarray(array) for name, array in self.evaluate([site.name], given, names, "native").items()
            }
            sink(site, made)
            live.update({name: array for name, array in made.items() if last.get(name, -1) > k})
            for name in [name for name in site.inputs if last[name] == k]:
                live.pop(name, None)
        return self._free.ends

    def _bound(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs by the name of their tensor."""
        named = bind(inputs, list(self._free.ends.inputs))
        return {self._free.ends.inputs[name]: array for name, array in named.items()}

    def weights(self) -> Mapping[str, Array]:
        """See `parity.adapter.Session.weights`."""
        return _Overlaid(self._session.weights(), self._mutation.weights)

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        """See `parity.adapter.Session.evaluate`."""
        given = {**self._mutation.weights, **given}
        own = self._sites.get(self._mutation.site)
        if own is None or own.name not in sites or all(name in given for name in own.outputs if name):
            return self._session.evaluate(sites, given, wanted, precision)
        at = list(sites).index(own.name)
        before, after = sites[:at], sites[at + 1 :]
        later = {*own.inputs, *wanted, *(name for site in after for name in self._sites[site].inputs)}
        needed = [name for site in before for name in self._sites[site].outputs if name in later and name not in given]
        values = {**given, **self._session.evaluate(before, given, needed, precision)}

        def evaluate(
            sites: Sequence[str], wanted: Sequence[str], instead: Mapping[str, Array] = MappingProxyType({})
        ) -> Mapping[str, Array]:
            return self._session.evaluate(sites, {**values, **instead}, wanted, precision)

        values.update(self._mutation.computed(own, evaluate))
        return self._session.evaluate(after, values, wanted, precision)


class _Overlaid(Mapping[str, Array]):
    """Weights some of which are others."""

    def __init__(self, weights: Mapping[str, Array], others: Mapping[str, Array]) -> None:
        self._weights = weights
        self._others = others

    def __getitem__(self, name: str) -> Array:
        return self._others[name] if name in self._others else self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def mutate(
    adapter: Adapter,  # noqa: ARG001 – the signature of jobs
    token: str,
    plan: Mapping[str, Any],
    **arrays: Array,
) -> Iterator[Message]:
    """Opens a session with a known fault, and records its run.

    Args:
        adapter: Of this worker.
        token: Of the session without the fault.
        plan: ``own`` (folder of its recorded run), ``mutant`` (token of the new session), ``folder`` (where to record)
            and ``mutation``, as `parity.measure.mutations.packed` made it.
        arrays: Likewise.
    """
    free = trace_of(plan["own"])
    session = Mutant(session_of(token), free, unpacked(plan["mutation"], arrays))
    opened(plan["mutant"], session)
    inputs = {name: free.read(tensor) for name, tensor in free.ends.inputs.items()}
    writer = TraceWriter(Path(plan["folder"]), (array.size for array in inputs.values()))
    ends = session.trace(inputs, writer)
    for name, tensor in ends.inputs.items():
        writer.add(tensor, inputs[name])
    writer.finish(ends, session.weights(), {})
    yield Message({})
