"""``config.json`` of Hugging Face: what each field means in its model class."""

import pytest

from parity.functions import FORMULAS
from parity.scanner.knowledge.files import data
from parity.scanner.knowledge.names import parsed

TANH = "gelu_pytorch_tanh"
DBRX = {"ffn_act_fn": {"name": "gelu"}}
LLAMA = {"model_type": "llama"}


def rules(report, severity=None):
    return [one.rule for one in report.findings if severity in (None, one.severity)]


@pytest.mark.parametrize(
    ("config", "path", "variant", "basis"),
    [
        ({"model_type": "bert", "hidden_act": "gelu"}, "hidden_act", "gelu_erf", "config"),
        ({"model_type": "bert", "hidden_act": "gelu_new"}, "hidden_act", "gelu_tanh", "config"),
        ({"model_type": "bert"}, "hidden_act", "gelu_erf", "class-default"),
        ({"model_type": "gemma", "hidden_act": "gelu"}, "hidden_act", "gelu_tanh", "model-code"),
        ({"model_type": "gemma", "hidden_act": "gelu_pytorch_tanh"}, "hidden_act", "gelu_tanh", "config"),
        ({"model_type": "t5", "feed_forward_proj": "gated-gelu"}, "feed_forward_proj", "gelu_tanh", "model-code"),
        ({"model_type": "t5", "feed_forward_proj": "gated-silu"}, "feed_forward_proj", "silu", "config"),
        ({"model_type": "t5", "feed_forward_proj": "relu"}, "feed_forward_proj", "relu", "config"),
        ({"model_type": "udop", "feed_forward_proj": "gated-gelu"}, "feed_forward_proj", "gelu_erf", "config"),
        ({"model_type": "mt5"}, "feed_forward_proj", "gelu_tanh", "class-default"),
        ({"model_type": "openai-gpt", "afn": "gelu"}, "afn", "gelu_tanh", "model-code"),
        ({"model_type": "openai-gpt"}, "afn", "gelu_tanh", "class-default"),
        ({"model_type": "gpt_oss", "hidden_act": "silu"}, "hidden_act", "quick_gelu", "model-code"),
        ({"model_type": "gpt_oss"}, "hidden_act", "quick_gelu", "model-code"),
        ({"model_type": "bloom"}, "h.*.mlp.gelu_impl", "gelu_tanh", "model-code"),
        ({"model_type": "clip"}, "vision_config.hidden_act", "quick_gelu", "class-default"),
        ({"model_type": "clip", "text_config": {"hidden_act": "gelu"}}, "text_config.hidden_act", "gelu_erf", "config"),
        ({"model_type": "xlm", "gelu_activation": True}, "gelu_activation", "gelu_erf", "config"),
        ({"model_type": "xlm", "gelu_activation": False}, "gelu_activation", "relu", "config"),
        ({"model_type": "dbrx", "ffn_config": DBRX}, "ffn_config.ffn_act_fn.name", "gelu_erf", "config"),
        ({"model_type": "gemma3", "hidden_activation": TANH}, "hidden_activation", "gelu_tanh", "config"),
        ({"model_type": "llava", "text_config": LLAMA}, "text_config.hidden_act", "silu", "class-default"),
        ({"model_type": "step3p5", "hidden_act": "swigluoai"}, "hidden_act", "silu", "model-code"),
        ({"model_type": "minimax_m3_vl_text", "hidden_act": "swigluoai"}, "hidden_act", "quick_gelu", "model-code"),
    ],
)  # fmt: skip
def test_a_field_means_what_its_model_computes(scanned, config, path, variant, basis):
    use = next(use for use in scanned(config).activations if use.path == path)
    assert (use.variant, use.basis) == (variant, basis)
    assert use.reason or basis == "config"


def test_every_key_of_act2fn_is_a_variant_of_the_registry():
    named = data("transformers")["activations"] | data("names")["names"]
    assert len(data("transformers")["activations"]) >= 24
    for variant in named.values():
        found = parsed(variant)
        assert found.parameters.keys() <= FORMULAS[found.variant].parameters.keys()


def test_names_mean_the_same_with_and_without_a_known_model(variants):
    for key, variant in data("transformers")["activations"].items():
        expected = {"hidden_act": parsed(variant).variant}
        assert variants({"hidden_act": key}) == expected
        assert variants({"model_type": "bert", "hidden_act": key})["hidden_act"] == expected["hidden_act"]


def test_the_version_that_runs_the_model_counts(variants):
    config = {"model_type": "gemma", "hidden_act": "gelu"}
    assert variants(config, versions={"transformers": "4.38"}) == {"hidden_act": "gelu_erf"}
    assert variants(config, versions={"transformers": "4.57.1"}) == {"hidden_act": "gelu_erf"}
    assert variants(config, versions={"transformers": "5.24"}) == {"hidden_act": "gelu_tanh"}
    assert variants(config, versions={"transformers": "newest"}) == {"hidden_act": "gelu_tanh"}


def test_lines_of_the_fields(scanned):
    report = scanned(
        '{"model_type": "clip",\n"text_config": {\n"hidden_act": "gelu"},\n"vision_config": {"hidden_act": "relu"}}'
    )
    assert {use.path: use.line for use in report.activations} == {
        "text_config.hidden_act": 3,
        "vision_config.hidden_act": 4,
    }
    assert scanned({"model_type": "bert"}).activations[0].line is None


def test_a_field_that_nothing_reads_is_ignored(scanned):
    report = scanned({"model_type": "gpt_oss", "hidden_act": "silu"})
    assert rules(report, "warning") == ["config-ignored-field"]
    assert report.findings[0].expected == "silu"
    assert report.findings[0].observed == "quick_gelu"
    assert report.verdict == "pass"
    assert scanned({"model_type": "gpt_oss", "hidden_act": "silu"}, strict=True).verdict == "mismatch"


def test_old_and_new_field_that_agree_are_a_note(scanned):
    report = scanned(
        {"model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}
    )
    assert rules(report) == ["config-ignored-field"]
    assert report.findings[0].severity == "note"
    assert [use.path for use in report.activations] == ["hidden_activation"]


def test_old_and_new_field_that_disagree_are_a_conflict(scanned):
    report = scanned({"model_type": "gemma2", "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"})
    assert "config-conflict" in rules(report, "error")
    assert report.verdict == "mismatch"
    assert report.findings[0].expected == "gelu_tanh"


def test_two_fields_of_an_unknown_model_that_disagree(scanned):
    report = scanned({"hidden_act": "relu", "activation_function": "gelu"})
    assert rules(report) == ["config-conflict"]


def test_derived_fields_of_t5_win_and_must_agree(scanned):
    fine = scanned({"model_type": "t5", "feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new"})
    assert fine.verdict == "pass"
    assert {use.path: use.variant for use in fine.activations} == {
        "feed_forward_proj": "gelu_tanh",
        "dense_act_fn": "gelu_tanh",
    }
    assert rules(scanned({"model_type": "t5", "feed_forward_proj": "relu", "dense_act_fn": "gelu_new"})) == [
        "config-conflict"
    ]


def test_a_field_that_another_overrides_means_what_that_one_does(scanned):
    report = scanned({"model_type": "t5", "feed_forward_proj": "relu", "dense_act_fn": "silu"})
    overridden = next(use for use in report.activations if use.path == "feed_forward_proj")
    assert (overridden.variant, overridden.basis) == ("silu", "model-code")
    assert "dense_act_fn" in overridden.reason


def test_a_field_of_a_part_that_the_whole_overrides_counts_nowhere(scanned):
    config = {"model_type": "clap", "projection_hidden_act": "relu"}
    config["text_config"] = {"model_type": "clap_text_model", "projection_hidden_act": "gelu"}
    report = scanned(config)
    found = {use.path: use.variant for use in report.activations}
    assert found["projection_hidden_act"] == "relu"
    assert found["text_config.projection_hidden_act"] is None
    assert "audio_config.projection_hidden_act" not in found
    alone = scanned({"model_type": "clap_text_model", "projection_hidden_act": "gelu"})
    assert {use.path: use.variant for use in alone.activations}["projection_hidden_act"] == "gelu_erf"


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ('{"hidden_act": "gelu", "hidden_act": "relu"}', "error"),
        ('{"hidden_act": "gelu", "hidden_act": "gelu"}', "warning"),
        ('{"a": {"hidden_act": "gelu"}, "a": {"hidden_act": "relu"}}', "error"),
    ],
)
def test_a_key_that_stands_twice_is_a_conflict(scanned, text, severity):
    report = scanned(text)
    assert rules(report, severity) == ["config-conflict"]


def test_other_keys_may_stand_twice(scanned):
    assert rules(scanned('{"hidden_act": "gelu", "x": 1, "x": 2}')) == []


def test_a_text_config_dict_replaces_the_text_config_with_its_defaults(scanned):
    report = scanned(
        {"model_type": "clip", "text_config": {"hidden_act": "gelu"}, "text_config_dict": {"hidden_size": 8}}
    )
    assert rules(report, "error") == ["config-conflict"]
    variants = {use.path: use.variant for use in report.activations}
    assert variants["text_config.hidden_act"] == "quick_gelu"


@pytest.mark.parametrize("value", ["gelu_magic", "GELU ", "", 3, 1.5, float("nan"), "x" * 100_000, "\x1b[31mgelu\n"])
def test_a_value_that_names_nothing_is_unknown(scanned, value):
    report = scanned({"model_type": "bert", "hidden_act": value})
    use = report.activations[0]
    assert (use.path, use.variant) == ("hidden_act", None)
    assert rules(report) == ["config-unknown-activation"]
    assert len(report.findings[0].message) < 300
    assert "\x1b" not in report.findings[0].message


def test_an_unknown_value_near_a_known_one_is_told_so(scanned):
    assert scanned({"hidden_act": "gelu_pytorch_tan"}).findings[0].fix == "Did you mean 'gelu_pytorch_tanh'?"


@pytest.mark.parametrize("value", [None, [], {}])
def test_a_value_that_chooses_nothing(variants, value):
    assert variants({"hidden_act": value, "summary_activation": value}) == {}


def test_lists_and_objects_of_activations(variants):
    config = {"hidden_act": ["gelu", "relu"], "layers": [{"activation": {"name": "silu"}}, {"act_fn": "quick_gelu"}]}
    assert variants(config) == {
        "hidden_act[0]": "gelu_erf",
        "hidden_act[1]": "relu",
        "layers[0].activation.name": "silu",
        "layers[1].act_fn": "quick_gelu",
    }


@pytest.mark.parametrize(
    "config",
    [
        {"activation_checkpointing": {"partition_activations": False, "activation": "gelu"}},
        {"auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", None]}, "tokenizer_class": "X"},
        {"activation_dropout": 0.1, "activation_memory_budget": 1},
        {"quantization_config": {"activation_scheme": "dynamic", "activation": "relu"}},
        {"activation": "manual", "activation_type": "fp8"},
        {"id2label": {"0": "gelu"}, "name": "relu"},
        [],
        [1, "gelu", None],
        '"gelu"',
        {},
    ],
)
def test_what_is_no_activation_gives_none_and_no_noise(scanned, config):
    report = scanned(config)
    assert report.activations == ()
    assert report.findings == ()
    assert report.verdict == "pass"


def test_code_of_the_repository_is_not_that_of_transformers(scanned):
    config = {"model_type": "gemma", "auto_map": {"AutoModel": "modeling_x.X"}, "hidden_act": "gelu"}
    report = scanned(config)
    assert [(use.variant, use.basis) for use in report.activations] == [("gelu_erf", "config")]
    assert "code" in report.activations[0].reason
    del config["hidden_act"]
    report = scanned(config)
    assert report.activations == ()
    assert [one.severity for one in report.findings] == ["note"]


def test_names_that_mean_something_else_in_one_code_base(scanned):
    report = scanned({"n_vocab": 1, "mesh_shape": "", "layout": "", "activation_function": "gelu"})
    assert [(use.path, use.variant) for use in report.activations] == [("activation_function", None)]
    assert rules(report) == ["config-unknown-activation"]


def test_two_fields_that_are_both_read_are_no_conflict(scanned):
    report = scanned({"model_type": "voxtral_realtime_encoder", "hidden_act": "silu", "activation_function": "gelu"})
    assert rules(report, "error") == []
    variants = {use.path: use.variant for use in report.activations}
    assert (variants["hidden_act"], variants["activation_function"]) == ("silu", "gelu_erf")


def test_the_parameter_of_an_activation_in_the_code_is_that_of_the_config(scanned):
    for alpha, parameters in ((1.702, {}), (1.5, {"alpha": 1.5}), ("x", {})):
        (use,) = scanned({"model_type": "gpt_oss", "hidden_act": "silu", "swiglu_alpha": alpha}).activations
        assert (use.variant, use.parameters) == ("quick_gelu", parameters)


def slopes(report):
    return [use.parameters.get("negative_slope") for use in report.activations if use.variant == "leaky_relu"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "vits"}, [0.1, None]),
        ({"model_type": "vits", "leaky_relu_slope": 0.3}, [0.3, None]),
        ({"model_type": "vits", "leaky_relu_slope": 0.01}, [None, None]),
        ({"model_type": "vits", "leaky_relu_slope": 10**400}, [0.1, None]),
        ({"model_type": "vits", "": 0.3}, [0.1, None]),
        ({"model_type": "univnet"}, [0.2]),
        ({"model_type": "univnet", "leaky_relu_slope": 0.1}, [0.1]),
        ({"model_type": "seamless_m4t_v2", "leaky_relu_slope": 0.2}, [0.2, None]),
        ({"model_type": "speecht5_hifigan", "leaky_relu_slope": 0.2}, [0.2, None]),
        (
            {"model_type": "fastspeech2_conformer_with_hifigan", "vocoder_config": {"leaky_relu_slope": 0.25}},
            [0.25, None],
        ),
        ({"model_type": "fastspeech2_conformer_with_hifigan", "vocoder_config": 7}, [0.1, None]),
    ],
)
def test_the_slope_of_a_leaky_relu_is_that_of_the_config(scanned, config, expected):
    assert slopes(scanned(config)) == expected


def test_the_activation_of_a_part_that_is_seldom_made_says_so(scanned):
    assert [use.path for use in scanned({"model_type": "ijepa"}).activations] == ["hidden_act"]
    (use,) = (one for one in scanned({"model_type": "ijepa", "pooler_act": "tanh"}).activations if one.path[0] == "p")
    assert (use.variant, "only where a pooler is made" in use.reason) == ("tanh", True)
    assert {use.path for use in scanned({"model_type": "vit"}).activations} == {"hidden_act", "pooler_act"}


def test_every_model_type_reads_its_own_defaults_without_a_finding(scanned):
    models = data("transformers")["models"]
    assert len(models) > 800
    for name in list(models)[::17]:
        report = scanned({"model_type": name})
        assert [one for one in report.findings if one.severity == "error"] == []
        assert all(use.variant in FORMULAS for use in report.activations)


def test_activations_of_one_file_are_bounded(scanned):
    report = scanned({"layers": [{"hidden_act": "gelu"}] * 6_000})
    assert len(report.activations) == 5_000
    assert next(iter(report.coverage["facts"].values()))["activations_beyond"] == 5_000
