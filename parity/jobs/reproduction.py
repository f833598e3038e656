"""``--repro``: a finding's two regions with their inputs, in a folder that runs without the models."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from parity.adapter import Array
from parity.diagnose.case import Case, Part
from parity.diagnose.diagnosis import Diagnosis, Doctor, Fault
from parity.diagnose.error_shape import error_shape
from parity.errors import EngineError, InputError
from parity.findings import Finding
from parity.jobs.diff_options import DiffOptions
from parity.layerwise.location import module
from parity.trace.shards import write_shard

PROGRAMS: Final = Path(__file__).parent
"""Where the programs are that are copied into each folder."""

LEAST: Final = 2.0
"""Excess up to which the two sides are taken to agree in any case."""

HOW: Final = (
    "`python run.py` runs both regions on the inputs that the reference's region had, and prints how far apart they",
    "are; its exit code is 1 if they still differ.",
)
"""What a reader is told to do."""


def check_repro(options: DiffOptions) -> None:
    """Sees to it that reproductions can be saved where they are to be, before anything is run.

    Raises:
        InputError: The folder holds something or is none, or nothing can be written there.
    """
    folder = options.repro
    if folder is None:
        return
    if (folder.exists() or folder.is_symlink()) and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--repro {folder}: that is there already.", hint="Nothing is overwritten; name a new folder.")
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--repro {folder}: nothing can be written to '{there}'.", hint="Name a folder elsewhere.")


def with_reproductions(diagnosis: Diagnosis, doctor: Doctor, folder: Path) -> tuple[Finding, ...]:
    """The findings, those with a reproduction telling where it is.

    Args:
        diagnosis: Its findings' first places are saved.
        doctor: Who made it; both sides' latest runs are still those that it speaks of.
        folder: A folder for each goes into it.

    Raises:
        InputError: The folder cannot be written.
    """
    found = []
    for finding, faults in zip(diagnosis.findings, diagnosis.groups, strict=True):
        saved = _saved(finding, faults[0], doctor, folder) if finding.severity == "error" else None
        told = {**finding.evidence, "reproduction": str(saved)} if saved is not None else finding.evidence
        found.append(replace(finding, evidence=told))
    return tuple(found)


def _saved(finding: Finding, fault: Fault, doctor: Doctor, folder: Path) -> Path | None:
    """Where a fault was saved; None where there is no region that could be, or it is there already."""
    case = doctor.case(fault.layer) if fault.layer is not None else None
    if case is None:
        return None
    key = json.dumps([finding.rule, finding.expected, finding.observed, case.reference.target, case.candidate.target])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        known = sorted(folder.glob("*/facts.json"))
        if any(json.loads(one.read_text(encoding="utf-8"))["key"] == key for one in known):
            return None
        place = folder / f"{len(known) + 1:02d}-{finding.rule}"
        with tempfile.TemporaryDirectory(prefix=".", dir=folder) as making:
            made = Path(making) / place.name
            _Reproduction(case, finding, made).write(key)
            made.rename(place)
    except OSError as error:
        raise InputError(
            f"--repro {folder} cannot be written: {error.strerror}.",
            hint="Name a folder elsewhere, or make room there.",
        ) from error
    return place


@dataclass(frozen=True)
class _Reproduction:
    """One folder in the making.

    Attributes:
        case: The region.
        finding: What was found there.
        folder: Where to.
    """

    case: Case
    finding: Finding
    folder: Path

    def write(self, key: str) -> None:
        """Writes everything; ``key`` tells this fault from others."""
        self.folder.mkdir()
        outputs = self._outputs()
        inputs: dict[str, Array] = {}
        programs: dict[str, str] = {}
        for role, part in self._parts():
            given = _read(part)
            inputs |= {f"{role}/{name}": array for name, array in given.items()}
            programs[role] = _program(part, given, self.folder / role)
        write_shard(self.folder / "inputs.safetensors", inputs)
        write_shard(self.folder / "outputs.safetensors", outputs)
        floor = self.case.measure.floor if self.case.measure is not None else 1.0
        excess = self.case.measure.excess if self.case.measure is not None else 0.0
        facts = {
            "key": key,
            "layout": self.case.region.pair.layout.as_json(),
            "noise_floor": floor or float(np.finfo(np.float64).tiny),
            "limit": max(LEAST, math.sqrt(excess)) if math.isfinite(excess) else LEAST,
        }
        (self.folder / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
        shutil.copyfile(PROGRAMS / "reproduction_run.py", self.folder / "run.py")
        (self.folder / "README.md").write_text(self._readme(outputs, programs), encoding="utf-8")

    def _parts(self) -> Sequence[tuple[str, Part]]:
        return ("reference", self.case.reference), ("candidate", self.case.candidate)

    def _outputs(self) -> dict[str, Array]:
        """What each side makes of its inputs, natively and in float64 where it can."""
        found = {}
        for role, part in self._parts():
            for precision in ("native", "float64"):
                try:
                    made = part.values([part.target], precision=precision)[part.target]
                except EngineError:
                    continue
                found[f"{role} {precision}"] = np.asarray(made)
        return found

    def _readme(self, outputs: Mapping[str, Array], programs: Mapping[str, str]) -> str:
        finding = self.finding
        lines = [f"# {finding.rule}", "", "A region in which two models differ, found by `parity diff`.", ""]
        for role, part in self._parts():
            place = finding.location[role]
            operators = ", ".join(site.op for site in part.sites)
            lines.append(
                f"- {role}: {module(place) or 'the model itself'}, tensor `{part.target}`, made by {operators}"
            )
        if finding.expected or finding.observed:
            lines += ["", f"Expected: {finding.expected or '–'}; observed: {finding.observed or '–'}."]
        lines += ["", f"The error: {self._shape(outputs)}.", "", *HOW, ""]
        for role, part in self._parts():
            assert part.side is not None  # noqa: S101 – a case is made of parts that can be evaluated
            versions = ", ".join(f"{name} {version}" for name, version in part.side.versions.items())
            lines.append(f"- `{role}/`: {programs[role]}. It was recorded with {versions}.")
        lines += ["- `inputs.safetensors`: what goes in, by side and tensor, each in its own layout."]
        lines += ["- `outputs.safetensors`: what each side made of it, natively and in float64 where it could."]
        return "\n".join(lines) + "\n"

    def _shape(self, outputs: Mapping[str, Array]) -> str:
        layout = self.case.region.pair.layout
        exact = layout.apply(outputs.get("reference float64", outputs.get("reference native", np.zeros(0))))
        made = outputs.get("candidate native", np.zeros(0)).reshape(exact.shape)
        if exact.dtype.kind in "iub":
            return f"{np.count_nonzero(made != exact)} of {exact.size} elements are others"
        wide = exact.astype(np.float64)
        with np.errstate(invalid="ignore"):  # of two infinities
            error = made.astype(np.float64) - wide
        most, largest = (np.nanmax(np.abs(one), initial=0.0) for one in (error, wide))
        size = f"at most {most:.3g}, in values up to {largest:.3g}"
        return f"{size}; {error_shape(error, wide)}"


def _read(part: Part) -> dict[str, Array]:
    """The given numbers that the part's operators read."""
    read = {name for site in part.sites for name in site.inputs} | {part.target}
    return {name: np.asarray(array) for name, array in part.given.items() if name in read}


def _program(part: Part, given: Mapping[str, Array], folder: Path) -> str:
    """Writes a side's region; says what was written."""
    assert part.side is not None  # noqa: S101
    folder.mkdir()
    sites = [site.name for site in part.sites]
    reason = part.side.save(sites, given, part.target, folder)
    if not reason:
        return "the region as a program of its own, with its weights"
    shutil.rmtree(folder)
    folder.mkdir()
    described = part.side.described()
    if described is None:
        return f"no program ({reason}); the model was a live object, so its recorded output is taken"
    facts = {**described, "sites": sites, "wanted": part.target}
    (folder / "region.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    ends = part.view.trace.ends.inputs
    write_shard(folder / "model_inputs.safetensors", {name: part.view.trace.array(one) for name, one in ends.items()})
    shutil.copyfile(PROGRAMS / "reproduction_region.py", folder / "region.py")
    return f"the region in the model itself, which `parity` opens, from where it was run ({reason})"
