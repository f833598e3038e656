"""How far two variants are apart."""

from parity.scanner.knowledge.files import data


def largest_difference(one: str, other: str) -> tuple[float, float] | None:
    """The largest difference of two variants between -12 and 12 and where it is; None where it was not computed."""
    pairs = data("differences")["pairs"]
    found = pairs.get(f"{one} {other}") or pairs.get(f"{other} {one}")
    return (found[0], found[1]) if found else None
