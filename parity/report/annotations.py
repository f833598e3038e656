"""Findings as GitHub Actions shows them beside the code."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from parity.findings import Finding

LEVELS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs in GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """A workflow command for each finding, with file and line where it has them."""
    for one in findings:
        file, line = place(one.location)
        file = near(file)
        known = {"file": file, "line": line, "title": one.rule}
        told = ",".join(f"{key}={_property(str(value))}" for key, value in known.items() if value)
        yield f"::{LEVELS[one.severity]} {told}::{_data(f'{one.message} {one.fix}'.strip())}"


def place(location: Mapping[str, Any]) -> tuple[str, int | None]:
    """File and line of a finding: a config's, or the source line of the reference or the candidate; "" for none."""
    if location.get("file"):
        return str(location["file"]), location.get("line")
    for side in ("candidate", "reference"):
        told = location.get(side)
        source = str(told.get("source") or "") if isinstance(told, Mapping) else ""
        file, _, line = source.rpartition(":")
        if file and line.isdecimal():
            return file, int(line)
    return "", None


def near(file: str) -> str:
    """A file below the working directory by its path from there, as code hosts know it; another as it is."""
    path = Path(file)
    return path.relative_to(Path.cwd()).as_posix() if path.is_absolute() and path.is_relative_to(Path.cwd()) else file


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
