"""How long ``parity scan`` takes: from a cold start, over a repository of configs, over hostile files.

Prints wall and processor time beside the limit: 0.25 s for one config from a cold start, 20 s for 10,000 configs on one
core.

    python benchmarks/scan.py [--configs 10000] [--repeats 9]
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MODELS = ("bert", "gemma", "clip", "t5", "gpt_oss", "llama", "whisper", "unknown", "deberta-v2", "qwen2_vl")


def config(number: int) -> str:
    """A config of the usual length, now and then with another value."""
    labels = {str(index): f"LABEL_{index}" for index in range(40)}
    text = {"hidden_size": 8, "hidden_act": "gelu" if number % 7 else "quick_gelu", "vocab_size": 30_000}
    model = MODELS[number % len(MODELS)]
    return json.dumps({"model_type": model, "hidden_act": "gelu", "text_config": text, "id2label": labels}, indent=1)


def spent(arguments: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of one run of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [sys.executable, "-m", "parity", "scan", *arguments]
    subprocess.run(command, check=False, capture_output=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cases(folder: Path, count: int) -> Iterator[tuple[str, float, list[str]]]:
    """Name, limit in seconds and arguments of what is timed."""
    one = folder / "config.json"
    one.write_text(config(0))
    yield "one config, cold start", 0.25, [str(one)]
    many = folder / "many"
    for number in range(count):
        path = many / str(number % 100) / str(number) / "config.json"
        path.parent.mkdir(parents=True)
        path.write_text(config(number))
    yield f"{count:,} configs", 20.0 * count / 10_000, [str(many)]
    hostile: dict[str, Callable[[], bytes]] = {
        "30 MB in one string": lambda: b'{"hidden_act": "' + b"x" * (30 << 20) + b'"}',
        "30 MB of brackets": lambda: b"[" * (30 << 20),
        "a million fields": lambda: b"[" + b",".join([b'{"hidden_act":"gelu"}'] * 1_000_000) + b"]",
    }
    for name, made in hostile.items():
        path = folder / "hostile.json"
        path.write_bytes(made())
        yield name, 10.0, [str(path)]


def main() -> None:
    """Times every case and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configs", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"{'what':28}{'wall s':>10}{'processor s':>14}{'limit s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, limit, arguments in cases(Path(folder), asked.configs):
            runs = [spent(arguments) for _ in range(asked.repeats if limit < 1 else 1)]
            wall, processor = (statistics.median(times) for times in zip(*runs, strict=True))
            print(f"{name:28}{wall:10.2f}{processor:14.2f}{limit:10.2f}")


if __name__ == "__main__":
    main()
