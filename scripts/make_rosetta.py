"""Makes docs/rosetta.md, the table of activations across frameworks, of a run of the suite.

Usage: parity suite --format json --output build/suite.json
       python scripts/make_rosetta.py build/suite.json [--output docs/rosetta.md]
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "rosetta.md"

NAMES: Final[Mapping[str, str]] = {
    "GELU": r"gelu|quickgelu",
    "SiLU": r"silu|swish",
    "Hard sigmoid": r"hardsigmoid",
    "Leaky ReLU": r"leakyrelu",
    "Softplus": r"softplus",
}
"""Sections, and the bare names of calls without flags that belong there."""

VARIANTS: Final[Mapping[str, str]] = {
    "GELU": r"gelu_erf|gelu_tanh|quick_gelu",
    "SiLU": r"silu",
    "Hard sigmoid": r"hard_sigmoid.*",
    "Leaky ReLU": r"leaky_relu.*",
    "Softplus": r"softplus.*",
}
"""Likewise the variants."""

DTYPES: Final = ("float32", "float16", "bfloat16")

HEAD: Final = """\
# Rosetta

What each framework computes under which name: measured, not read. Every call was evaluated, and what it gave was
identified as one of the [variants](#variants), by `parity suite`.

Measured on {date} on {machine}, Python {python}, with {versions}.

This page is made by `scripts/make_rosetta.py` of a run of the suite; `make rosetta` measures what you have installed.

## Variants

| variant | formula |
|---|---|
| `gelu_erf` | x · Φ(x) = 0.5 · x · (1 + erf(x / √2)) |
| `gelu_tanh` | 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) |
| `quick_gelu` | x · σ(1.702 · x) |
| `silu` | x · σ(x) |
| `hard_sigmoid[slope=s]` | min(max(s · x + 0.5, 0), 1), s = 1/6 where nothing is said |
| `leaky_relu[negative_slope=s]` | x for x ≥ 0, else s · x; s = 0.01 where nothing is said |
| `softplus[beta=b,threshold=t]` | log(1 + exp(b · x)) / b, and x where b · x > t; b = 1 and no t where not said |

The numbers in the tables below are the largest error at |x| ≤ 20, in units in the last place of the larger one of |x|
and |y|: rounding once is 0.5. float16 and bfloat16 are over every representable input. Where a call was run in several
ways – compiled, on other shapes – the worst counts.
"""


def page(report: Mapping[str, Any], date: str) -> str:
    """The page of a suite's report."""
    environment = report["environment"]
    found = (one for adapter in environment["adapters"].values() for one in adapter.items())
    versions = {name.replace("_", "-"): version for name, version in found}
    head = HEAD.format(
        date=date,
        machine=f"{environment['machine']} ({environment['platform']}, CPU)",
        python=environment["python"],
        versions=", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
    )
    return head + "".join(_section(report, title) for title in NAMES)


def _section(report: Mapping[str, Any], title: str) -> str:
    defaults = [
        f"| `{call}` | `{variant}` |"
        for name, calls in report["families"].items()
        if re.fullmatch(NAMES[title], name)
        for call, variant in sorted(calls.items(), key=lambda one: (one[1], one[0]))
    ]
    lines = [f"\n## {title}\n", "Called without flags:\n", "| call | computes |", "|---|---|", *defaults]
    columns = ("framework", "call", "computes", *DTYPES)
    header = ["\nEvery call:\n", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *header, *_calls(report["results"], VARIANTS[title])]) + "\n"


def _calls(rows: Sequence[Mapping[str, Any]], variants: str) -> Iterator[str]:
    """A line for each call and what it computes; how it was run is told where that decides."""
    functions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        functions[row["adapter"], _call(row)].add(row["identified"])
    errors: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["regime"] != "dense" or not re.fullmatch(variants, row["identified"] or ""):
            continue
        alone = len(functions[row["adapter"], _call(row)]) == 1
        shown = _call(row) if alone else _with_settings(row["implementation"])
        worst = errors[row["adapter"], row["identified"], shown]
        worst[row["dtype"]] = max(worst.get(row["dtype"], 0.0), float(row["scaled_ulp"] or 0.0))
    for (framework, variant, call), worst in sorted(errors.items()):
        cells = (f"{worst[dtype]:.3g}" if dtype in worst else "–" for dtype in DTYPES)
        yield f"| {framework} | `{call}` | `{variant}` | {' | '.join(cells)} |"


def _call(row: Mapping[str, Any]) -> str:
    """The call alone, without how it was run; formulas written out keep the origin of their functions."""
    name: str = row["implementation"]
    return name if row["adapter"] == "numpy" else re.sub(r" \([^()]*\)$", "", name)


def _with_settings(name: str) -> str:
    """A call with how it was run, but for the optimiser's level, which changes no function by itself."""
    return re.sub(r",? ?level=\w+|float16", "", name).replace("(, ", "(").replace(", )", ")").removesuffix(" ()")


def main(arguments: Sequence[str]) -> None:
    """Writes the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suite", type=Path, help="what `parity suite --format json` wrote")
    options.add_argument("--output", type=Path, default=PAGE, help="the page (default: docs/rosetta.md)")
    args = options.parse_args(arguments)
    date = datetime.fromtimestamp(args.suite.stat().st_mtime, UTC).date().isoformat()
    args.output.write_text(page(json.loads(args.suite.read_text(encoding="utf-8")), date), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
