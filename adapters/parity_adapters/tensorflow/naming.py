"""Names of sites, tensors and weights, scopes and sources, from those that TensorFlow gives its operators."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from parity_adapters.tensorflow.arrays import Tensor
from parity_adapters.tensorflow.values import Names

_NUMBERED = re.compile(r"_\d+$")
_FUNCTION = re.compile(r"^(?:Stateful)?PartitionedCall(?:_\d+)?$")
_STEP = re.compile(r"(@\d+)+$")


class Naming:
    """The names of one run.

    Args:
        variables: Name of each variable by the ``id`` of its handle.
        layers: Names that the model's own parts have; TensorFlow puts numbers behind them.
        sources: Folder of the user's files, for the lines of calls.
        taken: Names that no site or tensor may have: those of the inputs.
    """

    def __init__(
        self, variables: Mapping[int, str], layers: Collection[str], sources: Path | None, taken: Collection[str]
    ) -> None:
        self._variables = variables
        self._layers = frozenset(layers)
        self._sources = sources
        self._sites, self._tensors = Names(), Names()
        for name in taken:
            self._tensors.fresh(name)

    def site(self, name: str) -> str:
        """A site's name, told once."""
        return self._sites.fresh(name)

    def tensor(self, name: str) -> str:
        """The name of a tensor that is made, told once."""
        return self._tensors.fresh(name)

    def weight(self, name: str) -> str:
        """The name of a constant, told once."""
        return self._tensors.fresh(name)

    def variable(self, handle: Tensor, otherwise: str) -> str:
        """The name of a variable, told once."""
        return self._tensors.fresh(self._variables.get(id(handle), otherwise))

    def scope(self, name: str) -> str:
        """The scope of a site: ``model_1/dense_1/MatMul`` is in ``model.dense`` if the layers are so called."""
        parts = name.split("/")[:-1]
        return ".".join(self._layer(part) for part in parts if not _FUNCTION.match(part))

    def _layer(self, part: str) -> str:
        plain = _NUMBERED.sub("", part)
        return plain if part not in self._layers and plain in self._layers else part

    def labels(self, op_name: str, name: str) -> tuple[str, ...]:
        """Further names of a site: its operator's, and that of its layer."""
        layer = [part for part in self.scope(name).split(".") if part in self._layers][-1:]
        plain = _STEP.sub("", name)
        return tuple(dict.fromkeys(label for label in (op_name, plain, *layer) if label != name))

    def source(self, op: Any) -> str | None:
        """``file:line`` of the innermost line of the user's own files that made an operator."""
        if self._sources is None:
            return None
        for frame in reversed(op.traceback or ()):
            if Path(frame.filename).is_relative_to(self._sources):
                return f"{Path(frame.filename).relative_to(self._sources)}:{frame.lineno}"
        return None
