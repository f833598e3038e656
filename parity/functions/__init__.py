"""Activation functions in mathematical form: the registry, their exact evaluation, their identification."""

from parity.functions.variants import FORMULAS, Variant, parse, variant

__all__ = ["FORMULAS", "Variant", "parse", "variant"]
