"""The line of a config behind a finding of a diff: the field that the model owes its activation to."""

from dataclasses import replace
from typing import Final

from parity.findings import Finding
from parity.jobs.scan import ScanReport

SPELT: Final = {
    "gelu_erf": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "quick_gelu": "quick_gelu",
    "silu": "silu",
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "mish": "mish",
    "tanh": "tanh",
    "leaky_relu": "leaky_relu",
    "gelu_clipped": "gelu_10",
}
"""Keys of transformers' ``ACT2FN`` by the variant that they name; see `scripts/make_scan_knowledge.py`."""


def with_config(finding: Finding, config: ScanReport | None) -> Finding:
    """A finding on an activation with the field of the config that makes the model compute what it expects."""
    if config is None or finding.rule not in {"activation-variant", "graph-optimizer"}:
        return finding
    use = next((one for one in config.activations if one.line and one.variant == finding.expected), None)
    spelling = SPELT.get(finding.observed or "")
    if use is None or spelling is None or spelling == use.value:
        return finding
    said = (
        f"The model owes {finding.expected} to {use.file}:{use.line}, {use.path} = {use.value!r}; if the export is "
        f'what was meant, write "{use.field}": "{spelling}" there.'
    )
    return replace(finding, fix=f"{finding.fix} {said}".strip())
