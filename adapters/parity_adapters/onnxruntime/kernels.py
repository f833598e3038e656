"""Single nodes run by ONNX Runtime's own kernels: one small session a node, kept as long as there is room.

A node runs with its weights as initializers, as it does in production: kernels repack constant weights beforehand, and
what is repacked may add up in another order.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime as ort

from parity.errors import EngineError
from parity_adapters.onnxruntime.arrays import OrtValue
from parity_adapters.onnxruntime.sessions import open_session, reason, session_options
from parity_adapters.onnxruntime.weights import Weight

Operand = OrtValue | Weight | None
"""What a node reads: a tensor, a weight, or nothing."""

_BYTES: Final = 128 * 2**20
"""Weights that sessions may hold. Those of a model that has more are made anew in each run, at little cost."""
_OVERHEAD: Final = 16 * 2**10
_MOST_POOLS: Final = 64
_SHARED_FROM: Final = 64 * 2**10
"""A weight of that many bytes is lent to the session instead of being written into its model."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    session: ort.InferenceSession
    names: tuple[str, ...]
    lent: tuple[OrtValue, ...]
    nbytes: int


class Kernels:
    """Runs nodes.

    Args:
        opsets: Version of each operator set by domain.
        ir_version: Of the model.
        threads: How many one operator may use.
        config: Configuration entries of the production session.
    """

    def __init__(
        self, opsets: Mapping[str, int], *, ir_version: int, threads: int, config: Sequence[tuple[str, str]]
    ) -> None:
        self._opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        self._ir_version = ir_version
        self._threads = threads
        self._config = config
        self._most = _MOST_POOLS if threads > 1 else 100_000
        self._kernels: OrderedDict[tuple[Any, ...], _Kernel] = OrderedDict()
        self._nbytes = 0

    def clear(self) -> None:
        """Frees all sessions."""
        self._kernels.clear()
        self._nbytes = 0

    def run(self, node: onnx.NodeProto, operands: Sequence[Operand]) -> list[OrtValue | None]:
        """Outputs of ``node``, None for those that it does not name.

        Raises:
            EngineError: ONNX Runtime does not run it on these operands.
        """
        try:
            kernel = self._kernel(node, operands)
            feeds = {_input(i): value for i, value in enumerate(operands) if value and not isinstance(value, Weight)}
            found = iter(kernel.session.run_with_ort_values(kernel.names, feeds))
        except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
            raise EngineError(
                f"ONNX Runtime does not run {node.op_type} '{node.name}' alone: {reason(error)}"
            ) from error
        return [next(found) if name else None for name in node.output]

    def _kernel(self, node: onnx.NodeProto, operands: Sequence[Operand]) -> _Kernel:
        key = (_fingerprint(node), *(_key(operand) for operand in operands))
        if key in self._kernels:
            self._kernels.move_to_end(key)
            return self._kernels[key]
        kernel = self._made(node, operands)
        if all(operand.key for operand in operands if isinstance(operand, Weight)):
            self._keep(key, kernel)
        return kernel

    def _keep(self, key: tuple[Any, ...], kernel: _Kernel) -> None:
        self._kernels[key] = kernel
        self._nbytes += kernel.nbytes
        while len(self._kernels) > 1 and (self._nbytes > _BYTES or len(self._kernels) > self._most):
            _, oldest = self._kernels.popitem(last=False)
            self._nbytes -= oldest.nbytes

    def _made(self, node: onnx.NodeProto, operands: Sequence[Operand]) -> _Kernel:
        options = session_options(level="none", config=self._config, threads=self._threads)
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        share_memory(options)
        options.enable_mem_pattern = False
        inputs, initializers = [], []
        lent: dict[str, OrtValue] = {}
        for i, operand in enumerate(operands):
            if isinstance(operand, Weight):
                initializers.append(_initializer(_input(i), operand, lent))
            elif operand is not None:
                inputs.append(onnx.helper.make_tensor_value_info(_input(i), operand.element_type(), None))
        if lent:
            options.add_external_initializers(list(lent), list(lent.values()))
        one = _renamed(node)
        outputs = [onnx.ValueInfoProto(name=name) for name in one.output if name]
        graph = onnx.helper.make_graph([one], "node", inputs, outputs, initializers)
        model = onnx.helper.make_model(graph, opset_imports=self._opsets, ir_version=self._ir_version)
        nbytes = _OVERHEAD + sum(operand.nbytes for operand in operands if isinstance(operand, Weight))
        names = tuple(name for name in one.output if name)
        return _Kernel(open_session(model, options), names, tuple(lent.values()), nbytes)


def share_memory(options: ort.SessionOptions) -> None:
    """Has a session take the memory of its outputs from the one arena of this process.

    With an arena of its own, each would keep what its outputs once took; with none, each tensor would be of fresh
    pages, which cost about as much as what most operators compute.
    """
    _arena()
    options.add_session_config_entry("session.use_env_allocators", "1")


@cache
def _arena() -> None:
    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    as_requested = ort.OrtArenaCfg({"arena_extend_strategy": 1})
    ort.create_and_register_allocator(memory, as_requested)


def _input(position: int) -> str:
    return f"i{position}"


def _key(operand: Operand) -> Any:
    if isinstance(operand, Weight):
        return operand.key
    return None if operand is None else int(operand.element_type())


def _renamed(node: onnx.NodeProto) -> onnx.NodeProto:
    """``node`` with the names of its tensors replaced by their positions, and nothing in it that does not matter."""
    one = onnx.NodeProto(op_type=node.op_type, domain=node.domain, attribute=node.attribute)
    one.input.extend(_input(i) if name else "" for i, name in enumerate(node.input))
    one.output.extend(f"o{i}" if name else "" for i, name in enumerate(node.output))
    return one


def _fingerprint(node: onnx.NodeProto) -> bytes:
    return bytes(_renamed(node).SerializeToString(deterministic=True))


def _initializer(name: str, weight: Weight, lent: dict[str, OrtValue]) -> onnx.TensorProto:
    """The weight as an initializer called ``name``; a large one is put into ``lent`` and only referred to."""
    tensor = onnx.TensorProto(name=name, data_type=weight.tensor.data_type, dims=weight.tensor.dims)
    if weight.mapped is None:
        tensor.CopyFrom(weight.tensor)
        tensor.name = name
    elif weight.nbytes < _SHARED_FROM or weight.mapped.dtype.kind not in "fiub":
        tensor.raw_data = weight.mapped.tobytes()
    else:
        lent[name] = ort.OrtValue.ortvalue_from_numpy(np.asarray(weight.mapped))
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="lent")
    return tensor
