"""``activation-variant``: what a graph computes against what the configs say."""

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
    """For each function that the configs name and the graphs lack, what stands there instead."""
    expected, observed = {_base(use) for use in said}, {_base(use) for use in found}
    foreign = [use for use in found if _base(use) not in expected]
    for variant in sorted(expected - observed):
        use = next(use for use in said if _base(use) == variant)
        if not foreign:
            yield _finding(use, None, [])
            continue
        other = min({_base(one) for one in foreign}, key=lambda name: _apart(variant, name))
        yield _finding(use, other, [one for one in foreign if _base(one) == other])


def _apart(one: str, other: str) -> float:
    known = largest_difference(one, other)
    return known[0] if known else float("inf")


def _finding(use: ActivationUse, other: str | None, places: Sequence[ActivationUse]) -> Finding:
    written = f"{use.path} = {use.value!r}" if use.value is not None else f"the code of {use.scope or 'the model'}"
    if other is None:
        message = f"{use.file} means {use.variant} ({written}); no graph computes it."
    else:
        apart = largest_difference(_base(use), other)
        size = f", up to {apart[0]:.3g} apart at x = {apart[1]:.4g}" if apart else ""
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        message = (
            f"{use.file} means {use.variant} ({written}), but {places[0].file} computes {other} in "
            f"{places[0].path}{more}{size}."
        )
    return Finding(
        rule="activation-variant",
        severity="error" if other else "warning",
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
