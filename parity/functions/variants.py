"""The registry: every activation function that this package knows by name, and the values it takes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, SupportsFloat

from numpy.typing import ArrayLike

from parity.errors import InputError
from parity.functions import gelu, piecewise, smooth
from parity.functions.double_double import Float64
from parity.functions.formula import Formula, evaluate

FORMULAS: Final[Mapping[str, Formula]] = MappingProxyType(
    {formula.name: formula for family in (gelu, smooth, piecewise) for formula in family.FORMULAS}
)
"""Formula by name."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One mathematical activation function: a formula with a value for each of its parameters. Made by `variant`.

    Attributes:
        name: The formula's name.
        parameters: Name and value of every free parameter, in the formula's order.
    """

    name: str
    parameters: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        """The name, then what differs from its default: ``leaky_relu[negative_slope=0.2]``; see `parse`."""
        defaults = self.formula.parameters
        changed = ",".join(f"{name}={_shortest(value)}" for name, value in self.parameters if value != defaults[name])
        return f"{self.name}[{changed}]" if changed else self.name

    @property
    def formula(self) -> Formula:
        """The formula in the registry."""
        return FORMULAS[self.name]

    @property
    def arity(self) -> int:
        """1, or 2 for a gated variant, whose inputs are pairs [value, gate]."""
        return self.formula.arity

    @property
    def kinks(self) -> tuple[float, ...]:
        """Points, rising, where the derivative (of a gated variant, by the gate) jumps and is a convention."""
        return self.formula.kinks(**self._numbers(None))

    def value(self, x: ArrayLike, *, constants: Mapping[str, float] | None = None) -> Float64:
        """The function at ``x``, within one ulp of float64.

        Of xielu this holds down to a distance of 1e-8 from its zero below 0; nearer, the error is absolute, below
        1e-22.

        Args:
            x: Floats of any shape; for a gated variant of shape (…, 2).
            constants: Other values for some of the formula's constants.

        Returns:
            float64 of the shape of ``x``, for a gated variant without the last axis. NaN gives NaN, ±∞ the limit.

        Raises:
            InputError: The type or shape of ``x`` does not fit, or a constant is unknown or out of range.
        """
        return evaluate(self.formula, x, self._numbers(constants))

    def derivative(self, x: ArrayLike, *, constants: Mapping[str, float] | None = None) -> Float64:
        """The derivative at ``x``, within two ulp of float64 but where it is near a zero of its own.

        The zeros are those of gelu_erf at -0.7518, gelu_tanh at -0.7525, silu at -1.2785 (quick_gelu at that over
        alpha), mish at -1.1924 and xielu at -0.9808. Measured, two ulp hold down to a distance of 1e-8 from them;
        nearer, the error is absolute, below 1e-22.

        Args:
            x: As for `value`.
            constants: As for `value`.

        Returns:
            float64 of the shape of ``x``: for a gated variant the derivatives by value and by gate.

        Raises:
            InputError: As for `value`.
        """
        return evaluate(self.formula, x, self._numbers(constants), derivative=True)

    def _numbers(self, constants: Mapping[str, float] | None) -> dict[str, float]:
        formula = self.formula
        changed = _checked(formula, "constant", formula.constants, constants or {})
        return {**dict(self.parameters), **formula.constants, **changed}


def variant(name: str, **parameters: float) -> Variant:
    """The variant of that name, with defaults for the parameters that are not given.

    Raises:
        InputError: There is no such variant or parameter, or a value is out of range.
    """
    if name not in FORMULAS:
        raise InputError.unknown("activation variant", name, FORMULAS)
    formula = FORMULAS[name]
    changed = _checked(formula, "parameter", formula.parameters, parameters)
    return Variant(name, tuple({**formula.parameters, **changed}.items()))


def parse(text: str) -> Variant:
    """The variant that ``str(variant)`` wrote as ``text``.

    Raises:
        InputError: ``text`` is not of the form ``name`` or ``name[parameter=number,…]``, or names what there is not.
    """
    name, bracket, rest = text.strip().partition("[")
    if not bracket:
        return variant(name)
    parameters: dict[str, float] = {}
    for item in rest.removesuffix("]").split(","):
        key, equals, number = item.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (rest.endswith("]") and equals) or math.isnan(value) or key.strip() in parameters:
            raise InputError(
                f"'{text}' does not name an activation variant: '{item}' cannot be read.",
                hint="Write it as leaky_relu[negative_slope=0.2].",
            )
        parameters[key.strip()] = value
    return variant(name, **parameters)


def _checked(formula: Formula, kind: str, known: Mapping[str, float], given: Mapping[str, float]) -> dict[str, float]:
    """``given`` as floats, after a check of names and values."""
    for name, value in given.items():
        if name not in known:
            if not known:
                raise InputError(f"'{formula.name}' has no {kind}s, so no '{name}'.", hint=f"Leave '{name}' out.")
            raise InputError.unknown(f"{kind} of '{formula.name}'", name, known)
        if isinstance(value, bool) or not isinstance(value, SupportsFloat):
            raise InputError(f"{kind} '{name}' of '{formula.name}' must be a number, not {value!r}.")
        if math.isnan(value) or (math.isinf(value) and name not in formula.unbounded):
            raise InputError(f"{kind} '{name}' of '{formula.name}' must be finite, not {value}.")
        if name in formula.positive and not value > 0:
            raise InputError(f"{kind} '{name}' of '{formula.name}' must be above 0, not {value}.")
    # Adding 0.0 makes -0.0 the 0.0 it equals, so that equal variants are written alike.
    return {name: float(value) + 0.0 for name, value in given.items()}


def _shortest(value: float) -> str:
    """Ten digits where they say all, else as many as it takes to read the same float back."""
    short = f"{value:.10g}"
    return short if float(short) == value else repr(value)
