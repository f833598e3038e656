"""Opens what a reference to a PyTorch model names."""

import os
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from parity.adapter import not_opened
from parity.errors import InputError, ParityError
from parity.python_file import import_file, imports_from
from parity_adapters.torch.evaluation import PRECISIONS
from parity_adapters.torch.programs import program
from parity_adapters.torch.session import TorchSession

READS: Final = "torch:FILE.py:NAME, exported programs (*.pt2) and TorchScript (*.pt, *.pth, *.ts)"
WEIGHTS_ONLY: Final = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
NOT_WEIGHTS_ONLY: Final = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""PyTorch's environment variables for how `torch.load` reads pickles."""

OBJECTS: Final = ("constants/custom_obj", "constants/opaque_obj")
"""How the entries of an exported program are called that are not read by `torch.load`."""

BY_PRODUCTS: Final = frozenset(
    {
        *("pooler_output", "hidden_states", "attentions", "cross_attentions", "past_key_values"),
        *("encoder_last_hidden_state", "encoder_hidden_states", "encoder_attentions"),
        *("decoder_hidden_states", "decoder_attentions", "router_logits", "image_hidden_states"),
    }
)
"""Keys of the outputs of transformers' models that stand beside the result, and that exports leave out."""

_SCRIPTS: Final = frozenset({".pt", ".pth", ".ts", ".torchscript"})


def open_model(model: Any, options: Mapping[str, str]) -> TorchSession:
    """The session of a reference or a live object; arguments and errors are those of `parity.adapter.Adapter.open`."""
    dtype = wanted_dtype(options)
    loaded = _load(model) if isinstance(model, str | Path) else model
    packages = {kind.__module__.partition(".")[0] for kind in type(loaded).__mro__}
    by_products = BY_PRODUCTS if "transformers" in packages else frozenset()
    return TorchSession(program(cast(loaded, dtype)), dtype, by_products=by_products)


def wanted_dtype(options: Mapping[str, str]) -> torch.dtype | None:
    """The floating-point type that the options ask for; None for the model's own.

    Raises:
        InputError: It is none that PyTorch computes in, or there is an option that means nothing here.
    """
    unknown = next((name for name in options if name not in {"dtype", "threads"}), None)
    if unknown is not None:
        raise InputError(
            f"The option '{unknown}' means nothing to a PyTorch model.", hint="It takes dtype and threads."
        )
    if "dtype" not in options:
        return None
    known = {name: dtype for name, dtype in PRECISIONS.items() if dtype is not None}
    if options["dtype"] not in known:
        raise InputError.unknown("dtype", options["dtype"], known)
    return known[options["dtype"]]


def cast(model: Any, dtype: torch.dtype | None) -> Any:
    """The model with its floating-point weights in ``dtype``; as it is for None.

    Raises:
        InputError: It is no module, so that there is nothing to cast.
    """
    if dtype is None:
        return model
    if not isinstance(model, nn.Module):
        raise InputError(
            f"A {type(model).__name__} cannot be cast to {str(dtype).removeprefix('torch.')}.",
            hint="Only a torch.nn.Module can; export or write this model in that type.",
        )
    return model.to(dtype)


def _load(reference: str | Path) -> Any:
    text = str(reference)
    if text.startswith("torch:"):
        return from_factory(text.removeprefix("torch:"))
    path = Path(text)
    if path.suffix != ".pt2" and path.suffix not in _SCRIPTS:
        raise not_opened("torch", text, READS)
    if not path.is_file():
        raise InputError(f"There is no file '{path}'.", hint="Check the path of the model.")
    return _exported(path) if path.suffix == ".pt2" else _script(path)


def _exported(path: Path) -> torch.export.ExportedProgram:
    _refuse_objects(path)
    try:
        with _data_alone():
            return torch.export.load(path)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"'{path}' holds pickled objects that could run code when they are read.",
            hint="Write it again with torch.export.save, with plain tensors as example inputs.",
        ) from error
    except Exception as error:
        raise InputError(
            f"'{path}' is no exported program that this PyTorch reads: {_reason(error)}",
            hint="Write it with torch.export.save; a file of a newer PyTorch needs that version.",
        ) from error


def _refuse_objects(path: Path) -> None:
    """Refuses an archive with constants that `torch.export.load` unpickles by other means than `torch.load`.

    Raises:
        InputError: It holds one, or is no archive.
    """
    if not zipfile.is_zipfile(path):
        raise InputError(f"'{path}' is no exported program.", hint="Write it with torch.export.save.")
    with zipfile.ZipFile(path) as archive:
        found = next((name for name in archive.namelist() if any(place in name for place in OBJECTS)), None)
    if found is not None:
        raise InputError(
            f"'{path}' holds an object that could run code when it is read: {found}",
            hint="Export the model without script objects among its constants.",
        )


@contextmanager
def _data_alone() -> Iterator[None]:
    """A context in which `torch.load` takes nothing but tensors and plain values, whatever its caller asks for."""
    before = {name: os.environ.pop(name, None) for name in (WEIGHTS_ONLY, NOT_WEIGHTS_ONLY)}
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        del os.environ[WEIGHTS_ONLY]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _script(path: Path) -> torch.jit.ScriptModule:
    if not _holds_code(path):
        raise InputError(
            f"'{path}' holds no model but data, such as weights written by torch.save.",
            hint="Weights alone cannot run: name a factory that loads them as torch:FILE.py:NAME, or save TorchScript.",
        )
    try:
        with warnings.catch_warnings():  # torch.jit is deprecated; people still deploy with it
            warnings.filterwarnings("ignore", message=r".*torch\.jit\.load", category=DeprecationWarning)
            return torch.jit.load(path, map_location="cpu")
    except Exception as error:
        raise InputError(
            f"'{path}' is no TorchScript that this PyTorch reads: {_reason(error)}",
            hint="Write it with torch.jit.save.",
        ) from error


def _holds_code(path: Path) -> bool:
    """Whether the file is an archive with TorchScript code; plain pickles are not opened at all."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(Path(name).name == "constants.pkl" for name in archive.namelist())


def from_factory(reference: str) -> Any:
    """What the factory NAME in FILE.py returns.

    Args:
        reference: ``FILE.py:NAME``.

    Raises:
        InputError: There is no such file or name, or the code in it fails.
    """
    file, _, name = reference.rpartition(":")
    path = Path(file)
    if not file or path.suffix != ".py":
        raise InputError(f"'torch:{reference}' names no factory.", hint="Write torch:FILE.py:NAME.")
    if not path.is_file():
        raise InputError(f"There is no file '{path}'.", hint="Check the path before the last colon.")
    with imports_from(path.resolve().parent):
        module = _explained(lambda: import_file(path), f"'{path}' does not import")
        factory = getattr(module, name, None)
        if factory is None:
            known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
            raise InputError.unknown("factory", name, known)
        if not callable(factory):
            raise InputError(f"'{name}' in '{path}' is not callable.", hint="Name a function that returns the model.")
        return _explained(factory, f"The factory '{name}' in '{path}' failed")


def _explained(work: Callable[[], Any], what: str) -> Any:
    """What ``work`` returns; its exceptions, ends of the program among them, become an `InputError`."""
    try:
        return work()
    except ParityError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}: {_reason(error)}", hint="Run the file in Python to see where.") from error


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"
