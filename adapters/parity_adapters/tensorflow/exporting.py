"""Exports as TensorFlow's users make them: TFLite for LiteRT, and SavedModels."""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from parity.adapter import Exported
from parity.errors import EngineError
from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.models import Model
from parity_adapters.tensorflow.runtime import tf

TARGETS: Final = {
    "litert": "TFLite by tf.lite.TFLiteConverter",
    "savedmodel": "a SavedModel by tf.saved_model.save",
}
"""Deployment targets and the forms in which a model is exported to them."""


def export(model: Model, tensors: Sequence[Tensor], target: str, folder: Path) -> Exported:
    """Writes a model for one of `TARGETS`, for inputs of these shapes.

    Args:
        model: The opened model.
        tensors: Example inputs in call order.
        target: Which.
        folder: Where to.

    Raises:
        EngineError: The exporter refuses the model.
    """
    write = _write_lite if target == "litert" else _write_saved_model
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return write(model, tensors, folder)
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise EngineError(f"{TARGETS[target]} refuses the model: {type(error).__name__}: {first[:300]}") from error


def _write_lite(model: Model, tensors: Sequence[Tensor], folder: Path) -> Exported:
    converter = tf.lite.TFLiteConverter.from_concrete_functions([model.concrete(tensors)], None)
    file = folder / "model.tflite"
    file.write_bytes(converter.convert())
    return Exported(file=file, how=f"tensorflow {tf.__version__}: tf.lite.TFLiteConverter.from_concrete_functions")


def _write_saved_model(model: Model, tensors: Sequence[Tensor], folder: Path) -> Exported:
    holder = tf.Module()
    concrete = model.concrete(tensors)
    holder.kept = list(concrete.variables)
    file = folder / "saved_model"
    tf.saved_model.save(holder, str(file), signatures=concrete)
    return Exported(file=file, how=f"tensorflow {tf.__version__}: tf.saved_model.save")
