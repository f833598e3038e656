"""``parity check`` without a model: what ``parity.toml`` or ``[tool.parity]`` of ``pyproject.toml`` asks for."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from parity.discovery import discover
from parity.errors import EngineError, InputError
from parity.findings import RULES, Finding, Report, Verdict, counted, environment, sentence
from parity.jobs.check import check
from parity.jobs.check_options import CheckOptions
from parity.jobs.check_report import CheckReport, Step, make_report, with_findings
from parity.jobs.diff_options import Progress
from parity.models import PREFIXES

FILES: Final = ("parity.toml", "pyproject.toml")
"""Where a project's checks stand, the first that there is."""

KEYS: Final = frozenset({"model", "targets", "candidate", "inputs", "samples", "opset", "prove", "fail-on", "allow"})
"""Of one check."""

ALLOWANCE: Final = frozenset({"rule", "limit", "reason", "expires"})
"""Of one allowance."""

KINDS: Final[Mapping[type, str]] = {str: "text", int: "whole number", float: "number", bool: "true or false"}
"""How the types of values are called."""

ORDER: Final[Sequence[Verdict]] = ("mismatch", "error", "inconclusive", "pass")
"""Verdicts, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """A finding that a project lives with for a while.

    Attributes:
        rule: Its kind.
        limit: Largest relative error of the outputs; None for any.
        reason: Why.
        expires: The last day on which it holds.
    """

    rule: str
    limit: float | None
    reason: str
    expires: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One check of a project.

    Attributes:
        model: A model reference; its path is relative to the file.
        inputs: Files, likewise.
        options: What else is asked.
        allowances: Findings that are allowed.
    """

    model: str
    inputs: Sequence[Path] = ()
    options: CheckOptions = field(default_factory=CheckOptions)
    allowances: Sequence[Allowance] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReport(Report):
    """What the checks of a project found; the fields are those of the JSON contract.

    Attributes:
        verdict: The worst of all.
        summary: One sentence.
        findings: Of all; ``evidence`` names the model.
        checks: The report of each.
        coverage: Number of ``checks``, and how many of them passed.
        environment: Of the last one.
    """

    verdict: Verdict
    summary: str
    findings: Sequence[Finding]
    checks: Sequence[CheckReport]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]


def check_project(
    file: Path | None = None,
    *,
    options: CheckOptions | None = None,
    progress: Progress = lambda _name, _done, _total: None,
) -> ProjectReport:
    """Does every check that a file asks for.

    Args:
        file: ``parity.toml`` or ``pyproject.toml``; None for that of the working directory.
        options: Threads, time-out and cache; what the file says counts for the rest.
        progress: Told a name, how much of it is done, and of how much.

    Raises:
        InputError: There is no such file, or it does not say what to check.
        EngineError: A framework crashed or hung.
    """
    found = file or next((Path(name) for name in FILES if Path(name).is_file()), None)
    if found is None:
        raise InputError(
            "There is no parity.toml or pyproject.toml here.", hint="Name a model, or write parity.toml with [[check]]."
        )
    today = datetime.now(UTC).date()
    given = options or CheckOptions()
    reports = []
    for number, entry in enumerate(read_project(found), 1):
        own = replace(entry.options, cache=given.cache, threads=given.threads, timeout=given.timeout)
        valid = [one for one in entry.allowances if one.expires >= today]
        own = replace(
            own,
            allowed={one.rule: one.limit for one in valid},
            allowed_by={one.rule: f"{found.name} until {one.expires}: {one.reason}" for one in valid},
        )
        try:
            report = check(entry.model, list(entry.inputs) or None, options=own, progress=progress)
        except InputError as error:
            raise InputError(f"{found}, check {number}: {error.message}", hint=error.hint) from error
        except EngineError as error:
            report = _failed(entry.model, error, own)
        expired = [_expired(one) for one in entry.allowances if one.expires < today]
        reports.append(with_findings(report, expired, own.fail_on) if expired else report)
    return _report(reports)


def _failed(model: str, error: EngineError, options: CheckOptions) -> CheckReport:
    """The report of a check whose model's own framework failed; the others are still done."""
    step = Step(name="probe", target=None, verdict="error", summary=str(error))
    where = environment({}, options.threads)
    return make_report(model, [step], fail_on=options.fail_on, environment=where, targets={})


def read_project(file: Path) -> list[Entry]:
    """The checks that a file asks for.

    Raises:
        InputError: It cannot be read, or says what is not known.
    """
    try:
        body = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is no TOML: {error}.") from None
    section = "tool.parity." if file.name == "pyproject.toml" else ""
    for part in section.split(".")[:-1]:
        body = body.get(part, {})
        if not isinstance(body, dict):
            raise InputError(f"{file}: {part} is {body!r}, which is no table.", hint="Write [[tool.parity.check]].")
    for key in body:
        if key != "check":
            raise InputError.unknown(f"key of {file}", f"{section}{key}", [f"{section}check"])
    entries = body.get("check", [])
    if not _tables(entries) or not entries:
        raise InputError(
            f"{file} asks for no check.", hint=f"Write [[{section}check]] with model = and targets = for each."
        )
    return [_entry(file, number, entry) for number, entry in enumerate(entries, 1)]


def _tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _entry(file: Path, number: int, entry: Mapping[str, Any]) -> Entry:
    where = f"{file}, check {number}"
    for key in entry:
        if key not in KEYS:
            raise InputError.unknown(f"key of {where}", key, sorted(KEYS))
    model = _typed(where, entry, "model", str, "")
    if not model:
        raise InputError(f"{where} names no model.", hint='Write model = "hf:./folder" or another model reference.')
    candidate = _typed(where, entry, "candidate", str, None)
    fail_on = _typed(where, entry, "fail-on", str, "error")
    if fail_on not in {"error", "warning"}:
        raise InputError(f"{where}: fail-on is '{fail_on}'.", hint='Write "error" or "warning".')
    options = CheckOptions(
        targets=_names(where, entry, "targets"),
        candidate=None if candidate is None else _near(file, candidate),
        opset=_typed(where, entry, "opset", int, None),
        prove=_typed(where, entry, "prove", bool, False),
        samples=_typed(where, entry, "samples", int, 1),
        fail_on=fail_on,
    )
    if options.samples < 1:
        raise InputError(f"{where}: samples is {options.samples}.", hint="Write 1 or more.")
    allowed = entry.get("allow", [])
    if not _tables(allowed):
        raise InputError(f"{where}: allow is {allowed!r}, which is no list of tables.", hint=ALLOW)
    inputs = [file.parent / name for name in _names(where, entry, "inputs")]
    allowances = [_allowance(where, one) for one in allowed]
    return Entry(model=_near(file, model), inputs=inputs, options=options, allowances=allowances)


def _typed(where: str, entry: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    if key not in entry:
        return default
    value = entry[key]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:  # true is an int of Python, and no number of anybody's
        said = KINDS[kind]
        raise InputError(f"{where}: {key} is {value!r}, which is {'not' if kind is bool else 'no'} {said}.")
    return value


def _names(where: str, entry: Mapping[str, Any], key: str) -> list[str]:
    value = entry.get(key, [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise InputError(f"{where}: {key} is {value!r}, which is no list of names.")
    return names


def _near(file: Path, reference: str) -> str:
    """A model reference with its path relative to the file: ``hf:DIR``, ``torch:FILE.py:NAME`` or a path."""
    prefix, colon, rest = reference.partition(":")
    near = file.parent / reference
    if not colon or (prefix not in PREFIXES and (near.exists() or prefix not in discover())):
        return str(near)
    return f"{prefix}:{file.parent / rest}"


ALLOW: Final = 'Write rule = "precision", reason = "why", expires = 2027-01-31 and, if need be, limit = 1e-3.'
"""How an allowance is written."""


def _allowance(where: str, entry: Mapping[str, Any]) -> Allowance:
    for key in entry:
        if key not in ALLOWANCE:
            raise InputError.unknown(f"key of an allowance of {where}", key, ALLOWANCE)
    for key in ("rule", "reason", "expires"):
        if key not in entry:
            raise InputError(f"{where}: an allowance lacks '{key}'.", hint=ALLOW)
    if entry["rule"] not in RULES:
        raise InputError.unknown(f"rule of {where}", str(entry["rule"]), RULES)
    expires = entry["expires"]
    if isinstance(expires, datetime):
        expires = expires.date()
    if not isinstance(expires, date):
        raise InputError(f"{where}: expires is {expires!r}, which is no date.", hint="Write 2027-01-31.")
    limit = _typed(where, entry, "limit", float, None)
    if limit is not None and not 0 <= limit < math.inf:
        raise InputError(f"{where}: limit is {limit}, which is no limit of an error.", hint=ALLOW)
    return Allowance(rule=entry["rule"], limit=limit, reason=str(entry["reason"]), expires=expires)


def _expired(one: Allowance) -> Finding:
    return Finding(
        rule=one.rule,
        severity="warning",
        message=sentence(f"The allowance of {one.rule} ended on {one.expires}: {one.reason}"),
        fix="Mend what it allowed, or set another date.",
    )


def _report(reports: Sequence[CheckReport]) -> ProjectReport:
    passed = sum(one.verdict == "pass" for one in reports)
    verdict = min((one.verdict for one in reports), key=ORDER.index)
    if len(reports) == 1:
        summary = reports[0].summary
    else:
        others = [one.model for one in reports if one.verdict != "pass"]
        more = f" Not these: {', '.join(others)}." if others else ""
        summary = f"{passed} of {counted(len(reports), 'check')} passed.{more}"
    return ProjectReport(
        verdict=verdict,
        summary=summary,
        findings=list(_all(reports)),
        checks=reports,
        coverage={"checks": len(reports), "passed": passed},
        environment=reports[-1].environment,
    )


def _all(reports: Sequence[CheckReport]) -> Iterator[Finding]:
    for report in reports:
        for one in report.findings:
            yield replace(one, evidence={"model": report.model, **one.evidence})
