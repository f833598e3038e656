"""The plots, as plain data for Plotly. Text in them is escaped here, as Plotly reads a markup of its own in it."""

import html
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.findings import Finding
from parity.functions import Variant, parse, variant
from parity.jobs.diff_run import LayerRow
from parity.layerwise.measuring import GAP
from parity.measure.activation import Row
from parity.report.diff import GUILTY, STATUS, shortened
from parity.report.html.parts import Explorer, Figure, visible
from parity.report.terminal import number

GELU: Final = ("gelu_erf", "gelu_tanh", "quick_gelu")
"""The functions that go by the name of GELU."""

FAR: Final = 6.0
"""Greatest input in plots of functions: beyond, activations are 0 or straight lines."""

INPUTS: Final = np.linspace(-FAR, FAR, 241)

LONGEST: Final = 56
"""Characters of a name in a plot."""

MOST_FUNCTIONS: Final = 6
"""Functions in one plot."""

MOST_NAMES: Final = 8
"""Names in the label of one bar."""

COLOURS: Final = tuple(f"var(--curve-{k})" for k in range(1, MOST_FUNCTIONS + 1))

FEW: Final = 12
"""Layers that each have a tick: left to itself, Plotly puts some between them."""

MOST_TICKS: Final = 8
"""Powers of ten that are written at an axis."""

ULP_EDGES: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 4096.0)
"""Upper ends of the bins of the histogram; one more is for what is above."""


def escaped(text: str) -> str:
    """A name as Plotly shows it literally."""
    return html.escape(shortened(visible(text).replace("\n", "\\n"), LONGEST), quote=False)


# ---- errors by depth


def depth(layers: Sequence[LayerRow], name: str) -> Figure:
    """Every layer's own and inherited error against the noise floor, in units of its tensor's size."""
    own = [_own(one) for one in layers]
    floors = [None if one.visible is None else one.visible / GAP for one in layers]
    inherited = [one.propagated_error for one in layers]
    scale = _Scale([*own, *floors, *inherited])
    texts = [_layer(*one) for one in zip(layers, own, floors, strict=True)]
    guilty = [k for k, one in enumerate(layers) if one.status in GUILTY]
    fine = [k for k, one in enumerate(layers) if own[k] is not None and one.status not in GUILTY]

    def points(places: Iterable[int], values: Sequence[float | None], **more: Any) -> dict[str, Any]:
        chosen = list(places)
        return {
            "type": "scatter",
            "x": [k + 1 for k in chosen],
            "y": [scale.place(values[k]) for k in chosen],
            "hovertext": [texts[k] for k in chosen],
            "hoverinfo": "text",
            **more,
        }

    everywhere = range(len(layers))
    data = [
        points(everywhere, floors, name="noise floor", mode="lines", line={"color": "var(--floor)", "dash": "dot"})
        | {"hoverinfo": "skip", "connectgaps": True},
        points(everywhere, inherited, name="inherited", mode="lines+markers")
        | {"line": {"color": "var(--inherited)", "width": 1}, "marker": {"color": "var(--inherited)", "size": 5}},
        points(fine, own, name="own error", mode="markers", marker={"color": "var(--own)", "size": 6}),
        points(guilty, [math.inf if one is None else one for one in own], name="guilty", mode="markers")
        | {"marker": {"color": "var(--bad)", "size": 12, "symbol": "diamond"}},
    ]
    return Figure(
        name=name,
        title="Own and inherited error by depth",
        note="In units of each tensor's size. A guilty layer's own error stands far above the noise floor; an "
        "inherited error above it says nothing against a layer. Marks on the lowest line are exactly 0, on the highest "
        "not finite.",
        data=[one for one in data if one["x"]],
        layout={
            "xaxis": {"title": {"text": "layer, in the reference's order"}, "range": [0, len(layers) + 1]}
            | ({"dtick": 1} if len(layers) <= FEW else {}),
            "yaxis": {"type": "log", "range": scale.range, "dtick": scale.step, "exponentformat": "power"},
        },
    )


def _own(layer: LayerRow) -> float | None:
    """A layer's own error in units of its tensor's size; infinite where that has none."""
    if layer.excess is None or layer.local_error == 0:
        return None if layer.excess is None else 0.0
    return math.inf if layer.visible is None else layer.excess * layer.visible / GAP


def _layer(layer: LayerRow, own: float | None, floor: float | None) -> str:
    lines = [
        f"<b>{escaped(layer.reference)}</b>",
        f"{escaped(layer.op)}: {STATUS[layer.status][0]}",
        f"own {number(own)}, floor {number(floor)}, inherited {number(layer.propagated_error)}",
        f"excess {number(layer.excess)}",
    ]
    return "<br>".join(lines)


class _Scale:
    """Where numbers stand on a logarithmic axis, with a line below for 0 and one above for what is not finite."""

    def __init__(self, values: Iterable[float | None]) -> None:
        known = [one for one in values if one is not None and 0 < one < math.inf] or [1e-7]
        self._low, self._high = math.floor(math.log10(min(known))) - 1, math.ceil(math.log10(max(known))) + 1
        self.range = [self._low - 0.3, self._high + 0.3]
        self.step = -(-(self._high - self._low) // MOST_TICKS)

    def place(self, value: float | None) -> float | None:
        if value is None:
            return None
        if not math.isfinite(value):
            return float(10.0**self._high)
        return float(max(value, 10.0**self._low))


# ---- functions of the input


def by_input(finding: Finding, name: str) -> Figure | None:
    """The error of a guilty activation over its input, and what it would be were this or that function computed.

    None where neither the error over the input nor the function that was expected is known.
    """
    measured: Mapping[str, Sequence[float]] = finding.evidence.get("sweep", {})
    expected = known(finding.expected)
    functions = _hypotheses(finding) if expected is not None else []
    if expected is None or not (measured or functions):
        return None
    data = [
        _line(str(one), INPUTS, one.value(INPUTS) - expected.value(INPUTS), colour)
        for one, colour in zip(functions, COLOURS[1:], strict=False)
    ]
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "input of the activation"}, "range": [-FAR, FAR]},
        "yaxis": {"title": {"text": f"error against {escaped(str(expected))}"}, "exponentformat": "power"},
    }
    if measured:
        data.append(_measured(measured))
        if largest := max(map(abs, measured["error"])):
            layout["yaxis"]["range"] = [-1.6 * largest, 1.6 * largest]
    return Figure(
        name=name,
        title=f"{finding.observed or 'unknown'} in the place of {finding.expected}: the error over the input",
        note="Dots are what the candidate's own operators gave on a sweep of inputs, less the reference's; each line "
        "is the error that the function of that name would make.",
        data=data,
        layout=layout,
    )


def _measured(points: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    texts = [f"x = {number(x)}<br>error {number(error)}" for x, error in zip(points["x"], points["error"], strict=True)]
    return {
        "type": "scatter",
        "name": "measured",
        "mode": "markers",
        "x": list(points["x"]),
        "y": list(points["error"]),
        "hovertext": texts,
        "hoverinfo": "text",
        "marker": {"color": "var(--bad)", "size": 6, "symbol": "circle-open"},
    }


def known(name: str | None) -> Variant | None:
    """The variant of that name, if it is one of a single input."""
    try:
        found = parse(name or "")
    except InputError:
        return None
    return found if found.arity == 1 else None


def _hypotheses(finding: Finding) -> list[Variant]:
    """The function that was found, and the others that go by the same name as the expected one."""
    observed = known(finding.observed)
    found = [] if observed is None else [observed]
    if finding.expected in GELU:
        found += [variant(name) for name in GELU if name not in (finding.expected, finding.observed)]
    return found[: MOST_FUNCTIONS - 1]


def _line(name: str, x: Any, y: Any, colour: str) -> dict[str, Any]:
    texts = [f"{escaped(name)}<br>x = {number(a)}<br>{number(b, 6)}" for a, b in zip(x, y, strict=True)]
    return {
        "type": "scatter",
        "name": escaped(name),
        "mode": "lines",
        "x": [round(float(one), 6) for one in x],
        "y": [float(one) if math.isfinite(one) else None for one in y],
        "hovertext": texts,
        "hoverinfo": "text",
        "line": {"color": colour, "width": 2},
    }


def explorer(names: Iterable[str | None], name: str = "functions") -> Explorer | None:
    """Functions over their input, and what they are apart from the first one; None where fewer than two are known."""
    found = [one for one in map(known, dict.fromkeys(names)) if one is not None][:MOST_FUNCTIONS]
    if any(str(one) in GELU for one in found):
        found += [variant(name) for name in GELU if variant(name) not in found][: MOST_FUNCTIONS - len(found)]
    if len(found) < 2:
        return None
    values = [one.value(INPUTS) for one in found]
    lines = [_line(str(one), INPUTS, y, colour) for one, y, colour in zip(found, values, COLOURS, strict=False)]
    apart = [
        _line(str(one), INPUTS, y - values[0], colour)
        for one, y, colour in zip(found[1:], values[1:], COLOURS[1:], strict=False)
    ]
    axis = {"title": {"text": "x"}, "range": [-FAR, FAR]}
    return Explorer(
        x=lines[0]["x"],
        start=int(np.argmax(np.abs(values[1] - values[0]))),
        names=[str(one) for one in found],
        curves=Figure(name=f"{name}-curves", title="Values", data=lines, layout={"xaxis": axis}),
        differences=Figure(
            name=f"{name}-differences",
            title=f"Differences from {found[0]}",
            data=apart,
            layout={"xaxis": axis, "yaxis": {"exponentformat": "power"}},
        ),
    )


# ---- the suite


def ulp_histogram(worst: Mapping[tuple[str, str], Row]) -> Figure:
    """How many implementations have a largest error of so many ulp, by dtype.

    Args:
        worst: By implementation and dtype, the row that counts.
    """
    labels = [*(f"{edge:g}" for edge in ULP_EDGES), "more"]
    data = []
    for dtype, colour in zip(FLOAT_DTYPES, COLOURS, strict=False):
        bins: list[list[str]] = [[] for _ in labels]
        for (name, of), row in worst.items():
            if of == dtype and row.scaled_ulp is not None:
                bins[_bin(row.scaled_ulp)].append(name)
        if any(bins):
            data.append(
                {
                    "type": "bar",
                    "name": dtype,
                    "x": labels,
                    "y": [len(one) for one in bins],
                    "hovertext": [_bar(dtype, one) for one in bins],
                    "hoverinfo": "text",
                    "marker": {"color": colour},
                }
            )
    return Figure(
        name="ulp",
        title="Largest error of each implementation",
        note="In ulp at max(|x|, |y|), over inputs up to 20; a well-written formula stays near 1.",
        data=data,
        layout={
            "barmode": "stack",
            "xaxis": {"title": {"text": "ulp, up to"}, "type": "category"},
            "yaxis": {"title": {"text": "implementations"}},
        },
    )


def _bin(ulp: float) -> int:
    return next((k for k, edge in enumerate(ULP_EDGES) if ulp <= edge), len(ULP_EDGES))


def _bar(dtype: str, names: Sequence[str]) -> str:
    """What stands beside a bar: how many there are, and the first names."""
    counts = Counter(names)
    more = [f"… and {len(counts) - MOST_NAMES} more"] if len(counts) > MOST_NAMES else []
    return "<br>".join([f"<b>{len(names)} in {dtype}</b>", *map(escaped, list(counts)[:MOST_NAMES]), *more])
