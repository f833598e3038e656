"""Scores `parity diff` on a folder of labelled cases, beside rules with fixed tolerances on the same cases.

Usage: python scripts/score_corpus.py [--cases DIR] [--parity COMMAND] [--jobs N] [--timeout SECONDS] [--json FILE]
       [--no-baselines] [case ids ...]

Prints a line for each case that falls short, then the totals: verdicts right, misses (a mismatch called pass), false
alarms (on clean pairs), causes, activation variants and places right, and a table. The fixed rules name no cause and no
place; their false alarms are counted on clean and inconclusive pairs alike.
"""

import argparse
import concurrent.futures
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures" / "corpus"))

from parity_corpus.baselines import alarms
from parity_corpus.judge import Judgement, judge
from parity_corpus.sides import settle_frameworks

BUILD = Path(__file__).parents[1] / "build" / "corpus" / "seed-0"

ASKED = ("verdict", "cause", "variant", "place")

FLAGS = ("reference_optimization", "candidate_optimization", "reference_dtype", "candidate_dtype")


@dataclass(frozen=True)
class Result:
    """One case, what the tool said of it, and how long it took."""

    folder: Path
    case: Mapping[str, Any]
    got: str | None
    judgement: Judgement
    seconds: float

    @property
    def want(self) -> str:
        """The right verdict."""
        verdict: str = self.case["expected"]["verdict"]
        return verdict


def command(parity: Sequence[str], case: Mapping[str, Any]) -> list[str]:
    """The command line for a case, to be run in its folder."""
    options = dict(case["options"])
    for side in ("reference", "candidate"):
        if case[side].endswith(".onnx"):
            options.setdefault(f"{side}_optimization", "none")
    words = [*parity, "diff", case["reference"], case["candidate"], "--format", "json"]
    for file in (case["inputs"], *case.get("extra_inputs", ())):
        words += ["--inputs", file]
    for name in FLAGS:
        if name in options:
            words += [f"--{name.replace('_', '-')}", options[name]]
    for key, value in options.get("candidate_session_config", {}).items():
        words += ["--candidate-session-config", f"{key}={value}"]
    for kind in ("input", "output"):
        for name, axes in options.get(f"candidate_{kind}_perm", {}).items():
            words += [f"--candidate-{kind}-perm", f"{name}:{','.join(map(str, axes))}"]
    return words


def run(parity: Sequence[str], folder: Path, timeout: float) -> Result:
    """Runs the tool on a case and judges its report. What is no report is a wrong verdict."""
    case = json.loads((folder / "case.json").read_text())
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command(parity, case), cwd=folder, capture_output=True, text=True, timeout=timeout, check=False
        )
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        report = {"verdict": f"timeout after {timeout:g} s"}
    except json.JSONDecodeError:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        report = {"verdict": f"no JSON (exit {done.returncode}: {last[:120]})"}
    return Result(folder, case, report.get("verdict"), judge(case, report), time.perf_counter() - start)


def totals(results: Sequence[Result]) -> dict[str, str]:
    """Right answers of those asked for, in words."""
    answers = {name: [getattr(r.judgement, name) for r in results] for name in ASKED}
    asked = {name: [answer for answer in all_ if answer is not None] for name, all_ in answers.items()}
    return {name: f"{sum(right)}/{len(right)}" for name, right in asked.items()}


def table(results: Sequence[Result], baselines: Sequence[Mapping[str, bool]]) -> list[list[str]]:
    """Rows of a table, the head first: the tool, then each rule."""
    mismatches = [r for r in results if r.want == "mismatch"]
    misses = sum(r.got == "pass" for r in mismatches)
    false = sum(r.want == "pass" and not r.judgement.verdict and r.got in ("mismatch", "pass") for r in results)
    right = totals(results)
    rows = [
        ["rule", "true alarms", "misses", "false alarms", "causes", "places"],
        [
            "parity diff",
            *map(str, (sum(r.got == "mismatch" for r in mismatches), misses, false)),
            right["cause"],
            right["place"],
        ],
    ]
    for rule in baselines[0] if baselines else ():
        alarmed = [r.want == "mismatch" for r, said in zip(results, baselines, strict=True) if said[rule]]
        hits = sum(alarmed)
        rows.append([rule, str(hits), str(len(mismatches) - hits), str(len(alarmed) - hits), "-", "-"])
    return rows


def lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The table in Markdown, its columns aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"


def main() -> int:
    """Scores the cases.

    Returns:
        The exit code: 0 if every answer is right, 1 if not, 2 if there are no cases.
    """
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("ids", nargs="*", metavar="ID", help="cases to score (default: all)")
    options.add_argument("--cases", type=Path, default=BUILD, help="default: %(default)s")
    options.add_argument("--parity", default=f"{shlex.quote(sys.executable)} -m parity", help="default: %(default)s")
    options.add_argument("--jobs", type=int, default=1, help="cases at a time (default: %(default)s)")
    options.add_argument("--timeout", type=float, default=300, help="seconds for a case (default: %(default)s)")
    options.add_argument("--json", type=Path, help="file to write all answers to")
    options.add_argument("--no-baselines", dest="baselines", action="store_false", help="leave the fixed rules out")
    args = options.parse_args()
    folders = sorted(file.parent for file in args.cases.glob("*/case.json"))
    folders = [folder for folder in folders if not args.ids or folder.name.partition("-")[0] in args.ids]
    if not folders:
        print(f"no such cases in {args.cases}: build them with scripts/make_corpus.py", file=sys.stderr)
        return 2
    parity = shlex.split(args.parity)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda folder: run(parity, folder, args.timeout), folders))
    for result in results:
        if result.judgement.remarks:
            about = f"{result.case['id']} [{result.seconds:.1f} s] {result.case['title']}"
            print(f"{about}: {'; '.join(result.judgement.remarks)[:400]}")
    settle_frameworks()
    baselines = [alarms(result.folder, result.case) for result in results] if args.baselines else []
    rows = table(results, baselines)
    median = statistics.median(result.seconds for result in results)
    print(", ".join(f"{name}s {right}" for name, right in totals(results).items()), end="")
    print(f", misses {rows[1][2]}, false alarms {rows[1][3]}, median {median:.1f} s", *lines(rows), sep="\n")
    if args.json:
        cases = [
            {"id": r.case["id"], "want": r.want, "got": r.got, "judged": asdict(r.judgement), "seconds": r.seconds}
            for r in results
        ]
        for row, said in zip(cases, baselines, strict=False):
            row["baselines"] = said
        args.json.write_text(json.dumps(cases, indent=1) + "\n")
    return int(any(getattr(r.judgement, name) is False for r in results for name in ASKED))


if __name__ == "__main__":
    sys.exit(main())
