"""How adapters are found: through entry points, our own and other people's alike. Nothing is imported here."""

from importlib.metadata import EntryPoint, entry_points
from typing import Final

GROUP: Final = "parity.adapters"
"""The entry-point group: name of the adapter, and where its `parity.adapter.Adapter` object is."""


def discover() -> dict[str, EntryPoint]:
    """The adapters that installed distributions offer, by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}
