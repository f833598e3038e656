"""What is installed and what is missing, read from package metadata alone: no framework is imported.

An adapter is installed by the extra of its own name of the distribution that offers it. Its requirements are therefore
known before it is loaded.
"""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, version
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from parity.discovery import discover

STAND_INS: Final[Mapping[str, tuple[str, ...]]] = {
    "tensorflow": ("tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tf-nightly", "tf-nightly-cpu"),
    "tensorflow-cpu": ("tensorflow", "tensorflow-intel", "tensorflow-macos", "tf-nightly", "tf-nightly-cpu"),
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino", "ort-nightly"),
}
"""Distributions that hold the same import package under another name, and so serve as well – or clash, if both are
there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterStatus:
    """One adapter as its distribution's metadata describe it.

    Attributes:
        name: Its name.
        distribution: The distribution that offers it, with its version.
        versions: Installed requirements by distribution name.
        missing: Requirements that are not installed, or not in a version that serves.
        install: The command that installs what is missing; empty where nothing is.
    """

    name: str
    distribution: str
    versions: Mapping[str, str]
    missing: tuple[str, ...]
    install: str


def adapter_statuses() -> dict[str, AdapterStatus]:
    """The state of every adapter that installed distributions offer, by name."""
    return {name: _status(name, entry) for name, entry in discover().items()}


def _status(name: str, entry: EntryPoint) -> AdapterStatus:
    distribution = entry.dist
    if distribution is None:
        return AdapterStatus(name=name, distribution="unknown", versions={}, missing=(), install="")
    # An adapter without an extra, like that of NumPy, speaks to what the distribution needs anyway.
    versions = {name: version(name)} if _is_installed(name) else {}
    missing = []
    for requirement in _requirements(distribution, name):
        found = _installed(requirement)
        if found is None:
            missing.append(str(requirement).partition(";")[0].strip())
        else:
            versions |= found
    install = f'pip install "{distribution.name}[{name}]"' if missing else ""
    return AdapterStatus(
        name=name,
        distribution=f"{distribution.name} {distribution.version}",
        versions=versions,
        missing=tuple(missing),
        install=install,
    )


def _requirements(distribution: Distribution, extra: str) -> list[Requirement]:
    """What the extra asks for beyond the distribution's own requirements."""
    found = []
    for text in distribution.requires or []:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # somebody else's metadata; pip would have refused what matters
        if (
            requirement.marker
            and requirement.marker.evaluate({"extra": extra})
            and not requirement.marker.evaluate({"extra": ""})
        ):
            found.append(requirement)
    return found


def _installed(requirement: Requirement) -> dict[str, str] | None:
    for name in (requirement.name, *STAND_INS.get(requirement.name, ())):
        try:
            found = version(name)
        except PackageNotFoundError:
            continue
        if requirement.specifier.contains(found, prereleases=True):
            return {name: found}
    return None


def name_clashes() -> list[str]:
    """Sentences on names that are taken twice: commands, packages, distributions with the same content."""
    clashes = []
    for names in {frozenset((name, *others)) for name, others in STAND_INS.items()}:
        there = sorted(name for name in names if _is_installed(name))
        if len(there) > 1:
            clashes.append(f"{' and '.join(there)} install the same package over each other; keep one.")
    own = Path(sys.executable).parent
    command = shutil.which("parity")
    if command and Path(command).parent.resolve() != own.resolve():
        clashes.append(f"The command 'parity' on the PATH is {command}, not the one beside {sys.executable}.")
    package = Path(__file__).parent
    for folder in sys.path:
        other = Path(folder or ".") / "parity"
        if (other / "__init__.py").is_file() and other.resolve() != package.resolve():
            clashes.append(
                f"Another package called 'parity' lies in {other.parent}; the first on the path is imported."
            )
    return clashes


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
