"""Is it the graph optimiser alone? The candidate once more without it, and what then is gone."""

from collections.abc import Sequence
from dataclasses import replace

from parity.findings import Finding
from parity.jobs.diff_options import DiffOptions
from parity.jobs.diff_run import RunResult

ENGINES = frozenset({"onnxruntime"})
"""Adapters whose engine rewrites a graph before it runs it, and can be told not to."""


def is_optimized(adapter: str, options: DiffOptions) -> bool:
    """Whether the candidate's engine rewrites its graph."""
    return adapter in ENGINES and (options.candidate_optimization != "none" or bool(options.candidate_session_config))


def plain_options(options: DiffOptions) -> DiffOptions:
    """The same without the optimiser; the user's map is of the optimised graph."""
    return replace(options, candidate_optimization="none", candidate_session_config={}, mapped=(), repro=None)


def blamed_on_optimizer(optimized: RunResult, plain: RunResult, options: DiffOptions) -> RunResult:
    """The optimised run's result, findings that the plain run does not have told as the optimiser's doing.

    Where the plain run has faults too, these may be the same ones under another name: then only activations are told
    so, which a probe knows wherever they are.
    """
    known = {_key(finding) for finding in plain.findings}

    def its_own(one: Finding) -> bool:
        return _key(one) not in known and (not plain.differs or one.rule == "activation-variant")

    findings = [_of_optimizer(one, options) if its_own(one) else one for one in optimized.findings]
    return replace(optimized, findings=_told_once(findings), plain=plain)


def _key(finding: Finding) -> tuple[str, str | None, str | None]:
    return finding.rule, finding.expected, finding.observed


def _of_optimizer(finding: Finding, options: DiffOptions) -> Finding:
    if finding.severity != "error":
        return finding
    entries = [f"{key}={value}" for key, value in options.candidate_session_config.items()]
    setting = f"without {' and '.join(entries)}" if entries else "with --candidate-optimization none or basic"
    return replace(
        finding,
        rule="graph-optimizer",
        message=f"{finding.message} The graph optimiser does it: the file itself agrees there.",
        fix=f"Run the model {setting}.",
        evidence={**finding.evidence, "cause": finding.rule},
    )


def _told_once(findings: Sequence[Finding]) -> list[Finding]:
    """Without the optimiser's unexplained findings where another one of it is explained."""
    explained = any(one.rule == "graph-optimizer" and one.evidence["cause"] != "unexplained" for one in findings)
    return [
        one
        for one in findings
        if not (explained and one.rule == "graph-optimizer" and one.evidence["cause"] == "unexplained")
    ]
