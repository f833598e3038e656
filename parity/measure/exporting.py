"""A model written in the forms in which it is deployed; this runs inside a worker, or in process for live objects."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parity.adapter import Adapter, Array, Exporter
from parity.measure.session import named_arrays, session_of
from parity.worker import Message


def targets(adapter: Adapter, token: str) -> Iterator[Message]:  # noqa: ARG001 – the signature of jobs
    """Deployment targets that the session exports to, each with the form in which."""
    session = session_of(token)
    yield Message({"targets": dict(session.targets()) if isinstance(session, Exporter) else {}})


def export(
    adapter: Adapter,
    token: str,
    plan: Mapping[str, Any],
    **inputs: Array,
) -> Iterator[Message]:
    """Writes the model for a target into a folder; the message is what `parity.adapter.Exported` says.

    Args:
        adapter: Of this worker.
        token: Of the session.
        plan: ``target``, one of those that `targets` told; ``folder``, which is empty; ``names`` of the inputs, in call
            order; ``options``, as in `parity.adapter.Exporter.export`.
        inputs: ``x0``, ``x1``, … in the order of ``names``.
    """
    session = session_of(token)
    assert isinstance(session, Exporter), adapter.name  # noqa: S101 – `targets` told nothing of others
    given = named_arrays(plan["names"], inputs)
    made = session.export(plan["target"], given, Path(plan["folder"]), plan["options"])
    yield Message({"file": str(made.file), "how": made.how, "notes": list(made.notes)})
