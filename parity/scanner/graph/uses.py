"""The activations of a graph as rows of a document: one for each place, with what it computes and why."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from parity.scanner.graph.ir import PASSING, Graph, Inner, Node
from parity.scanner.graph.naming import Name, Namer, defined
from parity.scanner.graph.regions import ARITHMETIC, SKIPPED, Region, Regions
from parity.scanner.graph.statics import Statics
from parity.scanner.model import ActivationUse

PRINCIPAL: Final = ("gelu", "quick_gelu", "silu", "erf", "erfc", "tanh", "sigmoid", "softplus", "exp", "log1p")
"""Kinds after which a region is called, the first first."""

SHOWN: Final = 160
"""Characters of a name that are shown."""


@dataclass(frozen=True, slots=True)
class Found:
    """One activation and where it stands in its graph.

    Attributes:
        use: The row.
        graph: The graph that holds it.
        region: Its operators; None for one inside an operator.
        statics: The constants of that graph.
    """

    use: ActivationUse
    graph: Graph
    region: Region | None
    statics: Statics


def activations(file: str, graphs: Sequence[Graph]) -> Iterator[Found]:
    """The activations of all graphs of a file, in the file's order.

    Args:
        file: Its name in the rows.
        graphs: Each after the one around it.
    """
    statics: dict[int, Statics] = {}
    namer = Namer()
    for graph in graphs:
        statics[id(graph)] = Statics(graph, statics.get(id(graph.outer)))
        yield from _in_graph(file, graph, Regions(graph, statics[id(graph)]), namer)


def _in_graph(file: str, graph: Graph, regions: Regions, namer: Namer) -> Iterator[Found]:
    used: set[str] = set()
    found: list[Found] = []
    for at in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[at]
        found.extend(Found(_inner(file, node, one), graph, None, regions.statics) for one in reversed(node.inner))
        if node.outputs and node.outputs[0] in used:
            continue
        learned = _learned(node, regions)
        if learned is not None:
            found.append(Found(_use(file, node, (node,), learned, gated=False), graph, None, regions.statics))
            continue
        nested = regions.ending(at)
        told = _told(graph, regions, namer, nested)
        if told is None:
            continue
        region, name = told
        used.update(one.outputs[0] for one in region.nodes)
        principal = min(region.nodes, key=_rank)
        use = _use(file, principal, region.nodes, name, gated=_gates(graph, regions, region))
        found.append(Found(use, graph, region, regions.statics))
    yield from reversed(found)


def _told(graph: Graph, regions: Regions, namer: Namer, nested: Sequence[Region]) -> tuple[Region, Name] | None:
    """The region of several that end alike which is an activation, and which one; None where none is."""
    if not nested:
        return None
    dtype = _dtype(regions, nested)
    for region in nested:
        name = namer.times_input(regions, region, dtype) if _meets_its_input(graph, region) else None
        if name is not None:
            return region, name
    return namer.name(regions, nested, dtype)


def _learned(node: Node, regions: Regions) -> Name | None:
    """A PReLU with a slope for each channel, or with one that is not in the file."""
    if node.kind != "leaky_relu" or "given" not in node.attributes:
        return None
    slope = regions.statics.of(node.inputs[1])
    if slope is not None and slope.number is not None:
        return None
    return Name(None, probed=False, reason="a leaky ReLU with learned slopes, which differ or are not in this file")


def _dtype(regions: Regions, nested: Sequence[Region]) -> str:
    """The type that a region computes in: that of its input, or of a constant that was rounded to 16 bits."""
    longest = nested[-1]
    own = regions.graph.dtypes.get(longest.source, "")
    statics = (regions.statics.of(name) for node in longest.nodes for name in node.inputs)
    rounded = {one.dtype for one in statics if one is not None}
    for dtype in ("bfloat16", "float16"):
        if dtype in {own, *rounded}:
            return dtype
    return "float32"


def _rank(node: Node) -> tuple[int, int]:
    place = PRINCIPAL.index(node.kind) if node.kind in PRINCIPAL else len(PRINCIPAL)
    return (node.kind in ARITHMETIC, place)


def _gates(graph: Graph, regions: Regions, region: Region) -> bool:
    """Whether all that is made of the activation is a product with another tensor."""
    name = region.target
    for _ in range(4):
        readers = graph.readers.get(name, [])
        if len(readers) != 1 or name in graph.outputs:
            return False
        node = graph.nodes[readers[0]]
        if node.kind == "mul":
            return all(regions.statics.of(one) is None for one in node.inputs)
        if node.kind not in {"identity", "cast", "quantize", "dequantize", "reshape"}:
            return False
        name = node.outputs[0]
    return False


def _meets_its_input(graph: Graph, region: Region) -> bool:
    """Whether the function is multiplied by a product of its own input: x·y·f(x), from the left to the right."""
    readers = graph.readers.get(region.target, [])
    if len(readers) != 1 or region.target in graph.outputs:
        return False
    product = graph.nodes[readers[0]]
    if product.kind != "mul":  # a concatenation may read thousands of tensors
        return False
    others = [_behind(graph, name) for name in product.inputs if name != region.target]
    makers = [graph.makers.get(name) for name in others]
    inner = [graph.nodes[at] for at in makers if at is not None]
    source = _behind(graph, region.source)
    return any(node.kind == "mul" and source in {_behind(graph, name) for name in node.inputs} for node in inner)


def _behind(graph: Graph, name: str) -> str:
    """The tensor behind operators that pass numbers on."""
    for _ in range(SKIPPED):
        at = graph.makers.get(name)
        if at is None or graph.nodes[at].kind not in PASSING or not graph.nodes[at].inputs:
            break
        name = graph.nodes[at].inputs[0]
    return name


def _use(file: str, principal: Node, nodes: Sequence[Node], name: Name, *, gated: bool) -> ActivationUse:
    value = principal.value or principal.op
    if len(nodes) > 1:
        value = f"{principal.op} chain, {len(nodes)} nodes"
    return ActivationUse(
        file=file,
        path=shown(principal.name),
        field=shown(principal.op),
        value=shown(f"{value}, gating" if gated else value),
        variant=name.variant,
        basis="probed" if name.probed else "graph",
        reason=name.reason,
        scope=shown(principal.scope),
        parameters=name.parameters,
    )


def _inner(file: str, node: Node, inner: Inner) -> ActivationUse:
    name = defined(inner.kind, inner.attributes) or Name(None, probed=False, reason="this function has no name here")
    return ActivationUse(
        file=file,
        path=shown(node.name),
        field=shown(node.op),
        value=shown(inner.value),
        variant=name.variant,
        basis="graph",
        reason=name.reason,
        scope=shown(node.scope),
        parameters=name.parameters,
    )


def shown(text: str) -> str:
    """A name from a file, without control characters, cut where it is long."""
    clean = re.sub(r"[\x00-\x1f\x7f]", "·", text[: SHOWN + 1])
    return clean if len(clean) <= SHOWN else f"{clean[: SHOWN - 1]}…"
