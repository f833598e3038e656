"""``optimizer-risk``: a graph in which a setting of ONNX Runtime would change a variant."""

from collections.abc import Iterator

from parity.findings import Finding
from parity.scanner.model import Document
from parity.scanner.request import ScanRequest


def examine(document: Document, request: ScanRequest) -> Iterator[Finding]:  # noqa: ARG001 – every rule is asked alike
    """A note on the activations of an ONNX graph that another setting would compute otherwise."""
    if document.format != "onnx":
        return
    from parity.scanner.graph.optimizer import MEASURED, risks  # noqa: PLC0415 – configs are scanned without NumPy

    at_risk = list(risks(document))
    if not at_risk:
        return
    first = at_risk[0]
    more = f" and {len(at_risk) - 1} more" if len(at_risk) > 1 else ""
    yield Finding(
        rule="optimizer-risk",
        severity="note",
        message=f"With {first.setting} = 1, ONNX Runtime would compute {first.after} instead of {first.before} in "
        f"{first.use.path}{more}, which it runs as {first.kernel} (measured here: {MEASURED}); so do Optimum's levels "
        "O3 and O4.",
        fix=f"Leave {first.setting} off, or export with opset 20 or later, whose own Gelu operator is left as it is.",
        location={"file": document.file, "path": first.use.path, "line": None},
        expected=first.before,
        observed=first.after,
        evidence={"places": len(at_risk), "setting": first.setting},
    )
