"""Measures implementations of activation functions against their declared variants; runs in a worker."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from parity.adapter import Adapter, Array, Implementation
from parity.compare import compare
from parity.dtypes import FLOAT_DTYPES, float_dtype
from parity.errors import EngineError, InputError
from parity.functions import Variant
from parity.functions.identify import Identification, Identifier
from parity.inputs import CORE, Probe, probe
from parity.ulps import ulp
from parity.worker import Message, first_line

Float64 = NDArray[np.float64]

ACCURACIES: Final = ("exact", "kernel", "composed")
"""Classes of honest error, see `parity.adapter.Implementation`."""

KINK_WIDTH: Final = 4.0
"""Ulp around a kink within which a gradient is a convention and not compared."""


SPECIAL_ULP: Final = 64.0
"""Ulp within which a finite result at an infinite input is the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One implementation in one dtype over one regime; a line of the suite's ``results``.

    Attributes:
        identified: The variant that it was measured to be, over all regimes; None where nothing fits.
        exhaustive: Whether every number of the dtype in this regime was tried.
        count: Inputs.
        max_ulp: Largest error in ulp of the dtype at the exact result.
        mean_ulp: Mean of the same.
        max_abs: Largest absolute error.
        worst_x: Input of the largest absolute error.
        scaled_ulp: Largest error in ulp at max(|x|, |y|), of a chain of operators at no less than 1: what an honest
            implementation keeps small in every regime.
        nonfinite: Inputs whose result is NaN or infinite although the exact one can be represented, or the reverse.
        gradient_max_abs: Largest absolute error of the gradient; None without gradients.
        status: ``pass``, ``warning`` or ``mismatch`` as judged, or why there are no numbers: ``unsupported``,
            ``crashed``, ``hung``, ``failed``, ``not-installed``.
        reason: Why there are no numbers.
    """

    adapter: str
    implementation: str
    declared: str
    identified: str | None = None
    dtype: str
    regime: str = ""
    exhaustive: bool = False
    count: int = 0
    max_ulp: float | None = None
    mean_ulp: float | None = None
    max_abs: float | None = None
    worst_x: float | None = None
    scaled_ulp: float | None = None
    nonfinite: int = 0
    gradient_max_abs: float | None = None
    status: str = "pass"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One implementation in one dtype over all regimes: what its verdict is made of.

    Attributes:
        accuracy: Class of honest error that the adapter declares.
        default_of: Bare name of the API whose no-flag call this is.
        nearest: Nearest variant, also where none was identified.
        reason: Why this variant was identified, or none.
        scaled_ulp: Largest error at |x| <= 20 in ulp at max(|x|, |y|), and the input where it is.
        beyond_ulp: The same at larger finite inputs.
        max_ulp: Largest error at |x| <= 20 in ulp at the exact result, and the input where it is.
        lost_below: First input with |x| <= 20 whose result is 0 though the exact one is a normal number, or None.
        flushes: Whether subnormal inputs or results are flushed to 0.
        nonfinite_core: First input with |x| <= 20 (by magnitude) whose result is not finite though it could be.
        nonfinite_beyond: The same for larger finite inputs.
        special: Inputs NaN and infinity whose result is wrong: (input, exact, result).
        gradient_ulp: Largest gradient error at |x| <= 20 in ulp at max(|gradient|, 1), and the input where it is.
        gradient_core: First input with |x| <= 20 whose gradient is not finite.
        gradient_beyond: The same for larger finite inputs.
    """

    adapter: str
    implementation: str
    declared: str
    identified: str | None
    dtype: str
    accuracy: str
    default_of: str | None
    nearest: str
    reason: str
    scaled_ulp: tuple[float, float]
    beyond_ulp: tuple[float, float]
    max_ulp: tuple[float, float]
    lost_below: float | None
    flushes: bool
    nonfinite_core: float | None
    nonfinite_beyond: float | None
    special: Sequence[tuple[str, str, str]]
    gradient_ulp: tuple[float, float] | None
    gradient_core: float | None
    gradient_beyond: float | None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which measurements are wanted; an empty tuple means all. Names may hold the wildcards ``*`` and ``?``."""

    variants: tuple[str, ...] = ()
    implementations: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    regimes: tuple[str, ...] = ()

    def implementations_of(self, adapter: Adapter) -> list[Implementation]:
        """The adapter's implementations that are wanted."""
        rows = list(adapter.activations())
        if not all(isinstance(one, Implementation) and isinstance(one.name, str) for one in rows):
            raise EngineError(f"Adapter '{adapter.name}' offers activations that are no Implementation with a name.")
        return [
            one
            for one in rows
            if _wanted(one.name, self.implementations)
            and (_wanted(str(one.variant), self.variants) or one.variant.name in self.variants)
        ]

    def dtypes_of(self, implementation: Implementation) -> list[str]:
        """Its dtypes that are wanted, widest first."""
        return [dtype for dtype in FLOAT_DTYPES if dtype in implementation.dtypes and _wanted(dtype, self.dtypes)]


def _check_rows(adapter: str, implementations: Sequence[Implementation]) -> None:
    """Refuses what an outside adapter got wrong in its table, before it is measured.

    Raises:
        EngineError: A name, a class of accuracy or a dtype is none.
    """
    for one in implementations:
        wrong = ""
        if one.accuracy not in ACCURACIES:
            wrong = f"accuracy '{one.accuracy}'; it must be among {', '.join(ACCURACIES)}"
        elif not set(one.dtypes) <= FLOAT_DTYPES.keys():
            wrong = f"dtypes {', '.join(map(str, one.dtypes))}; they must be among {', '.join(FLOAT_DTYPES)}"
        if wrong:
            raise EngineError(f"Adapter '{adapter}' gives {one.name} the {wrong}.")
    names = [one.name for one in implementations]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise EngineError(f"Adapter '{adapter}' has two implementations called {twice}; names must be unique.")


def _wanted(name: str, patterns: Iterable[str]) -> bool:
    patterns = tuple(patterns)
    # A name is tried as it stands first: the brackets of a flag are a character class to a wildcard pattern.
    return not patterns or any(name == one or fnmatch.fnmatchcase(name, one.replace("[", "[[]")) for one in patterns)


def measure(adapter: Adapter, selection: Mapping[str, Any], done: Sequence[Sequence[str]] = ()) -> Iterator[Message]:
    """Job: measures all that is selected, saying before each measurement what it is, so that a crash has a name.

    Args:
        adapter: The adapter.
        selection: Fields of a `Selection`.
        done: Pairs of implementation and dtype to leave out: what an earlier worker finished or died of.
    """
    wanted = Selection(**{name: tuple(value) for name, value in selection.items()})
    implementations = wanted.implementations_of(adapter)
    _check_rows(adapter.name, implementations)
    finished = {tuple(pair) for pair in done}
    pairs = [(dtype, one) for dtype in FLOAT_DTYPES for one in implementations if dtype in wanted.dtypes_of(one)]
    yield Message({"versions": dict(adapter.versions()), "total": len(pairs)})
    bench: dict[tuple[str, int], Bench] = {}
    for dtype, one in pairs:
        if (one.name, dtype) in finished:
            continue
        yield Message({"begin": [one.name, dtype], "declared": str(one.variant)})
        key = (dtype, one.variant.arity)
        if key not in bench:
            # Exact values are shared by the implementations of a dtype; those of the dtype before are done with.
            bench = {old: kept for old, kept in bench.items() if old[0] == dtype}
            bench[key] = Bench(*key)
        rows, profile = bench[key].measure(adapter.name, one, wanted.regimes)
        yield Message(
            {
                "pair": [one.name, dtype],
                "rows": [asdict(row) for row in rows],
                "profile": asdict(profile) if profile else None,
            }
        )


class Bench:
    """The probe of one dtype and the exact values on it, for measuring one implementation after another.

    Args:
        dtype: Name of the dtype.
        arity: 1, or 2 for gated variants.
    """

    def __init__(self, dtype: str, arity: int) -> None:
        self.dtype = dtype
        self.probe: Probe = probe(dtype, arity)
        gates = self.probe.x if arity == 1 else self.probe.x[:, 1]
        with np.errstate(invalid="ignore"):  # signalling NaNs are among the 16-bit patterns
            self.gates: Float64 = gates.astype(np.float64)
        self.smallest = float(ml_dtypes.finfo(float_dtype(dtype)).smallest_normal)
        self.core = np.abs(self.gates) <= CORE
        self.beyond = (np.abs(self.gates) > CORE) & np.isfinite(self.gates)
        self._exact: dict[Variant, tuple[Float64, Float64]] = {}
        self._identifier = Identifier(self.probe.x)

    def exact(self, variant: Variant) -> tuple[Float64, Float64]:
        """Exact values and derivatives on the probe, infinite where the dtype would overflow."""
        if variant not in self._exact:
            value, derivative = variant.value(self.probe.x), variant.derivative(self.probe.x)
            self._exact[variant] = overflowed(value, self.dtype), overflowed(derivative, self.dtype)
        return self._exact[variant]

    def measure(self, adapter: str, one: Implementation, regimes: Sequence[str]) -> tuple[list[Row], Profile | None]:
        """One implementation in this dtype: a row a regime, and the profile; without one where it does not run."""
        blank = Row(adapter=adapter, implementation=one.name, declared=str(one.variant), dtype=self.dtype)
        try:
            # Copies: an implementation may write into its input.
            y = usable(one(self.probe.x.copy()), self.probe.x.shape[:1])
            gradient = one.derivative(self.probe.x.copy())
            if gradient is not None:
                usable(gradient, self.probe.x.shape)
        except Exception as error:  # noqa: BLE001 – a framework refuses in ways of its own; the row says which
            reason = f"{type(error).__name__}: {first_line(error)}"
            return [replace(blank, status="unsupported", reason=reason)], None
        try:
            found = self._identifier.identify(y, extra=[one.variant])
        except InputError as error:  # not one finite number among them
            measured, nearest, reason = None, one.variant, error.message
        else:
            measured, nearest, reason = _measured(found, one.variant), found.nearest, found.reason
        blank = replace(blank, identified=None if measured is None else str(measured))
        result = y.dtype.name  # a framework may return another dtype than it was given; its ulp count
        exact, derivative = self.exact(one.variant)
        with np.errstate(invalid="ignore"):  # signalling NaN
            values = y.astype(np.float64)
            slopes = None if gradient is None else gradient.astype(np.float64)
        # Where subnormal numbers are flushed to zero, ulp say nothing: that is a finding of its own.
        normal = (np.abs(self.gates) >= 4 * self.smallest) & (np.abs(exact) >= self.smallest)
        floor = 1.0 if one.accuracy == "composed" else 0.0
        scaled = np.where(normal, self._scaled(values, exact, result, floor=floor), np.nan)
        wrong = nonfinite(values, exact)
        smooth = self._smooth(one.variant, derivative)
        rows = []
        for regime, where in self.probe.regimes.items():
            if regimes and regime not in regimes:
                continue
            statistics = compare(exact[where], y[where], dtype=result)
            worst = statistics.worst_index
            rows.append(
                replace(
                    blank,
                    regime=regime,
                    exhaustive=regime in self.probe.exhaustive,
                    count=statistics.count,
                    max_ulp=statistics.max_ulp,
                    mean_ulp=statistics.mean_ulp,
                    max_abs=statistics.max_abs,
                    worst_x=None if worst is None else float(self.gates[where][worst[0]]),
                    scaled_ulp=_largest(scaled[where]),
                    nonfinite=int(wrong[where].sum()),
                    gradient_max_abs=None if slopes is None else _largest(_gap(slopes, derivative, where, smooth)),
                )
            )
        broken = None if slopes is None else _nonfinite_rows(slopes, derivative)
        profile = Profile(
            adapter=adapter,
            implementation=one.name,
            declared=blank.declared,
            identified=blank.identified,
            dtype=self.dtype,
            accuracy=one.accuracy,
            default_of=one.default_of,
            nearest=str(nearest),
            reason=reason,
            scaled_ulp=self._worst(scaled, self.core),
            beyond_ulp=self._worst(scaled, self.beyond),
            max_ulp=self._worst(absolute_error(values, exact) / ulp(exact, result), self.core & normal),
            lost_below=self._first((values == 0) & normal & self.core),
            flushes=bool(((values == 0) & ~normal & (np.abs(exact) >= 2 * float(ulp(0.0, result)))).any()),
            nonfinite_core=self._first(wrong & self.core),
            nonfinite_beyond=self._first(wrong & self.beyond),
            special=self._special(values, exact, result),
            gradient_ulp=None if slopes is None else self._gradient_ulp(slopes, derivative, smooth, result),
            gradient_core=None if broken is None else self._first(broken & self.core),
            gradient_beyond=None if broken is None else self._first(broken & self.beyond),
        )
        return rows, profile

    def _scaled(self, values: Float64, exact: Float64, dtype: str, *, floor: float) -> Float64:
        """Errors in ulp at max(|x|, |y|), of a chain at no less than 1: its constants are rounded beside it."""
        with np.errstate(invalid="ignore"):
            size = np.abs(self.gates) if self.probe.x.ndim == 1 else np.abs(self.probe.x.astype(np.float64)).max(axis=1)
        return absolute_error(values, exact) / ulp(np.maximum(np.maximum(size, np.abs(exact)), floor), dtype)

    def _smooth(self, variant: Variant, derivative: Float64) -> NDArray[np.bool_]:
        """Where the derivative is defined: away from the kinks, at finite inputs."""
        far = np.isfinite(derivative.reshape(len(derivative), -1)).all(axis=1) & np.isfinite(self.gates)
        far &= (np.abs(self.gates) >= self.smallest) | (
            self.gates == 0
        )  # where flushed to 0, the gradient is that at 0
        for kink in variant.kinks:
            far &= np.abs(self.gates - kink) > KINK_WIDTH * float(ulp(np.array([kink]), self.dtype)[0])
        return far

    def _gradient_ulp(
        self, slopes: Float64, exact: Float64, compared: NDArray[np.bool_], dtype: str
    ) -> tuple[float, float]:
        error = absolute_error(slopes, exact) / ulp(np.maximum(np.abs(exact), 1.0), dtype)
        return self._worst(error.reshape(len(error), -1).max(axis=1), self.core & compared)

    def _worst(self, error: Float64, where: NDArray[np.bool_]) -> tuple[float, float]:
        """Largest finite error among ``where`` and the input it is at."""
        masked = np.where(where & np.isfinite(error), error, -1.0)
        at = int(np.argmax(masked))
        return float(max(masked[at], 0.0)), float(self.gates[at])

    def _first(self, where: NDArray[np.bool_]) -> float | None:
        """The input of least magnitude among ``where``."""
        found = self.gates[where]
        return float(found[np.argmin(np.abs(found))]) if found.size else None

    def _special(self, values: Float64, exact: Float64, dtype: str) -> list[tuple[str, str, str]]:
        wrong = []
        near = absolute_error(values, exact) <= SPECIAL_ULP * ulp(exact, dtype)
        agree = near | (values == exact) | (np.isnan(values) & np.isnan(exact))
        for name, at in (
            ("+inf", self.gates == np.inf),
            ("-inf", self.gates == -np.inf),
            ("NaN", np.isnan(self.gates)),
        ):
            bad = np.flatnonzero(at & ~agree)
            if bad.size:
                wrong.append((name, _spelled(exact[bad[0]]), _spelled(values[bad[0]])))
        return wrong


def _measured(found: Identification, declared: Variant) -> Variant | None:
    """The variant identified, or the declared one where the data fit it and tell no others from it."""
    if found.undecided and declared in (found.nearest, *found.ambiguous):
        return declared
    return found.variant


def overflowed(exact: Float64, dtype: str) -> Float64:
    """Exact values, infinite where rounding them to the dtype overflows."""
    info = ml_dtypes.finfo(float_dtype(dtype))
    half = float(info.eps) / 4
    limit = float(info.max) * (1 + half) if dtype != "float64" else np.inf
    return np.where(np.abs(exact) >= limit, np.copysign(np.inf, exact), exact)


def usable(array: Array, shape: tuple[int, ...]) -> Array:
    """``array``, if it is what an implementation is to return.

    Raises:
        ValueError: It is of another shape, or its numbers are not floats.
    """
    if array.shape != shape:
        raise ValueError(f"returned shape {array.shape}, not {shape}")
    if array.dtype.name not in FLOAT_DTYPES:
        raise ValueError(f"returned {array.dtype.name}, not one of {', '.join(FLOAT_DTYPES)}")
    return array


def nonfinite(values: Float64, exact: Float64) -> NDArray[np.bool_]:
    """Where the result is not finite although the exact one is, or is not the same infinity."""
    agree: NDArray[np.bool_] = np.isfinite(values) | (values == exact) | (np.isnan(values) & np.isnan(exact))
    return ~agree


def _nonfinite_rows(values: Float64, exact: Float64) -> NDArray[np.bool_]:
    """The same by input, of gradients with one number or two an input."""
    return np.asarray(nonfinite(values, exact).reshape(len(values), -1).any(axis=1))


def _gap(slopes: Float64, exact: Float64, where: NDArray[np.intp], compared: NDArray[np.bool_]) -> Float64:
    kept = where[compared[where]]
    return absolute_error(slopes[kept], exact[kept])


def absolute_error(values: Float64, exact: Float64) -> Float64:
    """Absolute error; NaN or infinite where either side is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(values - exact)


def _largest(errors: Float64) -> float | None:
    finite = errors[np.isfinite(errors)]
    return float(finite.max()) if finite.size else None


def _spelled(value: float) -> str:
    return "NaN" if np.isnan(value) else f"{value + 0.0:.6g}"
