"""A model written anew with some of its parts changed; this runs inside a worker, or in process for live objects."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parity.adapter import Adapter, Array, Mender
from parity.edits import Packed, unpack
from parity.errors import EngineError
from parity.worker import Message


def mend(
    adapter: Adapter, model: Any, edits: Sequence[Mapping[str, Any]], file: str, **arrays: Array
) -> Iterator[Message]:
    """Writes ``model`` with ``edits`` to ``file``, and tells what became of each of them.

    Args:
        adapter: Of this worker.
        model: As for `parity.adapter.Adapter.open`.
        edits: As `parity.edits.pack` made them.
        file: Where to write; nothing is written where no edit could be made.
        arrays: That belong to the edits.
    """
    if not isinstance(adapter, Mender):
        raise EngineError(f"The {adapter.name} adapter writes no models.")
    asked = unpack(Packed(tuple(dict(one) for one in edits), arrays))
    told = adapter.mend(model, asked, Path(file))
    yield Message({"outcomes": [[one.done, one.told] for one in told]})
