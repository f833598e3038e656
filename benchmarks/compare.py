"""`parity.compare.compare` beside its peers, on the same bytes, in one run.

Prints, for each kind of data, the median time of interleaved repeats, the rate (bytes of both arrays over time) and
how many times faster `compare` is, with its native kernel and with NumPy alone. The peers answer one question (is any
element outside the tolerance?); `compare` gives all its statistics. Repeats are interleaved so that a busy machine
slows all alike.

    python benchmarks/compare.py [--elements 67108864] [--repeats 5] [--threads N]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from parity.compare import compare, native

Array = NDArray[np.float32]

NATIVE, IN_NUMPY = "compare, native", "compare, NumPy alone"


def data(kind: str, count: int) -> tuple[Array, Array]:
    """A float32 N(0, 1) reference, and a candidate: equal, off by rounding, or that with a few NaN on both sides.

    NaN agree, because on the first NaN that does not, the peers stop.
    """
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(count, dtype=np.float32)
    candidate = reference.copy()
    if kind != "equal":
        candidate *= 1 + rng.integers(-2, 3, count, dtype=np.int8) * np.float32(2.0**-23)
    if kind == "noise and NaN":
        few = rng.integers(0, count, 8)
        reference[few] = candidate[few] = np.nan
    return reference, candidate


def contenders(reference: Array, candidate: Array, threads: int | None) -> dict[str, Callable[[], Any]]:
    """Name to job. Tolerances are wide, so that the peers take their path of success."""
    copy = np.empty_like(reference)

    def own() -> Any:
        return compare(reference, candidate, limit=1e-3, threads=threads)

    def own_in_numpy() -> Any:
        with patch.object(native, "available", lambda: False):
            return own()

    jobs: dict[str, Callable[[], Any]] = {NATIVE: own} if native.available() else {}
    jobs |= {
        IN_NUMPY: own_in_numpy,
        "numpy assert_allclose": lambda: np.testing.assert_allclose(candidate, reference, rtol=1e-3, atol=1e-3),
    }
    try:
        import torch  # noqa: PLC0415 – the core must not need it
    except ImportError:
        print("torch is not installed: its assert_close is left out")
    else:
        sides = torch.from_numpy(candidate), torch.from_numpy(reference)
        jobs["torch assert_close"] = lambda: torch.testing.assert_close(*sides, rtol=1e-3, atol=1e-3, equal_nan=True)

    def copy_both() -> None:
        np.copyto(copy, reference)
        np.copyto(copy, candidate)

    jobs["numpy copyto, both"] = copy_both
    return jobs


def medians(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each job over interleaved repeats, after one round to warm up."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for repeat in range(repeats + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if repeat:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="parity.compare beside numpy.testing, torch.testing and memcpy")
    parser.add_argument("--elements", type=int, default=1 << 26)
    parser.add_argument("--small", type=int, default=4096, help="elements of the small call")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    for kind in ("equal", "noise", "noise and NaN"):
        reference, candidate = data(kind, options.elements)
        print(f"\n{kind}: {options.elements:,} float32 elements a side, median of {options.repeats}")
        report(medians(contenders(reference, candidate, options.threads), options.repeats), 2 * reference.nbytes)
        small = contenders(reference[: options.small], candidate[: options.small], options.threads)
        micro = {name: seconds * 1e6 for name, seconds in medians(small, 50 * options.repeats).items()}
        print(f"  {options.small:,} elements: " + ", ".join(f"{name} {value:.0f} µs" for name, value in micro.items()))


def report(seconds: dict[str, float], size: int) -> None:
    """One line a contender; ``size`` is the bytes read."""
    own = [name for name in (NATIVE, IN_NUMPY) if name in seconds]
    for name, value in seconds.items():
        ratios = "".join(f"{value / seconds[mine]:8.2f} x {mine}" for mine in own)
        print(f"  {name:22s} {value * 1e3:9.1f} ms {size / value / 1e9:7.2f} GB/s {ratios}")


if __name__ == "__main__":
    main()
