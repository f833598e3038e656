"""What a model of transformers takes, read from its configuration."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

import transformers

from parity.graph import InputSpec

_TOKENS: Final = frozenset({"input_ids", "decoder_input_ids"})


def specs(model: transformers.PreTrainedModel) -> dict[str, InputSpec]:
    """The inputs that decide the result, in call order; empty for models that take none of the usual ones."""
    config = model.config
    text = config.get_text_config()
    known = {**_of_text(text), **_of_images(config), **_of_sound(config)}
    names = [name for name in inspect.signature(model.forward).parameters if name in known]
    if "decoder_input_ids" in names and not config.is_encoder_decoder:
        names.remove("decoder_input_ids")
    return {name: known[name] for name in names}


def _of_text(text: Any) -> Mapping[str, InputSpec]:
    found = {}
    vocabulary = getattr(text, "vocab_size", None)
    if vocabulary:
        found = {name: InputSpec(dtype="int64", shape=(None, None), limit=vocabulary) for name in _TOKENS}
        found["attention_mask"] = InputSpec(dtype="int64", shape=(None, None), limit=2, optional=True)
    types = getattr(text, "type_vocab_size", None)
    if types:
        found["token_type_ids"] = InputSpec(dtype="int64", shape=(None, None), limit=types, optional=True)
    return found


def _of_images(config: Any) -> Mapping[str, InputSpec]:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None)
    if size is None:
        return {}
    height, width = size if isinstance(size, list | tuple) else (size, size)
    shape = (None, getattr(vision, "num_channels", 3), height, width)
    return {"pixel_values": InputSpec(dtype="float32", shape=shape)}


def _of_sound(config: Any) -> Mapping[str, InputSpec]:
    found = {"input_values": InputSpec(dtype="float32", shape=(None, None))}
    bins = getattr(config, "num_mel_bins", None)
    if bins:
        frames = 2 * config.max_source_positions if hasattr(config, "max_source_positions") else None
        found["input_features"] = InputSpec(dtype="float32", shape=(None, bins, frames))
    return found
