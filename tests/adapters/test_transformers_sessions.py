"""Folders of Hugging Face models as sessions."""

import json
from pathlib import Path

import numpy as np
import pytest

from parity.errors import InputError
from parity.testing.sessions import check_session, traced

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from parity_adapters.torch import adapter as torch_adapter  # noqa: E402
from parity_adapters.transformers import adapter  # noqa: E402

RANDOM = np.random.default_rng(7)
TINY = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 40}


def tokens(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 40, shape)


def saved(folder: Path, model: type, config: object) -> str:
    torch.manual_seed(3)
    model(config).save_pretrained(folder)
    return str(folder)


def bert(folder: Path) -> str:
    return saved(folder, transformers.BertModel, transformers.BertConfig(**TINY))


def llama(folder: Path) -> str:
    config = transformers.LlamaConfig(**TINY, num_key_value_heads=1)
    return saved(folder, transformers.LlamaForCausalLM, config)


def t5(folder: Path) -> str:
    config = transformers.T5Config(
        d_model=16, d_ff=32, d_kv=8, num_layers=2, num_heads=2, vocab_size=40, decoder_start_token_id=0
    )
    return saved(folder, transformers.T5Model, config)


def vit(folder: Path) -> str:
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = transformers.ViTConfig(**{name: TINY[name] for name in names}, image_size=16, patch_size=8)
    return saved(folder, transformers.ViTModel, config)


@pytest.mark.parametrize(
    ("make", "inputs", "output"),
    [
        (
            bert,
            {"input_ids": tokens(2, 6), "attention_mask": np.array([[1] * 6, [1] * 4 + [0] * 2])},
            "last_hidden_state",
        ),
        (llama, {"input_ids": tokens(2, 6)}, "logits"),
        (t5, {"input_ids": tokens(2, 6), "decoder_input_ids": tokens(2, 3)}, "last_hidden_state"),
        (vit, {"pixel_values": RANDOM.standard_normal((2, 3, 16, 16)).astype(np.float32)}, "last_hidden_state"),
    ],
    ids=["bert", "llama", "t5", "vit"],
)
def test_session_is_exact(make, inputs: dict[str, np.ndarray], output: str, tmp_path: Path) -> None:
    with adapter.open(f"hf:{make(tmp_path)}", {}) as session:
        check_session(session, inputs)
        sites, _, ends = traced(session, inputs)
        assert next(iter(ends.outputs)) == output
        assert "past_key_values" not in " ".join(ends.outputs)
        assert ends.named_outputs
        assert ends.notes == ()
        assert set(inputs) <= set(session.inputs())
        assert any(site.source and site.source.startswith("transformers/models/") for site in sites)


@pytest.mark.parametrize("live", [False, True])
def test_what_stands_beside_the_result_is_told_of_folders_and_of_live_models(live: bool, tmp_path: Path) -> None:
    folder = bert(tmp_path)
    if live:
        session = torch_adapter.open(transformers.BertModel.from_pretrained(folder).eval(), {})
    else:
        session = adapter.open(folder, {})
    _, _, ends = traced(session, {"input_ids": tokens(2, 6)})
    assert list(ends.outputs) == ["last_hidden_state", "pooler_output"]
    assert ends.by_products == ("pooler_output",)


def test_inputs_are_specified_from_the_configuration(tmp_path: Path) -> None:
    specs = adapter.open(bert(tmp_path / "bert"), {}).inputs()
    assert list(specs) == ["input_ids", "attention_mask", "token_type_ids"]
    assert (specs["input_ids"].dtype, specs["input_ids"].shape, specs["input_ids"].limit) == ("int64", (None, None), 40)
    assert [spec.optional for spec in specs.values()] == [False, True, True]
    assert adapter.open(vit(tmp_path / "vit"), {}).inputs()["pixel_values"].shape == (None, 3, 16, 16)
    assert "decoder_input_ids" in adapter.open(t5(tmp_path / "t5"), {}).inputs()


def test_the_dtype_asked_for(tmp_path: Path) -> None:
    session = adapter.open(llama(tmp_path), {"dtype": "bfloat16"})
    check_session(session, {"input_ids": tokens(2, 5)})
    assert session.run({"input_ids": tokens(2, 5)})["logits"].dtype.name == "bfloat16"


def test_weights_that_the_folder_lacks_are_told_of_and_the_same_each_time(tmp_path: Path) -> None:
    folder = saved(tmp_path, transformers.BertForMaskedLM, transformers.BertConfig(**TINY))
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": ["BertModel"]}))
    first, second = (adapter.open(folder, {}) for _ in range(2))
    inputs = {"input_ids": tokens(1, 4)}
    for name, value in first.run(inputs).items():
        np.testing.assert_array_equal(value, second.run(inputs)[name])
    (note,) = traced(first, inputs)[2].notes
    assert "pooler" in note


def test_an_unknown_architecture_falls_back_to_the_bare_model(tmp_path: Path) -> None:
    folder = bert(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": ["OurOwnModel"]}))
    assert "last_hidden_state" in adapter.open(folder, {}).run({"input_ids": tokens(1, 4)})


def test_code_in_the_folder_is_not_run(tmp_path: Path) -> None:
    bert(tmp_path)
    (tmp_path / "own.py").write_text("raise AssertionError('was run')")
    config = tmp_path / "config.json"
    declared = json.loads(config.read_text()) | {
        "model_type": "our_own",
        "architectures": ["OurOwnModel"],
        "auto_map": {"AutoConfig": "own.OurOwnConfig", "AutoModel": "own.OurOwnModel"},
    }
    config.write_text(json.dumps(declared))
    with pytest.raises(InputError, match="does not load"):
        adapter.open(str(tmp_path), {})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no config.json"),
        ({"config.json": "{"}, "no JSON"),
        ({"config.json": "[]"}, "no JSON object"),
        ({"config.json": '{"model_type": "bert"}'}, "no weights in safetensors"),
        ({"config.json": '{"model_type": "bert"}', "pytorch_model.bin": "x"}, "no weights in safetensors"),
        ({"config.json": '{"model_type": "bert"}', "model.safetensors": "garbage"}, "does not load"),
    ],
)
def test_bad_folders_are_input_errors(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        adapter.open(f"hf:{tmp_path}", {})
    assert caught.value.hint


@pytest.mark.parametrize("reference", ["hf:no/such/folder", "no/such/folder", "model.onnx"])
def test_bad_references_are_input_errors(reference: str) -> None:
    with pytest.raises(InputError):
        adapter.open(reference, {})


def test_inputs_that_do_not_fit_are_input_errors(tmp_path: Path) -> None:
    session = adapter.open(bert(tmp_path), {})
    for inputs in ({"input_ids": np.full((1, 4), 41)}, {"input_ids": tokens(1, 4), "wrong": tokens(1, 4)}):
        with pytest.raises(InputError):
            session.run(inputs)
