"""A PyTorch model as a session."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
import torch

from parity.adapter import Array, Exported, Sink
from parity.errors import InputError, ParityError
from parity.graph import InputSpec, Site, Traced
from parity_adapters.torch import exporting
from parity_adapters.torch.arrays import from_numpy, to_numpy
from parity_adapters.torch.evaluation import Evaluation
from parity_adapters.torch.programs import Program, named_outputs
from parity_adapters.torch.recorder import Recorder
from parity_adapters.torch.recording import Recording
from parity_adapters.torch.regions import save


class TorchSession:
    """Satisfies `parity.adapter.Session`.

    Args:
        program: The model.
        dtype: What floating-point inputs are cast to; None leaves them as they are.
        notes: What a reader of the report should know of this model, beside what the program says.
        drawn: Names of weights that its files lack and that were drawn at random.
        by_products: Names of outputs that are not the model's result.
    """

    def __init__(
        self,
        program: Program,
        dtype: torch.dtype | None = None,
        notes: tuple[str, ...] = (),
        drawn: tuple[str, ...] = (),
        by_products: frozenset[str] = frozenset(),
    ) -> None:
        self._program = program
        self._dtype = dtype
        self._notes = (*program.notes, *notes)
        self._drawn = drawn
        self._by_products = by_products
        self._recording = Recording()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._recording = Recording()

    def inputs(self) -> Mapping[str, InputSpec]:
        """See `parity.adapter.Session.inputs`; empty for modules that do not say."""
        return self._program.inputs()

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See `parity.adapter.Session.run`."""
        given = self._enter(inputs)
        with torch.no_grad(), _explained(given):
            outputs, _ = named_outputs(self._program.run(given))
        return {name: to_numpy(tensor) for name, tensor in outputs.items()}

    def trace(self, inputs: Mapping[str, Array], sink: Sink) -> Traced:
        """See `parity.adapter.Session.trace`."""
        given = self._enter(inputs)

        def shielded(site: Site, made: Mapping[str, Array]) -> None:
            try:
                sink(site, made)
            except Exception as error:
                raise _SinkFailedError from error

        recorder = Recorder(self._program.weights(), shielded)
        named = {name: recorder.name_input(name, tensor) for name, tensor in given.items()}
        try:
            with torch.no_grad(), _explained(given):
                outputs, are_named = named_outputs(self._program.record(given, recorder))
                ends = {name: recorder.name_of(tensor, f"output.{name}") for name, tensor in outputs.items()}
        except _SinkFailedError as failed:
            raise failed.__cause__ or failed from None
        self._recording = recorder.recording
        return Traced(
            inputs=named,
            outputs=ends,
            named_outputs=are_named,
            notes=self._notes,
            drawn=self._drawn,
            by_products=tuple(name for name in list(ends)[1:] if name in self._by_products),
        )

    def weights(self) -> Mapping[str, Array]:
        """See `parity.adapter.Session.weights`."""
        return Weights(self._recording.weights)

    def evaluate(
        self, sites: Sequence[str], given: Mapping[str, Array], wanted: Sequence[str], precision: str
    ) -> Mapping[str, Array]:
        """See `parity.adapter.Session.evaluate`."""
        calls = []
        for name in sites:
            if name not in self._recording.calls:
                raise InputError.unknown("site", name, self._recording.calls)
            calls.append(self._recording.calls[name])
        return Evaluation(self._recording, given, precision).run(calls, wanted)

    def save(self, sites: Sequence[str], given: Mapping[str, Array], wanted: str, folder: Path) -> None:
        """See `parity.adapter.RegionSaver.save`: Python code.

        Raises:
            EngineError: A site draws random numbers, or takes what cannot be written down.
        """
        save([self._recording.calls[name] for name in sites], given, wanted, self._recording, folder)

    def targets(self) -> Mapping[str, str]:
        """See `parity.adapter.Exporter.targets`; those of a live or loaded module alone."""
        return exporting.TARGETS if self._program.module() is not None else {}

    def export(self, target: str, inputs: Mapping[str, Array], folder: Path, options: Mapping[str, str]) -> Exported:
        """See `parity.adapter.Exporter.export`."""
        module = self._program.module()
        assert module is not None  # noqa: S101 – else there are no targets
        given = self._enter(inputs)
        with torch.no_grad(), _explained(given):
            outputs, _ = named_outputs(self._program.run(given))
        names = [f"output_{name}" if name.isdecimal() or not name else name for name in outputs]
        order = exporting.Order(
            model=module, given=given, specs=self.inputs(), outputs=names, folder=folder, options=options
        )
        return exporting.export(order, target)

    def _enter(self, inputs: Mapping[str, Array]) -> dict[str, torch.Tensor]:
        """The inputs as tensors under the model's own names, in call order.

        They lie in memory of PyTorch's own, which is aligned: on other memory a kernel may round otherwise.
        """
        tensors = {name: _tensor(name, array) for name, array in self._program.bind(inputs).items()}
        if self._dtype is None:
            return tensors
        return {
            name: tensor.to(self._dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
        }


class Weights(Mapping[str, Array]):
    """The weights of a recording; each is read when it is asked for. Numbers of formulas are of shape ()."""

    def __init__(self, found: Mapping[str, torch.Tensor | float]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> Array:
        weight = self._found[name]
        return to_numpy(weight) if isinstance(weight, torch.Tensor) else np.array(weight)

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _tensor(name: str, array: Array) -> torch.Tensor:
    try:
        return from_numpy(np.asarray(array)).clone()
    except TypeError as error:
        raise InputError(
            f"The input '{name}' is of dtype {array.dtype}, which PyTorch does not have.", hint="Give numbers."
        ) from error


class _SinkFailedError(ParityError):
    """Carries an exception of the sink through the model's code; its cause is what the caller gets."""

    def __init__(self) -> None:
        super().__init__("The sink of a trace failed.")


@contextmanager
def _explained(given: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """A context in which the model's own exceptions become an `InputError` that shows what it was given."""
    try:
        yield
    except ParityError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no message"])[0]
        shown = ", ".join(
            f"{name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" for name, tensor in given.items()
        )
        raise InputError(
            f"The model does not run on these inputs: {type(error).__name__}: {reason}",
            hint=f"It was given: {shown or 'nothing'}. Check names, shapes and dtypes.",
        ) from error
