"""Computes recorded calls again, some of them, on other numbers, in other precisions."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch

from parity.adapter import Array, UnsupportedPrecisionError
from parity.errors import EngineError, InputError
from parity_adapters.torch.arrays import borrowed, to_numpy
from parity_adapters.torch.layout import Layout, blank, lay_out
from parity_adapters.torch.recording import Blank, Call, Number, Recording, Ref, compute, fresh, substitute, tensors
from parity_adapters.torch.replacements import REPLACEMENTS

PRECISIONS: Final[Mapping[str, torch.dtype | None]] = {
    "native": None,
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
"""By name; None for each tensor's own."""

LOOKUPS: Final = frozenset({"aten.embedding", "aten.index_select"})
"""Operators that pick rows of their first input: it is all the same whether these or all of it are cast."""

_COMPLEX: Final[Mapping[torch.dtype, torch.dtype]] = {
    torch.float64: torch.complex128,
    torch.float32: torch.complex64,
    torch.float16: torch.complex32,
}
"""Floating-point type to the type of complex numbers made of it, where there is one."""


class Evaluation:
    """One evaluation.

    Args:
        recording: Of the traced run.
        given: Numbers by tensor name.
        precision: One of `PRECISIONS`.

    Raises:
        InputError: There is no such precision.
    """

    def __init__(self, recording: Recording, given: Mapping[str, Array], precision: str) -> None:
        if precision not in PRECISIONS:
            raise InputError.unknown("precision", precision, PRECISIONS)
        self._recording = recording
        self._given = given
        self._precision = precision
        self._dtype = PRECISIONS[precision]
        self._values: dict[str, torch.Tensor] = {}

    def run(self, calls: Sequence[Call], wanted: Sequence[str]) -> dict[str, Array]:
        """Computes ``calls`` in order and returns the tensors ``wanted``; what nobody needs any more is freed."""
        calls = [call for call in calls if not all(not name or name in self._given for name in call.site.outputs)]
        uses = Counter(name for call in calls for name in set(call.site.inputs))
        uses.update(wanted)
        with torch.no_grad(), _default_dtype(self._dtype):
            for call in calls:
                self._compute(call, uses)
                for name in set(call.site.inputs):
                    uses[name] -= 1
                    if not uses[name]:
                        self._values.pop(name, None)
            return {name: to_numpy(self._fetch(name)) for name in wanted}

    def _compute(self, call: Call, uses: Mapping[str, int]) -> None:
        """Computes one call and keeps those of its outputs that are to be used.

        Random numbers are drawn in the types of the traced run, whatever the precision: others would be other numbers.
        """
        looks_up = self._looks_up(call)
        dtype = None if call.generator is not None or looks_up else self._dtype
        fetch = self._uncast if looks_up else self._fetch
        argument = _Argument(fetch, self._number, self._recording.layouts, dtype)
        args = [substitute(value, argument) for value in call.args]
        kwargs = {name: substitute(value, argument) for name, value in call.kwargs.items()}
        function = call.function if dtype is None else REPLACEMENTS.get(call.site.op, call.function)
        try:
            with _generator(call.generator):
                result = compute(function, args, kwargs)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            raise self._failure(call, error) from error
        written = [args[place] if isinstance(place, int) else kwargs[place] for place in call.written]
        made = [*tensors(written), *fresh(call.function, result)]
        for name, value in zip(call.site.outputs, made, strict=False):
            if name and name not in self._given and uses[name] and value is not None:
                self._values[name] = _cast(value, self._dtype)

    def _fetch(self, name: str) -> torch.Tensor:
        """A tensor in the precision of this evaluation."""
        if name not in self._values:
            self._values[name] = self._source(name)
        return self._values[name]

    def _source(self, name: str) -> torch.Tensor:
        """A tensor that is given, or a weight."""
        if name not in self._given:
            weight = self._recording.weights.get(name)
            if weight is None:
                raise InputError(
                    f"The tensor '{name}' is neither given, nor a weight, nor made by the sites to be evaluated.",
                    hint="Give it, or evaluate the site that makes it as well.",
                )
            return _cast(weight if isinstance(weight, torch.Tensor) else _scalar(weight), self._dtype)
        array, where = self._given[name], self._recording.layouts.get(name)
        tensor = borrowed(array)
        dtype = _target(tensor.dtype if where is None else where.dtype, self._dtype)
        if where is None or tensor.shape != where.shape:  # another shape is fine for pointwise operators
            return tensor.to(dtype, copy=True)
        cast = dtype != tensor.dtype and where.is_contiguous()
        return tensor.to(dtype) if cast else lay_out(tensor, where, dtype)

    def _looks_up(self, call: Call) -> bool:
        """Whether a call picks rows of a weight, which may be far larger than what is picked: that alone is cast."""
        return call.site.op in LOOKUPS and self._is_weight(call.site.inputs[0])

    def _is_weight(self, name: str) -> bool:
        made = name in self._given or name in self._values
        return not made and isinstance(self._recording.weights.get(name), torch.Tensor)

    def _uncast(self, name: str) -> torch.Tensor:
        """A tensor; a weight as it is."""
        return self._recording.weights[name] if self._is_weight(name) else self._fetch(name)

    def _number(self, number: Number) -> float:
        """A number that stands in a formula: the given one, or the model's own."""
        if number.name not in self._given:
            return number.value
        value: float = self._given[number.name].item()
        return int(value) if isinstance(number.value, int) and float(value).is_integer() else value

    def _failure(self, call: Call, error: Exception) -> EngineError:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        message = f"{call.site.op}, at {call.site.name}, cannot be computed in {self._precision} precision: {reason}"
        return EngineError(message) if self._dtype is None else UnsupportedPrecisionError(message)


class _Argument:
    """Puts values in the place of what is recorded of an argument.

    Args:
        fetch: Name to tensor.
        number: Number of a formula to its value.
        layouts: Of the traced tensors.
        dtype: Of floating-point numbers; None for those of the trace.
    """

    def __init__(
        self,
        fetch: Callable[[str], torch.Tensor],
        number: Callable[[Number], float],
        layouts: Mapping[str, Layout],
        dtype: torch.dtype | None,
    ) -> None:
        self._fetch = fetch
        self._number = number
        self._layouts = layouts
        self._dtype = dtype

    def __call__(self, value: Any) -> Any:
        """The value for one item of an argument."""
        match value:
            case Ref():
                return self._tensor(value)
            case Number():
                return self._in_range(self._number(value))
            case Blank():
                return blank(value.layout, _target(value.layout.dtype, self._dtype))
            case torch.dtype():
                return _target(value, self._dtype)
            case float():
                return self._in_range(value)
            case _:
                return value

    def _tensor(self, reference: Ref) -> torch.Tensor:
        tensor, where = self._fetch(reference.name), self._layouts[reference.name]
        dtype = _target(where.dtype, self._dtype)
        if tensor.shape != where.shape:
            return tensor.to(dtype, copy=reference.written)
        return lay_out(tensor, where, dtype) if reference.written or tensor.dtype != dtype else tensor

    def _in_range(self, value: float) -> float:
        """The number itself; in a narrow type the greatest that it has where it would be infinite: -1e30 as a mask."""
        if self._dtype is None or not isinstance(value, float) or not math.isfinite(value):
            return value
        limit: float = torch.finfo(self._dtype).max
        return min(max(value, -limit), limit)


def _target(own: torch.dtype, dtype: torch.dtype | None) -> torch.dtype:
    """The type in which numbers of the type ``own`` are computed with; ``dtype`` None for their own."""
    if dtype is None:
        return own
    if own.is_complex:
        return _COMPLEX.get(dtype, own)
    return dtype if own.is_floating_point else own


def _cast(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(_target(tensor.dtype, dtype))


def _scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


@contextmanager
def _default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """A context in which what whole numbers turn into, where a formula divides them, is ``dtype``."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _generator(state: torch.Tensor | None) -> Iterator[None]:
    """A context in which random numbers are drawn from ``state``, which leaves no trace."""
    if state is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(state)
        yield
