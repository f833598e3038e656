"""What is done with an opened model; these functions run inside a worker, or in the user's process for live objects."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity.adapter import Adapter, Array, Session, UnsupportedPrecisionError
from parity.align.layout import Layout
from parity.graph import LAYOUT, Site
from parity.trace.store import Trace, TraceWriter, read_trace
from parity.worker import Message

_opened: dict[str, Session] = {}
"""Sessions by the token that the parent gave them."""

_traces: dict[str, Trace] = {}
"""Traces that are read from, by folder."""


def opened(token: str, session: Session) -> None:
    """Keeps a session under its token."""
    _opened[token] = session


def session_of(token: str) -> Session:
    """The opened session of that token."""
    return _opened[token]


def open_model(adapter: Adapter, token: str, model: str, options: Mapping[str, str]) -> Iterator[Message]:
    """Opens a model and tells the specification of its inputs, and the adapter's versions."""
    session = adapter.open(model, options)
    opened(token, session)
    specs = {
        name: {"dtype": spec.dtype, "shape": spec.shape, "limit": spec.limit, "optional": spec.optional}
        for name, spec in session.inputs().items()
    }
    yield Message({"inputs": specs, "versions": dict(adapter.versions())})


def close_model(adapter: Adapter, token: str) -> Iterator[Message]:  # noqa: ARG001 – the signature of jobs
    """Closes a session and forgets it."""
    session = _opened.pop(token, None)
    if session is not None:
        session.__exit__(None, None, None)
    _traces.clear()
    yield Message({})


def run(adapter: Adapter, token: str, names: Sequence[str], **inputs: Array) -> Iterator[Message]:  # noqa: ARG001
    """Outputs of one production run; ``inputs`` are ``x0``, ``x1``, … in the order of ``names``."""
    outputs = _opened[token].run(named_arrays(names, inputs))
    yield Message({"outputs": list(outputs)}, {f"y{k}": np.asarray(one) for k, one in enumerate(outputs.values())})


def trace(
    adapter: Adapter,
    token: str,
    folder: str,
    names: Sequence[str],
    facts: Mapping[str, Any],
    **inputs: Array,
) -> Iterator[Message]:
    """Records one run into ``folder``, and tells the number of sites as it goes on."""
    session = _opened[token]
    given = named_arrays(names, inputs)
    writer = TraceWriter(Path(folder), (array.size for array in given.values()))
    ends = session.trace(given, writer)
    for (_, array), tensor in zip(given.items(), ends.inputs.values(), strict=False):
        writer.add(tensor, array)
    versions = {adapter.name: dict(adapter.versions())}
    made = writer.finish(ends, session.weights(), {**facts, "versions": versions, "input_hash": input_hash(given)})
    _traces[folder] = made
    yield Message({"sites": len(writer.sites)})


def evaluate(adapter: Adapter, token: str, plan: Mapping[str, Any], **arrays: Array) -> Iterator[Message]:  # noqa: ARG001
    """Tensors of some sites alone.

    Args:
        adapter: Of this worker.
        token: Of the session.
        plan: ``sites``, ``given``, ``wanted`` (names) and ``precision``, as in `Session.evaluate`.
        arrays: ``x0``, ``x1``, … in the order of ``given``.
    """
    made = _opened[token].evaluate(
        plan["sites"], named_arrays(plan["given"], arrays), plan["wanted"], plan["precision"]
    )
    yield Message({}, {f"y{k}": np.asarray(made[name]) for k, name in enumerate(plan["wanted"])})


def evaluate_regions(
    adapter: Adapter,  # noqa: ARG001
    token: str,
    regions: Sequence[Mapping[str, Any]],
    precisions: Sequence[str],
) -> Iterator[Message]:
    """The output of each region on recorded numbers, in each of the precisions; one message a region.

    Args:
        adapter: Of this worker.
        token: Of the session.
        regions: Each with ``sites``, ``wanted`` (one tensor name) and ``given``: tensor name here to its source, the
            ``folder`` of a trace, the ``tensor`` in it and the ``layout`` that maps it to this side's.
        precisions: As in `Session.evaluate`; an array is left out where a region cannot be computed so, and the
            reason is told under ``unsupported``.
    """
    session = _opened[token]
    for region in regions:
        given = {name: moved(source) for name, source in region["given"].items()}
        arrays, reasons = {}, {}
        for precision in precisions:
            try:
                made = session.evaluate(region["sites"], given, [region["wanted"]], precision)
                arrays[precision] = np.asarray(made[region["wanted"]])
            except UnsupportedPrecisionError as error:
                reasons[precision] = error.message
        yield Message({"unsupported": reasons}, arrays)


def weights(adapter: Adapter, token: str, names: Sequence[str]) -> Iterator[Message]:  # noqa: ARG001
    """Weights by tensor name, one message each."""
    session = _opened[token]
    known = session.weights()
    for name in names:
        yield Message({"name": name}, {"w": np.asarray(known[name])})


class _Teacher:
    """A sink that records a run of ``session`` on another side's numbers.

    Every site is evaluated again on what stands for its inputs: the teacher's numbers where the tensor has a
    counterpart, and otherwise what was made from such numbers. What only moves a weight is left to those who read it.
    """

    def __init__(
        self, session: Session, writer: TraceWriter, free: Trace, forced: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.session = session
        self.writer = writer
        self.free = free
        self.forced = forced
        self.live: dict[str, Array] = {}
        self.movers: dict[str, Site] = {}

    def run(self) -> None:
        last = {name: k for k, site in enumerate(self.free.sites) for name in site.inputs}
        for k, site in enumerate(self.free.sites):
            if self._moves_weight(site):
                self.movers.update(dict.fromkeys(site.outputs, site))
                self.writer.keep(site, {name: self.free.tensors[name] for name in site.outputs})
                continue
            given = {name: self._value(name) for name in site.inputs if name in self.forced or name in self.live}
            names = [name for name in site.outputs if name]
            made = self.session.evaluate([*self._movers(site), site.name], given, names, "native")
            self.writer(site, {name: np.asarray(made[name]) for name in names})
            self.live.update({name: np.asarray(made[name]) for name in names if last.get(name, -1) > k})
            for name in site.inputs:
                if last.get(name) == k:
                    self.live.pop(name, None)

    def _moves_weight(self, site: Site) -> bool:
        """Whether its numbers are those of a weight, which is why the free trace does not store them."""
        if site.kind not in LAYOUT or len(site.inputs) != 1 or any(name in self.free for name in site.outputs):
            return False
        return site.inputs[0] in self.free.weights or site.inputs[0] in self.movers

    def _movers(self, site: Site) -> list[str]:
        """Names of the sites that move the weights which it reads, in execution order."""
        found: list[str] = []
        for name in site.inputs:
            mover = self.movers.get(name)
            if mover is not None and name not in self.forced:
                found = [*dict.fromkeys([*found, *self._movers(mover), mover.name])]
        return found

    def _value(self, name: str) -> Array:
        return moved(self.forced[name]) if name in self.forced else self.live[name]


def teach(
    adapter: Adapter,  # noqa: ARG001
    token: str,
    own: str,
    forced: Mapping[str, Mapping[str, Any]],
    folder: str,
) -> Iterator[Message]:
    """Records a teacher-forced run into ``folder``: own sites, each on the teacher's numbers where it has them.

    Args:
        adapter: Of this worker.
        token: Of the session.
        own: Folder of this side's free trace.
        forced: Tensor name here to its source, as in `evaluate_regions`.
        folder: Where to record.
    """
    session = _opened[token]
    free = trace_of(own)
    writer = TraceWriter(Path(folder), (free.tensors[name].signature.count for name in free.ends.inputs.values()))
    _Teacher(session, writer, free, forced).run()
    writer.finish(free.ends, session.weights(), {}, known=free.weights)
    yield Message({})


def input_hash(inputs: Mapping[str, Array]) -> str:
    """SHA-256 over the inputs in order: dtype, shape and bytes."""
    total = hashlib.sha256()
    for array in inputs.values():
        total.update(f"{array.dtype.name}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def named_arrays(names: Sequence[str], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays ``x0``, ``x1``, … under their names."""
    return {name: arrays[f"x{k}"] for k, name in enumerate(names)}


def trace_of(folder: str) -> Trace:
    """The trace in a folder, read once; it was checked where it was made or named."""
    if folder not in _traces:
        _traces[folder] = read_trace(Path(folder), checked=True)
    return _traces[folder]


def recorded(source: Mapping[str, Any]) -> Array:
    """The numbers that a trace has of a tensor; ``source`` is its ``folder`` and the ``tensor`` in it."""
    return trace_of(source["folder"]).read(source["tensor"])


def moved(source: Mapping[str, Any]) -> Array:
    """Likewise, in the layout that the source has besides."""
    array = recorded(source)
    return Layout.of(source["layout"]).apply(array) if source["layout"] else array
