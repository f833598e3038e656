"""``parity check``: the gate before export – what the config says, what the model runs, what its exports compute."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from parity.adapter import Array
from parity.errors import EngineError, InputError
from parity.findings import Finding, Verdict, environment, to_json
from parity.jobs.check_cache import Cache
from parity.jobs.check_config import with_config
from parity.jobs.check_options import CheckOptions
from parity.jobs.check_probe import probed
from parity.jobs.check_report import CheckReport, Step, make_report
from parity.jobs.diff import diff
from parity.jobs.diff_options import DiffOptions, Progress
from parity.jobs.diff_report import DiffReport
from parity.jobs.diff_sides import Opened, made_sets, open_candidate
from parity.jobs.scan import ScanReport, scan
from parity.model_inputs import given_sets
from parity.models import ModelReference
from parity.scanner.knowledge.targets import target_names
from parity.sides import Side, SideOptions, found_model

__all__ = ["CheckOptions", "CheckReport", "check"]

OWN: Final = "onnxruntime"
"""The engine whose models are files in the form in which it is deployed; it rewrites their graphs to run them."""


def check(
    model: Any,
    inputs: Any = None,
    *,
    options: CheckOptions | None = None,
    progress: Progress = lambda _name, _done, _total: None,
) -> CheckReport:
    """Scans a model's config, probes the model, exports it to each target, and compares the exports with it.

    Args:
        model: A model reference as on the command line, or a live object.
        inputs: Arrays by name in call order, a file of them, or a list of either; None to have them made.
        options: What else is asked.
        progress: Told a name, how much of it is done, and of how much.

    Raises:
        InputError: The model, the inputs or an option cannot be used.
        EngineError: The model's own framework crashed or hung.
    """
    options = options or CheckOptions()
    found = found_model(model)
    if isinstance(found, ModelReference) and found.is_trace:
        raise InputError(f"{found.text} is a recorded trace.", hint="Name the model that it was made of.")
    sets = given_sets(inputs)
    cache = Cache(found, inputs, options)
    if (known := cache.read()) is not None:
        return known
    report = _Check(model, found, sets, options, progress).run()
    cache.write(report)
    return report


class _Check:
    """One check under way."""

    def __init__(
        self,
        model: Any,
        found: ModelReference | tuple[Any, str],
        sets: Sequence[Mapping[str, Array]],
        options: CheckOptions,
        progress: Progress,
    ) -> None:
        self.model = model
        self.found = found
        self.sets: Sequence[Mapping[str, Array]] = list(sets)
        self.options = options
        self.progress = progress
        self.steps: list[Step] = []
        self.told: dict[str, dict[str, Any]] = {}
        self.config: ScanReport | None = None

    def run(self) -> CheckReport:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parity-check-")))
            how = SideOptions(threads=self.options.threads, timeout=self.options.timeout)
            with Side("model", self.found, how) as side:
                targets = self._targets(side)
                self._scan(side.text, targets)
                if not self.sets:
                    self.sets = self._made(side)
                self._probe(side, folder / "probe")
                candidates = {target: self._candidate(side, target, folder) for target in targets}
                versions: dict[str, Mapping[str, str]] = {side.adapter: dict(side.versions)}
                text = side.text
            for target, candidate in candidates.items():
                if candidate is not None:
                    versions |= self._diff(target, candidate)
        steps = [self._measured(step) for step in self.steps]
        return make_report(
            text,
            steps,
            fail_on=self.options.fail_on,
            environment=environment(versions, self.options.threads),
            targets=self.told,
        )

    def _targets(self, side: Side) -> list[str]:
        """The targets asked for, or the first that there is.

        Raises:
            InputError: A target is not known, or there is none to export to.
        """
        known = self._exports(side)
        for target in self.options.targets:
            if target not in known and target not in target_names():
                raise InputError.unknown("target", target, sorted({*known, *target_names()}))
        if self.options.candidate is not None:
            return list(self.options.targets)[:1] or ["candidate"]
        if not self.options.targets and not known:
            raise InputError(
                f"Nothing exports {side.text} here.", hint="Name an export of yours with --candidate FILE."
            )
        return list(self.options.targets) or [next(iter(known))]

    def _exports(self, side: Side) -> dict[str, str]:
        """Targets that there are exporters to; an ONNX file is its own export to the engine that runs it."""
        return {side.adapter: "the file itself"} if side.adapter == OWN and self._file(side) else side.targets()

    def _file(self, side: Side) -> str | None:
        return side.text if isinstance(self.found, ModelReference) else None

    def _scan(self, text: str, targets: Sequence[str]) -> None:
        """What the model's config says, and what is known of the targets."""
        config = Path(text.removeprefix("hf:")) / "config.json"
        if not isinstance(self.found, ModelReference) or not config.is_file():
            return
        asked = [target for target in targets if target in target_names()]
        start = time.perf_counter()
        self.config = scan([str(config)], asked)
        self._add("scan", None, self.config, self.config.findings, start)

    def _made(self, side: Side) -> list[dict[str, Array]]:
        """Inputs that the model takes, and an export of the user's own too."""
        ours, samples = Opened(side, None, side.text, None), self.options.samples
        if self.options.candidate is None:
            return made_sets(ours, None, samples)
        with ExitStack() as stack:
            asked = DiffOptions(threads=self.options.threads, timeout=self.options.timeout)
            try:
                theirs = open_candidate(self.options.candidate, asked, stack)
            except EngineError:  # the comparison will say so
                return made_sets(ours, None, samples)
            return made_sets(ours, theirs, samples)

    def _probe(self, side: Side, folder: Path) -> None:
        """What the model's activations compute, held against its config."""
        self.progress("probe", 0, 1)
        start = time.perf_counter()
        summary, findings = probed(side, self.sets[0], folder, self.config)
        verdict: Verdict = "mismatch" if any(one.severity == "error" for one in findings) else "pass"
        self.steps.append(
            Step(
                name="probe",
                target=None,
                verdict=verdict,
                summary=summary,
                findings=findings,
                seconds=time.perf_counter() - start,
            )
        )
        self.progress("probe", 1, 1)

    def _candidate(self, side: Side, target: str, folder: Path) -> str | None:
        """The export for a target: the user's own, or one made here; None where there is none."""
        if self.options.candidate is not None:
            self.told[target] = {"candidate": self.options.candidate}
            return self.options.candidate
        if target == OWN == side.adapter and self._file(side):
            self.told[target] = {
                "candidate": side.text,
                "how": "the file itself, against its graph without the optimiser",
            }
            return side.text
        if target not in side.targets():
            exporters = ", ".join(side.targets()) or "none"
            said = f"{target} was only scanned: nothing exports this model to it here (exporters: {exporters})."
            self.steps.append(Step(name="export", target=target, verdict="inconclusive", summary=said))
            return None
        home = (self.options.keep or folder) / target
        home.mkdir(parents=True, exist_ok=True)
        self.progress(f"export to {target}", 0, 1)
        start = time.perf_counter()
        options = {} if self.options.opset is None else {"opset": str(self.options.opset)}
        try:
            made = side.export(target, self.sets[0], home, options)
        except EngineError as error:
            seconds = time.perf_counter() - start
            self.steps.append(
                Step(name="export", target=target, verdict="error", summary=error.message, seconds=seconds)
            )
            return None
        self.progress(f"export to {target}", 1, 1)
        said = f"Exported to {target} with {made['how']}. {' '.join(made['notes'])}".strip()
        seconds = time.perf_counter() - start
        self.steps.append(Step(name="export", target=target, verdict="pass", summary=said, seconds=seconds))
        kept = {"candidate": str(made["file"])} if self.options.keep else {}
        self.told[target] = {"how": made["how"], **kept}
        return str(made["file"])

    def _diff(self, target: str, candidate: str) -> dict[str, Mapping[str, str]]:
        """The export compared with the model; returns the versions of its engine."""
        asked = DiffOptions(
            prove=self.options.prove,
            allowed=self.options.allowed,
            allowed_by=self.options.allowed_by,
            reference_optimization="none" if candidate == self.model else None,
            threads=self.options.threads,
            timeout=self.options.timeout,
        )
        start = time.perf_counter()
        try:
            report = diff(self.model, candidate, self.sets, options=asked, progress=self._of(target))
        except EngineError as error:
            self.steps.append(Step(name="diff", target=target, verdict="error", summary=error.message))
            return {}
        findings = [with_config(one, self.config) for one in report.findings]
        self._add("diff", target, report, findings, start)
        if report.proof is not None:
            self.told[target]["catch_rate"] = report.proof.catch_rate
        return dict(report.environment["adapters"])

    def _of(self, target: str) -> Callable[[str, int, int], None]:
        return lambda name, done, total: self.progress(f"{target}: {name}", done, total)

    def _add(
        self, name: Any, target: str | None, report: ScanReport | DiffReport, findings: Sequence[Finding], start: float
    ) -> None:
        self.steps.append(
            Step(
                name=name,
                target=target,
                verdict=report.verdict,
                summary=report.summary,
                findings=findings,
                seconds=time.perf_counter() - start,
                report=to_json(report),
            )
        )

    def _measured(self, step: Step) -> Step:
        """A step; what is only known of targets that were compared here is a note beside the measurement."""
        if step.name != "scan":
            return step
        compared = {one.target for one in self.steps if one.name == "diff"}
        return replace(step, findings=list(_beside(step.findings, compared)))


def _beside(findings: Sequence[Finding], compared: set[str | None]) -> Iterator[Finding]:
    for one in findings:
        known = one.rule == "target-differs" and one.evidence.get("target") in compared
        yield replace(one, severity="note") if known and one.severity == "error" else one
