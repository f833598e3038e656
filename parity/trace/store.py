"""The trace store: a folder of safetensors shards, written as a run goes on, and a manifest, written last.

The manifest is what makes a trace whole: a recording that was killed has none and is told so. Shards are read by
mapping, so that of a trace larger than memory only what is looked at is in memory.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.adapter import Array
from parity.errors import InputError
from parity.graph import LAYOUT, Site, Traced
from parity.trace.shards import CODES, Shard, write_shard
from parity.trace.signature import Signature, signature

FORMAT: Final = "framework-parity-trace/1"
MANIFEST: Final = "manifest.json"
UNFINISHED: Final = "manifest.unfinished"

SHARD: Final = 8 * 2**20
"""Bytes after which a shard is written."""

LARGE: Final = 2**20
"""Bytes from which a tensor is a shard of its own, written from where the framework has it, without a copy."""

SMALL: Final = 4096
"""Elements up to which a weight is stored in a trace; of a larger one there is the signature alone."""

OPEN: Final = 16
"""Shards that are open at a time: what has been looked at in a mapped one counts as memory of the process."""

SAME_ORDER: Final = frozenset({"identity", "reshape"})
"""Kinds whose output is the input, number by number."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """What the manifest says of one tensor.

    Attributes:
        dtype: NumPy's name, or ``bfloat16``.
        shape: Its own; the stored array may have another one of as many elements.
        signature: Of its numbers.
        shard: Number of the file that holds them; None where they are not stored.
        stored_as: Name of the array in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    signature: Signature
    shard: int | None = None
    stored_as: str = ""

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers or truth values."""
        return self.dtype.startswith(("int", "uint", "bool"))


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole recorded run.

    Attributes:
        folder: Where it lies.
        sites: Operator calls in execution order.
        ends: Inputs and outputs by name.
        tensors: Every tensor made by a site or given as an input, by name.
        weights: Signatures of the weights that sites read.
        facts: Versions, options, hashes, as the manifest holds them.
    """

    folder: Path
    sites: tuple[Site, ...]
    ends: Traced
    tensors: Mapping[str, TensorEntry]
    weights: Mapping[str, TensorEntry]
    facts: Mapping[str, Any]
    _shards: dict[int, Shard] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        entry = self.tensors.get(str(name)) or self.weights.get(str(name))
        return entry is not None and entry.shard is not None

    def array(self, name: str) -> Array:
        """The numbers of a tensor, or of a small weight, mapped from its shard: for those who look at some of them.

        Raises:
            KeyError: They are not stored.
        """
        entry, shard = self._place(name)
        return shard.array(entry.stored_as).reshape(entry.shape)

    def read(self, name: str) -> Array:
        """The same in memory of its own, which is free again when it is used no more: for those who go through all.

        Raises:
            KeyError: They are not stored.
        """
        entry, shard = self._place(name)
        return shard.read(entry.stored_as).reshape(entry.shape)

    def _place(self, name: str) -> tuple[TensorEntry, Shard]:
        entry = self.tensors.get(name) or self.weights.get(name)
        if entry is None or entry.shard is None:
            raise KeyError(name)
        shard = self._shards.pop(entry.shard, None) or Shard(_shard_path(self.folder, entry.shard))
        self._shards[entry.shard] = shard  # as the latest
        while len(self._shards) > OPEN:
            del self._shards[next(iter(self._shards))]
        return entry, shard


class TraceWriter:
    """Writes a trace as a run goes on; a sink for `Session.trace`.

    Args:
        folder: Made if need be; must not hold a whole trace.
        inputs: Elements of each of the model's inputs. Where they are known, the numbers of large weights that are
            merely moved, as those of a linear layer are transposed, are not stored: they are made again at no cost.

    Raises:
        InputError: It holds one, or cannot be written.
    """

    def __init__(self, folder: Path, inputs: Iterable[int] = ()) -> None:
        if (folder / MANIFEST).exists():
            raise InputError(
                f"{folder} already holds a recorded trace.", hint="Name another folder, or remove this one first."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / UNFINISHED).write_text("A recording that has not ended.\n")
        except OSError as error:
            raise InputError(f"{folder} cannot be written: {error.strerror}.", hint="Name another folder.") from error
        self.folder = folder
        self.sites: list[Site] = []
        self.tensors: dict[str, TensorEntry] = {}
        self._inputs = frozenset(inputs)
        self._moved: set[str] = set()
        self._weights: dict[str, Signature] = {}
        self._pending: dict[str, Array] = {}
        self._bytes = 0
        self._shard = 0

    def __call__(self, site: Site, made: Mapping[str, Array]) -> None:
        """Takes a site with the tensors that it made; those of a mere reshaping share the numbers of its input."""
        self.sites.append(site)
        source = self.tensors.get(site.inputs[0]) if site.kind in SAME_ORDER and site.inputs else None
        for name, array in made.items():
            if source is not None and _same_count(source, array):
                self.tensors[name] = replace(source, shape=array.shape)
            elif self._is_moved_weight(site, array):
                entry = self.tensors[name] = self._entry(name, array, stored=False)
                self._moved.add(name)
                self._weights.setdefault(site.inputs[0], entry.signature)  # it is of the same numbers
            else:
                self.add(name, array)

    def keep(self, site: Site, entries: Mapping[str, TensorEntry]) -> None:
        """Takes a site whose tensors are of the same numbers as in another trace, which stores none of them."""
        self.sites.append(site)
        self.tensors.update(entries)
        self._moved.update(entries)

    def _is_moved_weight(self, site: Site, array: Array) -> bool:
        """Whether a site moves what no site made, and what is no input: those are added last, but have their size."""
        if site.kind not in LAYOUT or len(site.inputs) != 1 or array.size <= SMALL or array.dtype.kind in "iub":
            return False
        source = site.inputs[0]
        known_inputs = self._inputs and array.size not in self._inputs
        return source in self._moved or bool(known_inputs and source not in self.tensors)

    def add(self, name: str, array: Array) -> None:
        """Takes one tensor."""
        self.tensors[name] = self._entry(name, array, stored=True)

    def _entry(self, name: str, array: Array, *, stored: bool) -> TensorEntry:
        place = self._store(name, array) if stored and array.dtype in CODES else None
        return TensorEntry(array.dtype.name, array.shape, signature(array), place, name)

    def _store(self, name: str, array: Array) -> int:
        """The number of the shard that holds the array, or will."""
        if array.nbytes >= LARGE:
            self._flush()
            return self._write({name: array})
        self._pending[name] = np.array(array, order="C")  # a copy: the framework may write the memory again
        self._bytes += array.nbytes
        place = self._shard
        if self._bytes >= SHARD:
            self._flush()
        return place

    def _flush(self) -> None:
        if self._pending:
            self._write(self._pending)
        self._pending, self._bytes = {}, 0

    def _write(self, arrays: Mapping[str, Array]) -> int:
        """Writes the next shard and tells its number."""
        number = self._shard
        write_shard(_shard_path(self.folder, number), arrays)
        self._shard += 1
        return number

    def finish(
        self,
        ends: Traced,
        weights: Mapping[str, Array],
        facts: Mapping[str, Any],
        known: Mapping[str, TensorEntry] | None = None,
    ) -> Trace:
        """Writes what is pending and then the manifest, which makes the trace whole.

        Args:
            ends: Of the traced run.
            weights: Of the session; read one after the other.
            facts: What else the manifest is to hold; JSON values.
            known: What an earlier trace of the session has of its weights: those not stored are not read again.
        """
        read = dict.fromkeys(name for site in self.sites for name in site.inputs if name and name not in self.tensors)
        read.update(dict.fromkeys(name for name in ends.outputs.values() if name not in self.tensors))
        kept = {}
        for name in read:
            if known and name in known and known[name].shard is None:
                kept[name] = known[name]
            elif name in weights:
                array = np.asarray(weights[name])
                found = self._weights.get(name)
                if found is not None and found.count == array.size > SMALL:
                    kept[name] = TensorEntry(array.dtype.name, array.shape, found, None, name)
                else:
                    kept[name] = self._entry(name, array, stored=array.size <= SMALL)
        self._flush()
        body = {
            "format": FORMAT,
            "facts": dict(facts),
            "ends": asdict(ends),
            "sites": [asdict(site) for site in self.sites],
            "tensors": {name: asdict(entry) for name, entry in self.tensors.items()},
            "weights": {name: asdict(entry) for name, entry in kept.items()},
        }
        beside = self.folder / f"{MANIFEST}.writing"
        beside.write_text(json.dumps(body))
        os.replace(beside, self.folder / MANIFEST)  # noqa: PTH105 – atomic
        (self.folder / UNFINISHED).unlink()
        return Trace(self.folder, tuple(self.sites), ends, self.tensors, kept, facts)


def _same_count(entry: TensorEntry, array: Array) -> bool:
    return entry.signature.count == array.size and entry.dtype == array.dtype.name


def is_trace(folder: Path) -> bool:
    """Whether a folder holds a trace, be it whole or not."""
    return (folder / MANIFEST).is_file() or (folder / UNFINISHED).is_file()


def clear_unfinished(folder: Path) -> bool:
    """Removes what a killed recording left, and says whether there was any."""
    if (folder / MANIFEST).exists() or not (folder / UNFINISHED).exists():
        return False
    shutil.rmtree(folder)
    return True


def read_trace(folder: Path, *, checked: bool = False) -> Trace:
    """Opens a trace.

    Args:
        folder: Where it is.
        checked: Whether somebody has held its shards against its manifest already.

    Raises:
        InputError: It is not whole, is no trace, or was written by another version.
    """
    if not (folder / MANIFEST).is_file():
        if (folder / UNFINISHED).is_file():
            raise InputError(
                f"The trace in {folder} is incomplete: its recording was ended before it was done.",
                hint="Record it again with `parity record`; it replaces what is there.",
            )
        raise InputError(f"{folder} holds no trace.", hint="`parity record MODEL -o DIR` makes one.")
    try:
        body = json.loads((folder / MANIFEST).read_text())
        if body["format"] != FORMAT:
            raise InputError(
                f"The trace in {folder} is of format {body['format']} and not {FORMAT}.",
                hint="Record it again with this version.",
            )
        ends = body["ends"]
        trace = Trace(
            folder,
            tuple(_site(site) for site in body["sites"]),
            Traced(
                inputs=ends["inputs"],
                outputs=ends["outputs"],
                named_outputs=ends["named_outputs"],
                notes=tuple(ends["notes"]),
                drawn=tuple(ends["drawn"]),
                by_products=tuple(ends["by_products"]),
            ),
            {name: _tensor(entry) for name, entry in body["tensors"].items()},
            {name: _tensor(entry) for name, entry in body["weights"].items()},
            body["facts"],
        )
        _check_names(trace)
        if not checked:
            _check_shards(trace)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"The manifest of the trace in {folder} is damaged.", hint="Record it again.") from error
    return trace


def _site(entry: Mapping[str, Any]) -> Site:
    lists = {key: tuple(entry[key]) for key in ("inputs", "outputs", "labels")}
    return Site(**{**entry, **lists})


def _tensor(entry: Mapping[str, Any]) -> TensorEntry:
    return TensorEntry(
        entry["dtype"],
        tuple(entry["shape"]),
        Signature(**entry["signature"]),
        entry["shard"],
        entry["stored_as"],
    )


def _check_names(trace: Trace) -> None:
    """Makes sure that the ends name tensors.

    Raises:
        ValueError: They are no names.
    """
    if not all(isinstance(tensor, str) for tensor in (*trace.ends.inputs.values(), *trace.ends.outputs.values())):
        raise ValueError("the ends are no names")


def _check_shards(trace: Trace) -> None:
    """Holds the manifest against the headers of the shards, so that no number asked for later is missing.

    Raises:
        InputError: A shard is missing or damaged.
        ValueError: A shard holds other tensors than the manifest says; KeyError, TypeError: likewise.
    """
    by_shard: dict[int, list[TensorEntry]] = {}
    for entry in (*trace.tensors.values(), *trace.weights.values()):
        if entry.shard is not None:
            by_shard.setdefault(entry.shard, []).append(entry)
    for shard, entries in sorted(by_shard.items()):
        path = _shard_path(trace.folder, shard)
        if not path.is_file():
            raise InputError(f"The trace in {trace.folder} lacks {path.name}.", hint="Record it again.")
        held = Shard(path)
        for entry in entries:
            array = held.array(entry.stored_as)
            if array.reshape(entry.shape).shape != entry.shape or array.dtype.name != entry.dtype:
                raise ValueError(entry.stored_as)


def _shard_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.safetensors"
