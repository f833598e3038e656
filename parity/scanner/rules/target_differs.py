"""``target-differs``: a deployment target that computes another function than the model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from parity.findings import Finding
from parity.scanner.knowledge.differences import largest_difference
from parity.scanner.knowledge.targets import GATED, Answer, answer
from parity.scanner.model import ActivationUse, Document
from parity.scanner.request import ScanRequest
from parity.scanner.rules.against import AUXILIARY

APPROXIMATION: Final = "onnxruntime-gelu-approximation"
"""The target whose doing depends on how a graph spells its GELU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """What a target computes for one activation: ``file`` and ``path`` of the activation, and the answer."""

    file: str
    path: str
    model: str | None
    answer: Answer


def answers(document: Document, request: ScanRequest) -> Iterator[tuple[ActivationUse, Answer]]:
    """Every activation with what each target asked about does with it; gates and poolers of a model's code left out."""
    model_type = str(document.facts.get("model_type", ""))
    kept = _kept(document) if APPROXIMATION in request.targets else set()
    for use in document.activations:
        if use.basis == "model-code" and use.variant in AUXILIARY:
            continue
        for target in request.targets:
            found = answer(target, use, model_type)
            if target == APPROXIMATION and found.status == "differs" and use.path in kept:
                note = "ONNX Runtime does not replace this spelling"
                found = replace(found, status="same", variant=use.variant, note=note, fix="")
            yield use, found


def _kept(document: Document) -> set[str]:
    """Activations of an ONNX graph that the approximation leaves as they are."""
    if document.format != "onnx":
        return set()
    from parity.scanner.graph.optimizer import risks  # noqa: PLC0415 – configs are scanned without NumPy

    return {use.path for use in document.activations} - {risk.use.path for risk in risks(document)}


def examine(document: Document, request: ScanRequest) -> Iterator[Finding]:
    """One finding for each field and target that computes something else; the operators of a graph share one."""
    alike: dict[tuple[str | None, ...], list[tuple[ActivationUse, Answer]]] = {}
    for use, found in answers(document, request):
        if found.status == "differs" and use.variant and found.variant:
            place = None if use.basis in {"graph", "probed"} else use.path
            alike.setdefault((found.target, use.variant, found.variant, place), []).append((use, found))
    for pairs in alike.values():
        yield _finding(pairs[0][1], [use for use, _ in pairs])


def _finding(found: Answer, uses: Sequence[ActivationUse]) -> Finding:
    use = uses[0]
    computed, variant = str(found.variant), str(use.variant)
    apart = largest_difference(GATED.get(variant, variant), GATED.get(computed, computed))
    size = f", up to {apart[0]:.3g} apart at x = {apart[1]:.4g}" if apart else ""
    where = f"{use.path} = {use.value!r}" if use.value is not None else use.path
    more = f" and {len(uses) - 1} more" if len(uses) > 1 else ""
    return Finding(
        rule="target-differs",
        severity="error",
        message=f"{found.target} ({found.version}) computes {computed} where the model computes {variant} "
        f"({where}{more}){size}: {found.note} ({found.evidence}).",
        fix=found.fix,
        location={"file": use.file, "path": use.path, "line": use.line},
        expected=variant,
        observed=computed,
        evidence={
            "target": found.target,
            "version": found.version,
            "kind": found.evidence,
            "max_abs": apart[0] if apart else None,
            "at": apart[1] if apart else None,
            "places": len(uses),
        },
    )
