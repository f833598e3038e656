"""``activation-variant``: what a graph computes against what the configs say.

A function that the configs name and no graph computes is told, and so is one that a graph computes and no config names:
it may stand in one layer of many.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from parity.findings import Finding
from parity.scanner.knowledge.differences import largest_difference
from parity.scanner.knowledge.targets import GATED
from parity.scanner.model import ActivationUse, Document

AUXILIARY: Final = frozenset(
    {"tanh", "sigmoid", "identity", "softplus", "log_sigmoid", "hard_sigmoid", "glu", "softsign", "sqrt_softplus"}
)
"""Functions of gates and poolers: found in graphs whose configs do not speak of them."""


ALIKE: Final = 0.05
"""Largest difference of two forms of one function: exact GELU, its tanh form and quick GELU are this near."""


def compare(configs: Sequence[Document], graphs: Sequence[Document]) -> tuple[int, list[Finding]]:
    """Activations of configs that were looked for in graphs, and what is not as they say."""
    said = [use for document in configs for use in document.activations if _counts(use)]
    found = [use for document in graphs for use in document.activations if _counts(use)]
    if not said or not found:
        return 0, []
    return len(said), list(_differences(said, found))


def _counts(use: ActivationUse) -> bool:
    return use.variant is not None and use.variant not in AUXILIARY


def _base(use: ActivationUse) -> str:
    return GATED.get(str(use.variant), str(use.variant))


def _differences(said: Sequence[ActivationUse], found: Sequence[ActivationUse]) -> Iterator[Finding]:
    """For each function that the configs name and the graphs lack, what stands there instead; and what is left over."""
    expected, observed = {_base(use) for use in said}, {_base(use) for use in found}
    told: set[str] = set()
    foreign = [use for use in found if _base(use) not in expected]
    for variant in sorted(expected - observed):
        use = next(use for use in said if _base(use) == variant)
        if not foreign:
            yield _finding(use, None, [])
            continue
        other = min(sorted({_base(one) for one in foreign}), key=lambda name: _apart(variant, name))
        told.add(other)
        yield _finding(use, other, [one for one in foreign if _base(one) == other])
    for other in sorted(observed - expected - told):
        near = min(sorted(expected), key=lambda name: _apart(name, other))
        use = next(use for use in said if _base(use) == near)
        places = [one for one in foreign if _base(one) == other]
        yield _finding(use, other, places, certain=_apart(near, other) <= ALIKE)


def _apart(one: str, other: str) -> float:
    known = largest_difference(one, other)
    return known[0] if known else float("inf")


def _finding(
    use: ActivationUse, other: str | None, places: Sequence[ActivationUse], *, certain: bool = True
) -> Finding:
    """One difference; ``certain`` unless it may be a function of the code that no config speaks of."""
    written = f"{use.path} = {use.value!r}" if use.value is not None else f"the code of {use.scope or 'the model'}"
    if other is None:
        message = f"{use.file} means {use.variant} ({written}); no graph computes it."
    else:
        apart = largest_difference(_base(use), other)
        size = f", up to {apart[0]:.3g} apart at x = {apart[1]:.4g}" if apart else ""
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        doubt = "" if certain else "; it may be another activation, of which the config does not speak"
        message = (
            f"{use.file} means {use.variant} ({written}), but {places[0].file} computes {other} in "
            f"{places[0].path}{more}{size}{doubt}."
        )
    return Finding(
        rule="activation-variant",
        severity="error" if other and certain else "warning",
        message=message,
        fix=f"Export the model again with {use.variant}, or correct the config." if other else "",
        location={
            "file": use.file,
            "path": use.path,
            "line": use.line,
            "reference": {"file": use.file, "path": use.path},
            "candidate": {"file": places[0].file, "path": places[0].path} if places else None,
        },
        expected=use.variant,
        observed=other,
        evidence={"places": len(places)},
    )
