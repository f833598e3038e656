"""One operator call of a TensorFlow graph, which can be repeated alone, in its own precision or in another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from parity.adapter import UnsupportedPrecisionError
from parity.graph import Site
from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.runtime import run_kernel, tf
from parity_adapters.tensorflow.written import WRITTEN

NATIVE: Final = "native"

ALIASES: Final = frozenset(
    {
        *("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape"),
        *("PlaceholderWithDefault", "DeepCopy", "CheckNumerics"),
    }
)
"""Operators that hand on what they are given."""


@dataclass(frozen=True, slots=True)
class Call:
    """What it takes to run a site again.

    Attributes:
        site: The site; its inputs and outputs name the tensors.
        op: The operator to run, which is not always the one of the site.
        attributes: Its attributes; types as ``tf.DType``.
        fixed: Inputs without a name (resources, text, gaps of a list), by position.
        outputs: How many tensors the operator makes.
    """

    site: Site
    op: str
    attributes: Mapping[str, Any]
    fixed: Mapping[int, Tensor] = field(default_factory=dict)
    outputs: int = 1

    def run(self, named: Sequence[Tensor | None], precision: str) -> list[Tensor]:
        """Runs the operator on its inputs.

        Args:
            named: A tensor for each of the site's inputs, in the dtypes of ``precision``; None where ``fixed`` has one.
            precision: As `parity.adapter.Session.evaluate` says.

        Returns:
            The tensors that it makes; floating-point ones in the dtype of ``precision``.

        Raises:
            UnsupportedPrecisionError: The operator has no kernel for ``precision``.
        """
        inputs = [self.fixed.get(place, tensor) for place, tensor in enumerate(named)]
        if precision == NATIVE:
            return run_kernel(self.op, inputs, encoded(self.attributes), self.outputs)
        dtype = tf.as_dtype(precision)
        if self.site.kind == "random":
            return [cast(tensor, dtype) for tensor in self.run(self._own_dtypes(inputs), NATIVE)]
        try:
            return self._in_dtype([cast(tensor, dtype) for tensor in inputs], dtype)
        except (tf.errors.NotFoundError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError) as error:
            line = (str(error).splitlines() or [""])[0]
            raise UnsupportedPrecisionError(
                f"TensorFlow's {self.op} cannot be computed in {precision} (at {self.site.name}): {line}"
            ) from error

    def _in_dtype(self, inputs: list[Tensor], dtype: Any) -> list[Tensor]:
        if self.op == "Cast" and inputs[0].dtype == dtype and self.attributes["DstT"].is_floating:
            return inputs
        if self.op in WRITTEN:
            return WRITTEN[self.op](inputs, self.attributes)
        attributes = {name: in_dtype(value, dtype) for name, value in self.attributes.items()}
        return [cast(tensor, dtype) for tensor in run_kernel(self.op, inputs, encoded(attributes), self.outputs)]

    def _own_dtypes(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The inputs in the type that the operator was built for, if it says so."""
        own = [value for value in self.attributes.values() if isinstance(value, tf.DType) and value.is_floating]
        return [cast(tensor, own[0]) for tensor in inputs] if own else list(inputs)


def cast(tensor: Tensor, dtype: Any) -> Tensor:
    """A floating-point or complex tensor in ``dtype`` or the complex type of that width; others as they are."""
    if tensor.dtype.is_floating and tensor.dtype != dtype:
        return tf.cast(tensor, dtype)
    wanted = in_dtype(tensor.dtype, dtype)
    return tf.cast(tensor, wanted) if tensor.dtype.is_complex and tensor.dtype != wanted else tensor


def in_dtype(value: Any, dtype: Any) -> Any:
    """The value of an attribute, its floating-point types exchanged for ``dtype``."""
    if isinstance(value, list):
        return [in_dtype(one, dtype) for one in value]
    if not isinstance(value, tf.DType):
        return value
    if value.is_complex:
        return tf.complex128 if dtype == tf.float64 else tf.complex64
    return dtype if value.is_floating else value


def attributes_of(op: Any) -> dict[str, Any]:
    """The attributes of a graph's operator that its kernel reads, decoded."""
    return {attribute.name: _decoded(op, attribute) for attribute in op.op_def.attr}


def _decoded(op: Any, attribute: Any) -> Any:
    if attribute.type in {"func", "list(func)"}:
        return None if attribute.type == "func" else []
    value = op.get_attr(attribute.name)
    if attribute.type == "shape":
        return _dimensions(value)
    return [_dimensions(one) for one in value] if attribute.type == "list(shape)" else value


def _dimensions(proto: Any) -> list[int | None] | None:
    shape = tf.TensorShape(proto)
    return None if shape.rank is None else shape.as_list()


def encoded(attributes: Mapping[str, Any]) -> list[Any]:
    """Attributes as TensorFlow's C interface takes them."""
    flat: list[Any] = []
    for name, value in attributes.items():
        flat += [name, _encoded(value)]
    return flat


def _encoded(value: Any) -> Any:
    if isinstance(value, tf.DType):
        return value.as_datatype_enum
    if isinstance(value, list):
        return [_encoded(one) if isinstance(one, tf.DType) else one for one in value]
    return value
