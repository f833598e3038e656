"""How often ``parity scan`` is right: what it reads in configs of transformers, beside what their models compute.

python scripts/scan_accuracy.py [--only NAME …] [--jobs N] [--output FILE]

Every model type that AutoModel has a class for is built small, with weights drawn at random, and run three times: as
it is, with each activation field set to a value of its own, and with all set to 'gelu'. What its operators compute is
found by probing them. The config of each run is read by the scanner, and the two are held against each other. Runs are
kept in build/scan-accuracy.jsonl, so that they go on where they stopped and only the scans are made again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scan_truth import pool, table
from scan_truth.classes import model_types
from scan_truth.measuring import Measured, measure
from scan_truth.scoring import checks

SECONDS: Final = 120
GIGABYTES: Final = 8
KEPT: Final = Path("build/scan-accuracy.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is not yet known, scores all of it and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="model types to look at; default all")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write the outcome as JSON")
    parser.add_argument("--kept", type=Path, default=KEPT, metavar="FILE", help=f"earlier runs; default {KEPT}")
    parser.add_argument("--fresh", action="store_true", help="run all again")
    parser.add_argument("--again", action="store_true", help="run those again that were not built and run in full")
    options = parser.parse_args(arguments)
    names = options.only or model_types()
    known = {} if options.fresh else _read(options.kept)
    if options.again:
        known = {name: one for name, one in known.items() if one.cases and not one.unrun and not one.spoilt}
    measured = {**known, **_measured([name for name in names if name not in known], options.jobs, options.kept)}
    listed = [measured[name] for name in names]
    outcome = table.document(listed, list(checks(listed)))
    print(table.text(outcome))
    if options.output:
        options.output.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    return 0


def _read(kept: Path) -> dict[str, Measured]:
    """Earlier runs; the last of each model type."""
    if not kept.is_file():
        return {}
    found = map(Measured.from_json, kept.read_text(encoding="utf-8").splitlines())
    return {one.name: one for one in found}


def _measured(names: Sequence[str], jobs: int, kept: Path) -> dict[str, Measured]:
    """Runs models, and keeps what they show."""
    found: dict[str, Measured] = {}
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a", encoding="utf-8") as file:
        done = pool.run(_work, names, jobs=jobs, seconds=SECONDS, gigabytes=GIGABYTES)
        for name, result, problem in done:
            one = Measured.from_json(result) if result else Measured(name, problem=problem)
            found[name] = one
            file.write(one.to_json() + "\n")
            file.flush()
            run = sum(bool(each.cases) for each in found.values())
            print(f"\r{len(found)} of {len(names)} model types, {run} run  {name[:30]:30}", end="", file=sys.stderr)
    if names:
        print(file=sys.stderr)
    return found


def _work(name: str) -> str:
    return measure(name).to_json()


if __name__ == "__main__":
    sys.exit(main())
