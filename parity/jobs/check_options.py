"""What a user may set of a check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What a user may set of a check.

    Attributes:
        targets: Deployment targets; empty for the first one that the model's framework exports to.
        candidate: An export that the user has; None to have one made for each target.
        opset: Of ONNX, for the exporter; None for its default.
        prove: Whether known faults are injected first, to show that this run catches them.
        fail_on: The least severity of a finding that fails the check.
        samples: How many made-up inputs are tried where none are given.
        allowed: Rules whose findings are allowed, with the largest relative error or None for any.
        allowed_by: By rule, what allows it, where that is another thing than the command line.
        keep: Folder to keep the exports in; None to remove them.
        cache: Whether a result of the same model, inputs, options and versions is taken from the cache.
        threads: That the engines may use.
        timeout: Seconds of silence after which a worker counts as hung.
    """

    targets: Sequence[str] = ()
    candidate: str | None = None
    opset: int | None = None
    prove: bool = False
    fail_on: Literal["error", "warning"] = "error"
    samples: int = 1
    allowed: Mapping[str, float | None] = field(default_factory=dict)
    allowed_by: Mapping[str, str] = field(default_factory=dict)
    keep: Path | None = None
    cache: bool = True
    threads: int = 1
    timeout: float = 600.0
