"""The result of a comparison: what each number means, and how two results become one."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import add
from typing import Any, Final, NamedTuple, TypedDict

from parity.errors import InputError

_LARGEST: Final = sys.float_info.max


class Sums(NamedTuple):
    """Sums over the finite pairs (r, c), from which the averages of a `Comparison` come.

    Attributes:
        reference: Sum of r².
        candidate: Sum of c².
        product: Sum of r·c.
        error: Sum of (c - r)².
        difference: Sum of c - r.
        ulp: Sum of the distances in ulp; an exact integer where they are integers.
    """

    reference: float = 0.0
    candidate: float = 0.0
    product: float = 0.0
    error: float = 0.0
    difference: float = 0.0
    ulp: int | float = 0

    def plus(self, other: "Sums") -> "Sums":
        """The sums over both sets of pairs."""
        return Sums(*map(add, self, other))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Statistics of a candidate array c against a reference array r of the same shape.

    Each position falls in one of three groups:

    - *finite pair*: r and c are both finite. Only these enter the numeric statistics.
    - *non-finite agreement*: both are NaN, or both the same infinity. Counted under the ``*_nan`` and ``*_inf``
      fields, otherwise left out.
    - *non-finite difference*: NaN against a number or an infinity, an infinity against a finite number or the
      opposite infinity. Always a difference, over every limit, and never replaced by a number.

    Every number is finite. A statistic that nothing defines is None: all of them without finite pairs, quotients
    whose denominator is 0, averages whose sums left the range of float64. Nothing is added to a denominator. A
    maximum beyond the range of float64 is given as its largest number.

    Sums are made in float64, block by block: each is within (B + count / B) · 2⁻⁵³ of the sum of the absolute values
    of its terms, B = `parity.compare.onepass.BLOCK` – below 1e-11 for 64 Mi elements, and about 1e-15 in practice.
    Squares of float64 values below about 1e-154 lose digits to underflow. Counts, maxima, positions, the histogram
    and integer ulp sums are exact and do not depend on how the array was cut, on its layout or on threads.

    Attributes:
        shape: Shape of both arrays.
        ulp_dtype: Name of the type whose ulp is the unit.
        count: Number of positions.
        finite_count: Number of finite pairs.
        differing: Positions that are not equal: finite pairs with r ≠ c (+0 equals -0) and non-finite differences.
        max_abs: Largest |c - r|, the difference rounded to float64.
        max_rel: Largest |c - r| / |r| over finite pairs with r ≠ 0.
        zero_reference: Finite pairs with r = 0 and c ≠ 0; they have no relative error.
        worst_index: Index of the first non-finite difference if there is one, else the first index, in C order, where
            max_abs is reached; None where nothing differs.
        max_ulp: Largest distance in ulp. With r and c of the type ``ulp_dtype``: the number of steps between them
            along the numbers of that type (an int, see `parity.compare.ulp_distance`). Otherwise
            |c - r| / ulp(r), a float, see `parity.compare.ulp`.
        mean_ulp: Mean distance in ulp.
        ulp_histogram: Finite pairs by distance in ulp: at 0 those with distance 0, at 1 in (0, 1], at k ≥ 2 in
            (2^(k-2), 2^(k-1)]; without trailing zeros, empty without finite pairs.
        rms: Root of the mean of (c - r)².
        bias: Mean of c - r.
        cosine: Σ r·c / √(Σ r² Σ c²), in [-1, 1].
        snr_db: Signal-to-noise ratio 10 log₁₀(Σ r² / Σ (c - r)²) in decibel; None where there is no noise.
        reference_nan: NaN in r.
        reference_inf: Infinities in r.
        candidate_nan: NaN in c.
        candidate_inf: Infinities in c.
        nonfinite_differences: Number of non-finite differences.
        first_nonfinite_difference: Index of the first one in C order, or None.
        limit: The limit asked for on |c - r|, or None.
        over_limit: Finite pairs with |c - r| > limit plus all non-finite differences; None without a limit.
        sums: The sums behind the averages, for `merge`.
    """

    shape: tuple[int, ...]
    ulp_dtype: str
    count: int
    finite_count: int
    differing: int
    max_abs: float | None
    max_rel: float | None
    zero_reference: int
    worst_index: tuple[int, ...] | None
    max_ulp: int | float | None
    mean_ulp: float | None
    ulp_histogram: tuple[int, ...]
    rms: float | None
    bias: float | None
    cosine: float | None
    snr_db: float | None
    reference_nan: int
    reference_inf: int
    candidate_nan: int
    candidate_inf: int
    nonfinite_differences: int
    first_nonfinite_difference: tuple[int, ...] | None
    limit: float | None
    over_limit: int | None
    sums: Sums

    def merge(self, other: "Comparison") -> "Comparison":
        """The comparison of this block and ``other`` set behind it along the first axis.

        Raises:
            InputError: The blocks do not fit together, or were measured in different units or against other limits.
        """
        for what in ("ulp_dtype", "limit"):
            if getattr(self, what) != getattr(other, what):
                raise InputError(
                    f"Comparisons with {what} {getattr(self, what)} and {getattr(other, what)} do not merge.",
                    hint=f"Compare both blocks with the same {what}.",
                )
        if not self.shape or not other.shape or self.shape[1:] != other.shape[1:]:
            raise InputError(
                f"Blocks of shapes {self.shape} and {other.shape} do not join along the first axis.",
                hint="Merge blocks whose shapes differ in the first length only.",
            )
        rows = self.shape[0]
        first = _first(self.first_nonfinite_difference, other.first_nonfinite_difference, rows)
        worst = first
        if worst is None:
            later = (other.max_abs or 0.0) > (self.max_abs or 0.0)
            worst = _first(None if later else self.worst_index, other.worst_index, rows)
        finite_count = self.finite_count + other.finite_count
        sums = self.sums.plus(other.sums)
        return Comparison(
            shape=(rows + other.shape[0], *self.shape[1:]),
            ulp_dtype=self.ulp_dtype,
            limit=self.limit,
            max_abs=_larger(self.max_abs, other.max_abs),
            max_rel=_larger(self.max_rel, other.max_rel),
            max_ulp=_larger(self.max_ulp, other.max_ulp),
            worst_index=worst,
            first_nonfinite_difference=first,
            ulp_histogram=add_histograms(self.ulp_histogram, other.ulp_histogram),
            over_limit=None if self.over_limit is None else self.over_limit + (other.over_limit or 0),
            sums=sums,
            **{name: getattr(self, name) + getattr(other, name) for name in _COUNTS},
            **averages(sums, finite_count),
        )

    def to_dict(self) -> dict[str, Any]:
        """All fields but ``sums``, as JSON has them: tuples become lists."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "sums"}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


_COUNTS: Final = (
    "count",
    "finite_count",
    "differing",
    "zero_reference",
    "reference_nan",
    "reference_inf",
    "candidate_nan",
    "candidate_inf",
    "nonfinite_differences",
)


class Averages(TypedDict):
    """The fields of a `Comparison` that come from its sums."""

    mean_ulp: float | None
    rms: float | None
    bias: float | None
    cosine: float | None
    snr_db: float | None


def averages(sums: Sums, finite_count: int) -> Averages:
    """The statistics that come from the sums, as `Comparison` defines them."""
    result = Averages(mean_ulp=None, rms=None, bias=None, cosine=None, snr_db=None)
    if not finite_count:
        return result
    result["mean_ulp"] = _defined(sums.ulp / finite_count)
    result["bias"] = _defined(sums.difference / finite_count)
    if math.isfinite(sums.error):
        result["rms"] = math.sqrt(sums.error / finite_count)
    # The root of the product makes the cosine of equal arrays exactly 1; the product of roots has the wider range.
    squares = sums.reference * sums.candidate
    in_range = sys.float_info.min < squares < math.inf
    norm = math.sqrt(squares) if in_range else math.sqrt(sums.reference) * math.sqrt(sums.candidate)
    if norm and math.isfinite(norm) and math.isfinite(sums.product):
        result["cosine"] = min(1.0, max(-1.0, sums.product / norm))
    if sums.reference and sums.error and math.isfinite(sums.reference) and math.isfinite(sums.error):
        result["snr_db"] = 10.0 * (math.log10(sums.reference) - math.log10(sums.error))
    return result


def saturated(value: float) -> float:
    """``value``, or the largest float64 where it overflowed."""
    return min(value, _LARGEST)


def add_histograms(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Sum of two histograms, bin by bin; the shorter one has zeros behind its end."""
    if not a or not b:
        return tuple(a or b)
    size = max(len(a), len(b))
    padded = ([*h, *[0] * (size - len(h))] for h in (a, b))
    return tuple(map(add, *padded))


def _defined(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _larger(a: float | None, b: float | None) -> float | None:
    return max((value for value in (a, b) if value is not None), default=None)


def _first(a: tuple[int, ...] | None, b: tuple[int, ...] | None, rows: int) -> tuple[int, ...] | None:
    """``a``, or ``b`` moved down by ``rows``."""
    return a if a is not None or b is None else (b[0] + rows, *b[1:])
