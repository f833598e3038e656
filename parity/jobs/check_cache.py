"""Results of checks by what they were made of, so that an unchanged model costs seconds."""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from parity.findings import Finding, to_json
from parity.jobs.check_options import CheckOptions
from parity.jobs.check_report import CheckReport, Step
from parity.jobs.record import model_hash
from parity.models import ModelReference

PACKAGES: Final = (
    *("framework-parity", "torch", "transformers", "onnx", "onnxruntime", "onnxscript", "tensorflow", "tensorflow-cpu"),
    *("keras", "jax", "jaxlib", "flax", "numpy"),
)
"""Distributions whose version can change a result."""


class Cache:
    """The entry of one check; none for live objects and factories, whose code may import anything.

    Args:
        model: What is checked.
        inputs: As they were given.
        options: What was asked.
    """

    def __init__(self, model: ModelReference | tuple[Any, str], inputs: Any, options: CheckOptions) -> None:
        key = _key(model, inputs, options) if options.cache and options.keep is None else None
        folder = None if key is None else _folder()
        self._file = None if folder is None else folder / f"{key}.json"

    def read(self) -> CheckReport | None:
        """The result of an earlier check of the same; None where there is none that can be read."""
        if self._file is None:
            return None
        try:
            if not self._file.is_file():
                return None
            body = json.loads(self._file.read_text(encoding="utf-8"))
            steps = [Step(**{**step, "findings": _findings(step)}) for step in body["steps"]]
            return CheckReport(**{**body, "steps": steps, "findings": _findings(body), "cached": True})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, report: CheckReport) -> None:
        """Keeps a result; one that failed for want of an engine is tried again the next time."""
        if self._file is None or report.verdict == "error":
            return
        beside = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(to_json(report)), encoding="utf-8")
            beside.replace(self._file)
        except OSError:  # a cache that cannot be written is none
            with contextlib.suppress(OSError):
                beside.unlink()


def _findings(body: Mapping[str, Any]) -> list[Finding]:
    return [Finding(**{**one, "evidence": _numbers(one["evidence"])}) for one in body["findings"]]


def _numbers(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence with the numbers that JSON lacks, which stand in it as words."""
    return {name: float(one) if one in ("nan", "inf", "-inf") else one for name, one in evidence.items()}


def _key(model: ModelReference | tuple[Any, str], inputs: Any, options: CheckOptions) -> str | None:
    files = [] if inputs is None else inputs if isinstance(inputs, list) else [inputs]
    if not isinstance(model, ModelReference) or not all(isinstance(one, str | Path) for one in files):
        return None
    if ".py:" in model.text:
        return None
    hashes = [model_hash(str(one)) for one in (model.text, *files, *([options.candidate] if options.candidate else []))]
    if None in hashes:
        return None
    asked = {one.name: getattr(options, one.name) for one in fields(options) if one.name not in {"cache", "timeout"}}
    parts = [model.text, hashes, to_json(asked), {name: _version(name) for name in PACKAGES}]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _folder() -> Path | None:
    """``framework-parity/check`` in the user's cache folder, XDG_CACHE_HOME or ``~/.cache``; None for none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (cache if cache.is_absolute() else Path.home() / ".cache") / "framework-parity" / "check"
    except RuntimeError:  # a user who has no home
        return None
