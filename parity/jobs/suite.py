"""``parity suite``: what every installed framework really computes, under each name and flag, in each dtype."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from parity.errors import EngineError, InputError
from parity.findings import Finding, Verdict, environment, worst_verdict
from parity.installation import AdapterStatus, adapter_statuses
from parity.jobs.suite_verdict import finding_of_failure, findings_of, judged
from parity.measure.activation import Profile, Row, Selection
from parity.worker import Worker

SLOWEST_FIRST: Final = ("torch", "tensorflow", "onnxruntime", "transformers", "jax")
"""Adapters to start first, so that the longest does not begin when the others are done."""

RESTARTS: Final = 5
"""Crashes of one adapter after which the rest of it is given up."""

Progress = Callable[[str, int, int], None]
"""Is told the adapter, how many of its measurements are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReport:
    """What the suite found; its fields are those of the JSON contract."""

    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]
    results: tuple[Row, ...]
    defaults: Mapping[str, str | None]
    families: Mapping[str, Mapping[str, str | None]]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]


@dataclass(slots=True)
class _Account:
    """What one adapter's worker has brought so far."""

    adapter: str
    rows: list[Row] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    versions: Mapping[str, str] = field(default_factory=dict)
    done: list[tuple[str, str]] = field(default_factory=list)
    total: int = 0
    failed: bool = False


def suite(
    *,
    adapters: Sequence[str] = (),
    variants: Sequence[str] = (),
    implementations: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    regimes: Sequence[str] = (),
    timeout: float = 300.0,
    parallel: int | None = None,
    progress: Progress | None = None,
) -> SuiteReport:
    """Measures the activations of every installed framework against the exact functions.

    Args:
        adapters: Names of the adapters to run; all that are installed if empty.
        variants: Declared variants to measure, as ``gelu_tanh`` or ``leaky_relu[negative_slope=0.2]``; wildcards
            allowed.
        implementations: Names of implementations to measure; wildcards allowed.
        dtypes: Among ``float64``, ``float32``, ``float16``, ``bfloat16``.
        regimes: Among `parity.inputs.REGIMES`; identification always uses all.
        timeout: Seconds that a worker may stay silent before it counts as hung.
        parallel: Adapters to run side by side; as many as there are processors if None.
        progress: Called from other threads as measurements are done.

    Raises:
        InputError: A name among the filters is not known, or the filters leave nothing to measure.
    """
    statuses = _chosen(adapters)
    selection = Selection(tuple(variants), tuple(implementations), tuple(dtypes), tuple(regimes))
    ready = [name for name, status in statuses.items() if not status.missing]
    ready.sort(key=lambda name: SLOWEST_FIRST.index(name) if name in SLOWEST_FIRST else len(SLOWEST_FIRST))
    lock = threading.Lock()

    def run(name: str) -> _Account:
        account = _Account(name)
        _converse(account, selection, timeout, progress, lock)
        return account

    with ThreadPoolExecutor(parallel or os.cpu_count() or 1) as pool:
        accounts = sorted(pool.map(run, ready), key=lambda account: account.adapter)
    absent = [status for status in statuses.values() if status.missing]
    report = _report(accounts, absent)
    if not report.results and not any(account.failed for account in accounts):
        raise InputError(
            "Nothing is left to measure: no installed implementation matches all the filters.",
            hint="See `parity doctor` for what is installed.",
        )
    return report


def _chosen(names: Sequence[str]) -> dict[str, AdapterStatus]:
    statuses = adapter_statuses()
    for name in names:
        if name not in statuses:
            raise InputError.unknown("adapter", name, statuses)
    chosen = {name: status for name, status in statuses.items() if not names or name in names}
    if not chosen:
        raise InputError(
            "No adapter is installed.",
            hint='Install one with `pip install "framework-parity[torch]"`, or all with `[all]`.',
        )
    return chosen


def _converse(
    account: _Account, selection: Selection, timeout: float, progress: Progress | None, lock: threading.Lock
) -> None:
    """Runs one adapter's worker, and a new one after each crash, until all that was selected has been tried."""
    for _ in range(RESTARTS + 1):
        begun: tuple[str, str, str] | None = None
        try:
            with Worker(account.adapter, timeout=timeout) as worker:
                arguments = {"selection": asdict(selection), "done": account.done}
                for message in worker.call("parity.measure.activation:measure", arguments):
                    data = message.data
                    if "total" in data:
                        account.versions, account.total = data["versions"], data["total"]
                    elif "begin" in data:
                        begun = (*data["begin"], data["declared"])
                    else:
                        _keep(account, data)
                        begun = None
                        if progress:
                            with lock:
                                progress(account.adapter, len(account.done), account.total)
        except EngineError as error:
            account.failed = True
            account.findings.append(finding_of_failure(account.adapter, begun, error))
            account.rows.append(_row_of_failure(account.adapter, begun, error))
            if begun is None:
                return  # it died outside a measurement, so that a new worker would die there again
            account.done.append(begun[:2])
        else:
            return


def _keep(account: _Account, data: Mapping[str, Any]) -> None:
    rows = [Row(**row) for row in data["rows"]]
    account.rows.extend(rows)
    if data["profile"]:
        account.profiles.append(Profile(**data["profile"]))
    account.done.append((data["pair"][0], data["pair"][1]))


def _row_of_failure(adapter: str, begun: tuple[str, str, str] | None, error: EngineError) -> Row:
    implementation, dtype, declared = begun or ("", "", "")
    status = error.status if begun or error.status != "failed" else "failed"
    return Row(
        adapter=adapter,
        implementation=implementation,
        declared=declared,
        dtype=dtype,
        status=status,
        reason=error.message,
    )


def _report(accounts: Iterable[_Account], absent: Iterable[AdapterStatus]) -> SuiteReport:
    accounts = list(accounts)
    profiles = [profile for account in accounts for profile in account.profiles]
    found = [finding for account in accounts for finding in account.findings] + findings_of(profiles)
    statuses = judged(profiles)
    rows = [
        replace(row, status=statuses.get((row.adapter, row.implementation, row.dtype), row.status))
        if row.status == "pass"
        else row
        for account in accounts
        for row in account.rows
    ]
    rows += [
        Row(
            adapter=status.name,
            implementation="",
            declared="",
            dtype="",
            status="not-installed",
            reason=f"missing {', '.join(status.missing)}; {status.install}",
        )
        for status in absent
    ]
    families = _families(profiles)
    measured = {(profile.adapter, profile.implementation) for profile in profiles}
    failed = any(account.failed for account in accounts)
    verdict = worst_verdict(found, engine_failed=failed, compared=len(profiles))
    frameworks = sorted({profile.adapter for profile in profiles})
    coverage = {
        "adapters": frameworks,
        "not_installed": [status.name for status in absent],
        "implementations": len(measured),
        "measurements": len(profiles),
        "inputs": sum(row.count for row in rows if row.regime != "normal"),
        "unsupported": sum(row.status == "unsupported" for row in rows),
        "failed": sum(row.status in ("crashed", "hung", "failed") for row in rows),
    }
    return SuiteReport(
        verdict=verdict,
        summary=_summary(found, len(measured), len(frameworks), failed),
        findings=tuple(sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.severity))),
        results=tuple(rows),
        defaults={api: variant for apis in families.values() for api, variant in apis.items()},
        families=families,
        coverage=coverage,
        environment=environment({account.adapter: account.versions for account in accounts}, threads=1),
    )


def _families(profiles: Iterable[Profile]) -> dict[str, dict[str, str | None]]:
    """By bare name: each API of that name and what its no-flag call was measured to be, in its widest dtype."""
    families: dict[str, dict[str, str | None]] = {}
    for profile in profiles:  # widest dtype first
        if profile.default_of:
            api = profile.implementation.partition(" (")[0]
            families.setdefault(profile.default_of, {}).setdefault(api, profile.identified)
    return {name: dict(sorted(families[name].items())) for name in sorted(families)}


def _summary(findings: Iterable[Finding], implementations: int, frameworks: int, failed: bool) -> str:
    findings = list(findings)
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    where = f"{implementations} implementations in {frameworks} framework{'s' if frameworks != 1 else ''}"
    if errors:
        said = f"{errors} of {where} are not what they declare, or are not finite where they must be"
    elif not implementations:
        said = "Nothing was measured"
    else:
        said = f"All {where} compute the variant that they declare"
    rest = f", with {warnings} warnings worth reading" if warnings else ""
    return f"{said}{rest}{'; an engine failed and the rest is reported' if failed else ''}."
