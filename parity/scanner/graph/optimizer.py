"""What ONNX Runtime's optimiser makes of the activations of a graph, and where a setting changes the function.

Measured with ONNX Runtime 1.32 on the CPU. From the level ``extended`` on, a GELU in the spelling ``x / √2, erf, + 1,
times x, times ½`` (or with the half first) becomes one ``Gelu`` or, behind a bias, ``BiasGelu`` of com.microsoft, which
compute the same; from opset 20 on one without a bias becomes ONNX's own ``Gelu``. ``x · σ(αx)`` becomes ``QuickGelu``,
also where α is 1, as in SiLU. Spellings with ``x · (1/√2)``, with ``½ · (1 + erf)`` first, and graphs in float16 stay
as they are. With ``optimization.enable_gelu_approximation`` com.microsoft's Gelu and BiasGelu, be they in the file or
fused, become ``FastGelu``, which is the tanh form; ONNX's own Gelu does not.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parity.scanner.graph.ir import Graph, Node
from parity.scanner.graph.statics import Statics
from parity.scanner.graph.uses import Found
from parity.scanner.model import ActivationUse, Document

SETTING: Final = "optimization.enable_gelu_approximation"
"""Key of the session configuration; its value ``1`` turns it on, and the default is off."""

MEASURED: Final = "ONNX Runtime 1.32, CPU"

FACT: Final = "onnxruntime"
"""Under which a document's facts have the fusions of its activations."""

OWN_GELU: Final = 20
"""Opset from which ONNX has a Gelu of its own."""

_ROOT_OF_TWO: Final = 5e-5
"""Relative distance up to which a divisor counts as √2."""

_MICROSOFT: Final = frozenset({"com.microsoft:Gelu", "com.microsoft:BiasGelu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """What becomes of one activation.

    Attributes:
        path: Its path in the document.
        kernel: The operator that computes it at the levels ``extended`` and ``all``.
        variant: What that computes.
        approximated: What is computed with `SETTING` on.
        certain: False where it also hangs on whether the shapes are known beforehand.
    """

    path: str
    kernel: str
    variant: str
    approximated: str
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A setting that changes an activation.

    Attributes:
        use: The activation.
        setting: Key of the session configuration.
        kernel: The operator that is replaced.
        before: The variant without the setting.
        after: The variant with it.
        certain: False where it also hangs on whether the shapes are known beforehand.
    """

    use: ActivationUse
    setting: str
    kernel: str
    before: str
    after: str
    certain: bool = True


def risks(document: Document) -> Iterator[Risk]:
    """The activations of a document that a setting of ONNX Runtime would change."""
    uses = {use.path: use for use in document.activations}
    for fusion in document.facts.get(FACT, ()):
        if fusion.variant != fusion.approximated and fusion.path in uses:
            yield Risk(
                use=uses[fusion.path],
                setting=SETTING,
                kernel=fusion.kernel,
                before=fusion.variant,
                after=fusion.approximated,
                certain=fusion.certain,
            )


def fusions(found: Iterable[Found], opset: int) -> tuple[Fusion, ...]:
    """What becomes of activations; of those that are computed as they stand nothing is said.

    Args:
        found: The activations of an ONNX model.
        opset: Version of ONNX's operators that it is written in.
    """
    return tuple(fusion for one in found if (fusion := _fusion(one, opset)) is not None)


def _fusion(found: Found, opset: int) -> Fusion | None:
    told = _kernel(found, opset)
    if told is None:
        return None
    kernel, certain = told
    variant = found.use.variant or "unknown"
    approximated = variant
    if kernel in _MICROSOFT:
        approximated = "gelu_tanh" if variant == "gelu_erf" else f"{variant}, of gelu_tanh"
    return Fusion(path=found.use.path, kernel=kernel, variant=variant, approximated=approximated, certain=certain)


def _kernel(found: Found, opset: int) -> tuple[str, bool] | None:
    """The operator that an activation becomes, and whether it surely does."""
    if found.region is None:
        return None
    nodes = found.region.nodes
    statics = found.statics
    for node in nodes:
        if node.op in {"Gelu", "BiasGelu"} and node.attributes.get("approximate") == "none":
            return (f"{node.domain}:{node.op}" if node.domain else "Gelu"), True
        if node.kind == "erf" and _is_spelt(found.graph, statics, node):
            return _fused_gelu(found.graph, statics, node, opset)
    if found.use.variant in {"silu", "quick_gelu"} and 2 <= len(nodes) <= 3 and nodes[-1].kind == "mul":
        return "com.microsoft:QuickGelu", True
    return None


def _is_spelt(graph: Graph, statics: Statics, erf: Node) -> bool:
    """Whether what is around an erf is one of the spellings that are fused."""
    scaled = _maker(graph, erf.inputs[0])
    added = _only_reader(graph, erf.outputs[0])
    if scaled is None or scaled.kind != "div" or added is None or added.kind != "add":
        return False
    root, divisor = scaled.inputs
    product = _only_reader(graph, added.outputs[0])
    if not _is(statics, divisor, math.sqrt(2)) or not _other(statics, added, erf.outputs[0], 1.0):
        return False
    if product is None or product.kind != "mul" or graph.dtypes.get(root) in {"float16", "bfloat16"}:
        return False
    factor = next((name for name in product.inputs if name != added.outputs[0]), "")
    if factor == root:
        halved = _only_reader(graph, product.outputs[0])
        return halved is not None and halved.kind == "mul" and _other(statics, halved, product.outputs[0], 0.5)
    half = _maker(graph, factor)
    return half is not None and half.kind == "mul" and root in half.inputs and _other(statics, half, root, 0.5)


def _fused_gelu(graph: Graph, statics: Statics, erf: Node, opset: int) -> tuple[str, bool]:
    scaled = _maker(graph, erf.inputs[0])
    before = _maker(graph, scaled.inputs[0]) if scaled is not None else None
    if before is not None and before.kind == "add" and any(statics.of(one) is not None for one in before.inputs):
        # Where the shapes are known, a product and its bias become one first, and the bias is none of the GELU's.
        product = any(
            maker is not None and maker.op == "MatMul" for maker in (_maker(graph, one) for one in before.inputs)
        )
        return "com.microsoft:BiasGelu", opset < OWN_GELU or not product
    return ("Gelu" if opset >= OWN_GELU else "com.microsoft:Gelu"), True


def _maker(graph: Graph, name: str) -> Node | None:
    at = graph.makers.get(name)
    return None if at is None else graph.nodes[at]


def _only_reader(graph: Graph, name: str) -> Node | None:
    readers = graph.readers.get(name, ())
    return graph.nodes[readers[0]] if len(readers) == 1 and name not in graph.outputs else None


def _other(statics: Statics, node: Node, one: str, number: float) -> bool:
    """Whether the other input of a node is that number."""
    others: Sequence[Any] = [name for name in node.inputs if name != one]
    return len(others) == 1 and _is(statics, others[0], number)


def _is(statics: Statics, name: str, number: float) -> bool:
    found = statics.of(name)
    if found is None or found.number is None:
        return False
    return math.isclose(found.number, number, rel_tol=_ROOT_OF_TWO)
