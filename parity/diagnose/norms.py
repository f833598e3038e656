"""Normalisations in a region, fused or composed: what they divide by, over which axes, and with which epsilon.

A composed one is found by its root – the square root of something small added to something – and told by numbers: the
statistics of a tensor before it are computed in every form, and the one that gives its very variance is its form.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.align.view import MOVES, GraphView
from parity.diagnose.case import Part
from parity.diagnose.numbers import available, holder, made, readers, same, single, wide
from parity.graph import NORMALIZATIONS, REDUCTIONS, Site

Float64 = NDArray[np.float64]

LARGEST: Final = 0.1
"""Epsilon at most; what is added beyond is no guard of a division."""

ROOTS: Final = frozenset({"sqrt", "rsqrt", "pow"})

FACTORS: Final = 4
"""Vectors at most that are tried as the scale of a composed normalisation."""

FARTHEST: Final = 24
"""Operators up to which the source of a variance is looked for."""


@dataclass(frozen=True, slots=True)
class Root:
    """Where a composed normalisation keeps from dividing by nothing.

    Attributes:
        sites: Those that add the epsilon and take the root.
        tensor: Holds the variance; where the epsilon is added after the root, the standard deviation.
        epsilon: 0 where there is none.
        weight: Name of the scalar that is the epsilon; empty where there is none.
        outside: The epsilon is added after the root.
    """

    sites: tuple[Site, ...]
    tensor: str
    epsilon: float
    weight: str = ""
    outside: bool = False


def roots(part: Part) -> Iterator[Root]:
    """Roots and guarded divisions of a region, in execution order."""
    guarded: set[str] = set()
    for site in part.sites:
        guard = _guard(part, site)
        if guard is not None:
            after = next((one for one, _ in readers(part.view, site.outputs[0]) if one.kind in ROOTS), None)
            guarded.update(one.name for one in (site, after) if one is not None)
            yield guard
        elif site.name not in guarded and site.kind in ROOTS and _bare(part, site):
            yield Root((site,), site.inputs[0], 0.0)


def _guard(part: Part, site: Site) -> Root | None:
    """The root whose epsilon a site adds."""
    if site.kind not in {"add", "maximum", "clip"} or len(site.inputs) < 2:
        return None
    for place, name in enumerate(site.inputs):
        value = single(part, name)
        others = [one for k, one in enumerate(site.inputs) if k != place and one and single(part, one) is None]
        if value is None or not 0 <= value <= LARGEST or len(others) != 1:
            continue
        if value == 0 and site.kind != "add":
            continue
        for reader, at in readers(part.view, site.outputs[0]):
            if _takes_root(part, reader):
                return Root((site, reader), others[0], value, part.view.root(name))
            if (reader.kind == "div" and at == 1) or reader.kind == "reciprocal" or _power(part, reader) == -1:
                return Root((site,), others[0], value, part.view.root(name), outside=True)
    return None


def _takes_root(part: Part, site: Site) -> bool:
    return site.kind in {"sqrt", "rsqrt"} or abs(_power(part, site) or 0.0) == 0.5


def _power(part: Part, site: Site) -> float | None:
    """Exponent of a power."""
    if site.kind != "pow":
        return None
    fixed = site.attributes.get("exponent")
    if fixed is None and len(site.inputs) > 1:
        fixed = single(part, site.inputs[1])
    return None if fixed is None else float(fixed)


def _bare(part: Part, site: Site) -> bool:
    """Whether a site takes the root of a variance that nothing is added to."""
    if not _takes_root(part, site):
        return False
    name, view = site.inputs[0], part.view
    entry = view.entry(name)
    if entry is None or name not in view.dynamic:
        return entry is not None and entry.signature.count > 1
    if any(_guard(part, reader) is not None for reader, _ in readers(view, site.outputs[0])):
        return False
    while (before := view.site_of(name)) is not None:
        if before.kind in {"mean", "sum", "variance"}:
            return True
        if before.kind not in MOVES | {"div", "mul", "sub", "maximum"}:
            return False
        name = next((one for one in before.inputs if one in view.dynamic), before.inputs[0])
    return False


@dataclass(frozen=True, slots=True)
class Form:
    """How a tensor is normalised.

    Attributes:
        shape: In which its axes are apart: groups split off.
        axes: Of that shape, over which statistics are taken.
        centred: The mean is subtracted.
        correction: What is taken from the number of elements that a variance is divided by.
        epsilon: As it stands there.
        outside: It is added after the root.
        mean: Stored statistics, of a shape that repeats over that of the tensor; None where they are its own.
        variance: Likewise.
        groups: Of channels that have statistics of their own; 0 where they are not split so.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    epsilon: float
    centred: bool = True
    correction: int = 0
    outside: bool = False
    mean: Float64 | None = None
    variance: Float64 | None = None
    groups: int = 0

    @property
    def running(self) -> bool:
        """Whether its statistics are stored ones."""
        return self.variance is not None

    @property
    def over_batch(self) -> bool:
        """Whether its statistics are taken over more than one sample."""
        return not self.running and 0 in self.axes and self.shape[0] > 1

    @property
    def words(self) -> str:
        """Over what its statistics are taken."""
        if self.running:
            return "running statistics"
        long = {axis for axis, size in enumerate(self.shape) if size > 1}
        if self.over_batch:
            return "over the whole batch" if long <= set(self.axes) else "batch statistics"
        if long - {0} <= set(self.axes):
            return "per sample"
        if self.groups:
            return f"per group of {self.groups}"
        spatial = len(self.shape) > 3 and len(self.axes) >= len(self.shape) - 2
        return "per-instance statistics" if spatial else "per position" if len(self.axes) == 1 else "per group"

    def statistics(self, x: Float64) -> tuple[Float64, Float64]:
        """Mean and variance of ``x``, of shapes that repeat over `shape`."""
        if self.variance is not None and self.mean is not None:
            return self.mean, self.variance
        split = x.reshape(self.shape)
        mean = split.mean(self.axes, keepdims=True) if self.centred else np.zeros((1,) * split.ndim)
        count = math.prod(self.shape[axis] for axis in self.axes)
        variance = np.square(split - mean).sum(self.axes, keepdims=True) / max(count - self.correction, 1)
        return mean, variance

    def spread(self, x: Float64) -> Float64:
        """The variance by which each element is divided; of the shape of ``x``."""
        return np.broadcast_to(self.statistics(x)[1], self.shape).reshape(x.shape)

    def normalised(self, x: Float64) -> Float64:
        """``x`` normalised, before any scale and bias."""
        mean, variance = self.statistics(x)
        deviation = np.sqrt(variance) + self.epsilon if self.outside else np.sqrt(variance + self.epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((x.reshape(self.shape) - mean) / deviation).reshape(x.shape)


@dataclass(frozen=True, slots=True)
class Norm:
    """One normalisation of a region.

    Attributes:
        sites: Its operators.
        x: What it normalises.
        form: How.
        target: The tensor that holds the result.
        scale: By which the target is multiplied, of a shape that repeats over ``x``; None for none.
        bias: That is added to the target after, likewise.
        fused: It is one operator.
    """

    sites: tuple[Site, ...]
    x: Float64
    form: Form
    target: str
    scale: Float64 | None = None
    bias: Float64 | None = None
    fused: bool = False

    def finished(self, normalised: Float64) -> Float64:
        """Normalised numbers as they stand in the target: scaled and shifted."""
        scaled = normalised if self.scale is None else normalised * self.scale
        return scaled if self.bias is None else scaled + self.bias


def norms(part: Part) -> list[Norm]:
    """Normalisations of a region whose form is known, in execution order."""
    found = [fused(part, site) for site in part.sites if site.kind in NORMALIZATIONS]
    return [one for one in (*found, *(_composed(part, root) for root in roots(part))) if one is not None]


def fused(part: Part, site: Site) -> Norm | None:
    """A fused operator's normalisation; None where its numbers are not those of its kind."""
    if site.op.startswith("Embed") or "epsilon" not in site.attributes:
        return None
    places = _skip_places(site) if site.op.startswith("Skip") else ((0,), 1, 2)
    sources, scale, bias = places
    x = sum((wide(part, site.inputs[k]) for k in sources if _present(site, k)), np.zeros(()))
    form = _fused_form(part, site, x)
    channels = _broadcast(site, x.ndim, x.shape)
    factor, shift = (
        _channelwise(wide(part, site.inputs[k]), x, channels) if _present(site, k) else None for k in (scale, bias)
    )
    return Norm((site,), x, form, site.outputs[0], factor, shift, fused=True)


def _present(site: Site, place: int) -> bool:
    return 0 <= place < len(site.inputs) and bool(site.inputs[place])


def _skip_places(site: Site) -> tuple[tuple[int, ...], int, int]:
    """Places of the sources, scale and bias of a normalisation that adds a residual first."""
    return ((0, 1, 3), 2, -1) if site.kind == "rms_norm" else ((0, 1, 4), 2, 3)


def _broadcast(site: Site, rank: int, shape: tuple[int, ...]) -> int | None:
    """Axis of the channels; None where scale and bias are of the last axes' shape."""
    if site.kind in {"layer_norm", "rms_norm"}:
        return None
    form = str(site.attributes.get("data_format", "NC"))
    return form.index("C") if len(form) == rank and "C" in form else min(1, len(shape) - 1)


def _channelwise(vector: Float64, x: Float64, channels: int | None) -> Float64:
    if channels is None:
        return vector
    count = x.shape[channels]
    if vector.size not in {1, count} and count % vector.size == 0:
        vector = np.repeat(vector.reshape(-1), count // vector.size)
    return vector.reshape([-1 if axis == channels else 1 for axis in range(x.ndim)])


def _fused_form(part: Part, site: Site, x: Float64) -> Form:
    shape, rank = x.shape, x.ndim
    epsilon = float(site.attributes["epsilon"])
    if site.kind in {"layer_norm", "rms_norm"}:
        first = int(site.attributes.get("axis", -1)) % rank
        return Form(shape, tuple(range(first, rank)), epsilon, centred=site.kind == "layer_norm")
    channels = _broadcast(site, rank, shape) or 0
    space = tuple(axis for axis in range(1, rank) if axis != channels)
    if site.kind == "instance_norm":
        return Form(shape, space, epsilon)
    if site.kind == "group_norm":
        groups = int(site.attributes["groups"])
        split = (*shape[:channels], groups, shape[channels] // groups, *shape[channels + 1 :])
        axes = tuple(axis for axis in range(1, rank + 1) if axis != channels)
        return Form(split, axes, epsilon, groups=groups)
    if site.attributes.get("training") or not _present(site, 4):
        return Form(shape, (0, *space), epsilon)
    mean, variance = (_channelwise(wide(part, site.inputs[k]), x, channels) for k in (3, 4))
    if site.inputs[4] in part.view.dynamic:  # computed before it, as exporters write a normalisation in training
        own = _form(x, (0, *space), variance, Root((site,), site.inputs[4], epsilon))
        if own is not None:
            return own
    return Form(shape, (0, *space), epsilon, mean=mean, variance=variance)


def _composed(part: Part, root: Root) -> Norm | None:
    spread = wide(part, root.tensor)
    if root.outside:
        spread = np.square(spread)
    if root.tensor not in part.view.dynamic:
        return _stored(part, root, spread)
    told: Norm | None = None
    for source, axes in _sources(part, root.tensor):
        x = wide(part, source)
        form = _form(x, axes, spread, root)
        if form is None:
            continue
        told = _located(part, _between(part, source, root), x, form) or told
    return told


def _form(x: Float64, axes: tuple[int, ...], spread: Float64, root: Root) -> Form | None:
    """The form whose variance of ``x`` is ``spread``."""
    for centred, correction in ((True, 0), (True, 1), (False, 0)):
        form = Form(x.shape, axes, root.epsilon, centred=centred, correction=correction, outside=root.outside)
        if same(form.statistics(x)[1], spread):
            return form
    return None


def _located(part: Part, sites: tuple[Site, ...], x: Float64, form: Form) -> Norm | None:
    """The normalisation with the tensor that holds its result, bare, or scaled already."""
    normalised = form.normalised(x)
    names = made(part)
    for scale in (None, *_factors(part, x)):
        numbers = normalised if scale is None else normalised * scale
        target = holder(part, numbers, names)
        if target is not None:
            return Norm(sites, x, form, target, scale)
    return None


def _factors(part: Part, x: Float64) -> Iterator[Float64]:
    """Vectors of the model by which a region multiplies, as they repeat over ``x``."""
    static = (
        name for site in part.sites if site.kind == "mul" for name in site.inputs if name not in part.view.dynamic
    )
    for name in islice(dict.fromkeys(static), FACTORS):
        numbers = wide(part, name)
        if numbers.size > 1 and numbers.ndim <= x.ndim and _repeats(numbers.shape, x.shape):
            yield numbers


def _repeats(shape: tuple[int, ...], over: tuple[int, ...]) -> bool:
    return all(size in {1, whole} for size, whole in zip(reversed(shape), reversed(over), strict=False))


def _sources(part: Part, tensor: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Tensors that a variance may be that of, with the axes of the reduction; the nearest first."""
    view, axes = part.view, None
    own = {site.name for site in part.sites}
    waiting = {tensor}
    for _ in range(FARTHEST):
        name = max(waiting, key=view.order)
        site = view.site_of(name)
        if site is None or site.name not in own or name in part.given:
            return
        waiting.discard(name)
        waiting.update(one for one in site.inputs if one in view.dynamic)
        if axes is None:
            axes = _reduced(view, site)
        if len(waiting) == 1 and axes is not None:
            source = next(iter(waiting))
            entry = view.entry(source)
            if entry is not None and len(entry.shape) > max(axes, default=0):
                yield source, axes
        if not waiting:
            return


def _reduced(view: GraphView, site: Site) -> tuple[int, ...] | None:
    """Axes that a site folds; None where it is no reduction."""
    before, after = view.entry(site.inputs[0]), view.entry(site.outputs[0])
    rank = len(before.shape) if before is not None else 0
    if site.kind in REDUCTIONS:
        return tuple(sorted(int(axis) % rank for axis in site.attributes.get("axes", range(rank))))
    if site.kind or before is None or after is None or len(after.shape) != rank:
        return None
    return tuple(axis for axis in range(rank) if after.shape[axis] == 1 < before.shape[axis]) or None


def _between(part: Part, source: str, root: Root) -> tuple[Site, ...]:
    """Sites of a composed normalisation: what reads its source before the root, and the root."""
    last = part.view.by_name[root.sites[-1].name]
    first = part.view.order(source)
    sites = [site for site in part.sites if first < part.view.by_name[site.name] <= last]
    return tuple(site for site in sites if any(name in part.view.dynamic for name in site.inputs))


def _stored(part: Part, root: Root, variance: Float64) -> Norm | None:
    """A composed normalisation by stored statistics: their mean is subtracted from what it normalises."""
    view = part.view
    for site in part.sites:
        if site.kind != "sub" or len(site.inputs) != 2:
            continue
        source, stored = site.inputs
        if source not in view.dynamic or stored in view.dynamic or stored not in {*available(part), *part.weight_names}:
            continue
        x, mean = wide(part, source), wide(part, stored)
        channels = [axis for axis, size in enumerate(x.shape) if size == variance.size]
        if mean.size != variance.size or mean.ndim > x.ndim or not channels:
            continue
        shape = np.broadcast_shapes(mean.shape, (1,) * x.ndim)
        axes = tuple(axis for axis, size in enumerate(shape) if size == 1)
        form = Form(
            x.shape,
            axes,
            root.epsilon,
            outside=root.outside,
            mean=mean.reshape(shape),
            variance=variance.reshape(shape),
        )
        found = _located(part, (site, *root.sites), x, form)
        if found is not None:
            return found
    return None


def told(number: float) -> str:
    """An epsilon as one would write it."""
    return f"{number:.3g}"


def names(sites: tuple[Site, ...]) -> list[str]:
    """Names of sites, for `Hypothesis.places`."""
    return [site.name for site in sites]
