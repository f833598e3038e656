"""The measure of ``parity scan``: what small models of transformers compute, held against what a scan says."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from transformers import LlamaConfig, T5Config

from scan_truth.measuring import Measured, Ran, measure
from scan_truth.rules import must_be_told
from scan_truth.scoring import checks
from scan_truth.shrinking import Shrink, shrink

SCRIPTS = Path(__file__).parents[2] / "scripts"

POOL = """
import os, time
from scan_truth import pool

def work(task):
    if task == "die": os._exit(3)
    if task == "sleep": time.sleep(60)
    return task.upper()

if __name__ == "__main__":
    for name, result, problem in pool.run(work, ["a", "die", "b", "sleep", "c"], jobs=1, seconds=2, gigabytes=4):
        print(name, result, problem)
"""


@pytest.fixture(scope="module")
def measured():
    return {name: measure(name) for name in ("gemma", "gpt_oss", "deberta")}


def ran(measured: Measured, what: str) -> set[str]:
    return {one.variant for case in measured.cases if case.what == what for one in case.ran}


def test_a_rewritten_value_shows_in_what_runs(measured):
    assert ran(measured["gemma"], "usual") == {"gelu_tanh"}
    assert ran(measured["gemma"], "distinctive") == {"mish"}


def test_a_field_that_nothing_reads_changes_nothing_that_runs(measured):
    one = measured["gpt_oss"]
    assert {case.changed.get("hidden_act") for case in one.cases} == {None, "mish", "gelu"}
    assert ran(one, "as it is") == ran(one, "distinctive") == ran(one, "usual")
    assert "quick_gelu" in ran(one, "as it is")


def test_a_field_that_a_head_alone_reads_is_found_in_the_head(measured):
    heads = [case for case in measured["deberta"].cases if case.model]
    assert "DebertaForSequenceClassification" in {case.model for case in heads}
    assert "relu6" in {one.variant for case in heads for one in case.ran}


def test_the_scan_is_right_about_them(measured):
    found = list(checks(measured.values()))
    assert {(check.model, check.case) for check in found} == {
        (name, what) for name in measured for what in ("as it is", "distinctive", "usual")
    }
    assert {check.verdict for check in found} == {"right"}


def test_a_scan_that_is_wrong_is_seen(measured):
    one = measured["gemma"]
    first = one.cases[0]
    other = replace(first, ran=tuple(replace(each, variant="silu") for each in first.ran))
    found = list(checks([replace(one, cases=[other])]))
    assert {check.verdict for check in found} == {"wrong", "missed"}
    assert {check.variant for check in found if check.verdict == "missed"} == {"silu"}


def test_what_is_kept_is_read_back(measured):
    one = measured["gemma"]
    assert Measured.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Ran("gelu_erf", "layers.0.mlp", "Mlp", "", "gelu"), True),
        (Ran("relu", "layers.0.self_attn", "Attention", "", "relu"), True),
        (Ran("relu", "encoder", "Encoder", "", "clamp"), False),
        (Ran("sigmoid", "layers.0.mlp", "Mlp", "", "sigmoid"), True),
        (Ran("sigmoid", "layers.0.mlp.gate", "Router", "", "sigmoid"), False),
        (Ran("tanh", "pooler.activation", "Tanh", "", "tanh"), True),
        (Ran("", "encoder", "Encoder", "", "sin mul"), False),
    ],
)
def test_which_functions_must_be_told(found, told):
    assert must_be_told(found) is told


def test_sizes_that_go_together_are_divided_alike():
    small = shrink(LlamaConfig(), Shrink())
    assert (small.hidden_size, small.intermediate_size, small.num_attention_heads) == (256, 688, 32)
    assert (small.num_hidden_layers, small.vocab_size) == (2, 1024)
    assert small.eos_token_id == LlamaConfig().eos_token_id
    heads = shrink(LlamaConfig(), Shrink(4, heads=True))
    assert (heads.hidden_size, heads.num_attention_heads, heads.head_dim) == (1024, 8, 128)
    assert shrink(T5Config(), Shrink()).d_kv == 4


def test_the_script_says_what_it_found(tmp_path):
    output = tmp_path / "out.json"
    command = [
        sys.executable,
        SCRIPTS / "scan_accuracy.py",
        "--only",
        "bert",
        "--kept",
        tmp_path / "kept",
        "--output",
        output,
    ]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "model types right     1 of 1" in first.stdout
    assert "1 of 1 model types, 1 run" in first.stderr
    assert json.loads(output.read_text())["share_right"] == 1.0
    assert json.loads((tmp_path / "kept").read_text())["calls"] == ["model.forward(input_ids [1, 16])"]


def test_a_worker_that_dies_or_hangs_costs_its_task_alone(tmp_path):
    file = tmp_path / "pool.py"
    file.write_text(POOL)
    run = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SCRIPTS)}
    )
    assert run.stdout.splitlines() == [
        "a A ",
        "die  its process died (exit code 3)",
        "b B ",
        "sleep  took more than 2 s",
        "c C ",
    ]
