"""Runs `parity diff` on small models with one fault each, and on near misses that compute the same in another way.

Usage: python scripts/fault_matrix.py [--kinds KIND,…] [--architectures NAME,…] [--pairs NAME,…] [--seed N] [--jobs N]
       [--output FILE] [--list]

Prints a line for each cell that falls short, then kinds × architectures, kinds × pairs and the totals. See
fixtures/faults/README.md.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures" / "faults"))

from parity_faults.architectures import ARCHITECTURES
from parity_faults.kinds import KINDS
from parity_faults.matrix import Result, cells, run
from parity_faults.pairs import CANDIDATES
from parity_faults.table import by_kind, document, line, totals


def some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes some of these names, with commas between."""

    def chosen(text: str) -> list[str]:
        names = text.split(",")
        if unknown := sorted(set(names) - set(known)):
            raise argparse.ArgumentTypeError(f"no such name: {', '.join(unknown)}; there are {', '.join(known)}")
        return names

    return chosen


def main() -> int:
    """Runs the cells that are asked for.

    Returns:
        The exit code: 0 if every answer is right, 1 if not.
    """
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, known in (("kinds", KINDS), ("architectures", ARCHITECTURES), ("pairs", CANDIDATES)):
        options.add_argument(
            f"--{name}", type=some_of(known), default=list(known), metavar="NAME,…", help="default: all"
        )
    options.add_argument("--seed", type=int, default=0, help="of weights, inputs and places (default: %(default)s)")
    options.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    options.add_argument("--output", type=Path, help="file to write all answers to, as JSON")
    options.add_argument("--list", action="store_true", help="only say which cells there are, and where")
    args = options.parse_args()
    wanted = cells(args.kinds, args.architectures, args.pairs, args.seed)
    if args.list:
        for cell in wanted:
            print(cell.pair, cell.architecture, cell.fault.kind, cell.fault.form, f"at {cell.fault.place}")
        return 0
    start = time.perf_counter()
    results: list[Result] = []
    for result in run(wanted, args.jobs):
        results.append(result)
        if not result.right:
            print(line(result), flush=True)
    console = Console()
    console.print(by_kind(results, args.architectures, lambda one: one.cell.architecture))
    console.print(by_kind(results, args.pairs, lambda one: one.cell.pair))
    console.print(totals(results, args.pairs))
    console.print(f"{len(results)} cells of seed {args.seed} in {time.perf_counter() - start:.0f} s")
    if args.output:
        args.output.write_text(document(results))
    return int(not all(one.right for one in results))


if __name__ == "__main__":
    sys.exit(main())
