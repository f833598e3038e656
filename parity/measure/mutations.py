"""Known faults that can be put into an opened model, whatever its framework: data, and what they do to numbers.

Each changes one operator, or the numbers of a weight. They are made in the process of the comparison and take effect in
that of the model; `packed` and `unpacked` carry them there.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from parity.adapter import Array
from parity.functions import variant
from parity.graph import Site


class Evaluate(Protocol):
    """Computes with the operators of the model as it is."""

    def __call__(
        self, sites: Sequence[str], wanted: Sequence[str], instead: Mapping[str, Array] = MappingProxyType({})
    ) -> Mapping[str, Array]:
        """Some tensors that some sites make, or that are there already.

        Args:
            sites: Names in execution order.
            wanted: Names.
            instead: Numbers in the place of those that are there, by name.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Mutation(ABC):
    """One known fault.

    Attributes:
        site: Name of the operator that is another one; empty where a weight is.
        hidden: Names of operators that are gone: those which the new one stands for besides.
    """

    site: str = ""
    hidden: Sequence[str] = ()

    @property
    def weights(self) -> Mapping[str, Array]:
        """Weights that hold other numbers, by name."""
        return {}

    @abstractmethod
    def changed(self, site: Site) -> Site:
        """The operator as it is now, made of what it was."""

    @abstractmethod
    def computed(self, site: Site, evaluate: Evaluate) -> Mapping[str, Array]:
        """What it makes.

        Args:
            site: As `changed` gave it.
            evaluate: Computes on what is there.
        """


@dataclass(frozen=True, kw_only=True)
class OtherActivation(Mutation):
    """Another activation in the place of the operators that compute one.

    Attributes:
        source: The tensor that goes in.
        variant: Name of the function that is computed in its place.
        scale: By which its result is multiplied.
    """

    source: str
    variant: str
    scale: float = 1.0

    def changed(self, site: Site) -> Site:
        """See `Mutation.changed`."""
        return replace(site, op=self.variant, kind="pointwise", inputs=(self.source,), attributes={})

    def computed(self, site: Site, evaluate: Evaluate) -> Mapping[str, Array]:
        """See `Mutation.computed`."""
        x = evaluate([], [self.source])[self.source]
        with np.errstate(over="ignore", invalid="ignore"):
            made = variant(self.variant).value(x.astype(np.float64).reshape(-1)) * self.scale
            return {site.outputs[0]: made.reshape(x.shape).astype(x.dtype)}


@dataclass(frozen=True, kw_only=True)
class OtherEpsilon(Mutation):
    """A fused normalisation with another epsilon.

    Attributes:
        source: What it normalises.
        shape: In which its axes are apart.
        axes: Of that shape, over which its variance is taken.
        centred: Whether the mean is subtracted.
        before: The epsilon that it has.
        after: The other one.
        bias: That is added at the end, of a shape that repeats over the source.
        variance: A stored one, likewise; of no elements where it is the source's own.
    """

    source: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    centred: bool
    before: float
    after: float
    bias: Array
    variance: Array

    def changed(self, site: Site) -> Site:
        """See `Mutation.changed`."""
        return replace(site, attributes={**site.attributes, "epsilon": self.after})

    def computed(self, site: Site, evaluate: Evaluate) -> Mapping[str, Array]:
        """See `Mutation.computed`."""
        made = dict(evaluate([site.name], [*filter(None, site.outputs), self.source]))
        x, name = made.pop(self.source).astype(np.float64), site.outputs[0]
        y, spread = made[name], self._variance(x)
        factor = np.sqrt((spread + self.before) / (spread + self.after))
        factor = np.broadcast_to(factor, self.shape).reshape(x.shape)
        made[name] = ((y.astype(np.float64) - self.bias) * factor + self.bias).astype(y.dtype)
        return made

    def _variance(self, x: Array) -> Array:
        if self.variance.size:
            return self.variance
        split = x.reshape(self.shape)
        mean = split.mean(self.axes, keepdims=True) if self.centred else 0.0
        return np.asarray(np.square(split - mean).mean(self.axes, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class Dropped(Mutation):
    """An operator that lets one of its inputs through as it is: a mask that is not added.

    Attributes:
        kept: The input.
    """

    kept: str

    def changed(self, site: Site) -> Site:
        """See `Mutation.changed`."""
        return replace(site, op="identity", kind="identity", inputs=(self.kept,), attributes={})

    def computed(self, site: Site, evaluate: Evaluate) -> Mapping[str, Array]:
        """See `Mutation.computed`."""
        return {site.outputs[0]: evaluate([], [self.kept])[self.kept]}


@dataclass(frozen=True, kw_only=True)
class Unmasked(Mutation):
    """A fused attention without its mask.

    Attributes:
        mask: The tensor.
        shape: Its shape.
        boolean: It says what may be seen; else it is added.
    """

    mask: str
    shape: tuple[int, ...]
    boolean: bool

    def changed(self, site: Site) -> Site:
        """See `Mutation.changed`."""
        return replace(site, inputs=tuple("" if name == self.mask else name for name in site.inputs))

    def computed(self, site: Site, evaluate: Evaluate) -> Mapping[str, Array]:
        """See `Mutation.computed`."""
        nothing = np.ones(self.shape, bool) if self.boolean else np.zeros(self.shape, np.float32)
        return evaluate([site.name], [*filter(None, site.outputs)], {self.mask: nothing})


@dataclass(frozen=True, kw_only=True)
class OtherWeights(Mutation):
    """A weight that holds other numbers.

    Attributes:
        name: Which.
        numbers: They, in its shape.
    """

    name: str
    numbers: Array

    @property
    def weights(self) -> Mapping[str, Array]:
        """See `Mutation.weights`."""
        return {self.name: self.numbers}

    def changed(self, site: Site) -> Site:
        """See `Mutation.changed`."""
        return site

    def computed(self, site: Site, evaluate: Evaluate) -> Mapping[str, Array]:
        """See `Mutation.computed`."""
        return evaluate([site.name], [*filter(None, site.outputs)])


_KINDS: Final[Mapping[str, type[Mutation]]] = {
    kind.__name__: kind for kind in (OtherActivation, OtherEpsilon, Dropped, Unmasked, OtherWeights)
}


def packed(mutation: Mutation) -> tuple[dict[str, Any], dict[str, Array]]:
    """A mutation as JSON values, and its arrays by name."""
    values = asdict(mutation)
    arrays = {name: values.pop(name) for name in list(values) if isinstance(values[name], np.ndarray)}
    return {"kind": type(mutation).__name__, **values}, arrays


def unpacked(values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Mutation:
    """The mutation that `packed` took apart."""
    kind = _KINDS[values["kind"]]
    found: dict[str, Any] = {field.name: values.get(field.name, arrays.get(field.name)) for field in fields(kind)}
    arguments: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
    return kind(**arguments)
