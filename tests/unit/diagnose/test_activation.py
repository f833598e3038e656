"""Activations held against their counterparts."""

import math
from functools import cache

import numpy as np
import pytest

from parity.align.alignment import Alignment, Pair
from parity.align.layout import Layout
from parity.diagnose.activation import FAR, SHOWN, Difference, compare, counterparts, differences, hypothesis
from parity.diagnose.chains import Activation, Chain
from parity.functions import Variant, variant
from parity.functions.identify import identify
from parity.functions.probing import sweep
from parity.graph import Site

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


@cache
def activation(name: str, *, of: Variant | None = None, scale: float = 1.0, dtype: str = "float32", recorded=False):
    """One that computes a variant, scaled a little; for an empty name a function that has none."""
    x = sweep(dtype)
    wide = x.astype(np.float64)
    values = (of or variant(name)).value(wide) if name else np.sin(wide)
    found = identify(x.astype(np.float32), values.astype(np.float32)) if name else None
    site = Site(name=f"site:{name}", op="Op", kind="gelu", scope="act", inputs=("s",), outputs=("t",))
    return Activation(Chain("s", "t", (site,)), dtype, None if recorded else values * scale, found, (4, 8))


def test_the_same_function_is_no_difference() -> None:
    for name in ("gelu_erf", "gelu_tanh", "silu", "relu", ""):
        assert compare(activation(name), activation(name)) is None


@pytest.mark.parametrize(
    ("one", "two", "largest"),
    [("gelu_erf", "gelu_tanh", 4.7e-4), ("gelu_erf", "quick_gelu", 0.02), ("silu", "mish", 0)],
)
def test_another_variant(one: str, two: str, largest: float) -> None:
    found = compare(activation(one), activation(two))
    assert found.rule == "activation-variant"
    assert found.largest > 0.4 * largest
    x = sweep("float32").astype(np.float64)
    gap = np.abs(variant(one).value(x) - variant(two).value(x)) / np.maximum(1, np.abs(variant(one).value(x)))
    assert found.largest == pytest.approx(gap.max(), rel=1e-4)
    assert found.worst == pytest.approx(x[gap.argmax()])


def test_another_parameter() -> None:
    one, two = (activation("leaky_relu", of=variant("leaky_relu", negative_slope=slope)) for slope in (0.01, 0.2))
    assert compare(one, one) is None
    found = compare(one, two)
    assert found.rule == "activation-parameter"
    told = hypothesis(None, found)
    assert (told.expected, told.observed) == (one.name, two.name)
    assert told.expected != told.observed


def test_truncated_constants_are_the_same_function() -> None:
    one, two = activation("gelu_tanh"), activation("gelu_tanh", scale=1 + 3e-6)
    assert compare(one, two) is None
    assert compare(one, activation("gelu_tanh", scale=1.01)) is None, "still gelu_tanh by name"
    assert compare(one, activation("gelu_tanh", scale=1.03)) is not None
    assert compare(activation(""), activation("", scale=1.01)) is None, "nothing is known of either"
    assert compare(activation(""), activation("gelu_tanh")) is not None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_narrow_types_the_names_decide(dtype: str) -> None:
    assert compare(activation("gelu_erf", dtype=dtype), activation("gelu_erf", dtype=dtype, scale=1.03)) is None
    assert compare(activation("gelu_erf", dtype=dtype), activation("gelu_tanh", dtype=dtype)) is not None


def test_of_other_types_the_names_decide() -> None:
    assert compare(activation("silu"), activation("silu", dtype="bfloat16")) is None
    found = compare(activation("silu"), activation("mish", dtype="bfloat16"))
    assert math.isnan(found.largest)


def test_of_recorded_numbers_the_names_decide() -> None:
    assert compare(activation("silu"), activation("silu", recorded=True)) is None
    assert compare(activation("silu", recorded=True), activation("mish")) is not None
    assert compare(activation("silu", recorded=True), activation("", recorded=True)) is None, "nobody knows"


def test_what_is_told_of_a_difference() -> None:
    told = hypothesis(None, compare(activation("gelu_erf"), activation("gelu_tanh")))
    assert (told.rule, told.expected, told.observed) == ("activation-variant", "gelu_erf", "gelu_tanh")
    assert "0.00047 at x = " in told.message
    assert 'approximate="none"' in told.fix
    assert told.places == {"reference": ["site:gelu_erf"], "candidate": ["site:gelu_tanh"]}
    assert told.evidence["probe_max_abs"] == pytest.approx(4.7e-4, rel=0.01)
    x, error = (np.asarray(told.evidence["sweep"][name]) for name in ("x", "error"))
    assert 60 < x.size <= SHOWN
    assert np.abs(x).max() <= FAR
    exact = variant("gelu_tanh").value(x) - variant("gelu_erf").value(x)
    np.testing.assert_allclose(error, exact, atol=1e-7)
    assert told.repair is None
    told = hypothesis(None, Difference(activation("mish"), activation("silu", recorded=True), math.nan, math.nan))
    assert "largest" not in told.message
    assert "sweep" not in told.evidence
    assert "mish" in told.fix
    assert "reference's own" in hypothesis(None, compare(activation(""), activation("silu"))).fix


# ---- which is which


def stack(toy, *names: str, prefix: str = ""):
    model = toy(x=(None, 8))
    at = "x"
    for k, name in enumerate(names):
        at = model("matmul", at, model.weight("w", np.eye(8)), to=f"{prefix}m{k}")
        at = model(name or "exp", at, to=f"{prefix}a{k}")
    return model.gives(at).view(x=X)


def found_in(view, *names: str) -> list[Activation]:
    found = []
    for k, site in enumerate(site for site in view.trace.sites if site.kind != "matmul"):
        one = activation(names[k])
        found.append(
            Activation(
                Chain(site.inputs[0], site.outputs[0], (site,)), "float32", one.values, one.identification, (4, 8)
            )
        )
    return found


def paired(toy, ours: tuple[str, ...], theirs: tuple[str, ...], pairs: dict[str, str]) -> list[tuple[str, str]]:
    views = stack(toy, *ours), stack(toy, *theirs, prefix="c")
    alignment = Alignment()
    for one, two in pairs.items():
        alignment.add(Pair(one, two, Layout.reshaped((4, 8), (4, 8)), "value", 1.0))
    lists = found_in(views[0], *ours), found_in(views[1], *theirs)
    found = [(one.chain.target, two.chain.target) for one, two in counterparts(views, alignment, *lists)]
    told = differences(views, alignment, *lists)
    assert {(one.reference.chain.target, one.candidate.chain.target) for one in told} <= set(found)
    return sorted(found)


def test_by_the_tensor_that_they_make_or_read(toy) -> None:
    names = ("relu", "silu")
    assert paired(toy, names, names, {"a0": "ca1", "m1": "cm0"}) == [("a0", "ca1"), ("a1", "ca0")]


def test_the_rest_by_order(toy) -> None:
    names = ("relu", "silu", "tanh")
    assert paired(toy, names, names, {}) == [("a0", "ca0"), ("a1", "ca1"), ("a2", "ca2")]
    assert paired(toy, names, names, {"a0": "ca1"}) == [("a0", "ca1"), ("a1", "ca0"), ("a2", "ca2")]


def test_where_the_counts_differ_those_that_are_known_by_order(toy) -> None:
    assert paired(toy, ("relu", "", "silu"), ("relu", "silu"), {}) == [("a0", "ca0"), ("a2", "ca1")]
    assert paired(toy, ("relu", "tanh", "silu"), ("relu", "silu"), {}) == []
