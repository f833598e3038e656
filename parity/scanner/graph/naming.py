"""The name of a region: by its one operator where that says all, else by its values on a sweep."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from parity.scanner.graph.interpreter import Float64
from parity.scanner.graph.regions import ARITHMETIC, Region, Regions

STRONG: Final = frozenset(
    {
        *(
            "erf",
            "erfc",
            "tanh",
            "sigmoid",
            "log_sigmoid",
            "softplus",
            "softsign",
            "mish",
            "gelu",
            "quick_gelu",
            "silu",
        ),
        *("relu", "leaky_relu", "prelu", "elu", "selu", "celu", "hard_sigmoid", "hard_swish", "hard_tanh"),
        *("thresholded_relu", "scaled_tanh", "soft_shrink", "hard_shrink", "shrink"),
    }
)
"""Kinds that nobody uses but in an activation: a region with one of them is told of even if nobody knows it."""

CLOSE: Final = 1e-2
"""Largest difference from a variant, relative to max(1, |x|), from which values are looked at closely."""

SPREAD: Final = 12.0
"""Inputs up to which an activation is finite."""

SPLIT: Final = ("gelu_erf", "gelu_tanh")
"""Variants that are written with a factor of one half, which exporters move to the next product."""

MOST_FITS: Final = 8
"""Functions in one file that are fitted to the formulas with their numbers free, about a second each."""

MOST_PROBED: Final = 1000
"""Different regions in one file that are looked at by their numbers."""

CLAMP: Final = 32.0
"""Bound from which a clip guards against overflow and is no activation."""

COARSE: Final = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True, slots=True)
class Name:
    """What a region computes.

    Attributes:
        variant: The name of the function; None for one that is not known.
        parameters: Its parameters that are not the default.
        probed: Whether numbers told it, and not the operator's definition.
        reason: What a reader should know; empty where the name says all.
    """

    variant: str | None
    parameters: Mapping[str, float] = field(default_factory=dict)
    probed: bool = True
    reason: str = ""


Parameters = dict[str, float]


def _plain(value: Any) -> float:
    """A number as it was written: 1.702, and not the float32 1.7020000219."""
    number = float(value)
    short = float(f"{number:.7g}")
    return short if np.float32(short) == np.float32(number) else number


def _relabelled(name: str, **names: str) -> Callable[[Mapping[str, Any]], tuple[str, Parameters] | None]:
    def told(attributes: Mapping[str, Any]) -> tuple[str, Parameters]:
        return name, {ours: _plain(attributes[theirs]) for ours, theirs in names.items() if theirs in attributes}

    return told


def _gelu(attributes: Mapping[str, Any]) -> tuple[str, Parameters]:
    return ("gelu_tanh" if attributes.get("approximate") == "tanh" else "gelu_erf"), {}


def _quick_gelu(attributes: Mapping[str, Any]) -> tuple[str, Parameters]:
    alpha = _plain(attributes.get("alpha", 1.702))
    return ("silu", {}) if alpha == 1.0 else ("quick_gelu", {"alpha": alpha})


def _leaky_relu(attributes: Mapping[str, Any]) -> tuple[str, Parameters]:
    slope = _plain(attributes.get("alpha", 0.01))
    return ("leaky_relu", {"negative_slope": slope}) if slope else ("relu", {})


def _elu(attributes: Mapping[str, Any]) -> tuple[str, Parameters] | None:
    if attributes.get("scale", 1.0) != 1.0 or attributes.get("input_scale", 1.0) != 1.0:
        return None
    return "elu", {"alpha": _plain(attributes.get("alpha", 1.0))}


def _selu(attributes: Mapping[str, Any]) -> tuple[str, Parameters] | None:
    usual = {"alpha": 1.6732632, "gamma": 1.0507010}
    return ("selu", {}) if all(abs(attributes.get(k, v) - v) < 1e-5 for k, v in usual.items()) else None


def _clip(attributes: Mapping[str, Any]) -> tuple[str, Parameters] | None:
    low, high = attributes.get("min", -math.inf), attributes.get("max", math.inf)
    if low == 0 and high == math.inf:
        return "relu", {}
    if low == 0 and high == 6:
        return "relu6", {}
    if low == -high and abs(low) >= CLAMP:
        return None
    return ("hard_tanh", {"low": _plain(low), "high": _plain(high)}) if low <= 0 < high <= CLAMP else None


def _shrink(attributes: Mapping[str, Any]) -> tuple[str, Parameters] | None:
    bias, threshold = attributes.get("bias", 0.0), attributes.get("threshold", 0.5)
    if bias not in {0.0, threshold}:
        return None
    return ("soft_shrink" if bias else "hard_shrink"), {"threshold": _plain(threshold)}


def _threshold(attributes: Mapping[str, Any]) -> tuple[str, Parameters] | None:
    numbers = {"threshold": _plain(attributes.get("threshold", 1.0)), "value": _plain(attributes.get("value", 0.0))}
    return ("threshold", numbers) if any(numbers.values()) else ("relu", {})


_DEFINED: Final[Mapping[str, Callable[[Mapping[str, Any]], tuple[str, Parameters] | None]]] = {
    **{kind: _relabelled(kind) for kind in ("relu", "silu", "mish", "sigmoid", "tanh", "softsign", "log_sigmoid")},
    "leaky_relu": _leaky_relu,
    "gelu": _gelu,
    "quick_gelu": _quick_gelu,
    "elu": _elu,
    "selu": _selu,
    "celu": _relabelled("celu", alpha="alpha"),
    "softplus": _relabelled("softplus", beta="beta", threshold="threshold"),
    "hard_sigmoid": _relabelled("hard_sigmoid", slope="slope", offset="offset"),
    "hard_swish": _relabelled("hard_swish"),
    "hard_tanh": lambda attributes: _clip({"min": -1.0, "max": 1.0, **attributes}),
    "clip": _clip,
    "shrink": _shrink,
    "soft_shrink": _relabelled("soft_shrink", threshold="threshold"),
    "hard_shrink": _relabelled("hard_shrink", threshold="threshold"),
    "thresholded_relu": _threshold,
}
"""Kind to the variant that it is by definition; None where its attributes make another function of it."""


def defined(kind: str, attributes: Mapping[str, Any]) -> Name | None:
    """What an operator computes by definition; None where that needs a look at numbers, or is no activation."""
    told = _DEFINED[kind](attributes) if kind in _DEFINED else None
    return None if told is None else Name(told[0], changed(*told), probed=False)


def changed(name: str, parameters: Mapping[str, float]) -> Parameters:
    """Parameters that are not the default of that variant."""
    from parity.functions import FORMULAS  # noqa: PLC0415 – most graphs need no formula

    defaults = FORMULAS[name].parameters
    return {one: value for one, value in parameters.items() if not math.isclose(defaults[one], value, rel_tol=1e-6)}


class Namer:
    """Names the regions of one file.

    Args:
        limit: Fits at most.
    """

    def __init__(self, limit: int = MOST_FITS) -> None:
        self._left = limit
        self._fitted: dict[bytes, Name] = {}
        self._told: dict[Hashable, tuple[int, Name] | None] = {}

    def name(self, regions: Regions, nested: Sequence[Region], dtype: str) -> tuple[Region, Name] | None:
        """The region of several that end alike which is an activation, and which one; None where none is.

        Args:
            regions: Evaluates them.
            nested: Active regions with one end, the shortest first; at least one.
            dtype: That they compute in.
        """
        whole = nested[-1]
        kinds = [(len(one.nodes), one.closed) for one in nested]
        key = (dtype, regions.signature(whole), tuple(kinds), whole.nodes[-1].kind)
        if key not in self._told and len(self._told) >= MOST_PROBED:
            alone = _by_definition(regions, nested[0], nested[0])
            return None if alone is None else (nested[0], alone)
        if key not in self._told:
            found = self._named(regions, nested, dtype)
            self._told[key] = None if found is None else (nested.index(found[0]), found[1])
        told = self._told[key]
        return None if told is None else (nested[told[0]], told[1])

    def times_input(self, regions: Regions, region: Region, dtype: str) -> Name | None:
        """The variant that a region is with its own input as a factor; None where that is none."""
        from parity.functions.probing import sweep  # noqa: PLC0415 – most graphs need no probe

        y = _values(regions, region, dtype)
        return None if y is None else _close(y * sweep(dtype).astype(np.float64), dtype)

    def _named(self, regions: Regions, active: Sequence[Region], dtype: str) -> tuple[Region, Name] | None:
        last = _by_definition(regions, active[0], active[-1])
        if last is not None:
            return active[0], last
        for one in active:
            capped = _soft_cap(regions, one)
            if capped is not None:
                return one, capped
        values = {one.source: _values(regions, one, dtype) for one in active}
        for one in reversed(active):
            found = _close(values[one.source], dtype)
            if found is not None:
                region = _shortest(active, values, values[one.source])
                return region, _by_definition(regions, region, region) or found
        alone = _by_definition(regions, active[0], active[0])
        if alone is not None:
            return active[0], alone
        # A product or a sum behind an activation is none of it; one that holds the input again is.
        return self._unusual(active, values, dtype) if _ends(active[0]) else None

    def _unusual(
        self, active: Sequence[Region], values: Mapping[str, Float64 | None], dtype: str
    ) -> tuple[Region, Name] | None:
        """A function that is no variant with its usual numbers: one with others, or one that nobody knows."""
        for one in active:
            y = values[one.source]
            strong = any(node.kind in STRONG for node in one.nodes)
            if y is None or not one.closed or residual(one) or not (strong or one.forked):
                continue
            name = self._fit(y, dtype)
            if name.variant is None and not strong:
                return None
            return one, name
        return None

    def _fit(self, y: Float64, dtype: str) -> Name:
        key = y.tobytes()
        if key not in self._fitted:
            self._left -= 1
            self._fitted[key] = (
                _fitted(y, dtype) if self._left >= 0 else Name(None, reason="one unknown function of many")
            )
        return self._fitted[key]


def _ends(region: Region) -> bool:
    """Whether the last operator is part of the function: no arithmetic of one tensor and constants."""
    last = region.nodes[-1]
    made = {region.source, *(node.outputs[0] for node in region.nodes)}
    return last.kind not in ARITHMETIC or sum(region.resolved(name) in made for name in last.inputs) > 1


def _shortest(active: Sequence[Region], values: Mapping[str, Float64 | None], y: Float64 | None) -> Region:
    """The shortest of nested regions with these values: what stands before it changes nothing."""
    assert y is not None  # noqa: S101 – values that were identified
    same = (one for one in active if (own := values[one.source]) is not None and np.allclose(own, y, atol=1e-9))
    return next(same)


def residual(region: Region) -> bool:
    """Whether the region only adds something to its input: a connection past an activation, and no activation."""
    joins = [node for node in region.nodes if node.kind in {"add", "sub"} and node.outputs[0] == region.target]
    return any(region.resolved(name) == region.source for node in joins for name in node.inputs)


def _by_definition(regions: Regions, shortest: Region, longest: Region) -> Name | None:
    """What the last operator says, where all before it is arithmetic that it does not depend on."""
    *before, last = longest.nodes
    if len(shortest.nodes) > 1 or any(node.kind not in ARITHMETIC for node in before):
        return None
    return defined(last.kind, regions.attributes(last))


def _soft_cap(regions: Regions, region: Region) -> Name | None:
    """The tanh that keeps logits within bounds, c·tanh(x/c): unlike a plain tanh it changes nothing near 0."""
    if len(region.nodes) != 3 or not region.closed or [node.kind for node in region.nodes].count("tanh") != 1:
        return None
    before, _, after = region.nodes
    if before.kind not in {"mul", "div"} or after.kind not in {"mul", "div"}:
        return None
    try:
        near, far = regions.evaluate(region, np.array([1e-6, 1e9]))
    except (ValueError, KeyError):
        return None
    if not (far > 0 and math.isclose(near, 1e-6, rel_tol=CLOSE)):
        return None
    cap = _plain(far)
    return Name("tanh", {"cap": cap}, reason=f"a soft cap, {cap:g}·tanh(x/{cap:g})") if cap != 1.0 else None


def _values(regions: Regions, region: Region, dtype: str) -> Float64 | None:
    """A region on the sweep; None where it cannot be evaluated or is not finite where activations are."""
    from parity.functions.probing import sweep  # noqa: PLC0415 – most graphs need no probe

    x = sweep(dtype).astype(np.float64)
    try:
        y = np.broadcast_to(regions.evaluate(region, x), x.shape)
    except (ValueError, KeyError):
        return None
    return y if np.isfinite(y[np.abs(x) <= SPREAD]).all() else None


def _close(y: Float64 | None, dtype: str) -> Name | None:
    """The variant with its usual numbers that these values are, or twice or half of it; None where it is none."""
    from parity.functions.probing import sweep, usual  # noqa: PLC0415

    if y is None:
        return None
    room = CLOSE * np.maximum(1.0, np.abs(sweep(dtype).astype(np.float64)))
    names, z = usual(dtype)
    for factor in (1.0, 2.0, 0.5):
        for at in np.flatnonzero((np.abs(y / factor - z) <= room).all(axis=1)):
            found = _identified(y / factor, dtype) if factor == 1.0 or names[at] in SPLIT else None
            if found is not None:
                times = "" if factor == 1.0 else f"times {factor:g}; the other factor stands elsewhere"
                return Name(found.variant, found.parameters, reason=times or found.reason)
    return None


def _identified(y: Float64, dtype: str) -> Name | None:
    from parity.functions.probing import identified  # noqa: PLC0415

    found = identified(y, dtype)
    if found is None or found.variant is None or found.variant.name == "identity":
        return None
    x_negative = found.variant.name == "relu" and bool((y[:100] != 0).any())
    return None if x_negative else Name(found.variant.name, changed(found.variant.name, dict(found.variant.parameters)))


def _fitted(y: Float64, dtype: str) -> Name:
    """The variant with other numbers, or what is known of a function that is none."""
    from parity.functions.probing import identified  # noqa: PLC0415

    name, factor, apart, at = _nearest(y, dtype)
    found = identified(y / factor, dtype)
    times = f"times {factor:g}; the other factor stands elsewhere" if factor != 1.0 else ""
    if found is not None and found.variant is not None and found.variant.name != "identity":
        return Name(found.variant.name, changed(found.variant.name, dict(found.variant.parameters)), reason=times)
    if found is not None and "has the form of" in found.reason:
        return Name(None, reason=found.reason)
    whole = {1.0: "", 2.0: "twice ", 0.5: "half of "}[factor]
    return Name(None, reason=f"nothing fits: the nearest, {whole}{name}, is {apart:.2g} away at x = {at:.4g}")


def _nearest(y: Float64, dtype: str) -> tuple[str, float, float, float]:
    """The variant with its usual numbers that values are nearest to, a factor, the largest difference, and where."""
    from parity.functions.probing import sweep, usual  # noqa: PLC0415

    x = sweep(dtype).astype(np.float64)
    inside = np.abs(x) <= SPREAD / 2
    names, z = usual(dtype)
    tried = []
    for name, values in zip(names, z, strict=True):
        for factor in (1.0, 2.0, 0.5) if name in SPLIT else (1.0,):
            apart = np.abs(y - factor * values)[inside]
            worst = int(np.argmax(apart))
            tried.append((float(np.mean(apart)), name, factor, float(apart[worst]), float(x[inside][worst])))
    return min(tried)[1:]
