"""One side of a comparison: a model in a worker, a live object in this process, or a recorded trace."""

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self

from parity.adapter import Adapter, Array, load_adapter
from parity.align.view import GraphView
from parity.errors import EngineError, InputError
from parity.graph import InputSpec
from parity.measure import exporting, saving
from parity.measure import mutant as mutant_jobs
from parity.measure import regions as regions_jobs
from parity.measure import session as jobs
from parity.measure.mutations import Mutation, packed
from parity.models import ModelReference, model_reference
from parity.worker import Message, Worker, first_line

_tokens = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOptions:
    """How a side is to be opened.

    Attributes:
        options: For `Adapter.open`.
        python: The interpreter of its environment.
        threads: That its engine may use.
        timeout: Seconds of silence after which its worker counts as hung.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    threads: int = 1
    timeout: float = 600.0


class Side:
    """An opened model, wherever it lives: a context manager that opens it and closes it.

    Args:
        role: ``reference`` or ``candidate``.
        model: The reference to the model, or a live object with its adapter's name.
        options: How to open it.

    Attributes:
        text: How the user named the model.
        adapter: Name of the adapter that opens it.
        specs: Specification of its inputs, once it is open.
        versions: Of what its adapter runs on, likewise.

    Raises:
        InputError: The interpreter of a worker cannot be started.
    """

    specs: Mapping[str, InputSpec]
    versions: Mapping[str, str]

    def __init__(self, role: str, model: ModelReference | tuple[Any, str], options: SideOptions) -> None:
        self.role = role
        self._token = f"{role}-{next(_tokens)}"
        self._worker: Worker | None = None
        self._adapter: Adapter | None = None
        if isinstance(model, ModelReference):
            self.text, self.adapter = model.text, model.adapter
            self._worker = Worker(
                model.adapter, threads=options.threads, timeout=options.timeout, python=options.python, lean=True
            )
            self._model: Any = model.text
        else:
            self._model, self.adapter = model
            self.text = f"{type(self._model).__module__}.{type(self._model).__qualname__}"
        self._options = dict(options.options)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Self:
        """Opens the model.

        Raises:
            InputError: It cannot be opened as asked.
            EngineError: Its framework crashed or is not installed.
        """
        try:
            if self._worker is None:
                self._adapter = load_adapter(self.adapter)
            told = self._one("open_model", {"model": self._model, "options": self._options})
        except BaseException:
            self.close()
            raise
        self.specs = {name: InputSpec(**_spec(entry)) for name, entry in told.data["inputs"].items()}
        self.versions = told.data["versions"]
        return self

    def close(self) -> None:
        """Ends the worker, or closes the session of a live object; the object itself is the user's."""
        worker, self._worker = self._worker, None
        adapter, self._adapter = self._adapter, None
        if worker is not None:
            worker.close()
        elif adapter is not None:
            list(jobs.close_model(adapter, self._token))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name of one production run."""
        told = self._one("run", {"names": list(inputs)}, _numbered(inputs))
        return dict(zip(told.data["outputs"], told.arrays.values(), strict=True))

    def record(self, inputs: Mapping[str, Array], folder: Path, facts: Mapping[str, Any]) -> GraphView:
        """Records a free run into ``folder``."""
        arguments = {"folder": str(folder), "names": list(inputs), "facts": dict(facts)}
        self._one("trace", arguments, _numbered(inputs))
        return GraphView.read(folder)

    def teach(self, own: Path, forced: Mapping[str, Mapping[str, Any]], folder: Path) -> GraphView:
        """Records a teacher-forced run into ``folder``; see `parity.measure.session.teach`."""
        self._one("teach", {"own": str(own), "forced": dict(forced), "folder": str(folder)})
        return GraphView.read(folder)

    def regions(self, regions: Sequence[Mapping[str, Any]], precisions: Sequence[str]) -> Iterator[Message]:
        """The output of each region in each precision; see `parity.measure.session.evaluate_regions`."""
        return self._call("evaluate_regions", {"regions": list(regions), "precisions": list(precisions)})

    def force(self, regions: Sequence[Mapping[str, Any]]) -> None:
        """Runs regions natively and leaves what they make in files; see `parity.measure.regions.force`."""
        for _ in self._call("force", {"regions": list(regions)}, home=regions_jobs):
            pass

    def measure(self, regions: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """What each region does, against the exact result; see `parity.measure.regions.measure`."""
        for message in self._call("measure", {"regions": list(regions)}, home=regions_jobs):
            yield dict(message.data)

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str = "float64"
    ) -> dict[str, Array]:
        """Tensors of some sites alone; see `parity.adapter.Session.evaluate`."""
        plan = {"sites": list(sites), "given": list(given), "wanted": list(wanted), "precision": precision}
        told = self._one("evaluate", {"plan": plan}, _numbered(given))
        return dict(zip(wanted, told.arrays.values(), strict=True))

    def weights(self, names: Sequence[str]) -> dict[str, Array]:
        """Weights by tensor name."""
        return {told.data["name"]: told.arrays["w"] for told in self._call("weights", {"names": list(names)})}

    def save(self, sites: Sequence[str], given: Mapping[str, Array], wanted: str, folder: Path) -> str:
        """Saves some sites as a program of their own; why not, where that cannot be. See `parity.measure.saving`."""
        plan = {"sites": list(sites), "given": list(given), "wanted": wanted}
        arguments = {"plan": plan, "folder": str(folder.absolute())}
        (told,) = self._call("save", arguments, _numbered(given), home=saving)
        return str(told.data["reason"])

    def targets(self) -> dict[str, str]:
        """Deployment targets that its model can be exported to, each with the form in which."""
        return dict(self._one("targets", {}, home=exporting).data["targets"])

    def export(
        self, target: str, inputs: Mapping[str, Array], folder: Path, options: Mapping[str, str]
    ) -> dict[str, Any]:
        """Exports its model into a folder; see `parity.measure.exporting.export`."""
        plan = {"target": target, "folder": str(folder), "names": list(inputs), "options": dict(options)}
        return dict(self._one("export", {"plan": plan}, _numbered(inputs), exporting).data)

    def described(self) -> dict[str, Any] | None:
        """How `parity.adapter.Adapter.open` opens this model again; None for a live object."""
        if self._worker is None:
            return None
        return {"adapter": self.adapter, "model": self.text, "options": self._options}

    def mutant(self, own: GraphView, mutation: Mutation, folder: Path) -> "Side":
        """The same model with a known fault in it, in the same process, and recorded in ``folder``.

        Args:
            own: Its recorded run without the fault.
            mutation: The fault.
            folder: Where to record.
        """
        token = f"{self.role}-{next(_tokens)}"
        values, arrays = packed(mutation)
        plan = {"own": str(own.trace.folder), "mutant": token, "folder": str(folder), "mutation": values}
        self._one("mutate", {"plan": plan}, arrays, mutant_jobs)
        other = copy(self)
        other.__dict__["_token"] = token
        return other

    def kill(self) -> None:
        """Ends the worker, from any thread; the call under way raises `EngineError`."""
        worker = self._worker
        if worker is not None:
            worker.kill()

    @staticmethod
    def apart(*sides: "Side | None") -> bool:
        """Whether each of these is in a process of its own, so that they can work at the same time."""
        return all(side is not None and side._worker is not None for side in sides)  # noqa: SLF001 – of this class

    def _one(
        self,
        job: str,
        arguments: Mapping[str, Any],
        arrays: Mapping[str, Array] | None = None,
        home: ModuleType = jobs,
    ) -> Message:
        (message,) = self._call(job, arguments, arrays, home)
        return message

    def _call(
        self,
        job: str,
        arguments: Mapping[str, Any],
        arrays: Mapping[str, Array] | None = None,
        home: ModuleType = jobs,
    ) -> Iterator[Message]:
        arguments = {"token": self._token, **arguments}
        try:
            if self._worker is not None:
                yield from self._worker.call(f"{home.__name__}:{job}", arguments, arrays)
            else:
                yield from getattr(home, job)(self._adapter, **arguments, **(arrays or {}))
        except InputError as error:
            raise InputError(f"The {self.role} ({self.text}): {error.message}", hint=error.hint) from None
        except EngineError as error:
            error.message = f"The {self.role} ({self.text}): {error.message}"
            raise
        except Exception as error:  # of a live object; a worker tells its own as an `EngineError`
            raise EngineError(
                f"The {self.role} ({self.text}) failed: {type(error).__name__}: {first_line(error)}"
            ) from error


def _spec(entry: Mapping[str, Any]) -> dict[str, Any]:
    shape = entry["shape"]
    return {**entry, "shape": None if shape is None else tuple(shape)}


def _numbered(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"x{k}": array for k, array in enumerate(arrays.values())}


LIVE: Final = {"torch": "torch", "onnx": "onnxruntime", "keras": "tensorflow", "tensorflow": "tensorflow"}
"""Top-level package of a live object's class, or one it inherits from, and the adapter that opens it."""

LIVE_JAX: Final = frozenset({"jax", "jaxlib", "flax"})


def found_model(model: Any) -> ModelReference | tuple[Any, str]:
    """A model as a user gives it – a reference or a live object – in the form that `Side` takes.

    Raises:
        InputError: There is no such file, or it is nothing that is opened here.
    """
    return model_reference(str(model)) if isinstance(model, str | Path) else (model, live_adapter(model))


def live_adapter(model: Any) -> str:
    """The adapter that opens a live object.

    Raises:
        InputError: It is of no known framework.
    """
    packages = [kind.__module__.partition(".")[0] for kind in type(model).__mro__]
    for package in packages:
        if package in LIVE:
            return LIVE[package]
        if package in LIVE_JAX:
            return "jax"
    if callable(model) and "jax" in sys.modules:
        return "jax"
    raise InputError(
        f"An object of type {type(model).__module__}.{type(model).__qualname__} is no model that is opened here.",
        hint="Give a torch module, an ONNX ModelProto, a Keras or TensorFlow model, a JAX function, or a path.",
    )
