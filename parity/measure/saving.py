"""A region saved as a program of its own; this runs inside a worker, or in process for live objects."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parity.adapter import Adapter, Array, RegionSaver
from parity.errors import ParityError
from parity.measure.session import session_of
from parity.worker import Message


def save(adapter: Adapter, token: str, plan: Mapping[str, Any], folder: str, **arrays: Array) -> Iterator[Message]:
    """Saves some sites into a folder, and tells why not where that cannot be done.

    Args:
        adapter: Of this worker.
        token: Of the session.
        plan: ``sites``, ``given`` and ``wanted``, as in `parity.adapter.RegionSaver.save`.
        folder: Where to; it is empty.
        arrays: ``x0``, ``x1``, … in the order of ``given``.
    """
    session = session_of(token)
    reason = f"the {adapter.name} adapter writes no programs of regions"
    if isinstance(session, RegionSaver):
        given = {name: arrays[f"x{k}"] for k, name in enumerate(plan["given"])}
        try:
            session.save(plan["sites"], given, plan["wanted"], Path(folder))
            reason = ""
        except ParityError as error:
            reason = error.message
    yield Message({"reason": reason})
