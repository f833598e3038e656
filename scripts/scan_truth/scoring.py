"""Holds what a scan of a config says against what the config's model computed."""

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isclose
from pathlib import Path
from typing import Literal

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from parity.functions import Variant, parse, variant
from parity.jobs.scan import scan
from parity.scanner.knowledge.models import activation
from parity.scanner.model import ActivationUse
from scan_truth.measuring import CASES, Case, Measured, Ran
from scan_truth.rules import must_be_told
from scan_truth.shrinking import read

Verdict = Literal["right", "wrong", "missed", "not run"]
"""Told and computed; told and not computed; computed and not told; told of a part that did not run."""


@dataclass(frozen=True, slots=True)
class Check:
    """One function that was told of a model or that it computed.

    Attributes:
        model: The model type.
        case: Which of its configs.
        place: Field or scope.
        variant: The function.
        verdict: How the two fit.
        told: What a scan says of it: value, basis and reason.
        ran: All that was computed.
    """

    model: str
    case: str
    place: str
    variant: str
    verdict: Verdict
    told: str
    ran: str


def checks(measured: Iterable[Measured]) -> Iterator[Check]:
    """Every function told or computed, of every config."""
    for one in measured:
        for what in dict.fromkeys(case.what for case in one.cases):
            yield from _of_config(one, [case for case in one.cases if case.what == what])


def _of_config(measured: Measured, cases: Sequence[Case]) -> Iterator[Check]:
    """Those of one config, which several classes may have been run with."""
    config = cases[0].config
    uses = [use for use in scanned(config) if use.variant]
    told = [_variant(use) for use in uses]
    ran = [_computed(one) for case in cases for one in case.ran if one.variant]
    listed = _listed(ran)
    for use, one in zip(uses, told, strict=True):
        verdict: Verdict = "right" if any(_same(one, other) for other in ran) else "wrong"
        waiting = any(one.name in case.idle for case in cases)
        if verdict == "wrong" and (waiting or _idle(measured, config, use)):
            verdict = "not run"
        said = f"{use.basis}, value {use.value!r}, {use.reason}"
        yield Check(measured.name, cases[0].what, use.path, str(one), verdict, said, listed)
    seen: set[str] = set()
    for found in (one for case in cases for one in _to_be_told(case)):
        if found.variant not in seen and not any(_same(one, _computed(found)) for one in told):
            seen.add(found.variant)
            place = f"{found.scope} ({found.kind}, {found.source}, {found.operators})"
            yield Check(measured.name, cases[0].what, place, found.variant, "missed", _listed(told), listed)


def _to_be_told(case: Case) -> Iterator[Ran]:
    """What a scan must speak of: of a head, of which a config says nothing, only what its fields were changed to."""
    named = (activation(value.removeprefix("gated-")) for value in case.changed.values())
    chosen = {one.variant for one in named if one}
    for ran in case.ran:
        if must_be_told(ran) and (not case.model or (case.what == "distinctive" and ran.variant in chosen)):
            yield ran


def _listed(variants: Iterable[Variant]) -> str:
    return ", ".join(sorted({str(one) for one in variants}))


def scanned(config: str) -> tuple[ActivationUse, ...]:
    """What a scan says of the text of a ``config.json``."""
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        file = Path(folder) / "config.json"
        file.write_text(config, encoding="utf-8")
        return scan(file).activations


def _variant(use: ActivationUse) -> Variant:
    return variant(str(use.variant), **use.parameters)


def _computed(ran: Ran) -> Variant:
    """The function that ran; one behind a clamp of its input is itself, although the two are a clipped one."""
    limited = ran.operators.startswith("clamp ") and ran.variant == "gelu_clipped"
    return variant("gelu_erf") if limited else parse(ran.variant)


def _same(told: Variant, ran: Variant) -> bool:
    """Whether two functions are one; what xielu does depends on weights."""
    if told.name != ran.name or told.name == "xielu":
        return told.name == ran.name
    pairs = zip(told.parameters, ran.parameters, strict=True)
    return all(isclose(one, other, rel_tol=1e-3, abs_tol=1e-6) for (_, one), (_, other) in pairs)


def _idle(measured: Measured, text: str, use: ActivationUse) -> bool:
    """Whether the part of the model that a scan speaks of did not run, or may stand in a head that was not built."""
    if use.basis == "model-code" and use.value is None:
        return _scope_idle(measured, use.scope)
    config = read(CONFIG_MAPPING[measured.name], text)
    for part in re.split(r"[.\[\]]+", use.path)[:-1]:
        config = getattr(config, part, config)
    unbuilt_head = any(name not in CASES for name in measured.spoilt)
    return unbuilt_head or type(config).__name__ in measured.unrun


def _scope_idle(measured: Measured, scope: str) -> bool:
    """Whether modules of a scope, or of a class, are in the model and none of them ran."""
    names = [name for name in re.sub(r" and \d+ more$", "", scope).split(", ") if name]
    return any(
        fnmatchcase(path, name) or name == kind
        for path, _, kind in (one.partition(" ") for one in measured.idle)
        for name in names
    )
