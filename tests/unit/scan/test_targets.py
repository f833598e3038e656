"""Deployment targets: what each computes for a value, and what the report says about it."""

import pytest

from parity.errors import InputError
from parity.functions import FORMULAS, variant
from parity.jobs.scan import scan
from parity.report.scan import render
from parity.scanner.knowledge.differences import largest_difference
from parity.scanner.knowledge.files import data
from parity.scanner.knowledge.targets import resolved, target_names

ISSUE = {
    *("onnxruntime", "onnxruntime-gelu-approximation", "optimum-o1", "optimum-o2", "optimum-o3", "optimum-o4"),
    *("tensorrt", "tensorrt-llm", "vllm", "sglang", "tgi", "text-embeddings-inference", "llama.cpp", "ctranslate2"),
    *("openvino", "coreml", "litert", "mlx", "keras_hub", "jax", "tinygrad", "candle", "mindspore", "paddle"),
    "megatron",
}


@pytest.mark.parametrize(
    ("config", "target", "status", "computes"),
    [
        ({"model_type": "bert", "hidden_act": "gelu"}, "onnxruntime", "same", "gelu_erf"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "ort-gelu-approximation", "differs", "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "optimum-O2", "same", "gelu_erf"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "optimum-O3", "differs", "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu_new"}, "optimum-O4", "same", "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "tensorrt-llm", "differs", "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "tei", "differs", "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "keras_hub", "differs", "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "ggml", "differs", "gelu_tanh"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "vllm", "same", "gelu_erf"),
        ({"model_type": "bert", "hidden_act": "gelu"}, "ctranslate2", "same", "gelu_erf"),
        ({"model_type": "gpt2", "activation_function": "gelu_new"}, "tgi", "differs", "gelu_erf"),
        ({"model_type": "gpt2", "activation_function": "gelu_fast"}, "tgi", "same", "gelu_tanh"),
        ({"model_type": "gpt2", "activation_function": "mish"}, "tgi", "unknown", None),
        ({"model_type": "gemma", "hidden_act": "gelu"}, "vllm", "same", "gelu_tanh"),
        ({"model_type": "gemma", "hidden_act": "gelu"}, "sglang", "differs", "gelu_erf"),
        ({"model_type": "gemma", "hidden_act": "gelu"}, "mlx", "differs", "gelu_erf"),
        ({"model_type": "llama", "hidden_act": "silu"}, "mlx", "same", "silu"),
        ({"hidden_act": "gelu"}, "flax", "differs", "gelu_tanh"),
        ({"hidden_act": "gelu_magic"}, "onnxruntime", "unknown", None),
        ({"hidden_act": "swiglu"}, "vllm", "same", "swiglu"),
    ],
)
def test_what_a_target_computes(scanned, config, target, status, computes):
    report = scanned(config, target)
    (row,) = [row for row in report.targets if row.path in ("hidden_act", "activation_function")]
    assert (row.answer.status, row.answer.variant) == (status, computes)
    differs = [one for one in report.findings if one.rule == "target-differs"]
    assert bool(differs) == (status == "differs")
    assert (report.verdict == "mismatch") == (status == "differs")
    for finding in differs:
        assert finding.evidence["max_abs"] == pytest.approx(4.73e-4, rel=0.01)
        assert finding.evidence["kind"] in finding.message
        assert finding.location["line"]


def test_all_targets_of_the_issue_are_known():
    assert set(target_names()) >= ISSUE
    assert len(target_names()) == len(ISSUE)


def test_every_entry_has_evidence_and_a_variant_of_the_registry():
    for name, target in data("targets")["targets"].items():
        assert target["version"], name
        for entry in (*target["entries"], target["otherwise"]):
            assert entry["evidence"] in ("measured here", "source read", "documented", "assumed"), name
            assert entry["note"], name
            assert entry["computes"] in (None, "same") or entry["computes"] in FORMULAS
            assert set(entry.get("variant", ())) <= FORMULAS.keys()
            assert entry["evidence"] != "assumed" or entry["computes"] in (None, "same"), name


def test_what_is_only_assumed_says_so_in_words(scanned):
    report = scanned({"model_type": "llama", "hidden_act": "silu"}, "mlx", "vllm")
    notes = {row.answer.target: (row.answer.evidence, row.answer.note) for row in report.targets}
    words = "assumed from the name, neither measured nor read in its source"
    assert notes["mlx"] == ("assumed", f"nn.silu; {words}")
    assert words in " ".join(render(report, colour=False, width=200).split())


def test_an_unknown_target_is_told_the_nearest():
    with pytest.raises(InputError, match="There is no target called 'tensorrtllm'") as caught:
        scan([], ["tensorrtllm"])
    assert "tensorrt-llm" in str(caught.value)


def test_targets_are_asked_about_once():
    assert resolved(["TRT-LLM", "trtllm", "ort"]) == ["tensorrt-llm", "onnxruntime"]


@pytest.mark.parametrize(
    ("one", "other"), [("gelu_erf", "gelu_tanh"), ("quick_gelu", "gelu_erf"), ("silu", "quick_gelu")]
)
def test_the_size_of_a_difference_is_that_of_the_registry(one, other):
    size, at = largest_difference(one, other)
    assert abs(variant(one).value(at) - variant(other).value(at)) == pytest.approx(size, rel=1e-4)
    assert largest_difference(other, one) == (size, at)
    assert largest_difference(one, "no such") is None


def test_what_is_known_of_an_installed_target_is_measured(monkeypatch):
    from types import SimpleNamespace

    from parity.errors import InputError
    from parity.jobs import scan_measure

    found = {"jax.nn:gelu": "gelu_tanh", "jax.nn:silu": "relu"}

    def identify(call):
        if call not in found:
            raise InputError("It is not installed.")
        return SimpleNamespace(variant=found[call])

    monkeypatch.setattr(scan_measure, "identify", identify)
    findings = list(scan_measure.measured(["jax", "vllm"]))
    assert [one.severity for one in findings] == ["note", "error", "note", "note"]
    assert "It is not installed." in findings[2].message
    assert "Nothing of vllm can be measured" in findings[3].message


def test_operators_of_a_graph_share_a_finding():
    from parity.scanner.model import ActivationUse, Document
    from parity.scanner.request import ScanRequest
    from parity.scanner.rules import target_differs

    uses = [
        ActivationUse(file="m.tflite", path=f"n{index}", field="GELU", value="GELU", variant="gelu_erf", basis="graph")
        for index in range(24)
    ]
    document = Document(file="m.tflite", format="tflite", activations=tuple(uses))
    (finding,) = target_differs.examine(document, ScanRequest(targets=("tinygrad",)))
    assert "n0 = 'GELU' and 23 more" in finding.message
    assert finding.evidence["places"] == 24
