"""The data files of this package."""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def data(name: str) -> Any:
    """The content of ``name``.json; not to be changed."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_bytes())
