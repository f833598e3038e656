"""Which nodes of the file a node of the optimised graph stands for, and from them its place in the model.

The optimiser keeps the names of the tensors that it does not fuse away. So the nodes that a fused one replaced are
those between its outputs and its inputs in the file.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx

_ADDED = "MatMulAddFusion"
_BLOCKED = "_nchwc"
_CAST = "InsertedPrecisionFreeCast_"
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands: see the attributes of the same names of `parity.graph.Site`."""

    scope: str
    labels: tuple[str, ...]
    source: str | None


class Origins:
    """The nodes of a file by what became of them.

    Args:
        file: The graph as the file has it.
        optimised: What ONNX Runtime made of it.
    """

    def __init__(self, file: onnx.GraphProto, optimised: onnx.GraphProto) -> None:
        nodes = list(all_nodes(file))
        self._makers = {name: node for node in nodes for name in node.output if name}
        self._named = {node.name: node for node in nodes if node.name}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in nodes:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        self._sizes = {tensor.name: tuple(tensor.dims) for one in all_graphs(file) for tensor in one.initializer}
        self._sizes |= {node.output[0]: tuple(a.t.dims) for node in nodes for a in node.attribute if a.name == "value"}
        self._ends = {name for graph in all_graphs(optimised) for name in _ends(graph)}
        for node in all_nodes(optimised):
            self._ends.update(self._outputs(node))
        self._scopes: dict[str, str] = {}

    def place(self, node: onnx.NodeProto, aliases: Sequence[str] = ()) -> Place:
        """The place of a node of the optimised graph.

        Args:
            node: One of its nodes; those that made its inputs were asked for before.
            aliases: Further names of its outputs.
        """
        chain = list(self._replaced(node))
        scope = scope_of(chain[0]) if chain else next(self._scopes_before(node), "")
        self._scopes.update(dict.fromkeys(node.output, scope))
        labels = [node.name, *node.output, *aliases]
        for one in chain:
            labels += [one.name, *one.output, *_exported_name(one)]
        source = next((found for one in chain if (found := _source_of(one))), None)
        return Place(scope, tuple(dict.fromkeys(filter(None, labels))), source)

    def filter_shape(self, node: onnx.NodeProto) -> tuple[int, ...] | None:
        """Shape in the file of the filter of a convolution of the optimised graph, where the file stores it."""
        convolutions = [one for one in self._replaced(node) if one.op_type == "Conv"]
        return self._sizes.get(convolutions[0].input[1]) if convolutions else None

    def _scopes_before(self, node: onnx.NodeProto) -> Iterator[str]:
        return (self._scopes[name] for name in node.input if name in self._scopes)

    def _replaced(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Nodes of the file for which ``node`` stands, the last first."""
        own = set(self._outputs(node))
        waiting = list(own)
        seen: set[str] = set()
        while waiting:
            maker = self._makers.get(waiting.pop(0))
            if maker is None or maker.output[0] in seen:
                continue
            seen.add(maker.output[0])
            yield maker
            waiting += [name for name in maker.input if name in own or name not in self._ends]

    def _outputs(self, node: onnx.NodeProto) -> list[str]:
        """The tensors of the file that ``node`` makes, be it under another name."""
        kept = [name.removeprefix(_CAST) for name in node.output if name.removeprefix(_CAST) in self._makers]
        if kept:
            return kept
        before = node.name.removesuffix(_BLOCKED).removeprefix(_CAST)
        if before not in self._makers:
            before = self._output_of_namesake(node)
        swallowed = {a.s.decode(errors="replace") for a in node.attribute if a.name == "activation"}
        swallowed |= {"Add"} if _ADDED in node.name else set()
        readers = self._readers.get(before, [])
        if len(readers) == 1 and readers[0].op_type in swallowed:
            return [readers[0].output[0]]
        return [before] if before else []

    def _output_of_namesake(self, node: onnx.NodeProto) -> str:
        """First output of the node of the file whose name that of ``node`` begins with, at a slash."""
        parts = node.name.split("/")
        for end in range(len(parts), 0, -1):
            found = self._named.get("/".join(parts[:end]))
            if found is not None:
                return str(found.output[0])
        return ""


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and those within it, of branches and loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_graphs(attribute.g)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of those within it."""
    for one in all_graphs(graph):
        yield from one.node


def _ends(graph: onnx.GraphProto) -> Iterable[str]:
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from node.output


def _properties(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def _scopes_and_name(node: onnx.NodeProto) -> list[str]:
    """What torch's exporter says of ``node``: its modules, outermost first, and its name in the exported program."""
    try:
        scopes = ast.literal_eval(_properties(node).get("pkg.torch.onnx.name_scopes", "[]"))
    except (ValueError, SyntaxError):
        return []
    return [str(scope) for scope in scopes] if isinstance(scopes, list) else []


def _exported_name(node: onnx.NodeProto) -> list[str]:
    return _scopes_and_name(node)[-1:]


def _source_of(node: onnx.NodeProto) -> str | None:
    """``file:line`` of the innermost call, where torch's exporter kept its stack."""
    frames = _FRAME.findall(_properties(node).get("pkg.torch.onnx.stack_trace", ""))
    return ":".join(frames[-1]) if frames else None


def scope_of(node: onnx.NodeProto) -> str:
    """Module path of a node of the file: as torch's exporter noted it, or else from the node's name."""
    scopes = _scopes_and_name(node)
    if scopes:
        return scopes[-2] if len(scopes) > 1 else ""
    name = str(node.name)
    path, slash, _ = name.strip("/").rpartition("/")
    if slash:
        return path.replace("/", ".")
    return "" if name.startswith("/") else name.rpartition(".")[0]
