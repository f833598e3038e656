"""Where a fault is, in the words of either side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from parity.graph import Site

MOST_NAMES: Final = 24
"""Further names of a place at most."""


def location(sites: Sequence[Site], tensor: str) -> dict[str, Any]:
    """A place: the module, the operator and its source line, the tensor, and what else they are called.

    Args:
        sites: Operators of the place, in execution order.
        tensor: The tensor that they make.
    """
    if not sites:
        return {"tensor": tensor}
    last = sites[-1]
    names = dict.fromkeys(name for site in sites for name in (site.name, *site.labels, *site.outputs) if name)
    found = {
        "scope": common_scope(sites),
        "site": last.name,
        "op": last.op,
        "tensor": tensor,
        "source": next((site.source for site in reversed(sites) if site.source), None),
        "names": list(names)[:MOST_NAMES],
    }
    return {key: value for key, value in found.items() if value not in (None, [])}


def common_scope(sites: Sequence[Site]) -> str:
    """The innermost module that all of the operators are in."""
    paths = [site.scope.split(".") if site.scope else [] for site in sites]
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)


def module(place: Mapping[str, Any]) -> str:
    """A place by its module, or where that is not known by its operator, tensor or output."""
    known = (place.get(key) for key in ("scope", "site", "tensor", "output"))
    return str(next((name for name in known if name), "")).replace("\n", "\\n")


def words(place: Mapping[str, Any]) -> str:
    """A place as one would say it: the module with its source line; without a module the line comes first."""
    name, line = module(place), near(place.get("source") or "")
    if name.isdecimal():
        name = f"module {name}"
    if not line:
        return name
    return f"{name} ({line})" if place.get("scope") else f"{line} ({name})"


def near(source: str) -> str:
    """A source line with its file as one would type it here: relative where it is below the working directory."""
    file, colon, line = source.rpartition(":")
    path, here = Path(file), Path.cwd()
    return f"{path.relative_to(here)}{colon}{line}" if file and path.is_relative_to(here) else source
