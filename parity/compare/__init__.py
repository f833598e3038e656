"""One-pass comparison of two arrays: how far apart they are, in which unit, and where."""

from parity.compare.comparison import Comparison
from parity.compare.onepass import compare
from parity.ulps import ulp, ulp_distance

__all__ = ["Comparison", "compare", "ulp", "ulp_distance"]
