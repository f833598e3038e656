"""The corpus of model pairs: labels that are checked by measurement, and the judge of a tool's answers."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parity_corpus.audit import audit, unknown_sites
from parity_corpus.build import build
from parity_corpus.judge import judge
from parity_corpus.labels import activation, clean, mismatch
from parity_corpus.registry import recipes
from parity_corpus.sides import sides
from parity_corpus.sources import model_source

SCRIPTS = Path(__file__).parents[2] / "scripts"

VERDICTS = {"P10": "mismatch", "P22": "mismatch", "P44": "pass", "P61": "inconclusive"}
"""Cases that take no exporter and no large framework."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    return {id_: build(recipes()[id_], root, seed=5) for id_ in VERDICTS}


@pytest.mark.parametrize("id_", VERDICTS)
def test_label_stands_and_is_well_formed(built, id_: str) -> None:
    assert not built[id_].problems
    case = json.loads((built[id_].folder / "case.json").read_text())
    expected = case["expected"]
    assert expected["verdict"] == VERDICTS[id_]
    assert bool(expected["findings"]) == (VERDICTS[id_] == "mismatch")
    assert not {finding["rule"] for finding in expected["findings"]} & set(expected["not_rules"])
    assert expected["max_final_abs_diff"] == case["measured"]["max_final_abs_diff"]
    with np.load(built[id_].folder / case["inputs"]) as arrays:
        assert arrays.files == case["input_names"]
    assert all(side.path.exists() for side in sides(built[id_].folder, case))


def test_seed_decides_the_weights(built, tmp_path: Path) -> None:
    def bits(folder: Path) -> dict[str, bytes]:
        with np.load(folder / "weights.npz") as arrays:
            return {name: arrays[name].tobytes() for name in arrays.files}

    recipe = recipes()["P22"]
    assert bits(build(recipe, tmp_path / "same", seed=5).folder) == bits(built["P22"].folder)
    assert bits(build(recipe, tmp_path / "other", seed=6).folder) != bits(built["P22"].folder)


def test_wrong_labels_are_refused(built) -> None:
    swapped, same = built["P10"].case["measured"], built["P44"].case["measured"]
    pair = ("reference.onnx", "candidate.onnx")
    cause = activation("gelu_erf", "gelu_tanh", "stack_0/act_", ["no_such_node"])
    as_mismatch = mismatch(*pair, cause, not_rules=[], note="")
    as_clean = clean(*pair, not_rules=[], note="")
    assert not audit(as_mismatch, swapped)
    assert not audit(as_clean, same)
    assert audit(as_mismatch, same) == ["functions agree in float64"]
    assert any("functions differ" in problem for problem in audit(as_clean, swapped))
    assert audit(as_clean, swapped | {"same_shapes": False}) == ["shapes differ"]
    nondeterministic = replace(as_mismatch, findings=[cause | {"rule": "nondeterminism"}])
    assert audit(nondeterministic, swapped) == ["candidate repeatable"]
    problems = unknown_sites(as_mismatch, *sides(built["P10"].folder, built["P10"].case))
    assert problems == ["candidate_site not in the model: ['no_such_node']"]


def test_model_files_stand_alone() -> None:
    text = model_source("encoder", CELLS=4)
    assert "parity_corpus" not in text
    assert "def load_weights" in text
    assert "\nCELLS = 4\n" in text
    with pytest.raises(ValueError, match="no constant LAYERS"):
        model_source("encoder", LAYERS=4)


SWAP = {
    "rule": "activation-variant",
    "severity": "error",
    "expected": "gelu_erf",
    "observed": "gelu_tanh",
    "location": {"reference": {"scope": "stack_0", "site": "stack_0/act_erf"}, "candidate": None},
}
ELSEWHERE = {"reference": {"site": "stack_1/act_erf"}, "candidate": "stack_1/fast_gelu"}


@pytest.mark.parametrize(
    ("verdict", "findings", "judgement"),
    [
        ("mismatch", [SWAP], (True, True, True, True)),
        ("mismatch", [SWAP, {"rule": "weights", "severity": "note"}], (True, True, True, True)),
        ("pass", [], (False, False, False, False)),
        ("inconclusive", [SWAP], (False, True, True, True)),
        ("mismatch", [SWAP | {"rule": "precision"}], (True, False, False, False)),
        ("mismatch", [SWAP, {"rule": "weights", "severity": "error"}], (True, False, True, True)),
        ("mismatch", [SWAP | {"severity": "note"}], (True, False, False, False)),
        ("mismatch", [SWAP | {"expected": "gelu_tanh", "observed": "gelu_erf"}], (True, True, False, True)),
        ("mismatch", [SWAP | {"location": ELSEWHERE}], (True, True, True, False)),
    ],
)
def test_answers_about_a_swap(built, verdict: str, findings: list[dict[str, object]], judgement: tuple[bool]) -> None:
    judged = judge(built["P10"].case, {"verdict": verdict, "findings": findings})
    assert (judged.verdict, judged.cause, judged.variant, judged.place) == judgement
    assert bool(judged.remarks) == (not all(judgement))


def test_answers_about_pairs_without_a_cause(built) -> None:
    same, undecided = built["P44"].case, built["P61"].case
    assert judge(same, {"verdict": "pass"}).verdict
    assert not judge(same, {"verdict": "pass", "findings": [SWAP]}).verdict
    assert judge(same, {"verdict": "pass", "findings": [SWAP | {"severity": "note"}]}).verdict
    assert judge(undecided, {"verdict": "inconclusive"}).verdict
    assert judge(undecided, {"verdict": "mismatch", "findings": [SWAP]}).verdict
    assert not judge(undecided, {"verdict": "pass"}).verdict
    assert judge(undecided, {"verdict": "mismatch"}).cause is None


def test_score_of_a_tool_that_always_passes(built, tmp_path: Path, run_python) -> None:
    tool, answers = tmp_path / "tool.py", tmp_path / "answers.json"
    tool.write_text('print(\'{"verdict": "pass"}\')')
    root = built["P10"].folder.parent
    words = ["--cases", root, "--parity", f"{sys.executable} {tool}", "--json", answers, "P10", "P44"]
    done = run_python(SCRIPTS / "score_corpus.py", *words)
    assert done.returncode == 1, done.stderr
    assert "verdicts 1/2, causes 0/1, variants 0/1, places 0/1, misses 1, false alarms 0" in done.stdout
    rows = {row["id"]: row for row in json.loads(answers.read_text())}
    assert rows["P44"]["judged"]["verdict"]
    assert not rows["P10"]["judged"]["verdict"]
    assert rows["P10"]["baselines"]["allclose, rtol 1e-5, atol 1e-5 (Optimum)"]
    assert not any(rows["P44"]["baselines"].values())


@pytest.mark.parametrize(
    ("script", "words"), [("make_corpus.py", ["P99"]), ("score_corpus.py", ["--cases", "nowhere"])]
)
def test_unknown_cases_are_refused(script: str, words: list[str], run_python) -> None:
    done = run_python(SCRIPTS / script, *words)
    assert done.returncode == 2
    assert "no such case" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def run_python():
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)

    return run
