"""`compare`: checks the operands, cuts them into blocks, runs the kernel over them, on several threads if it pays."""

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parity.compare import native
from parity.compare.comparison import Comparison, averages, saturated
from parity.compare.kernel import Kernel, Totals
from parity.compare.traversal import Traversal, traverse
from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.ulps import float_type, spacing

Array = NDArray[Any]

BLOCK: Final = 32_768
"""Elements in a block: few enough that its buffers stay in cache, enough that NumPy's cost per call is small."""

_NATIVE_BLOCK: Final = 8 * BLOCK
"""That of the native kernel, which has no buffers: the cost of a call from Python vanishes, and where sides have to be
copied to be contiguous, the copies take 2 MB."""

_PER_THREAD: Final = 1 << 19
"""A thread is started for no fewer elements: starting one costs about 50 µs, comparing these about 1 ms."""

_NAMES: Final = {dtype: name for name, dtype in FLOAT_DTYPES.items()}
"""`numpy.dtype.name` is worked out anew each time: a tenth of a small comparison."""

_EXACT_INTEGER: Final = 2**53


def compare(
    reference: Any,
    candidate: Any,
    *,
    limit: float | None = None,
    dtype: DTypeLike | None = None,
    threads: int | None = None,
) -> Comparison:
    """Compares two arrays in one pass.

    Args:
        reference: Array, or anything that NumPy can view as one; memory maps and non-contiguous views are read
            block by block and never copied whole. float64, float32, float16 or bfloat16; integers and booleans are
            taken as float64, exactly.
        candidate: Likewise, of the same shape; its dtype may be another one.
        limit: Counts the elements whose |c - r| is above this, in `Comparison.over_limit`.
        dtype: The type whose ulp is the unit; by default the candidate's.
        threads: Number of threads; by default one for each 2^19 elements, up to the number of usable cores.

    Returns:
        The statistics. Memory beyond the arguments is at most 4 MB a thread, whatever the size of the arrays.

    Raises:
        InputError: The shapes differ, a dtype is none of the above, an integer is not exact in float64, the limit
            is negative or NaN, or ``threads`` is below 1.
    """
    sides = np.asarray(reference), np.asarray(candidate)
    _check(*sides, limit, threads)
    r_type, c_type = _measured_type("reference", sides[0]), _measured_type("candidate", sides[1])
    unit = c_type if dtype is None else float_type(dtype)
    count = sides[0].size
    totals = Totals()
    if count:
        steps = unit == r_type == c_type
        in_c = steps and unit == np.float32 and native.available()
        walk = traverse(*sides, _NATIVE_BLOCK if in_c else BLOCK)
        if in_c and walk.axes is not None:  # of equal differences, it takes the first of the walk
            in_c, walk = False, traverse(*sides, BLOCK)
        size = min(count, _NATIVE_BLOCK if in_c else BLOCK)
        workers = min(len(walk), threads or (min(_usable_cores(), count // _PER_THREAD) if count >= _PER_THREAD else 1))

        def job(blocks: range) -> Totals:
            kernel: Kernel | native.Kernel
            if in_c:
                kernel = native.Kernel(limit)
            else:
                kernel = Kernel(size, r_type, c_type, unit=None if steps else spacing(unit), limit=limit, walk=walk)
            return _run(kernel, walk, blocks, size, (r_type, c_type))

        totals, *others = _in_threads(job, len(walk), workers)
        for other in others:
            totals.add(other)
    return _comparison(totals, sides[0].shape, unit, limit)


def _check(reference: Array, candidate: Array, limit: float | None, threads: int | None) -> None:
    if reference.shape != candidate.shape:
        raise InputError(
            f"The reference has shape {reference.shape}, the candidate {candidate.shape}.",
            hint="Arrays are compared element by element, without broadcasting: bring both to one shape first.",
        )
    if limit is not None and not limit >= 0:
        raise InputError(f"The limit on |candidate - reference| is {limit}.", hint="Give a number of at least 0.")
    if threads is not None and threads < 1:
        raise InputError(f"The number of threads is {threads}.", hint="Give at least 1, or leave it out.")


def _measured_type(side: str, array: Array) -> np.dtype[Any]:
    """The native floating-point type in which an array's elements are compared."""
    if array.dtype.kind in "biu":
        return FLOAT_DTYPES["float64"]
    found = array.dtype.newbyteorder("=") if array.dtype.kind == "f" else array.dtype
    if found in FLOAT_DTYPES.values():
        return found
    raise InputError(
        f"The {side} has dtype {array.dtype.name}, which is not compared.",
        hint=f"Cast it to one of {', '.join(FLOAT_DTYPES)}, to an integer type or to bool.",
    )


def _usable_cores() -> int:
    """Cores that this process may run on: fewer than the machine has under taskset or in a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_threads(job: Callable[[range], Totals], blocks: int, workers: int) -> Iterable[Totals]:
    if workers == 1:
        return [job(range(blocks))]
    bounds = [blocks * worker // workers for worker in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(job, map(range, bounds, bounds[1:])))


def _run(
    kernel: Kernel | native.Kernel,
    walk: Traversal,
    blocks: range,
    size: int,
    types: tuple[np.dtype[Any], np.dtype[Any]],
) -> Totals:
    buffers: dict[str, Array] = {}

    def flat(side: str, part: Array, dtype: np.dtype[Any]) -> Array:
        """The elements of a block in one contiguous, native row; a view if it is one already."""
        if part.dtype == dtype and part.flags.c_contiguous and part.flags.aligned:
            return part.reshape(-1)
        if side not in buffers:
            buffers[side] = np.empty(size, dtype)
        row = buffers[side][: part.size]
        np.copyto(row.reshape(part.shape), part)
        if (
            part.dtype.kind in "iu"
            and part.dtype.itemsize == 8
            and (abs(int(part.max())) > _EXACT_INTEGER or abs(int(part.min())) > _EXACT_INTEGER)
        ):
            raise InputError(
                f"The {side} holds {part.dtype.name} values beyond 2^53, which float64 cannot hold exactly.",
                hint="Subtract a common offset from both sides first.",
            )
        return row

    # Overflow and division by zero are looked for in the results, where they say something.
    with np.errstate(all="ignore"):
        for number in blocks:
            reference, candidate, start = walk.block(number)
            kernel.add(flat("reference", reference, types[0]), flat("candidate", candidate, types[1]), start)
    return kernel.totals


def _comparison(totals: Totals, shape: tuple[int, ...], unit: np.dtype[Any], limit: float | None) -> Comparison:
    def index(position: int | None) -> tuple[int, ...] | None:
        return None if position is None else tuple(int(i) for i in np.unravel_index(position, shape)) if shape else ()

    measured = totals.finite_count > 0
    first = index(totals.first_nonfinite)
    return Comparison(
        shape=shape,
        ulp_dtype=_NAMES[unit],
        count=math.prod(shape),
        finite_count=totals.finite_count,
        differing=totals.differing,
        max_abs=saturated(totals.max_abs) if measured else None,
        max_rel=None if totals.max_rel is None else saturated(totals.max_rel),
        zero_reference=totals.zero_reference,
        worst_index=index(totals.worst) if first is None else first,
        max_ulp=saturated(totals.max_ulp) if measured else None,
        ulp_histogram=totals.histogram,
        reference_nan=totals.reference_nan,
        reference_inf=totals.reference_inf,
        candidate_nan=totals.candidate_nan,
        candidate_inf=totals.candidate_inf,
        nonfinite_differences=totals.nonfinite_differences,
        first_nonfinite_difference=first,
        limit=limit,
        over_limit=None if limit is None else totals.over_limit,
        sums=totals.sums,
        **averages(totals.sums, totals.finite_count),
    )
