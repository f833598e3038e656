"""Inputs for any model of transformers, by the names of its parameters."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product
from typing import Any, Final

import torch
from transformers import PreTrainedConfig

from scan_truth.shrinking import parts

LENGTH: Final = 16
"""Tokens of a text."""

MOST: Final = 10
"""Combinations of inputs that are tried, for each choice of parameters."""

Choices = tuple[Any, ...]


class Sizes:
    """Sizes that a config, or one of those in it, gives.

    Args:
        config: The config of the module that is to run.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        self._configs = list(parts(config))

    def get(self, *names: str, default: int = 0) -> int:
        """The first number under one of these names."""
        for config in self._configs:
            for name in names:
                value = getattr(config, name, None)
                if isinstance(value, list | tuple) and value:
                    value = value[0]
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        return default

    @property
    def image(self) -> tuple[int, int]:
        """Height and width."""
        for config in self._configs:
            for name in ("image_size", "img_size", "input_size", "resolution"):
                value = getattr(config, name, None)
                if isinstance(value, list | tuple) and len(value) == 2:
                    return value[0], value[1]
                if isinstance(value, dict) and "height" in value:
                    return value["height"], value["width"]
                if isinstance(value, int):
                    return value, value
        patch = self.get("patch_size", default=16)
        return max(64, 4 * patch), max(64, 4 * patch)


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _ids(size: int, *shape: int) -> torch.Tensor:
    low = min(5, max(size - 2, 0))
    return torch.randint(low, max(min(size, 200), low + 1), shape, generator=torch.Generator().manual_seed(0))


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def _tokens(sizes: Sizes) -> Choices:
    size = sizes.get("vocab_size", "n_vocab", "text_vocab_size", default=100)
    books = sizes.get("num_codebooks", "num_channels", "n_codes_total", default=0)
    more = (_ids(size, 1, LENGTH, books), _ids(size, 1, books, LENGTH)) if books else ()
    return (_ids(size, 1, LENGTH), *more, _ids(size, 1, 64), _ids(size, 1, 2, LENGTH))


def _pixels(sizes: Sizes) -> Choices:
    height, width = sizes.image
    channels = sizes.get("num_channels", "in_channels", "in_chans", "image_channels", default=3)
    patch = sizes.get("patch_size", default=16)
    time = sizes.get("temporal_patch_size", default=1)
    return (
        _numbers(1, channels, height, width),
        _numbers(1, 1, channels, height, width),
        _numbers(GRID * GRID, channels * time * patch * patch),
        _numbers(GRID * GRID, channels, patch, patch),
        _numbers(1, GRID * GRID, channels * patch * patch),
        _numbers(1, 3, 224, 224),
        _numbers(1, 3, 64, 64),
        _numbers(1, 1, 1, channels, height, width),
        _numbers(1, 3, 512, 512),
    )


GRID: Final = 4
"""Patches of an image along each side, where they are given as such."""


def _video(sizes: Sizes) -> Choices:
    height, width = sizes.image
    frames = sizes.get("num_frames", "frames_per_clip", "tubelet_size", default=2)
    channels = sizes.get("num_channels", "in_channels", default=3)
    return (_numbers(1, frames, channels, height, width), _numbers(1, channels, frames, height, width), *_pixels(sizes))


def _sound(sizes: Sizes) -> Choices:
    bins = sizes.get("num_mel_bins", default=80)
    length = sizes.get("max_length", "spectrogram_length", default=128)
    channels = sizes.get("audio_channels", default=1)
    return (
        _numbers(1, 4000),
        _numbers(1, channels, 4000),
        _numbers(1, length, bins),
        _numbers(1, 1, length, bins),
        _numbers(1, 16000),
        _numbers(1, channels, 32000),
    )


def _features(sizes: Sizes) -> Choices:
    bins = sizes.get("num_mel_bins", "n_mels", "input_feat_size", "feature_size", "input_size", "input_dim", default=80)
    positions = sizes.get("max_source_positions", default=0)
    fed = sizes.get("feature_projection_input_dim", default=160)
    long = (_numbers(1, bins, 2 * positions),) if positions else ()
    return (
        *long,
        _numbers(1, bins, 64),
        _numbers(1, 64, bins),
        _numbers(1, 64, fed),
        _numbers(1, 1, bins, 64),
        _numbers(1, 1, 64, bins),
        _numbers(1, bins, 200),
        _numbers(1, 200, bins),
        _numbers(1, 4, 1, 64, bins),
        _numbers(bins, 64),
    )


def _hidden(sizes: Sizes) -> Choices:
    width = sizes.get("hidden_size", "d_model", "embed_dim", "hidden_dim", default=64)
    return (*_pixels(sizes)[2:4], _numbers(1, LENGTH, width), _numbers(1, width, LENGTH), _numbers(LENGTH, width))


def _series(sizes: Sizes) -> Choices:
    length = sizes.get("context_length", default=64)
    channels = sizes.get("num_input_channels", default=1)
    lags = length + 8
    return (
        _numbers(1, length, channels),
        _numbers(1, lags),
        _numbers(1, length),
        [_numbers(length)],
        _numbers(1, lags, 1),
    )


def _grid(_: Sizes) -> Choices:
    return (torch.tensor([[1, GRID, GRID]]), torch.tensor([[GRID, GRID]]))


def _boxes(_: Sizes) -> Choices:
    return (torch.arange(4).expand(1, LENGTH, 4) * 10, torch.arange(4).expand(1, LENGTH, 4) / 10)


def _mask(_: Sizes) -> Choices:
    return (_ones(1, LENGTH), _ones(1, 64), torch.ones(1, 64, dtype=torch.bool))


KNOWN: Final[Mapping[str, Callable[[Sizes], Choices]]] = {
    "input_ids": _tokens,
    "decoder_input_ids": _tokens,
    "protein_input_ids": _tokens,
    "qformer_input_ids": _tokens,
    "pixel_values": _pixels,
    "image": _pixels,
    "images": _pixels,
    "pixel_values_videos": _video,
    "input_values": _sound,
    "input_features": _features,
    "audio_features": _features,
    "audio_mel": _features,
    "hidden_states": _hidden,
    "input": _hidden,
    "inputs_embeds": _hidden,
    "query_embeds": _hidden,
    "latents": _hidden,
    "past_values": _series,
    "grid_thw": _grid,
    "image_grid_thw": _grid,
    "video_grid_thw": _grid,
    "bbox": _boxes,
    "attention_mask": _mask,
    "protein_attention_mask": _mask,
    "qformer_attention_mask": _mask,
    "input_features_mask": lambda _: (_ones(1, 64), torch.ones(1, 64, dtype=torch.bool), _ones(1, 200)),
    "audio_mel_mask": lambda _: (torch.zeros(1, 64, dtype=torch.bool),),
    "feature_attention_mask": _mask,
    "pixel_attention_mask": lambda s: (torch.ones(1, *s.image, dtype=torch.bool), _ones(1, GRID * GRID)),
    "spatial_shapes": _grid,
    "image_sizes": lambda s: (torch.tensor([s.image]), [s.image]),
    "image_position_ids": lambda _: (_positions(),),
    "pixel_position_ids": lambda _: (_positions(),),
    "past_observed_mask": lambda s: tuple(map(torch.ones_like, _series(s)[:3])),
    "past_time_features": lambda s: (_numbers(1, s.get("context_length", default=64) + 8, 1),),
    "past_values_padding": lambda s: (torch.zeros(1, s.get("context_length", default=64)),),
    "freq": lambda _: (torch.zeros(1, 1, dtype=torch.int64),),
    "merge_sizes": lambda _: (torch.tensor([1]), torch.tensor([2])),
    "noise_embeds": _hidden,
    "context_hidden_states": _hidden,
    "xpath_tags_seq": lambda s: (_ids(s.get("max_xpath_tag_unit_embeddings"), 1, LENGTH, s.get("max_depth")),),
    "xpath_subs_seq": lambda s: (_ids(s.get("max_xpath_subs_unit_embeddings"), 1, LENGTH, s.get("max_depth")),),
    "return_loss": lambda _: (False,),
}
"""Values to try by the name of a parameter, the likeliest first."""

BESIDE: Final = ("decoder_input_ids", "bbox", "image", "xpath_tags_seq", "xpath_subs_seq")
"""Parameters that may be left out and still are given first."""


MEDIA: Final = ("pixel_values", "input_features", "input_values")
"""Parameters that some models insist on although they may be left out."""


def _positions() -> torch.Tensor:
    side = torch.arange(GRID)
    return torch.cartesian_prod(side, side)[None]


def inputs(call: Callable[..., Any], config: PreTrainedConfig, main: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Sets of arguments for a call, the likeliest first.

    Args:
        call: A forward pass, or another method that takes inputs.
        config: Of the module that it belongs to.
        main: Names of parameters that make a full input where the signature requires none.
    """
    sizes = Sizes(config)
    parameters = inspect.signature(call).parameters
    needed = [
        name
        for name, one in parameters.items()
        if one.default is inspect.Parameter.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    optional = [name for name in (*main, *BESIDE) if name in parameters and name not in needed]
    if not getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in optional:
        optional.remove("decoder_input_ids")
    unknown = [name for name in needed if name not in KNOWN]
    if unknown:
        raise TypeError(f"no dummy for {', '.join(unknown)}")
    media = [name for name in MEDIA if name in parameters and name not in (*needed, *optional)]
    for names in dict.fromkeys(
        [(*needed, *optional), (*needed, *optional[:1]), tuple(needed), (*needed, *optional, *media), (*needed, *media)]
    ):
        choices = [tuple(KNOWN[name](sizes)) for name in names if name in KNOWN]
        listed = [name for name in names if name in KNOWN]
        for chosen in islice(product(*choices), MOST):
            yield dict(zip(listed, chosen, strict=True))
