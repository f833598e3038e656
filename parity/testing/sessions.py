"""Checks that any adapter's session must pass; for the tests of adapters, ours and others'."""

from collections.abc import Mapping

import numpy as np

from parity.adapter import Array, Session, UnsupportedPrecisionError
from parity.graph import KINDS, Site, Traced


def traced(session: Session, inputs: Mapping[str, Array]) -> tuple[list[Site], dict[str, Array], Traced]:
    """A traced run held in memory: its sites, a copy of each tensor by name, and its ends."""
    sites: list[Site] = []
    tensors: dict[str, Array] = {}

    def sink(site: Site, made: Mapping[str, Array]) -> None:
        sites.append(site)
        tensors.update({name: np.array(array) for name, array in made.items()})

    ends = session.trace(inputs, sink)
    for name, tensor in ends.inputs.items():
        tensors.setdefault(tensor, inputs.get(name, next(iter(inputs.values()))))
    return sites, tensors, ends


def check_session(session: Session, inputs: Mapping[str, Array], *, exact: bool = True, double: bool = True) -> None:
    """Asserts what the core relies on.

    Args:
        session: An opened model that is repeatable.
        inputs: By the model's own names.
        exact: A site evaluated alone gives the very bits of the traced run, and this those of `run`; otherwise within
            rounding.
        double: Every site can be computed in float64.

    Raises:
        AssertionError: With the site in the message.
    """
    ran = session.run(inputs)
    sites, tensors, ends = traced(session, inputs)
    weights = session.weights()
    check_graph(sites, ends, weights, tensors)
    assert list(ran) == list(ends.outputs), "run and trace name other outputs"
    for name, tensor in ends.outputs.items():
        value = tensors[tensor] if tensor in tensors else weights[tensor]
        assert_same(value, ran[name], f"output {name} in trace and run", exact=exact)
    for site in sites:
        given = {name: tensors[name] for name in site.inputs if name in tensors}
        made = [name for name in site.outputs if name in tensors]
        alone = session.evaluate([site.name], given, made, "native")
        for name in made:
            assert_same(alone[name], tensors[name], f"{site.name} alone", exact=exact)
    check_double(session, inputs, sites, tensors, ends, double=double)


def check_graph(sites: list[Site], ends: Traced, weights: Mapping[str, Array], tensors: Mapping[str, Array]) -> None:
    """Asserts that names are unique and every tensor comes from somewhere."""
    known = {"", *ends.inputs.values()}
    names = set()
    for site in sites:
        assert site.name not in names, f"two sites are called {site.name}"
        names.add(site.name)
        assert site.kind in KINDS or not site.kind, f"{site.name} is of unknown kind {site.kind}"
        for name in site.inputs:
            assert name in known or name in weights, f"{site.name} reads {name}, which nobody made"
        for name in site.outputs:
            assert not name or name not in known, f"{name} is made twice"
            assert not name or name in tensors, f"{site.name} did not show {name}"
            known.add(name)


def check_double(
    session: Session,
    inputs: Mapping[str, Array],
    sites: list[Site],
    tensors: Mapping[str, Array],
    ends: Traced,
    *,
    double: bool,
) -> None:
    """Asserts that the whole model in float64 gives float64, near what the traced run gave."""
    given = {tensor: inputs[name] for name, tensor in ends.inputs.items() if name in inputs}
    wanted = [name for name in ends.outputs.values() if name in tensors]
    try:
        exact = session.evaluate([site.name for site in sites], given, wanted, "float64")
    except UnsupportedPrecisionError:
        assert not double, "not every site can be computed in float64"
        return
    for name in wanted:
        if tensors[name].dtype.kind in "fV":  # V: bfloat16
            assert exact[name].dtype == np.float64, f"{name} is {exact[name].dtype} where float64 was asked for"
        assert_same(exact[name], tensors[name], f"{name} in float64", exact=False)


def assert_same(a: Array, b: Array, what: str, *, exact: bool) -> None:
    """Asserts equal bits, or with ``exact`` false equal shapes and a small relative error of the whole."""
    assert a.shape == b.shape, f"{what}: shapes {a.shape} and {b.shape}"
    if exact:
        assert a.dtype == b.dtype, f"{what}: {a.dtype} and {b.dtype}"
        assert a.tobytes() == b.tobytes(), f"{what}: other bits"
        return
    wide, other = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(other)
    assert (np.isfinite(wide) == finite).all(), f"{what}: not finite in other places"
    error = float(np.linalg.norm((wide - other)[finite]))
    limit = 0.02 * float(np.linalg.norm(other[finite])) + 1e-30
    assert error <= limit, f"{what}: {error} away, at most {limit}"
