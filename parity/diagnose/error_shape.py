"""What an error looks like that no cause explains: a bias, a factor, outliers, a border, a few channels."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.numbers import Float64

MOSTLY: Final = 0.9
"""Share of an error's power that makes it what it is called."""

FEW: Final = 0.05
"""Share of the elements, or of the places along an axis, that are few."""

FILLED: Final = 0.3
"""Share of the elements of some places that make up the error, from which the places are what is told."""

MOST_PLACES: Final = 6
"""Places of an axis that are named."""


def error_shape(error: Float64, exact: Float64) -> str:
    """The shape of an error in a few words.

    Args:
        error: The candidate's tensor less the exact one.
        exact: That, of the same shape.
    """
    fine = np.isfinite(error) & np.isfinite(exact)
    if not fine.all():
        return f"{np.count_nonzero(~fine)} of {error.size} elements are not finite on one of the sides"
    power = float(np.vdot(error, error))
    if not power:
        return "nothing differs"
    mean = float(error.mean())
    if mean**2 * error.size >= MOSTLY * power:
        return f"a bias: {mean:.3g} nearly everywhere"
    size = float(np.vdot(exact, exact))
    factor = float(np.vdot(error, exact)) / size if size else 0.0
    if factor**2 * size >= MOSTLY * power:
        return f"in proportion: the candidate's is {1 + factor:.6g} times the reference's"
    return _places(np.square(error), power) or "spread over all elements"


def _places(squares: Float64, power: float) -> str:
    """Where most of an error lies, if that is in few places."""
    elements = _most(squares.reshape(-1), power)
    for axis in range(squares.ndim if squares.ndim > 1 else 0):
        along = squares.sum(tuple(other for other in range(squares.ndim) if other != axis))
        if len(along) > 4 and along[[0, -1]].sum() >= MOSTLY * power:
            return f"at the border: first and last place of axis {axis}"
        places = np.sort(_most(along, power))
        filled = len(elements) * len(along) >= FILLED * len(places) * squares.size
        if filled and len(along) > 2 and len(places) <= max(1, FEW * len(along)):
            named = ", ".join(map(str, places[:MOST_PLACES]))
            return f"in few places of axis {axis}: {named}{' …' if len(places) > MOST_PLACES else ''}"
    few = len(elements) <= FEW * squares.size
    return f"outliers: {len(elements)} of {squares.size} elements" if few else ""


def _most(squares: Float64, power: float) -> NDArray[np.intp]:
    """The places that hold most of the power, the largest first."""
    order = np.argsort(squares)[::-1]
    return order[: int(np.searchsorted(np.cumsum(squares[order]), MOSTLY * power)) + 1]
