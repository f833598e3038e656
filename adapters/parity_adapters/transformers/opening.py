"""Opens folders in the form of Hugging Face: ``config.json`` and weights in safetensors. Nothing is downloaded."""

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
import transformers

from parity.adapter import not_opened
from parity.errors import InputError
from parity_adapters.torch.opening import BY_PRODUCTS, cast, wanted_dtype
from parity_adapters.torch.programs import program
from parity_adapters.torch.session import TorchSession
from parity_adapters.transformers.signatures import specs

READS: Final = "folders with config.json and *.safetensors, or hf:DIR"


def open_model(model: Any, options: Mapping[str, str]) -> TorchSession:
    """The session of a folder or a live model; arguments and errors are those of `parity.adapter.Adapter.open`."""
    dtype = wanted_dtype(options)
    missing: tuple[str, ...] = ()
    if isinstance(model, str | Path):
        model, missing = _load(str(model))
    if not isinstance(model, transformers.PreTrainedModel):
        raise not_opened("transformers", type(model).__name__, READS)
    model.config.use_cache = False
    return TorchSession(program(cast(model, dtype), specs(model)), dtype, _told(missing), missing, BY_PRODUCTS)


def _load(reference: str) -> tuple[transformers.PreTrainedModel, tuple[str, ...]]:
    """The model in a folder, and the names of weights that the folder lacks."""
    folder = Path(reference.removeprefix("hf:"))
    if not folder.is_dir():
        if reference.startswith("hf:"):
            raise InputError(
                f"There is no folder '{folder}'.", hint="Models are read from the disk alone; download it."
            )
        raise not_opened("transformers", reference, READS)
    declared = _declared(folder)
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            f"'{folder}' holds no weights in safetensors.",
            hint="Other formats can run code when they are read; convert them with save_pretrained.",
        )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # weights that the file lacks are drawn at random: the same in every session
            model, report = _class(declared).from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no message"])[0]
        raise InputError(
            f"transformers {transformers.__version__} does not load '{folder}': {type(error).__name__}: {reason}",
            hint="Check that the folder is complete and that its model_type is known to this version.",
        ) from error
    return model.eval(), tuple(sorted(report["missing_keys"]))


def _declared(folder: Path) -> dict[str, Any]:
    """The folder's ``config.json``."""
    path = folder / "config.json"
    try:
        declared = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"'{folder}' holds no config.json.", hint="Write it with save_pretrained.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' is no JSON: {error}", hint="Write it again with save_pretrained.") from error
    if not isinstance(declared, dict):
        raise InputError(f"'{path}' holds no JSON object.", hint="Write it again with save_pretrained.")
    return declared


def _class(declared: Mapping[str, Any]) -> Any:
    """The first class of ``architectures`` that transformers has; ``AutoModel`` where it has none."""
    for name in declared.get("architectures") or ():
        found = getattr(transformers, str(name), None)
        if inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel):
            return found
    return transformers.AutoModel


def _told(missing: tuple[str, ...]) -> tuple[str, ...]:
    """What a report says of weights that the folder lacks."""
    if not missing:
        return ()
    shown = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")
    return (f"The folder lacks {len(missing)} weights of its model ({shown}): they were drawn at random.",)
