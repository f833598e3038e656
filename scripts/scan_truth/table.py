"""The outcome, as a table and as JSON."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import transformers

from scan_truth.measuring import Measured
from scan_truth.scoring import Check

SHOWN: Final = 3
"""Names given of many."""


def document(measured: Sequence[Measured], checks: Sequence[Check]) -> dict[str, Any]:
    """All of it as JSON."""
    count = Counter(check.verdict for check in checks)
    judged = count["right"] + count["wrong"] + count["missed"]
    ran = {one.name for one in measured if one.cases}
    faulty = {check.model for check in checks if check.verdict in {"wrong", "missed"}}
    partly = {one.name for one in measured if one.cases and (one.failures or one.spoilt)}
    return {
        "transformers": transformers.__version__,
        "model_types": len(measured),
        "run": len(ran),
        "run_in_full": len(ran - partly),
        "cases": sum(len(one.cases) for one in measured),
        "functions_run": sum(len(case.ran) for one in measured for case in one.cases),
        "without_a_name": sum(not found.variant for one in measured for case in one.cases for found in case.ran),
        **{name.replace(" ", "_"): count[name] for name in ("right", "wrong", "missed", "not run")},
        "share_right": count["right"] / judged if judged else None,
        "model_types_right": len(ran - faulty),
        "model_types_with_a_fault": sorted(faulty),
        "faults": [asdict(check) for check in checks if check.verdict in {"wrong", "missed"}],
        "not_built": {one.name: one.problem for one in measured if not one.cases},
        "spoilt": {one.name: one.spoilt for one in measured if one.spoilt},
        "parts_not_run": {one.name: one.failures for one in measured if one.cases and one.failures},
    }


def text(found: dict[str, Any]) -> str:
    """The same for a reader."""
    return "\n".join(_lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"transformers {found['transformers']}: {found['model_types']} model types"
    yield f"  built and run       {found['run']} ({found['run_in_full']} in all parts), {found['cases']} configs"
    yield f"  not built or run    {len(found['not_built'])}"
    yield f"  functions run       {found['functions_run']}, {found['without_a_name']} of them without a name"
    yield f"predictions right     {found['right']}"
    yield f"  told, not run       {found['wrong']}"
    yield f"  run, not told       {found['missed']}"
    yield f"  of parts not run    {found['not_run']}"
    share = found["share_right"]
    yield f"  share right         {'–' if share is None else f'{share:.2%}'}"
    yield f"model types right     {found['model_types_right']} of {found['run']}"
    if found["faults"]:
        yield "\nWrong:"
    for fault in found["faults"]:
        word = "told, not run" if fault["verdict"] == "wrong" else "run, not told"
        yield f"  {fault['model']}, {fault['case']}: {fault['place']}: {fault['variant']} {word}"
        yield f"      told: {fault['told']}"
        yield f"      ran: {fault['ran']}"
    if found["not_built"]:
        yield "\nNot built or run:"
    for reason, names in sorted(_grouped(found["not_built"]).items(), key=lambda one: -len(one[1])):
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"  {len(names):3}  {reason[:100]}: {', '.join(names[:SHOWN])}{more}"


def _grouped(problems: dict[str, str]) -> dict[str, list[str]]:
    """Names by reason, with numbers and quoted names in it left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, problem in problems.items():
        found[re.sub(r"\d+|'[^']*'|^\w+Model |^\w+ requires", "…", problem)[:100]].append(name)
    return found
