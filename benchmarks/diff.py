"""`parity diff`: its speed and memory beside its peers and plain runs of the models, in one run.

    python benchmarks/diff.py peers [--repeats 3]
    python benchmarks/diff.py depth [--layers 6,24,96]
    python benchmarks/diff.py large [--parameters 2e9] [--folder DIR]

Each takes ``--output FILE``, for the numbers as JSON. See benchmarks/README.md for what is measured.
"""

import argparse
import json
from pathlib import Path

from rich.console import Console

from parity_benchmarks import depth, large, peers


def numbers(text: str) -> list[int]:
    """The type of an option that takes whole numbers, with commas between."""
    return [int(word) for word in text.split(",")]


def main() -> None:
    """Runs the benchmark that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_subparsers(dest="which", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--output", type=Path, help="file to write the numbers to, as JSON")
    one = which.add_parser("peers", parents=[common], help="beside Polygraphy and torch.onnx.verification")
    one.add_argument("--repeats", type=int, default=3, help="turns of all contenders (default: %(default)s)")
    one = which.add_parser("depth", parents=[common], help="by the number of layers")
    one.add_argument("--layers", type=numbers, default=[6, 24, 96], metavar="N,…", help="default: 6,24,96")
    one = which.add_parser("large", parents=[common], help="on a model that is not to be held in memory")
    one.add_argument("--parameters", type=float, default=2e9, help="about how many (default: %(default)g)")
    one.add_argument("--folder", help="where to make the model; the system's temporary folder")
    options = parser.parse_args()
    if options.which == "peers":
        beside = peers.measure(options.repeats)
        shown, document = list(peers.tables(beside)), beside.json()
    elif options.which == "depth":
        depths = list(depth.measure(options.layers))
        shown, document = list(depth.tables(depths)), {"depths": [each.json() for each in depths]}
    else:
        found = large.measure(options.parameters, options.folder)
        shown, document = list(large.tables(found)), found.json()
    for each in shown:
        Console(width=None).print(each)
    if options.output:
        options.output.write_text(json.dumps({"benchmark": options.which, **document}, indent=1))


if __name__ == "__main__":
    main()
