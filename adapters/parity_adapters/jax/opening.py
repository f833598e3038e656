"""References and live objects to models: functions, linen modules with variables, nnx modules, exported functions."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import jax

from parity.errors import InputError
from parity.graph import InputSpec
from parity.python_file import import_file
from parity_adapters.jax.constants import closed_over

READS: Final = "`jax:FILE.py:NAME` and `*.jaxexport`"
"""What this adapter opens, in words."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Model:
    """What a session runs.

    Attributes:
        call: Weights, then the inputs by name, to outputs and the weights as the run leaves them.
        names: Of the weights.
        weights: Arrays of JAX.
        parameters: Names of the inputs in call order; None where it takes any number of them.
        inputs: Their specifications, where the model says.
        named: Name of each array that it closes over by its `constants.address`.
        scope: The scope that flax puts around the whole model.
        is_function: Its weights are constants that it closes over.
    """

    call: Callable[[Sequence[Any], Mapping[str, Any]], tuple[Any, Sequence[Any]]]
    names: tuple[str, ...] = ()
    weights: tuple[Any, ...] = ()
    parameters: tuple[str, ...] | None = None
    inputs: Mapping[str, InputSpec] = field(default_factory=dict)
    named: Mapping[tuple[int, int], str] = field(default_factory=dict)
    scope: str = ""
    is_function: bool = False


def opened(reference: Any) -> Model | None:
    """The model that ``reference``, a text or a live object, names; None where it is not of this adapter.

    Raises:
        InputError: The file, the name in it, or what it names cannot be used.
    """
    if not isinstance(reference, str):
        return _model(reference, "The object")
    if reference.startswith("jax:"):
        file, _, name = reference.removeprefix("jax:").rpartition(":")
        return _model(_named(file, name), f"'{name}' in {file}")
    if reference.endswith(".jaxexport"):
        return _exported(Path(reference))
    return None


def _named(file: str, name: str) -> Any:
    """What is called ``name`` in the Python file ``file``, which is run for it."""
    path = Path(file)
    if not file or not name:
        raise InputError("A JAX model is named as `jax:FILE.py:NAME`.", hint="NAME is a function of the file.")
    if not path.is_file():
        raise InputError(f"There is no file '{file}'.", hint="A JAX model is named as `jax:FILE.py:NAME`.")
    module = _imported(path)
    if not hasattr(module, name):
        raise InputError.unknown(f"name in {file}", name, [one for one in vars(module) if not one.startswith("_")])
    return getattr(module, name)


def _imported(path: Path) -> ModuleType:
    """The module of the file ``path``, which is run for it."""
    try:
        return import_file(path)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"Running {path} failed: {told(error)}", hint="Does `python` run the file?") from error


def told(error: BaseException) -> str:
    """Type and first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _model(target: Any, what: str) -> Model:
    """The model that ``target`` is, or makes if it is a factory."""
    found = _of_object(target)
    if found is not None:
        return found
    if not callable(target):
        raise InputError(
            f"{what} is a {type(target).__name__} and no model.",
            hint="It should be a function of the inputs, or one without arguments that returns a callable, an "
            "nnx.Module or a pair (linen module, variables).",
        )
    if _is_without_arguments(target):
        try:
            made = target()
        except Exception as error:
            raise InputError(
                f"{what} takes no required inputs, so it was called as a factory, and failed: {told(error)}",
                hint="Does it run by itself?",
            ) from error
        return _of_made(made, target, what)
    return _of_function(target)


def _of_made(made: Any, target: Any, what: str) -> Model:
    found = _of_object(made)
    if found is not None:
        return found
    if callable(made):
        return _of_function(made)
    if inspect.signature(target).parameters:  # each has a default: it is the function itself
        return _of_function(target)
    raise InputError(
        f"{what} takes no inputs and returned a {type(made).__name__}.",
        hint="A factory returns a callable, an nnx.Module or a pair (linen module, variables).",
    )


def _is_without_arguments(function: Callable[..., Any]) -> bool:
    """Whether ``function`` can be called as it is, and has no ``*inputs`` either."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    some = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return not some and all(one.default is not one.empty or one.kind is one.VAR_KEYWORD for one in parameters)


def _of_object(target: Any) -> Model | None:
    """The model of a Flax object; None where ``target`` is none."""
    if not find_spec("flax"):
        return None
    from flax import linen, nnx  # noqa: PLC0415 – Flax need not be installed beside JAX

    if isinstance(target, nnx.Module):
        return _of_nnx(target)
    if isinstance(target, linen.Module):
        if target.scope is None:
            raise InputError(
                f"The linen module {type(target).__name__} has no variables.",
                hint="Return a pair (module, variables), or module.bind(variables).",
            )
        return _of_linen(*target.unbind())
    if isinstance(target, tuple) and len(target) == 2 and isinstance(target[0], linen.Module):
        return _of_linen(*target)
    return None


def _of_function(function: Callable[..., Any]) -> Model:
    def call(_: Sequence[Any], inputs: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        return _applied(function, parameters, inputs), ()

    parameters = _parameters(function)
    named = closed_over(function)
    return Model(
        call=call,
        parameters=parameters,
        inputs=_specified(function, parameters),
        named=named,
        scope=getattr(function, "__name__", ""),
        is_function=True,
    )


def _of_linen(module: Any, variables: Any) -> Model:
    def call(weights: Sequence[Any], inputs: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        def apply(*args: Any, **kwargs: Any) -> Any:
            return module.apply(jax.tree.unflatten(structure, weights), *args, **kwargs)

        return _applied(apply, parameters, inputs), weights

    names, leaves, structure = _flat(variables)
    parameters = _parameters(module.__call__)
    return Model(
        call=call,
        names=tuple(name.removeprefix("params.") for name in names),
        weights=leaves,
        parameters=parameters,
        inputs=_specified(module, parameters),
        scope=type(module).__name__,
    )


def _of_nnx(module: Any) -> Model:
    from flax import nnx  # noqa: PLC0415 – see `_of_object`

    def call(weights: Sequence[Any], inputs: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        copy = nnx.merge(graph, jax.tree.unflatten(structure, weights))
        with _scopes(copy):
            outputs = _applied(copy, parameters, inputs)
        _, left, after = _flat(nnx.state(copy))
        return outputs, left if after == structure else weights

    graph, state = nnx.split(module)
    names, leaves, structure = _flat(state)
    parameters = _parameters(module)
    return Model(
        call=call,
        names=tuple(name.removesuffix(".value") for name in names),
        weights=leaves,
        parameters=parameters,
        inputs=_specified(module, parameters),
    )


@contextmanager
def _scopes(module: Any) -> Iterator[None]:
    """Within it each call of a module inside ``module`` stands in a name scope of its path, as linen has it."""
    from flax import nnx  # noqa: PLC0415 – see `_of_object`

    known = dict(nnx.iter_modules(module))
    paths = {id(one): ".".join(map(str, path)) for path, one in known.items()}
    classes = {type(one) for one in known.values() if callable(one)}
    originals = {one: (one.__dict__.get("__call__"), one.__call__) for one in classes}
    within, kept = [""], [module]

    def path_of(one: Any) -> str:
        if id(one) not in paths:  # nnx.scan and the like make modules of their own
            kept.append(one)
            paths.update({id(part): ".".join(map(str, (within[-1], *path))) for path, part in nnx.iter_modules(one)})
            paths[id(one)] = within[-1]
        return paths[id(one)].strip(".")

    def scoped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            path, outer = path_of(self), within[-1]
            if path == outer:
                return original(self, *args, **kwargs)
            within.append(path)
            try:
                with jax.named_scope(path.removeprefix(f"{outer}.")):
                    return original(self, *args, **kwargs)
            finally:
                within.pop()

        return call

    try:
        for one, (_, original) in originals.items():
            one.__call__ = scoped(original)
        yield
    finally:
        for one, (own, _) in originals.items():
            if own is None:
                del one.__call__
            else:
                one.__call__ = own


def _exported(path: Path) -> Model:
    """A function that `jax.export` wrote: one operator call, its inside compiled."""
    from jax import export  # noqa: PLC0415 – JAX before 0.4.30 lacks it

    if not path.is_file():
        raise InputError(f"There is no file '{path}'.", hint="It is written by `jax.export.export(...).serialize()`.")
    try:
        exported = export.deserialize(bytearray(path.read_bytes()))
    except Exception as error:
        raise InputError(
            f"'{path}' holds no exported JAX function: {told(error)}",
            hint="It is written by `jax.export.export(...)(...).serialize()`.",
        ) from error
    places, structure = jax.tree.flatten_with_path(jax.tree.unflatten(exported.in_tree, range(len(exported.in_avals))))
    names = tuple(jax.tree_util.keystr(place[1:], simple=True, separator=".") for place, _ in places)

    def call(_: Sequence[Any], inputs: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
        args, kwargs = jax.tree.unflatten(structure, [inputs[name] for name in names])
        return exported.call(*args, **kwargs), ()

    specs = [InputSpec(dtype=str(aval.dtype), shape=_shape(aval.shape)) for aval in exported.in_avals]
    return Model(call=call, parameters=names, inputs=dict(zip(names, specs, strict=True)))


def _flat(tree: Any) -> tuple[tuple[str, ...], tuple[Any, ...], Any]:
    """Names by path, leaves and structure of ``tree``."""
    leaves, structure = jax.tree.flatten_with_path(tree)
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return tuple(names), tuple(leaf for _, leaf in leaves), structure


def _parameters(function: Callable[..., Any]) -> tuple[str, ...] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    return tuple(one.name for one in parameters if one.kind in _POSITIONAL or one.kind is one.KEYWORD_ONLY)


def _applied(function: Callable[..., Any], parameters: tuple[str, ...] | None, inputs: Mapping[str, Any]) -> Any:
    """``function`` of ``inputs``: by place where they are its first parameters, by name where some are left out."""
    names = tuple(inputs)
    if parameters is None or names == parameters[: len(names)]:
        return function(*inputs.values())
    return function(**inputs)


def _specified(target: Any, parameters: tuple[str, ...] | None) -> dict[str, InputSpec]:
    """What ``target.example_inputs`` says, arrays in call order or by name; nothing where there is no such thing."""
    examples = getattr(target, "example_inputs", None)
    examples = examples() if callable(examples) else examples
    if examples is None:
        return {}
    if not isinstance(examples, Mapping):
        examples = dict(zip(parameters or map(str, range(len(examples))), examples, strict=False))
    return {name: InputSpec(dtype=str(one.dtype), shape=_shape(one.shape)) for name, one in examples.items()}


def _shape(shape: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(size if isinstance(size, int) else None for size in shape)
