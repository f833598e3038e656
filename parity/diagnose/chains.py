"""Activations in a graph, however they are spelt: chains of pointwise operators from one tensor to another.

A chain is found by structure – every path back from its end leads through pointwise operators to one single tensor –
and named by probing: evaluated on a sweep and identified, so that no name, constant or order of operands is trusted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.adapter import Array
from parity.align.view import GraphView
from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError, ParityError
from parity.functions import Variant
from parity.functions.identify import Identification, identify
from parity.functions.probing import identified, sweep
from parity.graph import LAYOUT, POINTWISE, Site
from parity.sides import Side

Float64 = NDArray[np.float64]

ARITHMETIC: Final = frozenset(
    {"add", "sub", "mul", "div", "neg", "cast", "pow", "square", "where", "compare", "logic", "expand", *LAYOUT}
)
"""Kinds that alone make no activation."""

PIECEWISE: Final = frozenset({"compare", "where"})
"""Kinds that together make one: another straight line on either side of a number."""

FUSED: Final = frozenset({"pointwise", "gelu", "quick_gelu", "silu", "relu"})
"""Kinds that may add a bias of their own; it is taken as 0 in a probe."""

SPLIT: Final = frozenset({"gelu_erf", "gelu_tanh"})
"""Variants that are written with a factor of one half, which engines move."""

LONGEST: Final = 40
"""Operators up to which a chain is followed back."""

EVALUATIONS: Final = 16
"""Evaluations at most of one probe, where the chain insists on a small shape."""

AFFINE: Final = 1e-6
"""Distance from a straight line, relative, up to which what is around an activation is a mere scale and shift."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Pointwise operators that make one tensor of one other.

    Attributes:
        source: The tensor that goes in.
        target: The one that comes out.
        sites: The operators between, in execution order.
        biases: Vectors that a fused operator adds before; 0 in a probe.
    """

    source: str
    target: str
    sites: tuple[Site, ...]
    biases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Activation:
    """A chain with what it was found to be.

    Attributes:
        chain: Which.
        dtype: The type that it computes in.
        values: What it gives on the sweep of that type, in float64; None where only recorded numbers tell.
        identification: As `parity.functions.identify` says; None where nothing finite came out.
        shape: That its input had in the run.
        scale: The chain over the variant: an engine may have moved a factor to the next operator; ``values`` are
            without it.
        names: Of the operators that are to be evaluated for it; what they read of weights alone is made by some.
    """

    chain: Chain
    dtype: str
    values: Float64 | None
    identification: Identification | None
    shape: tuple[int, ...]
    scale: float = 1.0
    names: tuple[str, ...] = ()

    @property
    def variant(self) -> Variant | None:
        """The variant that it is; None for another function."""
        return None if self.identification is None else self.identification.variant

    @property
    def telling(self) -> bool:
        """Whether it is a known activation, and not one that leaves everything as it is."""
        return self.variant is not None and self.variant.name != "identity"

    @property
    def name(self) -> str:
        """Its variant's name with parameters, or ``unknown``."""
        return "unknown" if self.variant is None else str(self.variant)


def chains(view: GraphView) -> Iterator[list[Chain]]:
    """Chains that may be activations, in execution order; each with the shorter ones in it, the longest first."""
    used: set[str] = set()
    found: list[list[Chain]] = []
    for site in reversed(view.trace.sites):
        if site.name in used or site.kind not in POINTWISE or not site.outputs or site.outputs[0] not in view.dynamic:
            continue
        nested = [chain for chain in chains_to(view, site.outputs[0]) if active(chain)]
        if not nested:
            continue
        longest = nested[-1]
        used.update(one.name for one in longest.sites)
        inner = [chain for one in reversed(longest.sites[:-1]) for chain in _inside(view, one, longest)]
        found.append([*reversed(nested), *inner])
    yield from reversed(found)


def active(chain: Chain) -> bool:
    """Whether it can be an activation; one that only moves numbers about before it is the same without that."""
    kinds = {site.kind for site in chain.sites}
    return chain.sites[0].kind not in LAYOUT and (not kinds <= ARITHMETIC or kinds >= PIECEWISE)


def _inside(view: GraphView, end: Site, whole: Chain) -> list[Chain]:
    """Chains that end earlier than the whole one, longest first."""
    if end.kind not in POINTWISE:
        return []
    names = {site.name for site in whole.sites}
    ends = [chain for chain in chains_to(view, end.outputs[0]) if active(chain)]
    return [chain for chain in reversed(ends) if {site.name for site in chain.sites} <= names]


def chains_to(view: GraphView, target: str) -> list[Chain]:
    """Chains that end in ``target``, the shortest first."""
    count = _count(view, target)
    found: list[Chain] = []
    open_tensors = {target}
    passed: dict[int, Site] = {}
    biases: list[str] = []
    while len(passed) < LONGEST:
        name = max(open_tensors, key=view.order)
        at = view.producer.get(name)
        if at is None:
            break
        site = view.trace.sites[at]
        inputs = _followed(view, site, biases)
        if inputs is None or any(_count(view, one) != count for one in inputs):
            break
        passed[at] = site
        open_tensors.difference_update(site.outputs)
        open_tensors.update(inputs)
        if len(open_tensors) == 1 and _closed(view, passed, target):
            source = next(iter(open_tensors))
            found.append(Chain(source, target, tuple(passed[k] for k in sorted(passed)), tuple(biases)))
        if not open_tensors:
            break
    return found


def _closed(view: GraphView, passed: Mapping[int, Site], target: str) -> bool:
    """Whether nothing else reads what a chain makes on its way: else it holds an activation, and is none."""
    inner = (name for site in passed.values() for name in site.outputs if name != target)
    return all(
        at in passed or not view.dynamic.intersection(view.trace.sites[at].outputs)
        for name in inner
        for at in view.consumers.get(name, ())
    )


def _followed(view: GraphView, site: Site, biases: list[str]) -> list[str] | None:
    """Tensors that a site reads and that depend on the inputs; None where it ends a chain.

    Single numbers do not count, whether they are weights or made from such.
    """
    if site.kind not in POINTWISE | LAYOUT | {"expand"}:
        return None
    dynamic = []
    for name in site.inputs:
        if not name:
            continue
        if name in view.dynamic:
            dynamic.append(name)
        elif _count(view, name) != 1 and not _constant(view, name):
            if site.kind not in FUSED:
                return None
            biases.append(name)
    return dynamic


def _constant(view: GraphView, name: str) -> bool:
    """Whether all elements of a tensor that depends on no input are one and the same number."""
    entry = view.entry(name)
    return entry is not None and entry.signature.low == entry.signature.high


def _count(view: GraphView, name: str) -> int:
    entry = view.entry(name)
    return -1 if entry is None else entry.signature.count


class Prober:
    """Evaluates and names chains of one side.

    Args:
        view: Its trace.
        side: Its session; None for a trace, whose activations are known by their recorded numbers alone.
    """

    def __init__(self, view: GraphView, side: Side | None) -> None:
        self.view = view
        self.side = side

    def activations(self, tick: Callable[[int], None] = lambda _done: None) -> list[Activation]:
        """Every activation of the model, in execution order."""
        found = []
        for nested in chains(self.view):
            activation = self.recognised(nested)
            if activation is not None:
                found.append(activation)
            tick(len(found))
        return found

    def recognised(self, nested: Sequence[Chain]) -> Activation | None:
        """The activation that the longest of nested chains is, or is but for a scale and shift around it.

        One that cannot be evaluated on a sweep is passed over: a bias of zeros is no single number.
        """
        left = list(nested)
        whole = None
        while left and whole is None:
            whole = self.probe(left.pop(0))
        if whole is None or whole.variant is not None:
            return whole
        for chain in left:
            if chain.sites[0] not in whole.chain.sites:  # it begins before one that could be evaluated
                continue
            inner = self.probe(chain)
            if inner is not None and inner.variant is not None and self._affine_rest(whole, inner):
                return inner
        return self._scaled(whole) or whole

    def _scaled(self, whole: Activation) -> Activation | None:
        """The activation that a chain is but for a power of two, which an engine moved into the next product."""
        if whole.values is None:
            return None
        for scale in (2.0, 0.5):
            found = self._named(whole.values / scale, whole.dtype)
            if found is not None and found.variant is not None and found.variant.name in SPLIT:
                return replace(whole, values=whole.values / scale, identification=found, scale=scale)
        return None

    def probe(self, chain: Chain) -> Activation | None:
        """A chain evaluated on the sweep and identified; None where it cannot be evaluated, or is of whole numbers."""
        entry = self.view.entry(chain.source)
        if entry is not None and entry.dtype not in FLOAT_DTYPES:
            return None
        dtype = self._dtype(chain)
        if self.side is None:
            return self._from_record(chain, dtype)
        try:
            values = self.evaluate(chain, sweep(dtype))
        except (ParityError, ValueError):
            return None
        if values is None or not np.isfinite(values).any():
            return None
        names = tuple(self.view.with_static(chain.sites))
        return Activation(chain, dtype, values, self._named(values, dtype), self._shape(chain), names=names)

    def _named(self, values: Float64, dtype: str) -> Identification | None:
        return identified(values, dtype)

    def _from_record(self, chain: Chain, dtype: str) -> Activation | None:
        trace = self.view.trace
        if chain.source not in trace or chain.target not in trace or chain.biases:
            return None
        x, y = trace.array(chain.source).reshape(-1), trace.array(chain.target).reshape(-1)
        try:
            return Activation(chain, dtype, None, identify(x, y), self._shape(chain))
        except InputError:
            return None

    def _dtype(self, chain: Chain) -> str:
        entry = self.view.entry(chain.source)
        return entry.dtype if entry is not None and entry.dtype in FLOAT_DTYPES else "float32"

    def _shape(self, chain: Chain) -> tuple[int, ...]:
        entry = self.view.entry(chain.source)
        return () if entry is None else entry.shape

    def evaluate(self, chain: Chain, x: Array) -> Float64 | None:
        """The chain at ``x`` of shape (n,), in float64; tried on a vector, then in the shape that the model had."""
        try:
            values = self._at(chain, x)
            if values.shape == x.shape:
                return values.astype(np.float64)
        except ParityError:
            pass
        entry = self.view.entry(chain.source)
        if entry is None or not entry.signature.count:
            return None
        return self._in_shape(chain, x, entry.shape, entry.signature.count)

    def _in_shape(self, chain: Chain, x: Array, shape: tuple[int, ...], count: int) -> Float64 | None:
        if count * EVALUATIONS < len(x):
            return None
        values = np.empty(len(x))
        for start in range(0, len(x), count):
            part = np.resize(x[start : start + count], count).reshape(shape)
            made = self._at(chain, part).reshape(-1)
            values[start : start + count] = made[: len(x[start : start + count])]
        return values

    def _at(self, chain: Chain, x: Array) -> Array:
        zeros: Mapping[str, Array] = {name: np.zeros(1, np.float64) for name in chain.biases}
        given = {chain.source: x.astype(np.float64), **zeros}
        assert self.side is not None  # noqa: S101 – a trace is not evaluated
        made = self.side.evaluate(self.view.with_static(chain.sites), given, [chain.target])
        return made[chain.target]

    def _affine_rest(self, whole: Activation, inner: Activation) -> bool:
        """Whether the whole is a scale and shift of the inner one, at scaled and shifted inputs."""
        if whole.values is None:
            return False
        x = sweep(whole.dtype).astype(np.float64)
        before = x
        if inner.chain.source != whole.chain.source:
            sites = whole.chain.sites[: whole.chain.sites.index(inner.chain.sites[0])]
            lead = Chain(whole.chain.source, inner.chain.source, sites)
            moved = self.evaluate(lead, x)
            if moved is None or not _straight(x, moved):
                return False
            before = moved
        at_moved = self.evaluate(inner.chain, before)
        return at_moved is not None and _straight(at_moved, whole.values)


def _straight(x: Float64, y: Float64) -> bool:
    """Whether y is a x + b."""
    fine = np.isfinite(x) & np.isfinite(y)
    if fine.sum() < 4 or np.ptp(x[fine]) == 0:
        return False
    columns = np.column_stack([x[fine], np.ones(int(fine.sum()))])
    fitted, *_ = np.linalg.lstsq(columns, y[fine], rcond=None)
    rest = y[fine] - columns @ fitted
    return bool(np.abs(rest).max() <= AFFINE * max(float(np.ptp(y[fine])), 1e-300) and fitted[0] != 0)
