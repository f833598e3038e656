"""Reports as JSON: one document by the contract, valid for every parser (NaN and infinities are strings)."""

import json
from typing import Any

from parity.findings import SCHEMA, to_json


def render(command: str, report: Any) -> str:
    """The report of a command as a JSON document ending in a newline; its fields as they are named."""
    document = {"schema": SCHEMA, "command": command} | to_json(report)
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
