"""``parity suite``: what every installed framework really computes, under each name and flag, in each dtype."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from parity.dtypes import FLOAT_DTYPES
from parity.errors import EngineError, InputError
from parity.findings import SEVERITIES, Finding, Report, Verdict, counted, environment, worst_verdict
from parity.functions import FORMULAS
from parity.inputs import REGIMES
from parity.installation import AdapterStatus, adapter_statuses
from parity.jobs.exhaustive import Exhaustive, check_selection, exhaust
from parity.jobs.suite_verdict import finding_of_failure, finding_of_refusal, findings_of, judged
from parity.jobs.timing import time_adapter
from parity.measure.activation import Profile, Row, Selection
from parity.measure.exhaustive import DTYPE
from parity.measure.timing import TimingRow
from parity.worker import Worker

SLOWEST_FIRST: Final = ("tensorflow", "torch", "jax", "onnxruntime", "transformers")
"""Adapters to start first, so that the longest does not begin when the others are done."""

INSIDE: Final = {"keras": "tensorflow", "tflite": "tensorflow", "flax": "jax", "onnx": "onnxruntime", "scipy": "numpy"}
"""Packages that users ask for as adapters, to the adapter that measures them."""

RESTARTS: Final = 5
"""Crashes of one adapter after which the rest of it is given up."""

Progress = Callable[[str, int, int], None]
"""Is told the adapter, how many of its measurements are done, and of how many; called from several threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReport(Report):
    """What the suite found; its fields are those of the JSON contract."""

    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]
    results: tuple[Row, ...]
    defaults: Mapping[str, str | None]
    families: Mapping[str, Mapping[str, str | None]]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]
    timing: tuple[TimingRow, ...] = ()


@dataclass(slots=True)
class _Account:
    """What one adapter's worker has brought so far."""

    adapter: str
    rows: list[Row] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    timings: Sequence[TimingRow] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    done: list[tuple[str, str]] = field(default_factory=list)
    total: int = 0
    failed: bool = False
    worker: Worker | None = None
    stopped: bool = False

    def stop(self) -> None:
        """Ends the worker, from another thread, and starts no other."""
        self.stopped = True
        if self.worker:
            self.worker.kill()


def suite(
    *,
    adapters: Sequence[str] = (),
    variants: Sequence[str] = (),
    implementations: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    regimes: Sequence[str] = (),
    exhaustive: Exhaustive | None = None,
    timing: bool = False,
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
        exhaustive: How to try all float32 inputs too, on what the filters choose; None not to.
        timing: Whether to time them too, after all else, one adapter at a time.
        timeout: Seconds that a worker may stay silent before it counts as hung.
        parallel: Adapters to run side by side; as many as there are processors if None.
        progress: Called from other threads as measurements are done.

    Raises:
        InputError: A name among the filters is not known, the filters leave nothing to measure, or too much to try
            all inputs of.
    """
    statuses = _chosen(adapters)
    _check_names("dtype", dtypes, FLOAT_DTYPES)
    _check_names("regime", regimes, REGIMES)
    _check_names("variant", [name.partition("[")[0] for name in variants if not set("*?") & set(name)], FORMULAS)
    selection = Selection(tuple(variants), tuple(implementations), tuple(dtypes), tuple(regimes))
    ready = [name for name, status in statuses.items() if not status.missing]
    ready.sort(key=lambda name: SLOWEST_FIRST.index(name) if name in SLOWEST_FIRST else len(SLOWEST_FIRST))
    if exhaustive:
        check_selection(ready, selection, timeout)
    accounts = [_Account(name) for name in ready]
    with ThreadPoolExecutor(parallel or os.cpu_count() or 1) as pool:
        try:
            list(pool.map(lambda account: _converse(account, selection, timeout, progress), accounts))
        except BaseException:
            for account in accounts:  # Ctrl-C must not wait for what the workers are at
                account.stop()
            raise
    accounts.sort(key=lambda account: account.adapter)
    if exhaustive:
        _exhaust(accounts, exhaustive, timeout, parallel, progress)
    for account in accounts if timing else ():
        timings = time_adapter(account.adapter, selection, timeout=timeout, progress=progress)
        account.timings = timings.rows
        account.findings.extend(timings.findings)
        account.failed |= bool(timings.findings)
    absent = [status for status in statuses.values() if status.missing]
    report = _report(accounts, absent)
    if ready and not any(row.implementation for row in report.results) and report.verdict != "error":
        raise InputError(
            "Nothing is left to measure: no installed implementation matches all the filters.",
            hint="Names are matched whole, with * and ? as wildcards: --implementation '*gelu*' shows what there is.",
        )
    return report


def _chosen(names: Sequence[str]) -> dict[str, AdapterStatus]:
    statuses = adapter_statuses()
    for name in names:
        if name not in statuses and name in INSIDE:
            raise InputError(f"There is no adapter called '{name}'.", hint=f"It is measured in that of {INSIDE[name]}.")
        if name not in statuses:
            raise InputError.unknown("adapter", name, statuses)
    chosen = {name: status for name, status in statuses.items() if not names or name in names}
    if not chosen:
        raise InputError(
            "No adapter is installed.",
            hint='Install one with `pip install "framework-parity[torch]"`, or all with `[all]`.',
        )
    return chosen


def _check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError.unknown(kind, name, known)


def _converse(account: _Account, selection: Selection, timeout: float, progress: Progress | None) -> None:
    """Runs one adapter's worker, and a new one after each crash, until all that was selected has been tried."""
    for _ in range(RESTARTS + 1):
        if account.stopped:
            return
        begun: tuple[str, str, str] | None = None
        try:
            with Worker(account.adapter, timeout=timeout) as worker:
                account.worker = worker
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
    _give_up(account)


def _give_up(account: _Account) -> None:
    """Says what is left undone of an adapter that failed too often."""
    left = account.total - len(account.done)
    if not left:
        return
    undone = f"{left} of {account.total} measurements of it were not made"
    error = EngineError(f"Adapter '{account.adapter}' was given up after {RESTARTS + 1} failures: {undone}.")
    account.findings.append(finding_of_failure(account.adapter, None, error))
    account.rows.append(_row_of_failure(account.adapter, None, error))


def _keep(account: _Account, data: Mapping[str, Any]) -> None:
    rows = [Row(**row) for row in data["rows"]]
    account.rows.extend(rows)
    account.findings.extend(finding_of_refusal(row) for row in rows if row.status == "unsupported")
    if data["profile"]:
        account.profiles.append(Profile(**data["profile"]))
    account.done.append((data["pair"][0], data["pair"][1]))


def _exhaust(
    accounts: Sequence[_Account],
    settings: Exhaustive,
    timeout: float,
    parallel: int | None,
    progress: Progress | None,
) -> None:
    """Adds what all float32 inputs say of the implementations that were measured in float32."""
    by_name = {account.adapter: account for account in accounts}
    profiles = [one for account in by_name.values() for one in account.profiles if one.dtype == DTYPE]
    if not profiles and not any(account.failed for account in accounts):
        raise InputError(f"Nothing that the filters choose runs in {DTYPE}, which --exhaustive is about.")
    versions = {name: account.versions for name, account in by_name.items()}
    outcomes = exhaust(profiles, versions, settings, timeout=timeout, parallel=parallel, progress=progress)
    for profile, outcome in zip(profiles, outcomes, strict=True):
        account = by_name[profile.adapter]
        account.profiles[account.profiles.index(profile)] = outcome.profile
        account.rows.append(outcome.row)
        account.findings.extend(outcome.findings)
        account.failed |= outcome.failed


def _row_of_failure(adapter: str, begun: tuple[str, str, str] | None, error: EngineError) -> Row:
    implementation, dtype, declared = begun or ("", "", "")
    return Row(
        adapter=adapter,
        implementation=implementation,
        declared=declared,
        dtype=dtype,
        status=error.status,
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
        findings=tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))),
        results=tuple(rows),
        defaults={api: variant for apis in families.values() for api, variant in apis.items()},
        families=families,
        coverage=coverage,
        environment=environment({account.adapter: account.versions for account in accounts}, threads=1),
        timing=tuple(row for account in accounts for row in account.timings),
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
    wrong = len({finding.location["candidate"] for finding in findings if finding.severity == "error"})
    warnings = sum(finding.severity == "warning" for finding in findings)
    where = f"{counted(implementations, 'implementation')} in {counted(frameworks, 'framework')}"
    if wrong:
        said = (
            f"{wrong} of {where} {'is' if wrong == 1 else 'are'} not what is declared, or not finite where it must be"
        )
    elif not implementations:
        said = "Nothing was measured"
    else:
        said = f"{where} measured: all compute the variant that is declared"
    rest = f", with {counted(warnings, 'warning')} worth reading" if warnings else ""
    return f"{said}{rest}{'; an engine failed and the rest is reported' if failed else ''}."
