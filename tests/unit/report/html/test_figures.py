"""The plots as data: a mark for each thing that was measured, where it belongs."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from parity.findings import Finding
from parity.functions import variant
from parity.jobs.diff_run import LayerRow
from parity.layerwise.measuring import GAP
from parity.report.html.figures import INPUTS, by_input, depth, escaped, explorer, ulp_histogram
from parity.report.html.parts import Figure
from parity.report.html.suite import page as suite_page
from parity.report.html.suite import worst_rows


def traces(figure: Figure) -> dict[str, dict]:
    return {one["name"]: dict(one) for one in figure.data}


def valid(figure: Figure) -> None:
    """Plotly knows every property, and the plot is plain JSON."""
    graph_objects = pytest.importorskip("plotly.graph_objects", reason="the extra html is not installed")
    graph_objects.Figure(data=figure.data, layout=figure.layout)
    json.dumps({"data": figure.data, "layout": figure.layout}, allow_nan=False)


def test_every_layer_has_its_marks(layers: list[LayerRow]) -> None:
    figure = depth(layers, "depth")
    found = traces(figure)
    assert len(found["inherited"]["x"]) == len(layers) == 12
    assert found["guilty"]["x"] == [3, 6]
    assert len(found["own error"]["x"]) == 9  # all but the guilty and the one that was not compared
    assert all(len(one["hovertext"]) == len(one["x"]) == len(one["y"]) for one in found.values())
    valid(figure)


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_few_layers_have_a_tick_each_and_none_between_them(layers: list[LayerRow], count: int) -> None:
    assert depth(layers[:count], "depth").layout["xaxis"]["dtick"] == 1
    assert "dtick" not in depth(layers * 9, "depth").layout["xaxis"]


def test_errors_stand_in_units_of_the_tensors_size(layers: list[LayerRow]) -> None:
    found = traces(depth(layers, "depth"))
    floor = 1e-7 / GAP
    assert found["noise floor"]["y"][0] == pytest.approx(floor)
    assert found["noise floor"]["y"][4] is None
    assert found["own error"]["y"][0] == pytest.approx(floor)
    assert found["guilty"]["y"][0] == pytest.approx(1e3 * floor)


def test_zero_stands_below_all_numbers_and_infinity_above(layers: list[LayerRow]) -> None:
    figure = depth(layers, "depth")
    zero, infinite, finite = traces(figure)["inherited"]["y"][:3]
    low, high = figure.layout["yaxis"]["range"]
    assert low < math.log10(zero) < math.log10(1e-7 / GAP) < math.log10(finite) < math.log10(infinite) < high
    guilty = replace(layers[2], excess=math.inf, visible=None)
    assert math.isfinite(traces(depth([guilty], "depth"))["guilty"]["y"][0])


def test_names_in_plots_are_escaped(layers: list[LayerRow]) -> None:
    figure = depth(layers, "depth")
    (text,) = {one["hovertext"][2] for one in figure.data if one["name"] == "inherited"}
    assert "<script" not in text
    assert "<img" not in text
    assert escaped("<b>&lt;\x1b\n") == "&lt;b&gt;&amp;lt;\\x1b\\n"


def activation(**changes: object) -> Finding:
    sweep = {"x": [-2.7, 0.0, 2.7], "error": [4.7e-4, 0.0, 4.7e-4]}
    fields = {"rule": "activation-variant", "severity": "error", "message": "m", "evidence": {"sweep": sweep}}
    return Finding(**(fields | {"expected": "gelu_erf", "observed": "gelu_tanh"} | changes))  # type: ignore[arg-type]


def test_an_activations_error_has_its_dots_and_a_line_a_hypothesis() -> None:
    figure = by_input(activation(), "cause")
    assert figure is not None
    found = traces(figure)
    assert list(found) == ["gelu_tanh", "quick_gelu", "measured"]
    assert found["measured"]["y"] == [4.7e-4, 0.0, 4.7e-4]
    gap = variant("gelu_tanh").value(INPUTS) - variant("gelu_erf").value(INPUTS)
    np.testing.assert_allclose(found["gelu_tanh"]["y"], gap)
    low, high = figure.layout["yaxis"]["range"]
    assert low < -4.7e-4
    assert high > 4.7e-4
    valid(figure)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"expected": "relu", "observed": "silu", "evidence": {}}, ["silu"]),
        ({"expected": "relu", "observed": "unknown"}, ["measured"]),
        ({"expected": "relu", "observed": "unknown", "evidence": {}}, None),
        ({"expected": None}, None),
        ({"expected": "<b>"}, None),
        ({"expected": "swiglu"}, None),
    ],
)
def test_what_is_not_known_has_no_line(changes: dict[str, object], names: list[str] | None) -> None:
    figure = by_input(activation(**changes), "cause")
    assert names == (None if figure is None else list(traces(figure)))


def test_the_explorer_compares_with_the_first_and_starts_where_they_differ_most() -> None:
    found = explorer(["gelu_erf", "gelu_tanh", "gelu_erf", None, "nope"])
    assert found is not None
    assert list(found.names) == ["gelu_erf", "gelu_tanh", "quick_gelu"]
    assert list(traces(found.curves)) == list(found.names)
    assert list(traces(found.differences)) == list(found.names[1:])
    assert abs(found.x[found.start]) == pytest.approx(2.7, abs=0.05)
    assert {len(one["y"]) for one in (*found.curves.data, *found.differences.data)} == {len(found.x)}
    valid(found.curves)
    valid(found.differences)
    assert explorer(["relu", "nope"]) is None


def test_the_histogram_counts_each_implementation_once_by_its_worst_near_row(suite) -> None:
    figure = ulp_histogram(worst_rows(suite.results))
    found = traces(figure)
    counts = {name: dict(zip(one["x"], one["y"], strict=True)) for name, one in found.items()}
    assert {name: sum(one.values()) for name, one in counts.items()} == {"float32": 2, "float16": 1}
    assert counts["float32"]["4"] == counts["float32"]["more"] == counts["float16"]["0.5"] == 1
    valid(figure)


def test_the_matrix_of_defaults_marks_what_differs(suite) -> None:
    matrix = next(one for one in suite_page("suite", suite).sections if one.title.startswith("What a name"))
    (row,) = matrix.tables[0].rows
    assert row[1].text == "differ"
    assert any(cell.tone == "warn" and "unknown" in cell.text for cell in row[2:])
