"""``parity scan``: which function every activation of configs and graphs is, and what deployment targets make of it."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from parity.errors import InputError, ParityError
from parity.findings import Finding, Report, Verdict, counted, environment
from parity.scanner.knowledge.models import LIBRARY
from parity.scanner.knowledge.targets import resolved
from parity.scanner.model import ActivationUse, Document, Unreadable
from parity.scanner.readers import SUFFIXES, reader_of
from parity.scanner.request import ScanRequest
from parity.scanner.rules import against as against_rule
from parity.scanner.rules import optimizer_risk, target_differs
from parity.scanner.rules.target_differs import TargetRow
from parity.scanner.source import LARGEST_INPUT, STANDARD_INPUT, Source

PASSED_BY: Final = frozenset({".git", ".hg", ".venv", "__pycache__", "node_modules", "site-packages"})
"""Folders that a walk does not enter."""

NO_CONFIGS: Final = frozenset(
    {
        *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"),
        *("generation_config.json", "preprocessor_config.json", "processor_config.json", "package.json"),
        *("package-lock.json", "tsconfig.json", "model.safetensors.index.json", "pytorch_model.bin.index.json"),
    }
)
"""Names of JSON files that a walk leaves out: they describe no model. Named on the command line, they are read."""

LARGEST_WALKED: Final = 8 << 20
"""Bytes of a JSON file that a walk still reads; a larger one is data and no config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport(Report):
    """What was found.

    Attributes:
        verdict: ``mismatch`` where a finding is an error, ``error`` where a file could not be read, ``inconclusive``
            where there was nothing to read.
        summary: One sentence.
        findings: Of all files.
        activations: Every activation of every file.
        targets: For each of them and each target asked about, what it computes.
        coverage: ``files`` read by format, ``unreadable`` with the reason, ``left_out`` of folders.
        environment: Where this was made.
    """

    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]
    activations: tuple[ActivationUse, ...]
    targets: tuple[TargetRow, ...]
    coverage: Mapping[str, Any]
    environment: Mapping[str, Any]

    @property
    def exit_code(self) -> int | None:
        """2 where a file could not be read; None where the verdict decides."""
        return InputError.exit_code if self.coverage["unreadable"] else None


def scan(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    targets: Sequence[str] = (),
    *,
    against: str | os.PathLike[str] | None = None,
    strict: bool = False,
    measure: bool = False,
    versions: Mapping[str, str] | None = None,
) -> ScanReport:
    """Reads configs and graphs; nothing in them is executed.

    Args:
        paths: A file, a folder that is walked, ``-`` for standard input, or several of them.
        targets: Deployment targets to ask about.
        against: A graph, or a folder with one, that has to compute what the configs say.
        strict: Whether warnings count as errors.
        measure: Whether what is known of a target is checked by running it where it is installed.
        versions: By library, the version that is going to run the models.

    Raises:
        InputError: A target or a library is not known.
    """
    for name in versions or {}:
        if name != LIBRARY:
            raise InputError(
                f"Of '{name}' no versions are known, only those of {LIBRARY}.", hint=f"For example {LIBRARY}=4.38."
            )
    request = ScanRequest(
        targets=tuple(resolved(targets)), strict=strict, measure=measure, versions=dict(versions or {})
    )
    run = _Run(request, [], [], Counter())
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    documents = list(run.documents(os.fspath(path) for path in several))
    findings = [finding for document in documents for finding in examined(document, request)]
    if measure:
        from parity.jobs.scan_measure import measured  # noqa: PLC0415 – starts workers; asked for in few scans

        findings += measured(request.targets)
    compared = None
    if against is not None:
        graphs = list(run.documents([os.fspath(against)], graphs=True))
        compared, more = against_rule.compare(documents, graphs)
        findings += more
    if strict:
        findings = [replace(one, severity="error") if one.severity == "warning" else one for one in findings]
    return _report(run, documents, findings, compared)


def examined(document: Document, request: ScanRequest) -> Iterator[Finding]:
    """What the reader found, and what every rule finds."""
    yield from document.findings
    for rule in (target_differs, optimizer_risk):
        yield from rule.examine(document, request)


@dataclass(slots=True)
class _Run:
    """One scan under way.

    Attributes:
        request: What was asked.
        unreadable: Files that could not be read, with the message.
        unknown: Files that no reader knows.
        left_out: Files of folders that were not read, by reason.
    """

    request: ScanRequest
    unreadable: list[dict[str, str]]
    unknown: list[str]
    left_out: Counter[str]

    def documents(self, paths: Iterable[str], *, graphs: bool = False) -> Iterator[Document]:
        """Every file that can be read; the others are taken down."""
        for path in paths:
            if path == STANDARD_INPUT:
                yield from self.read(path, named=True)
            elif Path(path).is_dir():
                for file in self.walk(path):
                    if not (graphs and file.endswith(".json")):
                        yield from self.read(file, named=False)
            else:
                yield from self.read(path, named=True)

    def walk(self, folder: str) -> Iterator[str]:
        """Files of a folder whose names a reader knows, in order; links to folders are not followed."""
        for parent, inner, files in os.walk(folder):
            inner[:] = sorted(one for one in inner if one not in PASSED_BY)
            for name in sorted(files):
                if os.path.splitext(name)[1].lower() in SUFFIXES:  # noqa: PTH122 – ten times as fast as a Path
                    if name in NO_CONFIGS:
                        self.left_out["known by name to hold no activation"] += 1
                    else:
                        yield os.path.join(parent, name)  # noqa: PTH118 – likewise

    def read(self, file: str, *, named: bool) -> Iterator[Document]:
        """One file; ``named`` by the user, or found in a folder."""
        try:
            if not named and _is_special(file):
                self.left_out["no regular file"] += 1
                return
            source = _source(file, self.request.versions)
            if not named and file.endswith(".json") and source.size > LARGEST_WALKED:
                self.left_out[f"JSON of more than {LARGEST_WALKED >> 20} MB"] += 1
                return
            reader = reader_of(source.path, source.head)
            if reader is None:
                if named:
                    self.unreadable.append(_unknown(file))
                else:
                    self.left_out["of another format"] += 1
                return
            yield reader.read(source)
        except ParityError as error:
            self.unreadable.append({"file": file, "message": error.message, "hint": error.hint})
        except RecursionError:
            self.unreadable.append({"file": file, "message": f"{file} is nested too deep to be read.", "hint": ""})


def _is_special(file: str) -> bool:
    """Whether it is there and is a pipe, a socket or a device, which only waits or never ends."""
    return os.path.exists(file) and not os.path.isfile(file)  # noqa: PTH110, PTH113 – ten times as fast as a Path


def _unknown(file: str) -> dict[str, str]:
    known = ", ".join(SUFFIXES)
    return {"file": file, "message": f"{file} is of no format that can be read.", "hint": f"Known: {known}."}


def _source(file: str, versions: Mapping[str, str]) -> Source:
    return _standard_input(versions) if file == STANDARD_INPUT else Source.of_file(file, versions)


def _standard_input(versions: Mapping[str, str]) -> Source:
    """What stands on standard input.

    Raises:
        Unreadable: There is none, or too much of it.
    """
    data = sys.stdin.buffer.read(LARGEST_INPUT + 1)
    if not data or len(data) > LARGEST_INPUT:
        raise Unreadable("Standard input is empty." if not data else "Standard input has more than 1 GB.")
    return Source.of_bytes(data, versions=versions)


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts about a file that are plain values; the others are for the rules."""
    return {name: fact for name, fact in facts.items() if isinstance(fact, str | int | float | dict)}


def _report(run: _Run, documents: list[Document], findings: list[Finding], compared: int | None) -> ScanReport:
    activations = tuple(use for document in documents for use in document.activations)
    errors = sum(one.severity == "error" for one in findings)
    warnings = sum(one.severity == "warning" for one in findings)
    verdict: Verdict = "pass"
    if errors:
        verdict = "mismatch"
    elif run.unreadable:
        verdict = "error"
    elif not documents or compared == 0:
        verdict = "inconclusive"
    found = counted(len(activations), "activation") if activations or run.unreadable else "No activation"
    parts = [f"{found} in {counted(len(documents), 'file')}"]
    parts += [counted(errors, "error")] if errors else []
    parts += [counted(warnings, "warning")] if warnings else []
    if compared is not None:
        parts.append(f"{counted(compared, 'activation')} compared with the graph" if compared else "nothing to compare")
    if run.unreadable:
        parts.append(f"{counted(len(run.unreadable), 'file')} not readable")
    return ScanReport(
        verdict=verdict,
        summary=", ".join(parts) + "." if documents or run.unreadable else "There was no file to read.",
        findings=tuple(findings),
        activations=activations,
        targets=tuple(
            TargetRow(file=use.file, path=use.path, model=use.variant, answer=answer)
            for document in documents
            for use, answer in target_differs.answers(document, run.request)
        ),
        coverage={
            "files": dict(Counter(document.format for document in documents)),
            "without_activation": [document.file for document in documents if not document.activations],
            "unreadable": tuple(run.unreadable),
            "left_out": dict(run.left_out),
            "facts": {document.file: facts for document in documents if (facts := _plain(document.facts))},
        },
        environment=environment({}, threads=os.cpu_count() or 1),
    )
