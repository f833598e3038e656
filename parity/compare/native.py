"""The optional kernels in C: `native.c` beside this file, compiled when the package was.

One is for float32 against float32 and gives what `parity.compare.kernel.Kernel` gives, the other what
`parity.compare.local` sums, both many times faster. Without the library, or with ``PARITY_NO_NATIVE`` set in the
environment, NumPy does it.
"""

import ctypes
import math
import os
import zlib
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from parity.compare.comparison import Sums
from parity.compare.kernel import Totals

Array = NDArray[Any]

_SOURCE: Final = Path(__file__).with_name("native.c")
_LIBRARY: Final = _SOURCE.with_name("libnative.so")


class _Statistics(ctypes.Structure):
    """The struct of the same name in the C file."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("finite", "zero_reference", "over_limit")),
        *((name, ctypes.c_int64) for name in ("reference_nan", "reference_inf", "candidate_nan", "candidate_inf")),
        *((name, ctypes.c_int64) for name in ("nonfinite", "first_nonfinite", "worst")),
        *((name, ctypes.c_double) for name in ("max_abs", "max_rel")),
        ("sums", ctypes.c_double * 5),
        *((name, ctypes.c_uint64) for name in ("max_ulp", "ulp_low", "ulp_high")),
        ("histogram", ctypes.c_int64 * 34),
    )


class LocalSizes(ctypes.Structure):
    """The struct ``local_sizes`` of the C file: sum of squares and greatest magnitude of each difference."""

    _fields_ = tuple((name, ctypes.c_double * 2) for name in ("z", "twin", "error", "ulp", "gap", "rounding"))


class Moments(ctypes.Structure):
    """The struct ``moments`` of the C file: sums over x, x² and (x - y)², the least and the greatest x."""

    _fields_ = tuple((name, ctypes.c_double) for name in ("sum", "squares", "gaps", "low", "high"))


_STRUCTS: Final = {"statistics": _Statistics, "local": LocalSizes, "moments": Moments}


@cache
def _library() -> Any:
    """The library in C, or None: not built, built from another source, not loadable here, or not wanted."""
    if os.environ.get("PARITY_NO_NATIVE"):
        return None
    try:
        loaded = ctypes.CDLL(str(_LIBRARY))
        built_from = ctypes.c_uint32.in_dll(loaded, "parity_source").value
        sizes = [ctypes.c_uint32.in_dll(loaded, f"parity_{name}_size").value for name in _STRUCTS]
        current = zlib.crc32(_SOURCE.read_bytes())
    except (OSError, ValueError):
        return None
    if built_from != current or sizes != [ctypes.sizeof(one) for one in _STRUCTS.values()]:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_double
    loaded.parity_compare.argtypes = (pointer, pointer, *[ctypes.c_int64] * 2, number, ctypes.POINTER(_Statistics))
    loaded.parity_compare.restype = None
    for function in (loaded.parity_local_float, loaded.parity_local_double):
        function.argtypes = (*[pointer] * 4, ctypes.c_int64, number, number, ctypes.POINTER(LocalSizes))
        function.restype = ctypes.c_int
    loaded.parity_moments.argtypes = (pointer, pointer, ctypes.c_int64, ctypes.POINTER(Moments))
    loaded.parity_moments.restype = ctypes.c_int
    return loaded


def available() -> bool:
    """Whether there is a library to use."""
    return _library() is not None


def add_local(arrays: tuple[Array, Array, Array, Array | None], least: float, eps: float, found: LocalSizes) -> bool:
    """Adds a block to ``found``, if it can.

    Args:
        arrays: z and at the end the candidate in float64, or None; between them the twin and the candidate. All flat.
        least: The least power of two by which an ulp is told.
        eps: The unit of that.
        found: What is summed.

    Returns:
        False where an element is not finite, or its square is not, the twin and the candidate are neither both float32
        nor both float64, or an array is not `_plain`: nothing is added then.
    """
    z, twin, candidate, own = arrays
    names = {np.dtype(np.float32): "parity_local_float", np.dtype(np.float64): "parity_local_double"}
    if twin.dtype != candidate.dtype or twin.dtype not in names:
        return False
    if not all(_plain(one, z.size) for one in arrays if one is not None):
        return False
    function = getattr(_library(), names[twin.dtype])
    places = (_address(z), _address(twin), _address(candidate), None if own is None else _address(own))
    return bool(function(*places, z.size, least, eps, found))


def add_moments(x: Array, y: Array | None, found: Moments) -> bool:
    """Adds a block to ``found``, if it can.

    Args:
        x: Flat.
        y: Likewise; None where only x counts.
        found: What is summed.

    Returns:
        False where the arrays are not `_plain` float32, or not finite: nothing is added then.
    """
    if not all(one.dtype == np.float32 and _plain(one, x.size) for one in (x, y) if one is not None):
        return False
    return bool(_library().parity_moments(_address(x), None if y is None else _address(y), x.size, found))


class Kernel:
    """Adds blocks in C order, as `parity.compare.kernel.Kernel` does with steps as the unit."""

    __slots__ = ("_found", "_function", "_limit")

    def __init__(self, limit: float | None) -> None:
        self._function = _library().parity_compare
        self._limit = math.inf if limit is None else limit
        self._found = _Statistics()

    def add(self, reference: NDArray[Any], candidate: NDArray[Any], start: int) -> None:
        """Adds a block: two contiguous, aligned, flat float32 arrays, whose first element has position ``start``."""
        # ctypes lets go of the GIL, so threads run side by side.
        self._function(_address(reference), _address(candidate), reference.size, start, self._limit, self._found)

    @property
    def totals(self) -> Totals:
        """What has been seen so far."""
        found = self._found
        histogram = found.histogram[:]
        while histogram and not histogram[-1]:
            histogram.pop()
        return Totals(
            finite_count=found.finite,
            differing=found.finite - found.histogram[0] + found.nonfinite,
            zero_reference=found.zero_reference,
            over_limit=found.over_limit + found.nonfinite,
            reference_nan=found.reference_nan,
            reference_inf=found.reference_inf,
            candidate_nan=found.candidate_nan,
            candidate_inf=found.candidate_inf,
            nonfinite_differences=found.nonfinite,
            first_nonfinite=found.first_nonfinite if found.nonfinite else None,
            max_abs=found.max_abs,
            worst=found.worst if found.max_abs else None,
            max_rel=found.max_rel if found.sums[0] else None,
            max_ulp=found.max_ulp,
            histogram=tuple(histogram),
            sums=Sums._make((*found.sums, found.ulp_low + (found.ulp_high << 16))),
        )


def _plain(array: NDArray[Any], size: int) -> bool:
    """Whether an array is one contiguous, aligned piece of memory of so many elements."""
    return array.size == size and array.flags.c_contiguous and array.flags.aligned


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
