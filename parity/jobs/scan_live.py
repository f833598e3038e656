"""``parity.scan(model)``: the activations of a live PyTorch model, found by running and probing it."""

import os
from collections import Counter
from typing import Any

from parity.findings import Finding, counted, environment
from parity.functions import Variant
from parity.jobs.activations import ActivationSite, activations
from parity.jobs.scan import ScanReport
from parity.scanner.model import ActivationUse


def scan_live(model: Any, inputs: Any = None) -> ScanReport:
    """Runs a model once and says which function each of its activations is, whatever it is called.

    Args:
        model: A torch.nn.Module.
        inputs: As for `parity.activations`; None to have them made.

    Raises:
        InputError: It is no such model, or does not run on these inputs.
        EngineError: It failed inside the framework.
    """
    name = f"live:{type(model).__name__}"
    uses = tuple(_use(name, site) for site in activations(model, inputs))
    findings = tuple(
        Finding(
            rule="config-unknown-activation",
            severity="note",
            message=f"{use.path} computes a function that has no name.",
            location={"file": name, "path": use.path, "line": None},
        )
        for use in uses
        if use.variant is None
    )
    kinds = Counter(str(use.variant) for use in uses)
    listed = ", ".join(f"{count} × {variant}" for variant, count in kinds.most_common())
    return ScanReport(
        verdict="pass" if uses else "inconclusive",
        summary=f"{counted(len(uses), 'activation')} in {name}{': ' + listed if listed else ''}.",
        findings=findings,
        activations=uses,
        targets=(),
        coverage={"files": {"live": 1}, "without_activation": [], "unreadable": (), "left_out": {}, "facts": {}},
        environment=environment({}, threads=os.cpu_count() or 1),
    )


def _use(name: str, site: ActivationSite) -> ActivationUse:
    return ActivationUse(
        file=name,
        path=site.name,
        field=site.operators[-1] if site.operators else "",
        value=None,
        variant=site.variant.name if site.variant else None,
        basis="probed",
        reason=f"at {site.source}" if site.source else "",
        scope=site.scope,
        parameters=_changed(site.variant) if site.variant else {},
    )


def _changed(variant: Variant) -> dict[str, float]:
    """Parameters that are not the formula's own."""
    return {name: value for name, value in variant.parameters if value != variant.formula.parameters[name]}
