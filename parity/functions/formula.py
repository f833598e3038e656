"""What a formula is, and how it is evaluated on float arrays."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from parity.dtypes import FLOAT_DTYPES
from parity.errors import InputError
from parity.functions.double_double import DoubleDouble, Float64
from parity.functions.exact import DECIMAL, PI

_BLOCK: Final = 4096
_SIMPLE_DENOMINATOR: Final = 1000

_KNOWN_REALS: Final = {
    float(number): number
    for number in (
        DECIMAL.sqrt(DECIMAL.divide(2, PI)),
        DECIMAL.sqrt(Decimal("0.5")),
        Decimal("1.6732632423543772848170429916717"),
        Decimal("1.0507009873554804934193349852946"),
    )
}
"""√(2/π), √½ and the two constants of SELU, by the float64 that programs write for them."""

Term = Callable[..., DoubleDouble]
"""``term(x, **numbers)``: x and the parameters and constants as `DoubleDouble`, the latter scalar."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Formula:
    """One activation function in mathematical form.

    Attributes:
        name: The variant's name.
        value: The function of one number. Of a gated formula, the function of the gate.
        derivative: Its derivative.
        source: The paper or standard that defines it.
        parameters: Free parameters, in order, with their defaults.
        constants: Numbers fixed in the formula, which a truncated or mistaken implementation may have otherwise.
        positive: Which of the parameters and constants must be above zero.
        unbounded: Which may be ±∞.
        kinks: From all numbers by name, the points where the derivative jumps, so that its value there is a
            convention.
        gated: Whether the function is x[..., 0] · value(x[..., 1]).
    """

    name: str
    value: Term
    derivative: Term
    source: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    positive: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()
    kinks: Callable[..., tuple[float, ...]] = lambda **_: ()
    gated: bool = False

    @property
    def arity(self) -> int:
        """How many numbers one output depends on: 2 for a gated formula, else 1."""
        return 2 if self.gated else 1


@lru_cache(maxsize=4096)
def real(number: float) -> DoubleDouble:
    """The real number that somebody meant by a float parameter.

    1/6, 0.044715 and √(2/π) are not float64 numbers, and a formula that took the nearest float64 for them would be off
    by more than the rounding we measure. So: one of the known constants if ``number`` is its float64; else the fraction
    of denominator up to 1000 that rounds to it; else the decimal number that ``repr`` prints.
    """
    if math.isinf(number):
        return DoubleDouble.of(number)
    if (known := _KNOWN_REALS.get(abs(number))) is not None:
        return DoubleDouble.of(known.copy_sign(Decimal(number)))
    simple = Fraction(number).limit_denominator(_SIMPLE_DENOMINATOR)
    return DoubleDouble.of(simple if float(simple) == number else Fraction(repr(number)))


def evaluate(formula: Formula, x: ArrayLike, numbers: Mapping[str, float], *, derivative: bool = False) -> Float64:
    """The function or its derivative at ``x``, rounded once to float64.

    Args:
        formula: The formula.
        x: Floats or integers of any shape; for a gated formula the last axis is [value, gate].
        numbers: All parameters and constants by name.
        derivative: The derivative instead of the value.

    Returns:
        For an ordinary formula an array of the shape of ``x``. For a gated one the value drops the last axis and the
        derivative keeps it. NaN gives NaN, ±∞ the limit; a function that is 0 at 0 keeps the sign of a zero.

    Raises:
        InputError: ``x`` does not hold real numbers, or is not of shape (…, 2) for a gated formula.
    """
    x = _as_float64(x)
    scalars = {name: real(number) for name, number in numbers.items()}
    term = formula.derivative if derivative else formula.value
    # Rounding errors are below the result here, and overflow and underflow of the result are meant.
    with np.errstate(all="ignore"):
        if not formula.gated:
            result = _by_blocks(lambda block: _ordinary(term, block, scalars), x.reshape(-1)).reshape(x.shape)
            return result if derivative else np.where((result == 0) & (x == 0), x, result)
        if x.ndim == 0 or x.shape[-1] != 2:
            raise InputError(
                f"'{formula.name}' is gated and takes an array of shape (…, 2), not {x.shape}.",
                hint="Stack the value and the gate along the last axis, the value first.",
            )
        pairs = x.reshape(-1, 2)
        if not derivative:
            return _by_blocks(lambda block: _gated(term, block, scalars), pairs).reshape(x.shape[:-1])
        by_value = _by_blocks(lambda block: _ordinary(formula.value, block[:, 1], scalars), pairs)
        by_gate = _by_blocks(lambda block: _gated(term, block, scalars), pairs)
        return np.stack([by_value, by_gate], axis=-1).reshape(x.shape)


def _as_float64(x: ArrayLike) -> Float64:
    x = np.asarray(x)
    if x.dtype in FLOAT_DTYPES.values() or x.dtype.kind in "iu":
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
            return x.astype(np.float64)
    raise InputError(
        f"An activation takes an array of floats, not of {x.dtype}.",
        hint=f"Cast it to one of {', '.join(FLOAT_DTYPES)}.",
    )


def _by_blocks(function: Callable[[Float64], Float64], x: Float64) -> Float64:
    """``function`` block by block along the first axis: some hundred temporaries a block stay in the cache."""
    result = np.empty(len(x))
    for start in range(0, len(x), _BLOCK):
        block = slice(start, start + _BLOCK)
        result[block] = function(x[block])
    return result


def _ordinary(term: Term, x: Float64, scalars: Mapping[str, DoubleDouble]) -> Float64:
    nan = np.isnan(x)
    result = term(DoubleDouble.from_float64(np.where(nan, 0.0, x)), **scalars).to_float64()
    return np.where(nan, np.nan, result)


def _gated(term: Term, x: Float64, scalars: Mapping[str, DoubleDouble]) -> Float64:
    """x0 · term(x1); with an infinity or a zero, where the limit depends on the path, the float64 product."""
    regular = (np.isfinite(x) & (x != 0)).all(axis=1)
    value, gate = np.where(regular, x.T, 1.0)
    result = (DoubleDouble.from_float64(value) * term(DoubleDouble.from_float64(gate), **scalars)).to_float64()
    rest = x[~regular]
    result[~regular] = rest[:, 0] * _ordinary(term, rest[:, 1], scalars)
    return result
