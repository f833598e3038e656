"""What scanning finds: the activations of one file, whatever its format, and what is known about the file itself."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from parity.errors import InputError
from parity.findings import Finding

Basis = Literal["config", "model-code", "class-default", "graph", "probed"]
"""Why a variant is believed: the field says so, the model's code overrides or lacks a field, the class's default fills
in for an absent field, a graph's operator means it by definition, or its numbers were taken."""


class Unreadable(InputError):  # noqa: N818 – it says of a file what it is
    """One file cannot be read. The others of the same scan still are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationUse:
    """One activation that a file speaks of.

    Attributes:
        file: Path as the user would type it; ``-`` for standard input.
        path: Where in the file: a JSON path (``text_config.hidden_act``) or a graph's node or scope.
        field: Last name of ``path``, or the operator of a graph.
        value: What stands there, as it was written; None where nothing does.
        variant: Name of the function computed, one of ``parity.functions.VARIANTS``; None when unknown.
        basis: Why ``variant`` is believed.
        reason: What a reader should know about it, in a sentence; empty where the field speaks for itself.
        line: Line of the field, from 1; None where the file has no lines or the field is absent.
        scope: Part of the model that it acts in, where that is known (``vision_model``).
        parameters: Further parameters of the variant, such as a slope or a clip.
    """

    file: str
    path: str
    field: str
    value: Any
    variant: str | None
    basis: Basis
    reason: str = ""
    line: int | None = None
    scope: str = ""
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One file read.

    Attributes:
        file: Path as the user would type it; ``-`` for standard input.
        format: Name of the reader that understood it.
        activations: In the file's order.
        findings: What the reader itself saw: conflicts, unknown values, ignored fields.
        facts: What is known about the file as a whole: ``model_type``, ``library``, ``version``, ``opset`` …
    """

    file: str
    format: str
    activations: tuple[ActivationUse, ...] = ()
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
