"""Inputs for a model: read from a file, or made from the model's own input specification."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from parity.adapter import Array
from parity.dtypes import FLOAT_DTYPES, any_dtype
from parity.errors import InputError
from parity.graph import InputSpec
from parity.trace.shards import read_shard

SEED: Final = 20261129

FREE: Final = {0: 2}
"""Length of a free dimension by its place; of another one, `LENGTH`."""

LENGTH: Final = 16

EXAMPLES: Final = {"torch:": "tensors", "jax:": "arrays"}
"""Models, by how their names begin, whose ``example_inputs`` are read, and of what these are."""

VOCABULARY: Final = 1000
"""Token ids stay below this where the model does not tell its vocabulary."""


def read_inputs(path: Path) -> dict[str, Array]:
    """Inputs by name, in the file's order, of an ``.npz`` or ``.safetensors`` file.

    Raises:
        InputError: The file is missing, damaged or empty, or holds Python objects.
    """
    if not path.is_file():
        raise InputError(f"There is no input file '{path}'.", hint="--inputs takes an .npz or .safetensors file.")
    if path.suffix == ".safetensors":
        inputs = read_shard(path)
    elif path.suffix == ".npz":
        inputs = _read_npz(path)
    else:
        raise InputError(f"'{path}' is neither .npz nor .safetensors.", hint="Save the inputs by name in one of them.")
    if not inputs:
        raise InputError(f"'{path}' holds no arrays.", hint="Save the model's inputs in it, by name.")
    for name, array in inputs.items():
        if array.dtype.kind not in "fiubc" and array.dtype.name not in FLOAT_DTYPES:
            raise InputError(
                f"'{name}' in '{path}' is no array of numbers but of {array.dtype}.", hint="Save it as numbers."
            )
    return inputs


def _read_npz(path: Path) -> dict[str, Array]:
    found = {}
    what = "it is no archive of arrays, or not a whole one"
    try:
        zipfile.ZipFile(path).close()  # NumPy takes any other file for a pickle
        with np.load(path, allow_pickle=False) as data:
            for name in data.files:
                what = f"'{name}' in it is damaged, or no array of numbers"
                found[name] = np.asarray(data[name])
    except PermissionError:
        raise InputError(f"'{path}' may not be read.", hint="See to its permissions.") from None
    except Exception as error:  # those of NumPy, zipfile and zlib, which are many
        raise InputError(
            f"'{path}' is not a readable .npz file: {what}.",
            hint='Write it with numpy.savez("FILE.npz", NAME=array), one NAME an input.',
        ) from error
    return found


def given_sets(inputs: Any) -> list[dict[str, Array]]:
    """The sets of inputs that a user gives, one or a list of them; none where they are to be made.

    Raises:
        InputError: As `given_inputs`.
    """
    return [given_inputs(one) for one in (inputs if isinstance(inputs, list) else [] if inputs is None else [inputs])]


def given_inputs(inputs: Any) -> dict[str, Array]:
    """Inputs by name, of whatever form a user gives them in: a file, a mapping, or a tuple in call order.

    Tensors of a framework are taken as NumPy takes them; those of PyTorch are detached first.

    Raises:
        InputError: They are of another form, or an array is none of numbers.
    """
    if isinstance(inputs, str | Path):
        return read_inputs(Path(inputs))
    if isinstance(inputs, tuple):
        inputs = {f"input_{k}": one for k, one in enumerate(inputs)}
    if not isinstance(inputs, Mapping):
        raise InputError(
            f"Inputs of type {type(inputs).__name__} cannot be used.",
            hint='Give them by name, as in {"x": array}, as a tuple in call order, or as the path of an .npz file.',
        )
    if not inputs:
        raise InputError("There is no array in these inputs.", hint='Give each by name, as in {"x": array}.')
    return {str(name): _array(str(name), value) for name, value in inputs.items()}


def _array(name: str, value: Any) -> Array:
    plain = value.detach().cpu() if hasattr(value, "detach") else value
    if str(getattr(plain, "dtype", "")) == "torch.bfloat16":
        return np.asarray(plain.float()).astype(any_dtype("bfloat16"))
    try:
        array = np.asarray(plain)
    except (TypeError, ValueError) as error:
        raise InputError(f"The input '{name}' cannot be made an array: {error}.", hint="Give numbers.") from error
    if array.dtype.kind not in "fiubcV":
        raise InputError(f"The input '{name}' is of type {array.dtype}, not of numbers.", hint="Give numbers.")
    return array


def make_inputs(
    specs: Mapping[str, InputSpec],
    number: int = 0,
    other: Mapping[str, InputSpec] | None = None,
    *,
    models: Sequence[str] = (),
) -> dict[str, Array]:
    """Inputs that the specification allows, the same ones for the same ``number``.

    Floating-point inputs are normal; token ids lie within the vocabulary; masks leave the last quarter of the second
    row out; positions and lengths count up. An optional one is made only where the other side cannot do without it.

    Args:
        specs: Of the side that the inputs are made for.
        number: Which inputs.
        other: What the model that is compared with it takes.
        models: How the user named the one that is run, or both.

    Raises:
        InputError: The model does not tell what it takes.
    """
    if not specs:
        who = f"{models[0]} does not say" if len(models) == 1 else "Neither side says"
        kinds = {kind for prefix, kind in EXAMPLES.items() if any(one.startswith(prefix) for one in models)}
        more = (
            f" Or set example_inputs on the model in its file: a tuple of {' or '.join(sorted(kinds))} in call order."
        )
        raise InputError(
            f"{who} what inputs it takes.",
            hint='Give them with --inputs FILE.npz, made by numpy.savez("FILE.npz", NAME=array), one NAME an input.'
            + (more if kinds else ""),
        )
    random = np.random.default_rng([SEED, number])
    needed = {name for name, spec in (other or {}).items() if not spec.optional}
    return {name: _make(name, spec, random) for name, spec in specs.items() if not spec.optional or name in needed}


def _make(name: str, spec: InputSpec, random: np.random.Generator) -> Array:
    if spec.shape is None:
        raise InputError(
            f"The model does not say the shape of its input '{name}'.", hint="Give the inputs with --inputs FILE.npz."
        )
    shape = tuple(FREE.get(k, LENGTH) if size is None else size for k, size in enumerate(spec.shape))
    dtype = any_dtype(spec.dtype)
    if dtype.kind in "iub":
        return _whole(name, spec, shape, random).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def _whole(name: str, spec: InputSpec, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    lower = name.lower()
    if "mask" in lower or spec.dtype == "bool":
        mask = np.ones(shape, np.int64)
        if len(shape) > 1 and shape[0] > 1 and shape[-1] > 3:
            mask[1, ..., -(shape[-1] // 4) :] = 0
        return mask
    if "position" in lower:
        return np.broadcast_to(np.arange(shape[-1]) if shape else 0, shape).copy()
    if "token_type" in lower or "segment" in lower:
        return random.integers(0, min(2, spec.limit or 2), shape)
    return random.integers(0, spec.limit or VOCABULARY, shape)
