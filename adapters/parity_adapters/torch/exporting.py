"""Exports as PyTorch's users make them: ONNX for ONNX Runtime, and exported programs."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from parity.adapter import Exported
from parity.errors import EngineError, InputError
from parity.graph import InputSpec

TARGETS: Final = {
    "onnxruntime": "ONNX by torch.onnx.export(dynamo=True)",
    "torch-export": "an exported program by torch.export.export",
}
"""Deployment targets and the forms in which a model is exported to them."""

OPSETS: Final = range(18, 25)
"""Of ONNX, for which the exporter writes its operators itself."""

INLINE: Final = 1_500_000_000
"""Bytes of weights up to which they are written into the ONNX file itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A module to be exported.

    Attributes:
        model: In evaluation mode.
        given: Example inputs by the names of the module's parameters.
        specs: What is known of them; dimensions that they leave open stay open, where the exporter can keep them so.
        outputs: Names that the outputs are to have.
        folder: Where to.
        options: See `parity.adapter.Exporter.export`.
    """

    model: nn.Module
    given: Mapping[str, torch.Tensor]
    specs: Mapping[str, InputSpec]
    outputs: Sequence[str]
    folder: Path
    options: Mapping[str, str]

    @property
    def open_axes(self) -> dict[str, dict[int, Any] | None] | None:
        """The axes that stay open, by input; None where all are of one size."""
        shapes = {name: self.specs[name].shape or () if name in self.specs else () for name in self.given}
        axes = {name: [axis for axis, size in enumerate(shape) if size is None] for name, shape in shapes.items()}
        if not any(axes.values()):
            return None
        return {name: dict.fromkeys(some, torch.export.Dim.AUTO) or None for name, some in axes.items()}


def export(order: Order, target: str) -> Exported:
    """Writes a module for one of `TARGETS`.

    Raises:
        InputError: There is no such opset.
        EngineError: The exporter refuses the model.
    """
    write = _write_onnx if target == "onnxruntime" else _write_program
    failures: list[str] = []
    for free in (True, False) if order.open_axes else (False,):
        try:
            made = write(order, order.open_axes if free else None)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 – the exporter raises what it likes
            failures.append(_first_line(error))
            continue
        notes = [f"With dimensions left open the export failed ({one}): it is of these shapes." for one in failures]
        return Exported(file=made.file, how=made.how, notes=tuple(notes))
    raise EngineError(f"{TARGETS[target]} refuses the model: {failures[-1]}")


def _write_onnx(order: Order, free: Mapping[str, Any] | None) -> Exported:
    opset = _opset(order.options.get("opset"))
    file = order.folder / "model.onnx"
    with _quiet():
        program = torch.onnx.export(
            order.model,
            (),
            kwargs=dict(order.given),
            input_names=list(order.given),
            output_names=list(order.outputs),
            opset_version=opset,
            dynamic_shapes=free,
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # noqa: S101 – dynamo=True returns one
        weights = sum(tensor.nbytes for tensor in (*order.model.parameters(), *order.model.buffers()))
        program.save(file, external_data=weights > INLINE)
    asked = f", opset_version={opset}" if opset else ""
    return Exported(file=file, how=f"torch {torch.__version__}: torch.onnx.export(dynamo=True{asked})")


def _write_program(order: Order, free: Mapping[str, Any] | None) -> Exported:
    file = order.folder / "model.pt2"
    with _quiet():
        program = torch.export.export(order.model, (), kwargs=dict(order.given), dynamic_shapes=free, strict=False)
        torch.export.save(program, file)
    return Exported(file=file, how=f"torch {torch.__version__}: torch.export.export(strict=False)")


def _opset(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or int(text) not in OPSETS:
        raise InputError(
            f"The opset '{text}' is none that torch.onnx.export writes.",
            hint=f"Choose one from {OPSETS.start} to {OPSETS.stop - 1}.",
        )
    return int(text)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing on standard output and no log: exporters talk."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            torch.no_grad(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
