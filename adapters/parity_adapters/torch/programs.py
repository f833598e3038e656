"""What PyTorch can run, in one form: modules and functions, TorchScript, exported programs."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from typing import Any, Final, Protocol

import torch
from torch import nn
from torch.utils._pytree import tree_unflatten

from parity.adapter import Array, bind
from parity.errors import InputError
from parity.graph import InputSpec
from parity_adapters.torch.recorder import Recorder
from parity_adapters.torch.watching import Interpreter, module_scopes, whole_recurrences

Tensors = Mapping[str, torch.Tensor]

_COMPILED: Final = "A plain run of this model is compiled (torch.compile); it was traced as it is without."
_STATE: Final = frozenset({"past_key_values"})
"""State for a next call and no result of this one."""


class Program(Protocol):
    """One model that runs on named tensors.

    Attributes:
        notes: In what a recorded run differs from a plain one, as sentences.
    """

    notes: tuple[str, ...]

    def inputs(self) -> Mapping[str, InputSpec]:
        """What is known of the inputs; empty where nothing is."""
        ...

    def weights(self) -> Tensors:
        """Parameters and buffers by path."""
        ...

    def module(self) -> nn.Module | None:
        """The module that an exporter takes; None where there is none."""
        ...

    def bind(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The inputs under the program's own names, in call order.

        Raises:
            InputError: They do not fit.
        """
        ...

    def run(self, given: Tensors) -> Any:
        """One plain run."""
        ...

    def record(self, given: Tensors, recorder: Recorder) -> Any:
        """One run that ``recorder`` watches."""
        ...


class EagerProgram:
    """A module, a function, or TorchScript of either.

    Args:
        call: The model.
        specs: Of the inputs, where they are known.
    """

    def __init__(self, call: Callable[..., Any], specs: Mapping[str, InputSpec] | None = None) -> None:
        self._call = call
        self._eager = getattr(call, "_orig_mod", call)  # that which torch.compile was given
        self.notes: tuple[str, ...] = () if self._eager is call else (_COMPILED,)
        self._modules = _modules_of(self._eager)
        self._signature = _signature(self._eager)
        self._specs = specs if specs is not None else _example_specs(call, self._signature)

    def inputs(self) -> Mapping[str, InputSpec]:
        """See `Program`."""
        return self._specs

    def weights(self) -> Tensors:
        """See `Program`; a tied one under its first name."""
        found: dict[str, torch.Tensor] = {}
        for path, module in self._modules.items():
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                if tensor.layout == torch.strided:
                    found.setdefault(f"{path}.{name}" if path else name, tensor)
        return found

    def module(self) -> nn.Module | None:
        """See `Program`; a function is none, and TorchScript is exported already."""
        own = self._eager
        return own if isinstance(own, nn.Module) and not isinstance(own, torch.jit.ScriptModule) else None

    def bind(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See `Program`."""
        if self._signature is None:
            return inputs
        parameters = self._signature.parameters.values()
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            return inputs
        names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
        bound = bind(inputs, names)
        required = [name for name in names if self._signature.parameters[name].default is inspect.Parameter.empty]
        _check_complete(bound, required, names)
        return bound

    def run(self, given: Tensors) -> Any:
        """See `Program`."""
        return self._apply(self._call, given)

    def record(self, given: Tensors, recorder: Recorder) -> Any:
        """See `Program`; TorchScript is interpreted as it was written, without its optimiser."""
        paths = {
            id(module): f"{root}.{path}".strip(".")
            for root, top in self._modules.items()
            for path, module in top.named_modules()
        }
        with ExitStack() as contexts:
            contexts.enter_context(module_scopes(recorder, paths))
            contexts.enter_context(whole_recurrences(recorder))
            contexts.enter_context(torch.jit.optimized_execution(False))
            contexts.enter_context(recorder)
            return self._apply(self._eager, given)

    def _apply(self, call: Callable[..., Any], given: Tensors) -> Any:
        if self._signature is None or not set(given) <= set(self._signature.parameters):
            return call(*given.values())
        arguments = self._signature.bind_partial()
        arguments.arguments.update(given)
        return call(*arguments.args, **arguments.kwargs)


class ExportedProgram:
    """What ``torch.export`` made; its graph is run node by node to be recorded."""

    def __init__(self, exported: torch.export.ExportedProgram) -> None:
        self.notes: tuple[str, ...] = ()
        self._exported = exported
        self._module = exported.module()
        declared = [spec.arg for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._arguments = {each.name: getattr(each, "value", None) for each in declared}
        values = {node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"}
        self._tensors = {name: values[name] for name in self._arguments if isinstance(values.get(name), torch.Tensor)}

    def inputs(self) -> Mapping[str, InputSpec]:
        """See `Program`; a dimension that the program leaves open is None."""
        return {name: _spec(tensor) for name, tensor in self._tensors.items()}

    def weights(self) -> Tensors:
        """See `Program`."""
        return {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}

    def module(self) -> nn.Module | None:
        """See `Program`."""
        return None

    def bind(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See `Program`."""
        names = list(self._tensors)
        bound = bind(inputs, names)
        _check_complete(bound, names, names)
        return bound

    def run(self, given: Tensors) -> Any:
        """See `Program`."""
        args, kwargs = tree_unflatten(self._flat(given), self._exported.call_spec.in_spec)
        return self._module(*args, **kwargs)

    def record(self, given: Tensors, recorder: Recorder) -> Any:
        """See `Program`."""
        with recorder:
            results = Interpreter(self._module, recorder).run(*self._flat(given), enable_io_processing=False)
        return tree_unflatten(list(results), self._exported.call_spec.out_spec)

    def _flat(self, given: Tensors) -> list[Any]:
        return [given.get(name, constant) for name, constant in self._arguments.items()]


def program(model: Any, specs: Mapping[str, InputSpec] | None = None) -> Program:
    """A live model as a program.

    Raises:
        InputError: It cannot be called.
    """
    if isinstance(model, torch.export.ExportedProgram):
        return ExportedProgram(model)
    if not callable(model):
        raise InputError(
            f"A {type(model).__name__} cannot be called, so it is no model.",
            hint="Give a torch.nn.Module, a function of tensors, or an exported program.",
        )
    return EagerProgram(model, specs)


def named_outputs(result: Any) -> tuple[dict[str, torch.Tensor], bool]:
    """The tensors of a model's result by name, and whether the names are the model's own.

    What is nested gets a path (``hidden_states.0``); what is no tensor, and the state for a next call, is left out.

    Raises:
        InputError: There is no tensor in it.
    """
    if is_dataclass(result) and not isinstance(result, Mapping | type):
        result = {field.name: getattr(result, field.name) for field in fields(result)}
    found = dict(_leaves(result if isinstance(result, Mapping | list | tuple) else [result], ""))
    if not found:
        raise InputError(
            f"The model returned no tensor but a {type(result).__name__}.",
            hint="A model returns a tensor, or a tuple or dictionary of tensors.",
        )
    return found, isinstance(result, Mapping) or hasattr(result, "_fields")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        items = [(str(name), item) for name, item in value.items() if name not in _STATE]
    elif isinstance(value, list | tuple):
        items = [(str(number), item) for number, item in enumerate(value)]
    else:
        return
    for name, item in items:
        yield from _leaves(item, f"{path}.{name}" if path else name)


def _check_complete(bound: Mapping[str, Any], required: Sequence[str], names: Sequence[str]) -> None:
    missing = next((name for name in required if name not in bound), None)
    if missing is not None:
        raise InputError(f"The model's input '{missing}' is missing.", hint=f"It takes: {', '.join(names)}.")


def _spec(tensor: torch.Tensor) -> InputSpec:
    return InputSpec(
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(length if isinstance(length, int) else None for length in tensor.shape),
    )


def _modules_of(call: Callable[..., Any]) -> dict[str, nn.Module]:
    """The module itself under the empty path; of a function those that it reads by name, of a method its own."""
    if isinstance(call, nn.Module):
        return {"": call}
    own = getattr(call, "__self__", None)
    if isinstance(own, nn.Module):
        return {"": own}
    if not inspect.isfunction(call):
        return {name: value for name, value in getattr(call, "__dict__", {}).items() if isinstance(value, nn.Module)}
    names = inspect.getclosurevars(call)
    read = {**names.globals, **names.nonlocals}
    return {name: value for name, value in read.items() if isinstance(value, nn.Module)}


def _signature(call: Callable[..., Any]) -> inspect.Signature | None:
    """Of what takes the inputs; None where Python cannot tell."""
    if isinstance(call, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        is_module = isinstance(call, torch.jit.ScriptModule)
        arguments = call.forward.schema.arguments[1:] if is_module else call.schema.arguments  # the first is self
        return inspect.Signature(
            [
                inspect.Parameter(
                    argument.name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
                )
                for argument in arguments
            ]
        )
    try:
        return inspect.signature(call.forward if isinstance(call, nn.Module) else call)
    except (TypeError, ValueError):
        return None


def _example_specs(call: Callable[..., Any], signature: inspect.Signature | None) -> dict[str, InputSpec]:
    """Those of the example that some modules carry."""
    example = getattr(call, "example_inputs", None)
    if example is None:
        example = getattr(call, "dummy_inputs", None)
    if isinstance(example, torch.Tensor):
        example = (example,)
    if isinstance(example, list | tuple) and signature is not None:
        example = dict(zip(signature.parameters, example, strict=False))
    if not isinstance(example, Mapping) or not all(isinstance(value, torch.Tensor) for value in example.values()):
        return {}
    return {name: _spec(tensor) for name, tensor in example.items()}
