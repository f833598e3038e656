"""What a model's activations compute when it runs, held against what its config says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from parity.adapter import Array
from parity.diagnose.chains import Activation, Prober
from parity.findings import Finding, counted
from parity.jobs.scan import ScanReport
from parity.scanner.model import ActivationUse, Document
from parity.scanner.rules import against
from parity.sides import Side


def probed(
    side: Side, inputs: Mapping[str, Array], folder: Path, config: ScanReport | None
) -> tuple[str, Sequence[Finding]]:
    """A sentence on the activations that a model runs, and what of them is not as its config says.

    Args:
        side: The opened model.
        inputs: To run it on.
        folder: To record the run in.
        config: The scan of its config; None where it has none.
    """
    view = side.record(inputs, folder, {})
    found = [one for one in Prober(view, side).activations() if one.telling]
    kinds = Counter(one.name for one in found)
    listed = ", ".join(f"{count} × {name}" for name, count in kinds.most_common())
    said = f"{counted(len(found), 'activation')} run{': ' + listed if listed else ''}."
    if config is None or not found:
        return said, ()
    live = Document(file=side.text, format="live", activations=tuple(_use(side.text, one) for one in found))
    file = next((one.file for one in config.activations), side.text)
    document = Document(file=file, format="config", activations=config.activations)
    compared, findings = against.compare([document], [live])
    if not compared:
        return said, ()
    agree = "as the config says" if not findings else "not as the config says"
    return f"{said[:-1]}, {agree}.", findings


def _use(text: str, one: Activation) -> ActivationUse:
    last = one.chain.sites[-1]
    variant = one.variant
    return ActivationUse(
        file=text,
        path=last.scope or last.name,
        field=last.op,
        value=None,
        variant=None if variant is None else variant.name,
        basis="probed",
        reason=f"at {last.source}" if last.source else "",
        scope=last.scope,
    )
