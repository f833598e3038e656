"""Configs of other libraries, and the formats that are no JSON."""

import io
import json
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.functions import FORMULAS
from parity.scanner.knowledge.files import data
from parity.scanner.knowledge.names import parsed
from parity.scanner.model import Unreadable
from parity.scanner.readers import exported_program, gguf, keras
from parity.scanner.source import Source


def formats(report):
    return list(report.coverage["files"])


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("gelu", "gelu_erf"),
        ("gelu-approximate", "gelu_tanh"),
        ("geglu", "geglu_erf"),
        ("geglu-approximate", "quick_gelu"),
        ("swiglu", "swiglu"),
        ("linear-silu", "silu"),
    ],
)
def test_feed_forward_layers_of_diffusers(scanned, name, variant):
    report = scanned({"_class_name": "DiT", "_diffusers_version": "0.29.0", "activation_fn": name, "act_fn": "silu"})
    assert formats(report) == ["diffusers"]
    assert {use.path: use.variant for use in report.activations} == {"activation_fn": variant, "act_fn": "silu"}


TOWERS = {"embed_dim": 8, "vision_cfg": {"layers": 12}, "text_cfg": {"layers": 12}}


@pytest.mark.parametrize("path", ["", "model_cfg."])
@pytest.mark.parametrize(("flag", "variant"), [(True, "quick_gelu"), (False, "gelu_erf")])
def test_the_flag_of_open_clip(scanned, path, flag, variant):
    config = TOWERS | {"quick_gelu": flag}
    report = scanned({"model_cfg": config, "preprocess_cfg": {}} if path else config)
    assert formats(report) == ["open_clip"]
    assert {use.path: use.variant for use in report.activations} == {f"{path}quick_gelu": variant}


def test_open_clip_without_the_flag_has_none_and_says_what_that_means(scanned):
    report = scanned(TOWERS)
    assert report.activations == ()
    assert [one.severity for one in report.findings] == ["note"]


def test_arguments_and_other_towers_of_open_clip(variants):
    config = TOWERS | {
        "text_cfg": {"act_kwargs": {"approximate": "tanh"}},
        "vision_cfg": {"naiveswiglu": True},
        "x_cfg": {"hidden_act": "silu"},
    }
    assert variants(config) == {
        "text_cfg.act_kwargs.approximate": "gelu_tanh",
        "vision_cfg.naiveswiglu": "swiglu",
        "x_cfg.hidden_act": "silu",
    }


@pytest.mark.parametrize(
    ("path", "variant"),
    [
        ("torch.nn.modules.activation.Tanh", "tanh"),
        ("torch.nn.modules.activation.GELU", "gelu_erf"),
        ("torch.nn.modules.linear.Identity", "identity"),
        ("torch.nn.GELU(approximate='tanh')", "gelu_tanh"),
        ("my.package.Thing", None),
    ],
)
def test_classes_of_sentence_transformers(scanned, path, variant):
    report = scanned({"in_features": 8, "out_features": 8, "bias": True, "activation_function": path})
    assert formats(report) == ["sentence_transformers"]
    assert {use.path: use.variant for use in report.activations} == {"activation_function": variant}


def test_the_function_of_a_cross_encoder(variants):
    config = {"model_type": "bert", "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}
    assert variants(config)["sentence_transformers.activation_fn"] == "sigmoid"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_args": {"act_layer": "gelu_tanh"}}, {"model_args.act_layer": "gelu_tanh"}),
        ({"model_args": {"act_layer": "quick_gelu"}}, {"model_args.act_layer": "quick_gelu"}),
        ({"architecture": "vit_base_patch16_clip_quickgelu_224"}, {"architecture": "quick_gelu"}),
        ({"architecture": "vit_base_patch16_siglip_224"}, {"architecture": "gelu_tanh"}),
        ({}, {}),
    ],
)
def test_timm(variants, config, expected):
    assert variants({"architecture": "vit_base", "num_features": 8, "pretrained_cfg": {}} | config) == expected


def test_mlx_models_that_fix_their_activation(scanned):
    quantization = {"quantization": {"group_size": 64, "bits": 4}}
    report = scanned({"model_type": "gemma", "hidden_act": "gelu_pytorch_tanh"} | quantization)
    assert formats(report) == ["mlx"]
    assert [(use.variant, use.basis) for use in report.activations] == [("gelu_erf", "model-code")]
    report = scanned({"model_type": "llama", "hidden_act": "silu"} | quantization)
    assert [(use.variant, use.basis) for use in report.activations] == [("silu", "config")]


def layer(name, /, **config):
    return {"module": "keras.layers", "class_name": name, "config": config, "registered_name": None}


def function(name):
    return {"module": "builtins", "class_name": "function", "config": name, "registered_name": name}


LAYERS = [
    layer("Dense", activation="gelu"),
    layer("Dense", activation="linear"),
    layer("Dense", activation="softmax"),
    layer("Dense", activation=function("keras_hub>gelu_approximate")),
    layer("LSTM", activation="tanh", recurrent_activation="hard_sigmoid"),
    layer("LeakyReLU", negative_slope=0.1),
    layer("Activation", activation="leaky_relu"),
    layer("TimeDistributed", layer=layer("Dense", activation="silu")),
    layer("BertBackbone", hidden_dim=2),
    layer("Activation", activation="my_own"),
]

EXPECTED = {
    "config.layers[0].config.activation": ("gelu_erf", {}),
    "config.layers[3].config.activation.config": ("gelu_tanh", {}),
    "config.layers[4].config.activation": ("tanh", {}),
    "config.layers[4].config.recurrent_activation": ("hard_sigmoid", {}),
    "config.layers[5].class_name": ("leaky_relu", {"negative_slope": 0.1}),
    "config.layers[6].config.activation": ("leaky_relu", {"negative_slope": 0.2}),
    "config.layers[7].config.layer.config.activation": ("silu", {}),
    "config.layers[8].class_name": ("gelu_tanh", {}),
    "config.layers[9].config.activation": (None, {}),
}


def model(**more):
    return layer("Sequential", name="s", layers=LAYERS) | more


def archive(config, metadata=None):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        if metadata is not None:
            target.writestr("metadata.json", metadata)
        if config is not None:
            target.writestr("config.json", config)
    return file.getvalue()


def test_layers_of_keras(scanned):
    report = scanned(model())
    assert formats(report) == ["keras"]
    assert {use.path: (use.variant, dict(use.parameters)) for use in report.activations} == EXPECTED
    assert [one.rule for one in report.findings] == ["config-unknown-activation"]


def test_an_archive_of_keras_and_what_its_version_means(scanned):
    for version, slope in (("3.15.0", {}), ("2.15.0", {"slope": 0.2})):
        data = archive(json.dumps(model()), json.dumps({"keras_version": version}))
        report = scanned(data, name="m.keras")
        found = {use.path: (use.variant, dict(use.parameters)) for use in report.activations}
        expected = EXPECTED | {"config.layers[4].config.recurrent_activation": ("hard_sigmoid", slope)}
        assert found == expected
        assert next(iter(report.coverage["facts"].values()))["version"] == version


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not a zip", "is no .keras archive that can be read"),
        (archive(None, "{}"), "holds no config.json"),
        (archive(b"[" * (40 << 20)), "unpacks to more than 32 MB"),
        (archive(b"{"), "is no JSON"),
        (archive("{}")[:60], "is no .keras archive that can be read"),
    ],
)
def test_archives_that_cannot_be_read(content, said):
    with pytest.raises(Unreadable, match=said):
        keras.read(Source.of_bytes(content, "m.keras"))


def text(value):
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def metadata(version=3, **values):
    """A GGUF file with strings, booleans and lists of strings."""
    body = b""
    for key, value in values.items():
        body += text(key.replace("__", "."))
        if isinstance(value, bool):
            body += struct.pack("<I?", 7, value)
        elif isinstance(value, str):
            body += struct.pack("<I", 8) + text(value)
        else:
            body += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(values)) + body


@pytest.mark.parametrize(
    ("values", "path", "variant"),
    [
        ({"general__architecture": "clip", "clip__use_gelu": True}, "clip.use_gelu", "gelu_tanh"),
        ({"general__architecture": "clip", "x": ["a", "b"], "clip__use_silu": True}, "clip.use_silu", "silu"),
        ({"general__architecture": "clip", "clip__use_gelu": False}, "clip.use_gelu", "quick_gelu"),
        ({"general__architecture": "clip"}, "clip.use_gelu", "quick_gelu"),
        ({"tokens": ["a"] * 5_000, "general__architecture": "bert"}, "general.architecture", "gelu_tanh"),
    ],
)
def test_gguf(scanned, values, path, variant):
    report = scanned(metadata(**values), name="m.gguf")
    assert formats(report) == ["gguf"]
    assert {use.path: use.variant for use in report.activations} == {path: variant}


def test_gguf_of_an_unknown_architecture(scanned):
    report = scanned(metadata(general__architecture="new"), name="m.gguf")
    assert report.activations == ()
    assert [(one.severity, "'new' is not known here" in one.message) for one in report.findings] == [("note", True)]


@pytest.mark.parametrize("slope", [10**400, float("nan"), float("inf"), True, "0.2", None])
def test_a_slope_that_is_no_number_is_the_usual_one(scanned, slope):
    config = {"class_name": "Sequential", "config": {"layers": [layer("LeakyReLU", negative_slope=slope)]}}
    (use,) = scanned(config).activations
    assert (use.variant, use.parameters) == ("leaky_relu", {"negative_slope": 0.3})


def test_gguf_of_endless_vocabularies_is_not_read_through(monkeypatch):
    monkeypatch.setattr(gguf, "MOST_STRINGS", 3)
    vocabulary = b"".join(struct.pack("<Q", 0) for _ in range(2))
    pair = struct.pack("<Q", 1) + b"x" + struct.pack("<IIQ", 9, 8, 2) + vocabulary
    file = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + pair * 2
    with pytest.raises(Unreadable, match="more than 3 strings"):
        gguf.read(Source.of_bytes(file, "m.gguf"))


WHOLE = metadata(general__architecture="clip", tokens=["a", "bc"], clip__use_gelu=True)


@pytest.mark.parametrize("size", range(4, len(WHOLE)))
def test_gguf_cut_off_anywhere(size):
    with pytest.raises(Unreadable, match="cut off"):
        gguf.read(Source.of_bytes(WHOLE[:size], "m.gguf"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (metadata(version=1), "version 1"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(20), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "claims"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 99), "unknown type 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1), "array of type 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 62), "cut off"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 1 << 62), "cut off"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 20), "key of 1,048,576 bytes"),
    ],
)
def test_gguf_that_breaks_the_format(content, said):
    with pytest.raises(Unreadable, match=said):
        gguf.read(Source.of_bytes(content, "m.gguf"))


@given(st.binary(max_size=120))
def test_gguf_of_any_bytes_is_read_or_refused(body):
    try:
        gguf.read(Source.of_bytes(b"GGUF\x03\x00\x00\x00" + body, "m.gguf"))
    except Unreadable:
        return


@given(st.binary(max_size=120), st.integers(0, 200), st.integers(1, 80))
def test_archives_with_any_bytes_in_them_are_read_or_refused(garbage, at, length):
    whole = archive("{}", "{}")
    try:
        keras.read(Source.of_bytes(whole[:at] + garbage + whole[at + length :], "m.keras"))
    except Unreadable:
        return


def test_all_that_is_known_are_variants_of_the_registry():
    known = [
        *data("keras")["functions"].values(),
        *data("keras")["layers"].values(),
        *data("gguf")["read"].values(),
        *data("gguf")["assumed"].values(),
    ]
    for text_ in filter(None, known):
        found = parsed(text_)
        assert found.parameters.keys() <= FORMULAS[found.variant].parameters.keys()


def test_a_small_archive_that_unpacks_to_a_large_program_is_not_read(tmp_path):
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", b"[" + b"{}," * exported_program.MOST_PARTS + b"0]")
    with pytest.raises(Unreadable, match=r"its model\.json has more than 8,388,608 parts"):
        exported_program.read(Source.of_file(str(path)))
