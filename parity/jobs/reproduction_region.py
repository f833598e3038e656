"""The region in the model itself, opened by parity: no program of its own could be written of it; see README.md."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parity.adapter import load_adapter
from parity.model_inputs import read_inputs

HERE = Path(__file__).resolve().parent


def run(inputs: Mapping[str, Any]) -> Any:
    """What the region makes of its inputs."""
    facts = json.loads((HERE / "region.json").read_text(encoding="utf-8"))
    with load_adapter(facts["adapter"]).open(facts["model"], facts["options"]) as session:
        session.trace(read_inputs(HERE / "model_inputs.safetensors"), lambda _site, _made: None)
        return session.evaluate(facts["sites"], inputs, [facts["wanted"]], "native")[facts["wanted"]]
