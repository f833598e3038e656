"""A config in JSON, and how what is found in it is written down with its place."""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from parity.findings import Finding, Severity
from parity.scanner.json_text import JsonText, Path, cut, shown
from parity.scanner.knowledge.names import Named
from parity.scanner.model import ActivationUse, Basis, Document

MOST_USES: Final = 5_000
"""Activations of one file that are listed."""


@dataclass(slots=True)
class ConfigFile:
    """A config that is being read.

    Attributes:
        file: Path as the user would type it.
        path: The same as a path.
        json: Its text and values.
        versions: By library, the version that is going to run it, where the user said so.
        uses: Activations found so far.
        findings: Findings so far.
        full: Whether there are more than `MOST_USES` activations, so that nothing further is looked for.
    """

    file: str
    path: pathlib.Path
    json: JsonText
    versions: Mapping[str, str] = field(default_factory=dict)
    uses: list[ActivationUse] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    full: bool = False

    @property
    def root(self) -> dict[str, Any]:
        """The outermost object; empty where the document is something else."""
        value = self.json.value
        return value if isinstance(value, dict) else {}

    def add(
        self,
        path: Path,
        value: Any,
        found: Named | None,
        basis: Basis,
        *,
        reason: str = "",
        scope: str | None = None,
        place: str = "",
    ) -> None:
        """Takes down an activation.

        Args:
            path: The field; where no field speaks of it, the object in which it would.
            value: Its value.
            found: The function.
            basis: Why it is that.
            reason: What a reader should know about it.
            scope: Part of the model; that which the object of the field describes where there is none.
            place: Where in the model it is, where no field speaks of it.
        """
        if len(self.uses) >= MOST_USES:
            self.full = True
            return
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        self.uses.append(
            ActivationUse(
                file=self.file,
                path=place or shown(path),
                field="" if place else cut(name),
                value=cut(value) if isinstance(value, str) else value,
                variant=found.variant if found else None,
                basis=basis,
                reason=reason,
                line=None if place else self.json.line(path),
                scope=shown(path[:-1]) if scope is None else scope,
                parameters=found.parameters if found else {},
            )
        )

    def report(
        self,
        rule: str,
        severity: Severity,
        path: Path,
        message: str,
        *,
        fix: str = "",
        expected: str | None = None,
        observed: str | None = None,
    ) -> None:
        """Takes down a finding at ``path``."""
        if len(self.findings) < MOST_USES:
            self.findings.append(
                Finding(
                    rule=rule,
                    severity=severity,
                    message=message,
                    fix=fix,
                    location={"file": self.file, "path": shown(path), "line": self.json.line(path)},
                    expected=expected,
                    observed=observed,
                )
            )

    def document(self, form: str, **facts: Any) -> Document:
        """All that was taken down."""
        if self.full:
            facts["activations_beyond"] = MOST_USES
        known = {name: value for name, value in facts.items() if value is not None}
        return Document(
            file=self.file, format=form, activations=tuple(self.uses), findings=tuple(self.findings), facts=known
        )
