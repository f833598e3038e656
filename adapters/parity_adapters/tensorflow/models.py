"""What a model reference opens to: something that is called in production, and gives a graph for given inputs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

from parity.graph import InputSpec
from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.runtime import keras, tf

_MADE_UP: Final = re.compile(r"output_\d+")


class Model(Protocol):
    """An opened model."""

    @property
    def specs(self) -> Mapping[str, InputSpec]:
        """Its inputs by name, in call order; empty where it does not say."""
        ...

    @property
    def layers(self) -> frozenset[str]:
        """Names of its parts."""
        ...

    @property
    def sources(self) -> Path | None:
        """Folder of the user's files, where it was made from such."""
        ...

    @property
    def dtype(self) -> str | None:
        """The floating-point type to which inputs are cast; None to take them as they come."""
        ...

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """The production call: tensors in call order to a structure of tensors."""
        ...

    def paths(self) -> Mapping[int, str]:
        """Better names than TensorFlow's own of variables, by the ``id`` of their handle."""
        ...

    def concrete(self, tensors: Sequence[Tensor]) -> Any:
        """The ``ConcreteFunction`` that takes such tensors, in call order, and nothing else."""
        ...


class SignatureModel:
    """A signature of a SavedModel.

    Args:
        signature: The ``ConcreteFunction``.
        holder: What was loaded; it keeps the variables alive.
    """

    sources = None
    dtype = None

    def __init__(self, signature: Any, holder: Any) -> None:
        self._signature = signature
        self._holder = holder
        named = signature.structured_input_signature[1]
        self.specs = {name: _spec(named[name]) for name in sorted(named)}
        paths = [variable.name.partition(":")[0].split("/") for variable in signature.variables]
        self.layers = frozenset(part for path in paths for part in path[:-1])

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """See `Model`."""
        return self._signature(**dict(zip(self.specs, tensors, strict=True)))

    def paths(self) -> Mapping[int, str]:
        """See `Model`."""
        return {}

    def concrete(self, tensors: Sequence[Tensor]) -> Any:
        """See `Model`."""
        del tensors
        return self._signature


@dataclass(frozen=True)
class CallableModel:
    """A function, a ``tf.Module`` that can be called, or a Keras model of the user's own class.

    It is called in production as it is: a ``tf.function`` runs as a graph, any other one operator by operator.
    """

    function: Any
    layers: frozenset[str] = frozenset()
    sources: Path | None = None
    dtype: str | None = None

    @property
    def specs(self) -> Mapping[str, InputSpec]:
        """It does not say."""
        return {}

    @cached_property
    def _traced(self) -> Any:
        return self.function if hasattr(self.function, "get_concrete_function") else tf.function(self._positional)

    def _positional(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """See `Model`."""
        return self.function(*tensors)

    def paths(self) -> Mapping[int, str]:
        """See `Model`."""
        return {}

    def concrete(self, tensors: Sequence[Tensor]) -> Any:
        """See `Model`."""
        return self._traced.get_concrete_function(*map(tf.TensorSpec.from_tensor, tensors))


class KerasModel:
    """A Keras model; in production a graph, as ``predict`` and an export run it.

    Args:
        model: The model.
        sources: See `Model`.
        dtype: See `Model`.
    """

    def __init__(self, model: Any, sources: Path | None = None, dtype: str | None = None) -> None:
        self._model = model
        self.sources = sources
        self.dtype = dtype
        self.layers = frozenset(layer.name for layer in model._flatten_layers())  # noqa: SLF001 – nested ones too
        self.specs = {name: _spec(tensor) for name, tensor in _keras_inputs(model).items()}
        self._function = tf.function(self._positional)

    def _positional(self, *tensors: Tensor) -> Any:
        if isinstance(self._model, keras.Sequential) or not self.specs:
            return self._model(*tensors)
        return self._model(keras.tree.pack_sequence_as(self._model.input, list(tensors)))

    def call(self, tensors: Sequence[Tensor]) -> Any:
        """See `Model`."""
        return self._function(*tensors)

    def paths(self) -> Mapping[int, str]:
        """See `Model`."""
        return {id(variable.value.handle): variable.path for variable in self._model.variables}

    def concrete(self, tensors: Sequence[Tensor]) -> Any:
        """See `Model`."""
        return self._function.get_concrete_function(*map(tf.TensorSpec.from_tensor, tensors))


def _keras_inputs(model: Any) -> dict[str, Any]:
    """The symbolic inputs of a functional or built sequential model by name; none of a model of another class."""
    if isinstance(model, keras.Sequential):
        structure = model.inputs if model.built else {}  # `input` is an error until the model has been called
    else:
        structure = model.input if hasattr(model, "operations") else {}
    if isinstance(structure, dict):
        return {name: structure[name] for name in sorted(structure)}
    return {tensor.name: tensor for tensor in keras.tree.flatten(structure)}


def _spec(tensor: Any) -> InputSpec:
    shape = tensor.shape
    if isinstance(shape, tf.TensorShape):
        shape = None if shape.rank is None else shape.as_list()
    return InputSpec(dtype=tf.as_dtype(tensor.dtype).name, shape=None if shape is None else tuple(shape))


def output_names(structure: Any) -> tuple[list[str], bool]:
    """Names of the leaves of a structure of outputs, in the order of ``tf.nest.flatten``, and whether it names them.

    The names that TensorFlow makes up for a signature, ``output_0`` and so on, are numbers like any other.
    """
    if isinstance(structure, Mapping) and all(_MADE_UP.fullmatch(str(key)) for key in structure):
        return [str(key).removeprefix("output_") for key in sorted(structure)], False
    if isinstance(structure, Mapping):
        named: dict[str, None] = {}
        for key in sorted(structure):
            inner, _ = output_names(structure[key])
            named.update({str(key) if name == "0" and len(inner) == 1 else f"{key}.{name}": None for name in inner})
        return list(named), True
    return [str(number) for number in range(len(tf.nest.flatten(structure, expand_composites=True)))], False
