"""What a user may set of a diff."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Progress = Callable[[str, int, int], None]
"""Told a name, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """What a user may set of a diff.

    Attributes:
        reference_optimization: Level of the reference's engine where it has levels; None for its default.
        candidate_optimization: Likewise of the candidate's.
        candidate_session_config: Entries of the candidate's session configuration.
        reference_dtype: Type in which the reference is to run; None for its own.
        candidate_dtype: Likewise.
        candidate_input_perm: Axes, by input, in which the candidate takes it.
        candidate_output_perm: Axes, by number of the output, in which the candidate's is to be read.
        reference_python: Interpreter of the reference's environment.
        candidate_python: Of the candidate's.
        samples: How many made-up inputs are tried where none are given.
        mapped: Tensors that the user says are one another's.
        allowed: Rules whose findings are allowed, with the largest relative error or None for any.
        allowed_by: By rule, what allows it, where that is another thing than the command line.
        prove: Whether known faults are to be put into a copy of the reference, to see which the run would show.
        write_fix: File to write the candidate to with what can be mended in it; None for none.
        repro: Folder to save a reproduction of each finding in; None for none.
        threads: That the engines may use.
        timeout: Seconds of silence after which a worker counts as hung.
    """

    reference_optimization: str | None = None
    candidate_optimization: str | None = None
    candidate_session_config: Mapping[str, str] = field(default_factory=dict)
    reference_dtype: str | None = None
    candidate_dtype: str | None = None
    candidate_input_perm: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    candidate_output_perm: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    reference_python: str = sys.executable
    candidate_python: str = sys.executable
    samples: int = 1
    mapped: Sequence[tuple[str, str]] = ()
    allowed: Mapping[str, float | None] = field(default_factory=dict)
    allowed_by: Mapping[str, str] = field(default_factory=dict)
    prove: bool = False
    write_fix: Path | None = None
    repro: Path | None = None
    threads: int = 1
    timeout: float = 600.0
