"""Watches a model run and tells of every operator call as it is made.

The calls are seen where PyTorch dispatches them to kernels (`torch.ops.aten`), so that those of functions, of modules
and of TorchScript are all seen. PyTorch's tensors share memory and change in place; the calls told of do neither. Where
a model changes memory, the changed tensor is another tensor from then on, and what a later call reads there through
another view comes from calls of the recorder's own: `Write` puts the changed parts into their base, `Read` takes a view
of it. A view that lies exactly where a known tensor lies is that tensor: no call is told of.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from parity.adapter import Sink
from parity.errors import EngineError
from parity.graph import Site
from parity_adapters.torch import kinds
from parity_adapters.torch.arrays import look_at
from parity_adapters.torch.fused import FUSED
from parity_adapters.torch.layout import Layout, lay_out, layout, view_of_storage
from parity_adapters.torch.memory import Memories, Memory, Read, Write
from parity_adapters.torch.operators import Operator, Parameter, operator
from parity_adapters.torch.recording import Blank, Call, Number, Recording, Ref, compute, fresh, substitute, tensors

_IDENTITIES: Final = frozenset({"lift_fresh", "lift", "detach", "alias"})
_WATCHING: Final = tuple(str(Path(__file__).with_name(name)) for name in ("calls.py", "swapping.py"))
_PASSED_FOLDERS: Final = (str(Path(torch.__file__).parent), __file__, *_WATCHING, "<")
_OWN_FOLDER: Final = str(Path(__file__).parents[1])
_PACKAGES: Final = str(Path(torch.__file__).parents[1]) + "/"


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """Records one run.

    Args:
        weights: Parameters and buffers by name.
        sink: Told of every call.

    Attributes:
        recording: What was recorded.
        scope: Path of the module that runs.
        label: The user's own name for the next calls, or None.
        source: ``file:line`` of the next calls; None to look for it.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor], sink: Sink) -> None:
        super().__init__()
        self.recording = Recording()
        self.scope = ""
        self.label: str | None = None
        self.source: str | None = None
        self._sink = sink
        self._memories = Memories()
        self._names = _Names()
        for name, tensor in weights.items():
            self.name_weight(name, tensor)

    def name_weight(self, name: str, tensor: torch.Tensor) -> None:
        """Makes known under ``name`` what the model holds; nothing where it is known already."""
        where, memory = layout(tensor), self._memories.meet(tensor)
        if memory.base is None and where not in memory.names:
            self._found(self._names.unique(name), tensor, memory, where)

    def name_input(self, name: str, tensor: torch.Tensor) -> str:
        """Makes known an input; returns the name of its tensor."""
        chosen = self._names.unique(name)
        self._made(chosen, tensor)
        return chosen

    def name_of(self, tensor: torch.Tensor, hint: str = "constant") -> str:
        """The name of the tensor that has the present content of ``tensor``; calls that make it are told of.

        Args:
            tensor: Whatever stands in the run.
            hint: Name for a constant, where it proves to be one.
        """
        where, memory = layout(tensor), self._memories.meet(tensor)
        memory.settle(tensor)
        if where in memory.names:
            return memory.names[where]
        if memory.late is not None:
            return self._tell_late(tensor, memory, *memory.late)
        if memory.base is None:
            return self._found(self._names.unique(hint), tensor, memory, where)
        if memory.pending:
            self._tell_write(tensor, memory)
        return memory.names[where] if where in memory.names else self._tell_read(tensor, memory, where)

    def known_name(self, tensor: torch.Tensor) -> str:
        """The name of the tensor that has the present content of ``tensor``, "" where there is none; tells nothing."""
        if tensor.is_nested or tensor.layout != torch.strided:
            return ""
        memory = self._memories.find(tensor)
        return "" if memory is None else memory.names.get(layout(tensor), "")

    def name_number(self, hint: str, value: float) -> str:
        """Makes known a number that stands in a formula."""
        name = self._names.unique(hint)
        self.recording.weights[name] = value
        return name

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """What PyTorch calls in the place of each kernel."""
        return self._call(func, args, kwargs or {})

    def call_whole(self, function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls an operator and tells of it as one call, although it is made of others."""
        with _disable_current_modes():
            return self._call(function, args, kwargs)

    def _call(self, function: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = operator(function)
        named = known.named(args, kwargs)
        if known.full_name in FUSED:
            with self:
                return FUSED[known.full_name](**named)
        if not known.returns_tensors or self._changes_nothing(known, named) or self._only_aims(known, named):
            return function(*args, **kwargs)
        kind = kinds.kind(known.name, named)
        name = self._names.unique(f"{self.scope}/{known.name}" if self.scope else known.name)
        encoded = _Arguments(self, known, name, named)
        told_args = tuple(map(encoded, known.parameters, args))
        told_kwargs = {name: encoded(known.parameter(name), value) for name, value in kwargs.items()}
        self._keep_weights(known, named)
        generator = torch.get_rng_state() if known.is_random else None
        result = compute(function, args, kwargs)
        if generator is not None and torch.equal(generator, torch.get_rng_state()):
            generator = None  # it can draw random numbers, and drew none
        written = [tensor for each in known.written for tensor in tensors(named[each.name])]
        new = list(fresh(function, result))
        if not written and all(tensor is None or self._is_known(tensor) for tensor in new):
            self._names.give_back(name)
            return result
        outputs = self._name_outputs(name, kind, [*written, *new], len(written))
        call = Call(
            site=Site(
                name=name,
                op=known.full_name,
                kind=kind,
                scope=self.scope,
                inputs=encoded.inputs(),
                outputs=tuple(outputs),
                attributes=kinds.attributes(known.name, kind, named),
                source=self.source or _source(),
                labels=(self.label,) if self.label else (),
            ),
            function=function,
            args=told_args,
            kwargs=told_kwargs,
            written=known.places_written(args, named),
            generator=generator,
        )
        self._register(call, [*written, *new], len(written))
        return result

    def _register(self, call: Call, made: list[torch.Tensor | None], written: int) -> None:
        """Notes where the outputs of a call lie, and tells of it."""
        for number, (name, tensor) in enumerate(zip(call.site.outputs, made, strict=True)):
            if tensor is None:
                continue
            if name and number < written:
                self.recording.layouts[name] = layout(tensor)
                self._memories.meet(tensor).write(name, layout(tensor))
            elif name:
                self._made(name, tensor).is_blank = call.site.op.removeprefix("aten.") in kinds.UNINITIALISED
            elif self._memories.find(tensor) is None:
                self._memories.meet(tensor).late = (call, number)
        self._tell(call, made)

    def _tell(self, call: Call, made: Sequence[torch.Tensor | None]) -> None:
        self.recording.calls[call.site.name] = call
        shown = {
            name: look_at(tensor)
            for name, tensor in zip(call.site.outputs, made, strict=True)
            if name and tensor is not None
        }
        self._sink(call.site, shown)

    def _name_outputs(self, site: str, kind: str, made: list[torch.Tensor | None], written: int) -> Iterator[str]:
        """Names for what a call made; "" for what is known, was not made, or serves the backward pass alone."""
        for number, tensor in enumerate(made):
            unknown = tensor is not None and (number < written or not self._is_known(tensor))
            if not unknown or (number and kind in kinds.AUXILIARY):
                yield ""
            elif len(made) == 1 or kind in kinds.AUXILIARY:
                yield site
            else:
                yield self._names.unique(f"{site}.{number}")

    def _made(self, name: str, tensor: torch.Tensor) -> Memory:
        """Notes where a new tensor lies."""
        where = layout(tensor)
        self.recording.layouts[name] = where
        memory = self._memories.find(tensor)
        if memory is None:
            memory = self._memories.meet(tensor)
            memory.base = (name, where)
        memory.names[where] = name
        return memory

    def _found(self, name: str, tensor: torch.Tensor, memory: Memory, where: Layout) -> str:
        """Notes a tensor that was there before the run."""
        self.recording.weights[name] = tensor
        self.recording.layouts[name] = where
        memory.names[where] = name
        return name

    def _is_known(self, tensor: torch.Tensor) -> bool:
        where, memory = layout(tensor), self._memories.find(tensor)
        return memory is not None and where in memory.names

    def _changes_nothing(self, known: Operator, named: Mapping[str, Any]) -> bool:
        """Whether this is ``detach_``, or the assignment that ends ``x[i] += y``, where all is in place already."""
        if known.name != "copy":
            return known.name == "detach" and bool(known.written)
        target, source = named["self"], named["src"]
        same = target.untyped_storage()._cdata == source.untyped_storage()._cdata  # noqa: SLF001 – their identity
        return same and layout(target) == layout(source)

    def _only_aims(self, known: Operator, named: Mapping[str, Any]) -> bool:
        """Whether this takes a part of what is being written piece by piece, most likely to write the next piece.

        Nothing is told of it: should the part be read, it will be made then.
        """
        if known.name not in kinds.AIMING:
            return False
        memory = self._memories.find(named["self"])
        return memory is not None and bool(memory.pending) and layout(named["self"]) not in memory.names

    def _keep_weights(self, known: Operator, named: Mapping[str, Any]) -> None:
        """Copies the weights that a call is about to change, so that the recording has them as the run found them."""
        changed = [tensor for parameter in known.written for tensor in tensors(named[parameter.name])]
        if known.name == "native_batch_norm" and named["training"]:  # its schema does not own up to it
            changed += [tensor for tensor in (named["running_mean"], named["running_var"]) if tensor is not None]
        for tensor in changed:
            memory = self._memories.find(tensor)
            if memory is None or memory.base is None:
                self._keep(tensor, self._memories.meet(tensor))

    def _keep(self, tensor: torch.Tensor, memory: Memory) -> None:
        """Copies the weights in this memory; one that spans it becomes its base."""
        flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        whole = layout(flat)
        weights = {name: where for where, name in memory.names.items() if name in self.recording.weights}
        for name, where in weights.items():
            found = self.recording.weights[name]
            if isinstance(found, torch.Tensor):
                self.recording.weights[name] = lay_out(found, where, found.dtype)
        spanning = next((name for name, where in weights.items() if where.fills(whole)), None)
        if spanning is None:
            spanning = self._found(self._names.unique("constant"), flat.clone(), memory, whole)
        memory.base = (spanning, self.recording.layouts[spanning])

    def _tell_late(self, tensor: torch.Tensor, memory: Memory, call: Call, number: int) -> str:
        """Tells of a call again, for an output that seemed to be of no use."""
        name = self._names.unique(f"{call.site.name}.{number}")
        outputs = tuple(name if place == number else "" for place in range(len(call.site.outputs)))
        memory.late = None
        memory.base = (name, layout(tensor))
        memory.names[layout(tensor)] = name
        self.recording.layouts[name] = layout(tensor)
        made = [tensor if place == number else None for place in range(len(outputs))]
        self._tell(_renamed(call, name, outputs), made)
        return name

    def _tell_write(self, tensor: torch.Tensor, memory: Memory) -> None:
        """Tells of the call that does the pending writes."""
        base, where = self._base(memory, layout(tensor))
        inputs = (base, *memory.pending.values())
        name = self._tell_own("as_strided_scatter", "scatter", Write(where, tuple(memory.pending)), inputs)
        memory.rebase(name)
        self.recording.layouts[name] = where
        self._tell(self.recording.calls[name], [view_of_storage(tensor, where)])

    def _tell_read(self, tensor: torch.Tensor, memory: Memory, where: Layout) -> str:
        """Tells of the call that takes this view of its base."""
        base, whole = self._base(memory, where)
        same = where.size == whole.size and where.is_contiguous() and whole.is_contiguous()
        name = self._tell_own("as_strided", "reshape" if same else "slice", Read(whole, where), (base,))
        memory.names[where] = name
        self.recording.layouts[name] = where
        self._tell(self.recording.calls[name], [tensor])
        return name

    def _base(self, memory: Memory, where: Layout) -> tuple[str, Layout]:
        """The base of memory that has changed, of which all parts that matter read the bytes alike."""
        assert memory.base is not None  # noqa: S101 – only memory that has changed is asked for it
        if len({place.reading for place in (memory.base[1], where, *memory.pending)}) > 1:
            raise EngineError(
                f"The model changes a tensor of {memory.base[1].dtype} as if it were of another type, in"
                f" {self.scope or 'its top'}.",
                hint="Such writing over the bits of another type cannot be compared operator by operator.",
            )
        return memory.base

    def _tell_own(self, op: str, kind: str, function: Callable[..., Any], inputs: tuple[str, ...]) -> str:
        """Records a call of the recorder's own, with one output named as its site."""
        name = self._names.unique(f"{self.scope}/{op}" if self.scope else op)
        site = Site(
            name=name,
            op=f"aten.{op}",
            kind=kind,
            scope=self.scope,
            inputs=inputs,
            outputs=(name,),
            source=self.source or _source(),
            labels=(self.label,) if self.label else (),
        )
        self.recording.calls[name] = Call(site=site, function=function, args=tuple(map(Ref, inputs)), kwargs={})
        return name


class _Arguments:
    """The arguments of one call as they are recorded."""

    def __init__(self, recorder: Recorder, known: Operator, site: str, named: Mapping[str, Any]) -> None:
        self._recorder = recorder
        self._known = known
        self._site = site
        self._unread = {"running_mean", "running_var"} if named.get("training") and "running_mean" in named else set()
        self._names: dict[str, list[str]] = {}

    def __call__(self, parameter: Parameter, value: Any) -> Any:
        """What is recorded in the place of ``value``."""
        if parameter.name in self._unread:
            return None
        if parameter.is_blank:
            return substitute(value, lambda each: Blank(layout(each)) if isinstance(each, torch.Tensor) else each)
        if not (parameter.is_tensor or parameter.is_lifted):
            return value
        return substitute(value, lambda each: self._named(parameter, each))

    def _named(self, parameter: Parameter, value: Any) -> Any:
        names = self._names.setdefault(parameter.name, [])
        hint = "constant" if self._known.name in _IDENTITIES else f"{self._site}.{parameter.name}"
        if isinstance(value, torch.Tensor):
            names.append(self._recorder.name_of(value, hint))
            return Ref(names[-1], written=parameter.is_written)
        if parameter.is_lifted and isinstance(value, int | float) and not isinstance(value, bool):
            names.append(self._recorder.name_number(hint, value))
            return Number(names[-1], value)
        names.append("")
        return value

    def inputs(self) -> tuple[str, ...]:
        """Names of what is read, in the canonical order."""
        names: list[str] = []
        for parameter in self._known.parameters:
            if (parameter.is_tensor or parameter.is_lifted) and not parameter.is_blank:
                names += self._names.get(parameter.name, [""])
        order = kinds.ORDER.get(self._known.name)
        return tuple("" if place is None else names[place] for place in order) if order else tuple(names)


class _Names:
    """Makes names unique."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def unique(self, name: str) -> str:
        """``name``, with a number where it is taken."""
        chosen = name
        while chosen in self._taken:
            self._numbers[name] += 1
            chosen = f"{name}_{self._numbers[name]}"
        self._taken.add(chosen)
        return chosen

    def give_back(self, chosen: str) -> None:
        """Frees the name that was made last."""
        self._taken.remove(chosen)
        name, _, number = chosen.rpartition("_")
        if number.isdecimal() and self._numbers[name] == int(number):
            self._numbers[name] -= 1


def _renamed(call: Call, name: str, outputs: tuple[str, ...]) -> Call:
    site = call.site
    return Call(
        site=Site(
            name=name,
            op=site.op,
            kind=site.kind,
            scope=site.scope,
            inputs=site.inputs,
            outputs=outputs,
            attributes=site.attributes,
            source=site.source,
            labels=site.labels,
        ),
        function=call.function,
        args=call.args,
        kwargs=call.kwargs,
    )


def _source() -> str | None:
    """``file:line`` of the model's code that is running: the innermost frame that is not of PyTorch."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 – inspect.stack would read every source file
    while frame is not None:
        place = _place(frame.f_code.co_filename)
        if place is not None:
            return f"{place}:{frame.f_lineno}" if place else None
        frame = frame.f_back
    return None


@cache
def _place(filename: str) -> str | None:
    """How a report calls a file; "" where the walk ends, None where it goes on."""
    if filename.startswith(_PASSED_FOLDERS):
        return None
    if filename.startswith(_OWN_FOLDER):
        return ""
    return filename.removeprefix(_PACKAGES)
