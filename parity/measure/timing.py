"""Times implementations of activation functions, conversions left out; runs in a worker.

The implementations of one dtype and size take turns, so that whatever else the machine does falls on all of them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from parity.adapter import Adapter, Array, Implementation, Native
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.inputs import SEED
from parity.measure.activation import Selection
from parity.worker import Message

SIZES: Final = (1_024, 65_536, 1_048_576)
"""Elements of a call: one that a core's first cache holds, one for its second, and one that only memory holds."""

REPEATS: Final = 7

BUDGET: Final = 0.15
"""Seconds of calls after which an implementation is not repeated in a dtype and size."""

BURST: Final = 0.002
"""Seconds for which short calls are timed in a row; the clock and a cold cache do not matter then."""

CLOCK: Final = 1e-9
"""Seconds that the clock can tell apart."""

TOO_LONG: Final = 1.0
"""Seconds above which a call is not made, by what the next smaller size took."""

GELU: Final = "gelu_erf"
RELU: Final = "relu"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRow:
    """How long one implementation takes in one dtype and size; a line of the suite's ``timing``.

    Attributes:
        size: Elements of a call.
        ns_per_element: Nanoseconds an element, the median of the repeats; None where it does not run or takes too
            long.
        ratio_to_gelu: That over the same of the adapter's first exact GELU in this dtype and size.
        ratio_to_relu: Likewise of its first ReLU.
        repeats: How often it was timed: `REPEATS` times, or as often as its time allowed.
    """

    adapter: str
    implementation: str
    dtype: str
    size: int
    ns_per_element: float | None
    ratio_to_gelu: float | None
    ratio_to_relu: float | None
    repeats: int


class Stopwatch:
    """The times of one implementation in one dtype and size. Making it warms up: it compiles what is to be compiled.

    Args:
        implementation: What is timed.
        x: Its input.

    Attributes:
        times: Seconds a call, one number a repeat.
    """

    def __init__(self, implementation: Implementation, x: Array) -> None:
        self._implementation, self._x = implementation, x
        self._runs = True
        self._spent = 0.0
        self.times: list[float] = []
        try:
            implementation.function(implementation.enter(x))
        except Exception:  # noqa: BLE001 – a framework refuses in ways of its own; the suite's results say which
            self._runs = False

    def repeat(self) -> None:
        """Times it once more, unless it does not run or has had its time."""
        if not self._runs or self._spent >= BUDGET:
            return
        native = self._implementation.enter(self._x)
        # Others ran since: the first call finds neither its code nor its data in the caches.
        once = self._seconds(native, 1)
        calls = int(BURST / once)
        self.times.append(self._seconds(native, calls) if calls else once)
        self._spent += once + calls * self.times[-1]

    def _seconds(self, native: Native, calls: int) -> float:
        """Mean seconds of so many calls in a row."""
        function = self._implementation.function
        begun = time.perf_counter()
        for _ in range(calls):
            function(native)
        return max(time.perf_counter() - begun, CLOCK) / calls


def time_activations(
    adapter: Adapter,
    *,
    selection: Mapping[str, Any],
    sizes: Sequence[int] = SIZES,
    skip: Sequence[Sequence[Any]] = (),
) -> Iterator[Message]:
    """Job: times all that is selected, a dtype and size at a time, saying what it warms up, so that a crash has a name.

    Args:
        adapter: The adapter.
        selection: Fields of a `Selection`.
        sizes: Elements of a call, rising.
        skip: What an earlier worker finished, as [dtype, size], or died of, as [dtype, size, implementation].
    """
    wanted = Selection(**{name: tuple(value) for name, value in selection.items()})
    everything = list(adapter.activations())
    chosen = {(one.name, dtype) for one in wanted.implementations_of(adapter) for dtype in wanted.dtypes_of(one)}
    dtypes = [dtype for dtype in FLOAT_DTYPES if any(dtype == other for _, other in chosen)]
    left_out = {tuple(one) for one in skip}
    yield Message({"total": len(dtypes) * len(sizes)})
    for dtype in dtypes:
        able = [one for one in everything if dtype in one.dtypes]
        gelu, relu = (next((one.name for one in able if one.variant.name == name), "") for name in (GELU, RELU))
        timed = [one for one in able if (one.name, dtype) in chosen or one.name in (gelu, relu)]
        known: dict[str, float] = {}  # seconds an element, in the largest size that was tried
        for size in sizes:
            if (dtype, size) in left_out:
                continue
            watches: dict[str, Stopwatch] = {}
            for one in timed:
                if (dtype, size, one.name) in left_out or known.get(one.name, 0.0) * size > TOO_LONG:
                    continue
                yield Message({"begin": [one.name, dtype, size], "declared": str(one.variant)})
                watches[one.name] = Stopwatch(one, inputs(dtype, size, one.variant.arity))
            for _ in range(REPEATS):
                yield Message({})  # a sign of life; and the warm-up is over
                for watch in watches.values():
                    watch.repeat()
            medians = {name: median(watch.times) / size for name, watch in watches.items() if watch.times}
            known |= medians
            rows = [
                TimingRow(
                    adapter=adapter.name,
                    implementation=one.name,
                    dtype=dtype,
                    size=size,
                    ns_per_element=_quotient(medians.get(one.name), 1e-9),
                    ratio_to_gelu=_quotient(medians.get(one.name), medians.get(gelu)),
                    ratio_to_relu=_quotient(medians.get(one.name), medians.get(relu)),
                    repeats=len(watches[one.name].times) if one.name in watches else 0,
                )
                for one in timed
                if (one.name, dtype) in chosen
            ]
            yield Message({"group": [dtype, size], "rows": [asdict(row) for row in rows]})


def inputs(dtype: str, size: int, arity: int) -> Array:
    """Draws from N(0, 1): shape (size,), or (size, 2) for a gated variant."""
    shape = (size,) if arity == 1 else (size, arity)
    return np.random.default_rng(SEED).standard_normal(shape).astype(float_dtype(dtype))


def _quotient(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None
