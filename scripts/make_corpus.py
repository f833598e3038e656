"""Builds the labelled corpus of model pairs and checks every label by measurement.

Usage: python scripts/make_corpus.py [--seed N] [--out DIR] [case ids ...]

Another seed gives other weights and inputs with the same labels. See fixtures/corpus/README.md.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures" / "corpus"))

from parity_corpus.build import build, write_index
from parity_corpus.registry import MissingWeightsError, recipes
from parity_corpus.sides import settle_frameworks

BUILD = Path(__file__).parents[1] / "build" / "corpus"


def main() -> int:
    """Builds the cases and says of each how large it is and what speaks against its label.

    Returns:
        The exit code: 0 if all labels stand, 1 if not, 2 for an unknown case.
    """
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("ids", nargs="*", metavar="ID", help="cases to build (default: all)")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, help="folder to write (default: build/corpus/seed-N)")
    args = options.parse_args()
    out = args.out or BUILD / f"seed-{args.seed}"
    settle_frameworks()
    known = recipes()
    if unknown := sorted(set(args.ids) - set(known)):
        print(f"no such case: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = skipped = 0
    for recipe in (known[id_] for id_ in args.ids or known):
        start = time.perf_counter()
        try:
            built = build(recipe, out, args.seed)
        except MissingWeightsError as missing:
            print(f"{recipe.id} skipped: {missing}")
            skipped += 1
            continue
        failed += bool(built.problems)
        size = sum(file.stat().st_size for file in built.folder.rglob("*") if file.is_file())
        standing = "; ".join(built.problems) or "label stands"
        verdict = built.case["expected"]["verdict"]
        print(
            f"{recipe.id} {verdict:12} {size // 1024:5} kB {time.perf_counter() - start:5.1f} s  {standing}", flush=True
        )
    write_index(out)
    print(f"{len(args.ids or known) - skipped} cases in {out}: {failed} labels fail, {skipped} cases skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
