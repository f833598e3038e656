"""Tells a recorder where in the model it is, in each of the ways in which PyTorch runs models."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn
from torch._ops import OpOverload
from torch.nn.modules import module as module_hooks
from torch.nn.modules import rnn

from parity_adapters.torch.recorder import Recorder

_WHOLE: Final = frozenset({"gru", "lstm", "rnn_tanh", "rnn_relu"})
_LINE_OF_TRACEBACK: Final = re.compile(r'File "([^"]+)", line (\d+)')


@contextmanager
def module_scopes(recorder: Recorder, paths: Mapping[int, str]) -> Iterator[None]:
    """A context in which the recorder's scope is the path of the module that runs.

    Hooks of single modules would keep PyTorch from its fused paths (``nn.TransformerEncoderLayer``): these are hooks of
    all modules.

    Args:
        recorder: The one to tell.
        paths: By the ``id`` of the module; another module runs under the path of its caller.
    """
    outer: list[str] = []

    def enter(module: nn.Module, _: Any) -> None:
        outer.append(recorder.scope)
        recorder.scope = paths.get(id(module), recorder.scope)

    def leave(*_: Any) -> None:
        recorder.scope = outer.pop()

    hooks = (
        module_hooks.register_module_forward_pre_hook(enter),
        module_hooks.register_module_forward_hook(leave, always_call=True),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def whole_recurrences(recorder: Recorder) -> Iterator[None]:
    """A context in which each run of an LSTM, GRU or RNN layer is one call to the recorder, not many a time step."""
    functions = rnn._VF  # noqa: SLF001 – through it the modules call the operators; there is no public way between

    class Watched:
        """In the place of the functions."""

        def __getattr__(self, name: str) -> Callable[..., Any]:
            function: Callable[..., Any] = getattr(functions, name)
            if name not in _WHOLE:
                return function
            return lambda *args: recorder.call_whole(_overload(name, args), args, {})

    rnn._VF = Watched()  # noqa: SLF001
    try:
        yield
    finally:
        rnn._VF = functions  # noqa: SLF001


def _overload(name: str, args: tuple[Any, ...]) -> OpOverload:
    """That for packed sequences, which has the parameters fourth, or for padded ones, which has them third."""
    packet = getattr(torch.ops.aten, name)
    return packet.data if isinstance(args[3], list | tuple) else packet.input


class Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """Runs an exported graph and tells the recorder at which node it is."""

    def __init__(self, module: torch.fx.GraphModule, recorder: Recorder) -> None:
        super().__init__(module)
        self._recorder = recorder
        self.extra_traceback = False

    def run_node(self, n: torch.fx.Node) -> Any:
        """Runs one node."""
        recorder = self._recorder
        outer = recorder.scope, recorder.label, recorder.source
        stack = n.meta.get("nn_module_stack")
        recorder.scope = list(stack.values())[-1][0] if stack else recorder.scope
        recorder.label, recorder.source = n.name, _source(n.meta.get("stack_trace") or "")
        try:
            return super().run_node(n)
        finally:
            recorder.scope, recorder.label, recorder.source = outer

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Fetches a weight or a constant, which is known by its path from then on."""
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, torch.Tensor):
            self._recorder.name_weight(str(target), value)
        return value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Calls an operator; branches and regions run here, so that what is in them is recorded."""
        if target is torch.ops.higher_order.cond:
            condition, if_true, if_false, operands = args
            return self._run_branch(if_true if bool(condition) else if_false, *operands)
        if target is torch.ops.higher_order.wrap_with_set_grad_enabled:
            return self._run_branch(args[1], *args[2:])
        if isinstance(target, OpOverload) and target._schema.name.removeprefix("aten::") in _WHOLE:  # noqa: SLF001
            return self._recorder.call_whole(target, tuple(args), dict(kwargs))
        return super().call_function(target, args, kwargs)

    def _run_branch(self, branch: torch.fx.GraphModule, *operands: Any) -> Any:
        return Interpreter(branch, self._recorder).run(*operands)


def _source(traceback: str) -> str | None:
    """``file:line`` of the innermost line of the user's own code in the traceback that an exported node carries."""
    lines = [(file, number) for file, number in _LINE_OF_TRACEBACK.findall(traceback) if "/torch/nn/" not in file]
    return "{}:{}".format(*lines[-1]) if lines else None
