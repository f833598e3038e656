"""Cause: dropout that is left on, with a key that is the same each time, so that no two runs differ."""

from collections.abc import Iterator

from parity.align.view import GraphView
from parity.diagnose.case import Case, Hypothesis, Part, put
from parity.diagnose.numbers import single, wide
from parity.graph import Site


def examine(case: Case) -> Iterator[Hypothesis]:
    """Numbers that the candidate drops by what it draws, kept instead, and not made larger for it."""
    drawn = _drawn(case.candidate.view)
    for site in case.candidate.sites:
        if site.kind not in {"where", "mul"} or not drawn.intersection(site.inputs):
            continue
        kept = next((name for name in site.inputs if name in case.candidate.view.dynamic), None)
        if kept is None:
            continue
        scale = _scale(case.candidate, kept)
        places = [one.name for one in (scale, site) if one is not None]
        source = kept if scale is None else next(name for name in scale.inputs if name in case.candidate.view.dynamic)
        yield Hypothesis(
            rule="nondeterminism",
            message="the candidate drops numbers at random, by a key that is the same each time",
            expected="no dropout",
            observed="dropout",
            fix="Put the candidate in inference mode: deterministic=True (flax), training=False (Keras), model.eval().",
            places={"candidate": places},
            repair=put(site.outputs[0], wide(case.candidate, source)),
        )


def _drawn(view: GraphView) -> set[str]:
    """Tensors that are made of random numbers and of no input."""
    found: set[str] = set()
    for site in view.trace.sites:
        if site.kind == "random" or found.intersection(site.inputs):
            found.update(name for name in site.outputs if name and name not in view.dynamic)
    return found


def _scale(part: Part, tensor: str) -> Site | None:
    """The site that makes what is kept larger, by as much as is dropped."""
    site = part.view.site_of(tensor)
    if site is None or site.kind not in {"mul", "div"} or site not in part.sites:
        return None
    numbers = [value for name in site.inputs if (value := single(part, name)) is not None]
    return site if len(numbers) == 1 and (numbers[0] > 1) == (site.kind == "mul") else None
