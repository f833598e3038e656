"""A trace as a graph: who makes and who reads each tensor, and which of them depend on the inputs."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from parity.graph import LAYOUT, Site
from parity.trace.store import TensorEntry, Trace, read_trace

MOVES = LAYOUT | {"cast"}
"""Kinds that leave the numbers what they are, up to rounding."""


@dataclass(frozen=True)
class GraphView:
    """One side's trace with what is asked of its graph."""

    trace: Trace

    @classmethod
    def read(cls, folder: Path) -> "GraphView":
        """The graph of a recorded trace; raises as `parity.trace.store.read_trace`."""
        return cls(read_trace(folder))

    @cached_property
    def producer(self) -> dict[str, int]:
        """Position of the site that makes a tensor, by tensor name."""
        return {name: k for k, site in enumerate(self.trace.sites) for name in site.outputs if name}

    @cached_property
    def consumers(self) -> dict[str, list[int]]:
        """Positions of the sites that read a tensor, by tensor name."""
        found = defaultdict(list)
        for k, site in enumerate(self.trace.sites):
            for name in dict.fromkeys(site.inputs):
                if name:
                    found[name].append(k)
        return dict(found)

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Position of a site by its name."""
        return {site.name: k for k, site in enumerate(self.trace.sites)}

    @cached_property
    def dynamic(self) -> frozenset[str]:
        """Tensors that depend on the numbers of the model's inputs, not on their shapes alone."""
        return self._behind(self.trace.ends.inputs.values())

    @cached_property
    def arbitrary(self) -> frozenset[str]:
        """Tensors that depend on weights which were drawn at random."""
        return self._behind(self.trace.ends.drawn)

    def settled(self, tensor: str) -> bool:
        """Whether a tensor holds whole numbers that the inputs' shapes decide: it is taken as it was recorded."""
        entry = self.trace.tensors.get(tensor)
        return entry is not None and entry.whole and tensor not in self.dynamic and tensor in self.trace

    def _behind(self, sources: Iterable[str]) -> frozenset[str]:
        """Some tensors and all that are made of them."""
        found = set(sources)
        for site in self.trace.sites:
            if site.kind != "shape" and any(name in found for name in site.inputs):
                found.update(name for name in site.outputs if name)
        return frozenset(found)

    def with_static(self, sites: Iterable[Site]) -> list[str]:
        """Names of some sites and of those that make, of weights alone, what they read; in execution order."""
        found = {self.by_name[site.name] for site in sites}
        waiting = [name for at in found for name in self.trace.sites[at].inputs]
        while waiting:
            name = waiting.pop()
            at = self.producer.get(name)
            if at is not None and at not in found and name not in self.dynamic:
                found.add(at)
                waiting.extend(self.trace.sites[at].inputs)
        return [self.trace.sites[at].name for at in sorted(found)]

    def site_of(self, tensor: str) -> Site | None:
        """The site that makes a tensor; None for inputs and weights."""
        at = self.producer.get(tensor)
        return None if at is None else self.trace.sites[at]

    def entry(self, tensor: str) -> TensorEntry | None:
        """What is recorded of a tensor or a weight."""
        return self.trace.tensors.get(tensor) or self.trace.weights.get(tensor)

    def order(self, tensor: str) -> int:
        """Position in execution; -1 for inputs and weights."""
        return self.producer.get(tensor, -1)

    def origin(self, tensor: str) -> str:
        """The tensor that holds the same numbers, before any reshaping, transposing and casting."""
        while (site := self.site_of(tensor)) is not None and site.kind in MOVES and site.inputs:
            entry, before = self.entry(tensor), self.entry(site.inputs[0])
            if entry is None or before is None or entry.signature.count != before.signature.count:
                break
            tensor = site.inputs[0]
        return tensor

    def root(self, tensor: str) -> str:
        """For a tensor that depends on no input: the weight whose numbers it holds, moved, cast or repeated."""
        while (site := self.site_of(tensor)) is not None and site.kind in MOVES | {"expand"} and site.inputs:
            tensor = site.inputs[0]
        return tensor

    def computed(self) -> list[str]:
        """Tensors that depend on the inputs and were computed, not merely moved, in execution order."""
        return [
            name
            for site in self.trace.sites
            if site.kind not in LAYOUT
            for name in site.outputs
            if name in self.dynamic and name in self.trace.tensors and name not in self.arbitrary
        ]
