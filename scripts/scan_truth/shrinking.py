"""Small configs: the sizes of a model divided by one factor, so that what has to fit together still does."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from transformers import PreTrainedConfig

LAYERS: Final = re.compile(
    r"(?:.*_)?(?:num_)?(?:n_)?(?:hidden_|encoder_|decoder_)?(?:layers?|blocks?|depth)|n_layer|num_layers_.*"
)
"""Numbers of layers."""

DEPTHS: Final = re.compile(
    r"depths?|layers|stage_num_blocks|stage_numb_of_layers|num_block_repeats|blocks_per_stage|block_repeats|num_blocks|"
    r"encoder_layers|block_sizes"
)
"""Lists of numbers of layers, one a stage."""

WIDTHS: Final = re.compile(
    r"(?:.*_)?(?:hidden_size|hidden_sizes|intermediate_size|dims?|d_model|d_ff|d_kv|d_inner|d_embed|d_head|n_embd|n_inner|"
    r"channels?|channel_list|units|rank|filters|width|neck_hidden_sizes|embedding_size|embed_dims?|embed_dim_per_stage|"
    r"head_size|projection_size|output_size|dim_feedforward|inner_size|ffn_hidden|hidden_dims?|dim_head|state_size|"
    r"hidden_dimension|conv_dim|shape_size|coordinate_size|time_step_rank|num_pos_feats|n_state|d_rel|mrope_section|"
    r"axes_dims_rope|emb_dim|feature_size|hidden_size_per_layer_input|kv_channels|query_pre_attn_scalar)"
)
"""Sizes that go together."""

NOT_WIDTHS: Final = re.compile(
    r"(?:in|num|input|mask_input|image|out_in)_channels|num_mel_.*|.*vocab.*|.*codebook_dim|input_feat.*|n_group.*|"
    r"feature_projection_input_dim|.*mel.*|.*max_.*|num_.*channels"
)
"""Sizes of what goes in."""

HEADS: Final = re.compile(r"(?:.*_)?(?:n_?)?(?:num_)?(?:.*_)?heads?(?:_per_layer)?|n_heads?")
"""Numbers of heads."""

OF_HEADS: Final = re.compile(
    r"head_dim|.*_head_dim|d_kv|d_head|dim_head|head_size|.*rope.*|mrope_section|qk_.*|v_.*|kv_channels"
)
"""Sizes that belong to one head."""

EXPERTS: Final = re.compile(r"(?:.*_)?(?:experts|n_routed_experts|num_local_experts|moe_num_experts)")

TOKEN: Final = re.compile(
    r"(?:.*_)?(?:token|tok|start|end|eos|bos|pad|sep|cls|mask|boi|eoi|image|audio|video)_?(?:id|ids|index)"
)
"""Numbers of tokens."""

IMAGES: Final = frozenset({"image_size", "img_size"})
"""Sizes of images."""

VOCABULARY: Final = 1024
"""Tokens that are left."""

LAYER_TYPES: Final = {"layer_types": 1, "layers_block_type": 2}
"""Lists of what each layer is, and how many of each stay: where weights are shared, two share them."""

MOST_EXPERTS: Final = 16


@dataclass(frozen=True, slots=True)
class Shrink:
    """How far a config is made smaller.

    Attributes:
        factor: Widths are divided by it.
        images: Whether images get smaller.
        vocabulary: Whether vocabularies get smaller.
        layers: Layers that are left.
        heads: Whether there are fewer heads in the place of smaller ones.
    """

    factor: int = 16
    images: bool = True
    vocabulary: bool = True
    layers: int = 2
    heads: bool = False

    @property
    def cuts(self) -> bool:
        """Whether layers are taken out."""
        return self.layers < ALL


ALL: Final = 10_000
"""Layers that no model has."""

LADDER: Final = (
    Shrink(),
    Shrink(images=False),
    Shrink(8),
    Shrink(4, heads=True),
    Shrink(4, images=False),
    Shrink(4, images=False, layers=4),
    Shrink(2, images=False, vocabulary=False),
    Shrink(1, images=False, layers=2),
    Shrink(1, images=False, vocabulary=False, layers=ALL),
)
"""Tried in order, until a model can be built and run."""


def shrink(config: PreTrainedConfig, how: Shrink) -> PreTrainedConfig:
    """A smaller config of the same class.

    The JSON in which it is saved is changed, so that what the class derives or checks, it does anew.

    Raises:
        Exception: The class refuses these sizes.
    """
    document = json.loads(config.to_json_string(use_diff=False))
    return read(type(config), json.dumps(_Rules(how, document, {}).smaller_object()))


def read(owner: type[PreTrainedConfig], text: str) -> PreTrainedConfig:
    """The config in the text of a ``config.json``.

    Raises:
        Exception: The class refuses it.
    """
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        file = Path(folder) / "config.json"
        file.write_text(text, encoding="utf-8")
        return owner.from_json_file(file)


def parts(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """A config and all those in it, each once."""
    open_configs, seen = [config], set()
    while open_configs:
        one = open_configs.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        open_configs += [value for value in vars(one).values() if isinstance(value, PreTrainedConfig)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(name: str, value: Any) -> bool:
    return _is_number(value) and value > 2 and LAYERS.fullmatch(name) is not None


def _depth(values: Mapping[str, Any]) -> int:
    """Layers of a config; lists of as many items have one for each."""
    if any(DEPTHS.fullmatch(name) and isinstance(value, list) for name, value in values.items()):
        return 0
    return max((value for name, value in values.items() if _is_count(name, value)), default=0)


@dataclass(slots=True)
class _Rules:
    """What becomes of the values of one config, or of another object in it.

    Attributes:
        how: How far they are made smaller.
        values: All of them.
        tokens: New numbers of tokens by the old ones.
        depth: Layers that there were; 0 where lists are not cut.
        kept: Layers that stay: the first ones of each type, and the first ones.
    """

    how: Shrink
    values: dict[str, Any]
    tokens: dict[int, int]
    depth: int = field(init=False)
    kept: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.depth = _depth(self.values)
        first: set[int] = set()
        for name, count in LAYER_TYPES.items():
            types = self.values.get(name)
            if isinstance(types, list) and len(types) == self.depth:
                first |= {at for at, one in enumerate(types) if types[:at].count(one) < count}
        rest = [at for at in range(self.depth) if at not in first]
        self.kept = sorted([*first, *rest[: max(0, self.how.layers - len(first))]])

    def smaller_object(self) -> dict[str, Any]:
        """The object made smaller."""
        return {name: self._smaller(name, value) for name, value in self.values.items()}

    def _smaller(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return _Rules(self.how, self._cut(name, value), self.tokens).smaller_object()
        if isinstance(value, list):
            return self._list(name, value)
        return self._number(name, value) if _is_number(value) else value

    def _cut(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        """What stays of an object that has an entry for some layers, by their number."""
        if not self.depth or not self.how.cuts or "layer" not in name or not all(str(key).isdigit() for key in value):
            return value
        return {str(self.kept.index(int(key))): one for key, one in value.items() if int(key) in self.kept}

    def _number(self, name: str, value: int) -> int:
        for rule in (self._layers, self._tokens, self._experts, self._image):
            new = rule(name, value)
            if new is not None:
                return new
        return self._width(name, value)

    def _layers(self, name: str, value: int) -> int | None:
        if "shared_layers" in name:
            return 0
        if _is_count(name, value) and self.depth:
            return min(value, max(self.how.layers, len(self.kept)) if value == self.depth else self.how.layers)
        is_start = "dense" in name and ("layer" in name or "replace" in name)
        return 1 if is_start and value > 1 else None

    def _tokens(self, name: str, value: int) -> int | None:
        if not self.how.vocabulary:
            return None
        if value > VOCABULARY and ("vocab" in name or name == "num_embeddings"):
            return VOCABULARY
        if TOKEN.fullmatch(name) and value >= VOCABULARY - 64:
            return self.tokens.setdefault(value, VOCABULARY - 1 - len(self.tokens))
        return None

    def _experts(self, name: str, value: int) -> int | None:
        return MOST_EXPERTS if EXPERTS.fullmatch(name) and value > MOST_EXPERTS and self.how.cuts else None

    def _image(self, name: str, value: int) -> int | None:
        if not self.how.images or name not in IMAGES:
            return None
        patch = self.values.get("patch_size", 16)
        return min(value, 8 * max(patch if _is_number(patch) else 16, 4))

    def _width(self, name: str, value: int) -> int:
        factor = self.how.factor
        if self.how.heads and OF_HEADS.fullmatch(name):
            return value
        if self.how.heads and HEADS.fullmatch(name):
            return max(1, value // factor)
        if not WIDTHS.fullmatch(name) or NOT_WIDTHS.fullmatch(name):
            return value
        return value // factor if value % factor == 0 else value

    def _list(self, name: str, value: list[Any]) -> list[Any]:
        if not self.how.cuts:
            return value
        if self.depth and len(value) == self.depth:
            value = [value[at] for at in self.kept]
        if DEPTHS.fullmatch(name) and all(map(_is_number, value)):
            return [min(one, 2) for one in value]
        return [self._smaller(name, one) for one in value]
