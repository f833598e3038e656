"""Pairs by what exporters and authors wrote down: module scopes, node names, tensor names."""

import re
from collections import defaultdict

from parity.align.alignment import Alignment
from parity.align.by_weight import add_if_like, made_alike
from parity.align.view import GraphView
from parity.graph import LAYOUT


def align_by_scope(reference: GraphView, candidate: GraphView, alignment: Alignment) -> int:
    """Adds operators of the same kind in modules of the same path, in order, where there are as many on both sides."""
    views = reference, candidate
    ours, theirs = _by_scope(reference), _by_scope(candidate)
    added = 0
    for key in (key for key in ours if len(ours[key]) == len(theirs.get(key, ()))):
        for one, two in zip(ours[key], theirs[key], strict=True):
            if made_alike(views, (one, two)):
                added += add_if_like(views, alignment, (one, two), "metadata")
    return added


def align_by_name(reference: GraphView, candidate: GraphView, alignment: Alignment) -> int:
    """Adds tensors of the same name, which two files made from one another share."""
    views = reference, candidate
    added = 0
    for name in reference.computed():
        alike = name in candidate.producer and _kind(reference, name) == _kind(candidate, name)
        if alike and made_alike(views, (name, name)):
            added += add_if_like(views, alignment, (name, name), "name")
    return added


def _kind(view: GraphView, tensor: str) -> str:
    site = view.site_of(tensor)
    return site.kind if site is not None else ""


def _by_scope(view: GraphView) -> dict[tuple[str, str], list[str]]:
    found = defaultdict(list)
    for site in view.trace.sites:
        if site.scope and site.kind and site.kind not in LAYOUT | {"cast"} and site.outputs:
            found[normal_scope(site.scope), site.kind].append(site.outputs[0])
    return dict(found)


def normal_scope(scope: str) -> str:
    """A module path in one spelling: dots, lower case, bare indices (``layers[3]``, ``layers_3`` as ``layers.3``)."""
    text = re.sub(r"[/:]+|(?<=[a-z])_(?=\d)", ".", scope.lower())
    text = re.sub(r"\[(\d+)\]", r".\1", text)
    return re.sub(r"\.+", ".", text).strip(".")
