"""Every rule of the JSON contract explained: the pages of the documentation, and what SARIF says of each.

`parity.findings` lists the names alone.
"""

from collections.abc import Mapping
from typing import Final

from parity.rules import comparison, scan
from parity.rules.rule import Rule

__all__ = ["RULES", "Rule"]

RULES: Final[Mapping[str, Rule]] = {**comparison.RULES, **scan.RULES}
"""By name, those of comparisons first."""
