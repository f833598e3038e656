"""``parity.activations`` and ``parity.replace_activation``: which ones a live PyTorch model runs, and others instead.

An activation is found among the operators of a recorded run, however it is spelt (`parity.diagnose.chains`), and named
by what it computes. What its input was like is summed up over all inputs, one recorded run after the other.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, overload
from weakref import WeakKeyDictionary

import numpy as np

from parity.adapter import Array, Calls, Place, Swap, Swapper, load_adapter
from parity.align.view import GraphView
from parity.diagnose.activation_sites import SiteProber, activation_sites, scope_of
from parity.diagnose.chains import Activation
from parity.errors import InputError
from parity.findings import Report
from parity.functions import Variant, parse
from parity.functions.identify import Identification
from parity.model_inputs import given_sets, make_inputs
from parity.sides import Side, SideOptions, live_adapter

BLOCK: Final = 1 << 16
"""Numbers summed up at a time."""

HEAD: Final = ("module", "line", "computes", "operators", "call", "count", "mean", "std", "min", "max")
WORDS: Final = frozenset(HEAD[:5])
"""Columns of the table, and those of them that are no numbers."""

_latest: WeakKeyDictionary[Any, "ActivationList"] = WeakKeyDictionary()
"""The latest list of each model."""


@dataclass(frozen=True, slots=True)
class Moments:
    """What numbers are like, without those that are NaN or infinite.

    Attributes:
        count: How many there are.
        mean: Their mean.
        squares: Sum of the squares of their distances from it.
        minimum: The least.
        maximum: The greatest.
        nonfinite: How many others were left out.
    """

    count: int = 0
    mean: float = math.nan
    squares: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf
    nonfinite: int = 0

    @classmethod
    def of(cls, array: Array) -> "Moments":
        """Those of an array of any shape and floating-point dtype."""
        flat, total = array.reshape(-1), cls()
        for start in range(0, flat.size, BLOCK):
            block = flat[start : start + BLOCK].astype(np.float64)
            fine = block[np.isfinite(block)]
            part = cls(nonfinite=block.size - fine.size)
            if fine.size:
                mean = float(fine.mean())
                squares = float(np.square(fine - mean).sum())
                part = cls(fine.size, mean, squares, float(fine.min()), float(fine.max()), part.nonfinite)
            total = total.joined(part)
        return total

    def joined(self, other: "Moments") -> "Moments":
        """Those of both (Chan, Golub and LeVeque, 1979)."""
        nonfinite = self.nonfinite + other.nonfinite
        if not self.count or not other.count:
            return replace(self if self.count else other, nonfinite=nonfinite)
        count, apart = self.count + other.count, other.mean - self.mean
        return Moments(
            count,
            self.mean + apart * other.count / count,
            self.squares + other.squares + apart * apart * self.count * other.count / count,
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            nonfinite,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationSite:
    """One activation of a model: one call of it, where it is called several times in a run.

    Attributes:
        name: Unique in the list: module path, operator, and a number where that is not enough.
        scope: Path of the module that computes it; empty for the model's own code.
        source: ``file:line`` that computes it, where known.
        variant: What it computes, found by probing; None for a function without a name.
        operators: The framework's operators that compute it, in order.
        dtype: Of its input.
        call: Which call it is of this place in the code, from 0, where a module or loop runs several times.
        calls: How many calls of it there are in a run.
        count: Numbers that entered it, over all inputs; NaN and infinities are not among them.
        mean: Their mean; NaN where there were none, as for the next three.
        std: Their spread: root mean square distance from the mean.
        minimum: The least.
        maximum: The greatest.
        nonfinite: NaN and infinities that entered it.
        obstacle: Why it cannot be replaced; empty where it can.
        place: Where it is, for `replace_activation`.
        scale: What it computes over its variant: 1, or 2 where a factor of one half is left to the next product.
    """

    name: str
    scope: str
    source: str | None
    variant: Variant | None
    operators: tuple[str, ...]
    dtype: str
    call: int
    calls: int
    count: int
    mean: float
    std: float
    minimum: float
    maximum: float
    nonfinite: int = 0
    obstacle: str = ""
    place: Place = field(default=None, repr=False, compare=False)
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ActivationList(Report, Sequence[ActivationSite]):
    """The activations of a model in the order in which they are computed; ``str()`` is a table.

    Attributes:
        sites: They.
        notes: What a reader should know of the runs, as sentences.
    """

    sites: tuple[ActivationSite, ...]
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> ActivationSite: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ActivationSite, ...]: ...
    def __getitem__(self, index: int | slice) -> ActivationSite | tuple[ActivationSite, ...]:
        return self.sites[index]

    def __len__(self) -> int:
        return len(self.sites)

    def __iter__(self) -> Iterator[ActivationSite]:
        return iter(self.sites)

    def matching(self, pattern: str) -> tuple[ActivationSite, ...]:
        """Those whose name or module path is, or matches, ``pattern``; ``*`` and ``?`` match as in file names.

        Raises:
            InputError: There are none.
        """
        found = tuple(site for site in self.sites if fits(site.name, pattern) or fits(site.scope, pattern))
        if not found:
            if not self.sites:
                raise InputError(
                    "This model ran no activation on the inputs that it was listed with.",
                    hint="Call parity.activations(model, inputs) with inputs that reach one.",
                )
            known = [site.scope or site.name for site in self.sites]
            raise InputError.unknown("activation", pattern, known)
        return found

    def __str__(self) -> str:
        if not self.sites:
            return "\n".join(["This model ran no activation on these inputs.", *self.notes])
        rows = [HEAD, *(_cells(site) for site in self.sites)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [_aligned(row, widths) for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*lines, *_obstacles(self.sites), *self.notes])


def fits(name: str, pattern: str) -> bool:
    """Whether a name is the pattern, or matches it."""
    return name == pattern or fnmatchcase(name, pattern)


def _cells(site: ActivationSite) -> tuple[str, ...]:
    numbers = (f"{number:.4g}" for number in (site.mean, site.std, site.minimum, site.maximum))
    return (
        site.scope or "(the model itself)",
        site.source or "–",
        "unknown" if site.variant is None else str(site.variant),
        " ".join(operator.rpartition(".")[2] for operator in site.operators),
        f"{site.call + 1} of {site.calls}" if site.calls > 1 else "",
        str(site.count),
        *numbers,
    )


def _obstacles(sites: Iterable[ActivationSite]) -> Iterator[str]:
    """A line for each reason why some cannot be replaced."""
    named: dict[str, list[str]] = {}
    for site in sites:
        if site.obstacle:
            named.setdefault(site.obstacle, []).append(site.name)
    for obstacle, names in named.items():
        yield f"Cannot be replaced: {', '.join(names)}: {obstacle}."


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if column in WORDS else cell.rjust(width)
        for column, cell, width in zip(HEAD, row, widths, strict=True)
    ]
    return "  ".join(cells).rstrip()


def activations(model: Any, inputs: Any = None) -> ActivationList:
    """Lists every activation that a live PyTorch model computes on these inputs.

    Modules, functions, operators written out by hand and those inside gated blocks alike. Each is named by evaluating
    it on a sweep, not by what it is called. The model runs in the mode in which it is, without gradients; parameters,
    buffers and the state of the random numbers are afterwards what they were.

    Args:
        model: A torch.nn.Module.
        inputs: Arrays or tensors by name, a tuple of them in call order, a file of them, or a list of such sets, which
            are run one after the other; None to have them made.

    Raises:
        InputError: It is no such model, or does not run on these inputs.
        EngineError: It failed inside the framework.
    """
    adapter = _adapter(model)
    sets = given_sets(inputs)
    found: dict[Any, _Found] = {}
    notes: dict[str, None] = {}
    known: dict[tuple[str, bytes], Identification | None] = {}
    with adapter.watch(model) as calls, Side("model", (model, adapter.name), SideOptions()) as side:
        for given in sets or [_made(model, side)]:
            with tempfile.TemporaryDirectory(prefix="parity-") as folder:
                view = side.record(given, Path(folder) / "run", {})
                notes.update(dict.fromkeys(view.trace.ends.notes))
                _take(found, _found(view, SiteProber(view, side, known), calls))
    listed = ActivationList(_sites(found), tuple(notes))
    _latest[model] = listed
    return listed


def _made(model: Any, side: Side) -> dict[str, Array]:
    if not side.specs:
        raise InputError(
            f"This {type(model).__name__} does not say what inputs it takes.",
            hint='Give some: parity.activations(model, {"x": array}).',
        )
    return make_inputs(side.specs)


def _adapter(model: Any) -> Any:
    """The adapter of a live model whose activations can be listed.

    Raises:
        InputError: It is none.
    """
    name = live_adapter(model)
    adapter = load_adapter(name)
    if not isinstance(adapter, Swapper):
        raise InputError(
            f"A {type(model).__name__} is a model of the adapter {name}, and only those of PyTorch are listed.",
            hint="Give a live torch.nn.Module.",
        )
    return adapter


@dataclass(frozen=True, slots=True)
class _Found:
    """One activation in one or several recorded runs."""

    activation: Activation
    scope: str
    source: str | None
    moments: Moments
    place: Place
    obstacle: str


def _found(view: GraphView, prober: SiteProber, calls: Calls) -> Iterator[_Found]:
    """The activations of the latest recorded run, in the order of computation."""
    trace = view.trace
    for activation in activation_sites(view, prober):
        chain = activation.chain
        place, obstacle = None, ""
        try:
            place = calls.place(chain.source, chain.target, [site.name for site in chain.sites])
        except InputError as error:
            obstacle = error.message
        moments = Moments.of(trace.array(chain.source)) if chain.source in trace else Moments()
        lines = [site.source for site in chain.sites if site.source]
        yield _Found(activation, scope_of(chain), lines[-1] if lines else None, moments, place, obstacle)


def _take(found: dict[Any, _Found], run: Iterable[_Found]) -> None:
    """Joins what one run showed with what the runs before did."""
    calls: Counter[Any] = Counter()
    for one in run:
        where = one.place or (one.scope, one.source, tuple(site.op for site in one.activation.chain.sites))
        key = (where, calls[where])
        calls[where] += 1
        before = found.get(key)
        found[key] = one if before is None else replace(before, moments=before.moments.joined(one.moments))


def _sites(found: Mapping[Any, _Found]) -> tuple[ActivationSite, ...]:
    calls = Counter(where for where, _ in found)
    return tuple(_site(one, call, calls[where]) for (where, call), one in found.items())


def _site(one: _Found, call: int, calls: int) -> ActivationSite:
    moments, chain = one.moments, one.activation.chain
    return ActivationSite(
        name=chain.sites[-1].name,
        scope=one.scope,
        source=one.source,
        variant=one.activation.variant,
        operators=tuple(site.op for site in chain.sites),
        dtype=one.activation.dtype,
        call=call,
        calls=calls,
        count=moments.count,
        mean=moments.mean,
        std=math.sqrt(moments.squares / moments.count) if moments.count else math.nan,
        minimum=moments.minimum if moments.count else math.nan,
        maximum=moments.maximum if moments.count else math.nan,
        nonfinite=moments.nonfinite,
        obstacle=one.obstacle,
        place=one.place,
        scale=one.activation.scale,
    )


class Replacement:
    """Activations of a model that are replaced for now; as a context manager, until its end.

    Attributes:
        sites: They.
        variant: What is computed there.
    """

    def __init__(self, sites: tuple[ActivationSite, ...], variant: Variant, undo: Callable[[], None]) -> None:
        self.sites = sites
        self.variant = variant
        self._undo = undo

    def undo(self) -> None:
        """Lets the model compute its own activations again; a second call does nothing."""
        self._undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<{len(self.sites)} activations replaced by {self.variant}>"


def replace_activation(
    model: Any, sites: ActivationSite | str | Iterable[ActivationSite | str], variant: Variant | str
) -> Replacement:
    """Lets a live PyTorch model compute another function in the place of some of its activations.

    It does so in every run from now on: in training, where gradients are those of the new function, with other batch
    sizes, in submodules that run alone. Code, parameters and buffers stay as they are. Of several replacements of one
    place the latest counts; they can be undone in any order. Where all listed calls of a place are chosen, every later
    call is replaced, however many there are.

    A copy made by ``copy.deepcopy`` computes what the model computes then, and goes on doing so. The model cannot be
    pickled or compiled meanwhile; its ``state_dict`` is what it always was, and ``torch.export.export`` exports what it
    computes. Around the replaced code PyTorch takes none of its fused paths (``nn.TransformerEncoderLayer``), and an
    activation inside a ``torch.autograd.Function`` is replaced only where no gradient is wanted.

    Args:
        model: A torch.nn.Module; the one that was listed, or one of the same structure.
        sites: One or several entries of `activations`; or their names, module paths, or patterns of these (``*`` and
            ``?``), which are looked up in the latest list of this model.
        variant: What to compute: a name such as ``gelu_tanh`` or ``leaky_relu[negative_slope=0.2]``, or what
            `parity.variant` made.

    Returns:
        What undoes it, by ``undo()`` or at the end of a ``with`` block.

    Raises:
        InputError: There is no such activation or variant, or it cannot be replaced there. The model raises it too, at
            the end of a run in which the module of a chosen activation ran and did not compute it; where that module
            did not run at all, it warns.
    """
    adapter = _adapter(model)
    wanted = parse(variant) if isinstance(variant, str) else variant
    if not isinstance(wanted, Variant):
        raise InputError(
            f"A {type(wanted).__name__} names no activation variant.",
            hint="Give a name such as 'gelu_tanh', or what parity.variant(…) made.",
        )
    given = [sites] if isinstance(sites, str) or not isinstance(sites, Iterable) else list(sites)
    chosen = tuple(dict.fromkeys(site for one in given for site in _chosen(model, one)))
    if not chosen:
        raise InputError("No activation was chosen to be replaced.", hint="Give entries of parity.activations(…).")
    fixed = next((site for site in chosen if site.obstacle), None)
    if fixed is not None:
        raise InputError(
            f"The activation {fixed.name} cannot be replaced: {fixed.obstacle}.", hint="Choose the others alone."
        )
    return Replacement(chosen, wanted, adapter.swap(model, list(_swaps(chosen, wanted))))


def _chosen(model: Any, one: ActivationSite | str) -> tuple[ActivationSite, ...]:
    if isinstance(one, ActivationSite):
        return (one,)
    if not isinstance(one, str):
        raise InputError(
            f"A {type(one).__name__} names no activation of a model.",
            hint="Give entries of parity.activations(…), their names, module paths, or patterns of these.",
        )
    if model not in _latest:
        raise InputError(
            f"'{one}' is looked up in the list of this model's activations, and there is none yet.",
            hint="Call parity.activations(model, inputs) first.",
        )
    return _latest[model].matching(one)


def _swaps(chosen: Sequence[ActivationSite], wanted: Variant) -> Iterator[Swap]:
    """One order for each place."""
    places: dict[Any, list[ActivationSite]] = {}
    for site in chosen:
        places.setdefault(site.place, []).append(site)
    for place, sites in places.items():
        calls = frozenset(site.call for site in sites)
        first = sites[0]
        yield Swap(
            name=first.name,
            place=place,
            calls=None if len(calls) == first.calls else calls,
            listed=first.calls,
            variant=wanted,
            scale=first.scale,
        )
