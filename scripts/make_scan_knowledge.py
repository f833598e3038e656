"""Measures what transformers does with the activation fields of its configs, for ``parity scan``.

python scripts/make_scan_knowledge.py        writes transformers.json and differences.json of
                                             parity/scanner/knowledge, in about ten minutes

1. Every key of ``ACT2FN`` is evaluated and identified.
2. Every config class is made with every value of every activation field: what it keeps, rewrites, derives, refuses.
3. Every model that ``AutoModel`` builds is built without memory (few layers, device ``meta``) from a saved config, once
   as it is and once for each field with an activation in it that no model names: the modules that change are those
   that the field governs, the others are the code's own. A field that changes nothing is tried in the heads too.
4. The source is read, as text, for what building does not show: functional calls, and fields that only a forward pass
   reads.
5. The largest differences of variants are taken on a grid.
"""

import json
import logging
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import transformers

from parity.functions import FORMULAS, variant
from scan_knowledge.building import build_all, unread_fields
from scan_knowledge.config_classes import activation_keys, config_classes, config_knowledge
from scan_knowledge.entries import Measured, entry

KNOWLEDGE: Final = Path(__file__).parents[1] / "parity/scanner/knowledge"

TARGET: Final = KNOWLEDGE / "transformers.json"

NOT_COMPARED: Final = ("sparse_plus", "sparse_sigmoid", "threshold", "soft_shrink", "hard_shrink", "tanh_shrink")
"""Variants that no model is known to have mistaken for another."""


def write_differences() -> None:
    """The largest difference of every two variants between -12 and 12, and where it is."""
    x = np.linspace(-12, 12, 240_001)
    names = [name for name, formula in FORMULAS.items() if formula.arity == 1 and name not in NOT_COMPARED]
    values = {name: variant(name).value(x) for name in names}
    pairs = {}
    for one, other in combinations(names, 2):
        apart = np.abs(values[one] - values[other])
        at = int(apart.argmax())
        pairs[f"{one} {other}"] = [float(f"{apart[at]:.6g}"), float(f"{x[at]:.6g}")]
    note = "Largest |a - b| for x between -12 and 12 in steps of 1e-4, and that x; by parity.functions in float64."
    document = {"provenance": {"evidence": "measured here", "note": note}, "pairs": pairs}
    (KNOWLEDGE / "differences.json").write_text(json.dumps(document, indent=0) + "\n")


def main() -> None:
    """Measures all and writes the files."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    write_differences()
    keys = activation_keys()
    owners = config_classes()
    builds, failures = build_all(owners)
    measured = Measured(builds, keys, unread_fields(builds))
    entries: dict[str, dict[str, Any]] = {}
    for owner, names in owners.items():
        known = config_knowledge(owner)
        for name in names:
            entries[name] = entry(name, owner, known, measured)
    head = {
        "library": "transformers",
        "version": transformers.__version__,
        "evidence": "measured here",
        "note": "Made by scripts/make_scan_knowledge.py. Fields, defaults, rewrites and what governs which module are "
        "measured; functional calls, and what is read in a forward pass, are read in the source.",
        "built": len(builds),
        "not_built": failures,
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in sorted(entries.items()))
    top = f' "provenance": {json.dumps(head)},\n "activations": {json.dumps(keys)},\n'
    TARGET.write_text(f'{{\n{top} "models": {{\n{lines}\n }}\n}}\n')
    print(f"{len(entries)} model types, {len(builds)} models built, {len(measured.unread)} fields that nothing reads")


if __name__ == "__main__":
    main()
