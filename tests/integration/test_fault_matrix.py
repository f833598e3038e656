"""The matrix of injected faults: what its cells are, and a few of them run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from parity_faults.architectures import ARCHITECTURES
from parity_faults.kinds import KINDS
from parity_faults.matrix import Cell, cells, difference, run_cell
from parity_faults.net import Fault
from parity_faults.pairs import CANDIDATES
from parity_faults.table import document, line

SCRIPT = Path(__file__).parents[2] / "scripts" / "fault_matrix.py"

BELOW = {("relu-capped", "recurrent")}
"""Faults that these inputs do not reach: nothing there is above 6."""


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def every() -> list[Cell]:
    return cells(list(KINDS), list(ARCHITECTURES), ["jax"], seed=3)


def test_every_kind_applies_somewhere_and_everywhere_with_its_near_miss(every):
    assert {cell.fault.kind for cell in every} == set(KINDS)
    assert len(KINDS) >= 20
    assert [cell.fault.form for cell in every] == ["faulty", "rewritten"] * (len(every) // 2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_faults_change_the_function_and_near_misses_do_not(every, architecture):
    for cell in every:
        if cell.architecture == architecture and (cell.fault.kind, architecture) not in BELOW:
            gap = difference(cell)
            assert gap > 1e-6 if cell.fault.form == "faulty" else gap < 2e-4, (cell, gap)


def test_the_seed_draws_the_places(every):
    others = cells(list(KINDS), list(ARCHITECTURES), ["jax"], seed=4)
    assert [one.fault.kind for one in others] == [one.fault.kind for one in every]
    assert others[0].fault.place.startswith("layers.")
    assert [one.fault.place for one in others] != [one.fault.place for one in every]


CELLS = (
    ("onnxruntime", "recurrent", "weight-scaled", "mlp.up"),
    pytest.param("jax", "vit", "norm-epsilon", "layers.0.norm1", marks=pytest.mark.slow),
    ("tensorflow", "convnet", "pooling-divisor", "pool"),
    ("onnxruntime", "convnet", "batch-statistics", "block1.norm"),
    ("onnxruntime", "convnet", "activation-alpha", "block1.activation"),
    pytest.param("onnxruntime", "convnet", "residual-dropped", "residual", marks=pytest.mark.slow),
    ("onnxruntime", "encoder", "head-scaled", "layers.0.attention"),
    ("onnxruntime", "recurrent", "floor-division", "levels"),
    ("jax", "convnet", "activation-alpha", "block1.activation"),
    pytest.param("jax", "convnet", "activation-missing", "block2.activation", marks=pytest.mark.slow),
    pytest.param("jax", "convnet", "norm-epsilon", "block3.norm", marks=pytest.mark.slow),
    ("jax", "convnet", "resize-coordinates", "enlarged"),
    ("jax", "decoder", "rotary-pairing", "layers.1.attention.rotary"),
    ("tensorflow", "encoder", "softmax-axis", "layers.0.attention.softmax"),
)


@pytest.mark.parametrize(("pair", "architecture", "kind", "place"), CELLS)
def test_a_fault_is_named_in_its_place_and_its_near_miss_is_quiet(pair, architecture, kind, place):
    fault = run_cell(Cell(pair, architecture, Fault(kind, place, "faulty"), 0))
    near_miss = run_cell(Cell(pair, architecture, Fault(kind, place, "rewritten"), 0))
    assert (fault.caught, fault.cause, fault.place, fault.right) == (True,) * 4, line(fault)
    assert near_miss.quiet, line(near_miss)
    (told, _) = json.loads(document([fault, near_miss]))
    assert told["cell"]["fault"] == {"kind": kind, "place": place, "form": "faulty"}
    assert told["unexplained"] == ("unexplained" in KINDS[kind].rules)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_the_script_lists_and_refuses():
    told = run("--list", "--kinds", "gru-reset", "--architectures", "vit,recurrent")
    assert told.returncode == 0, told.stderr
    assert len(told.stdout.splitlines()) == 2 * len(CANDIDATES)
    assert "recurrent gru-reset rewritten at gru" in told.stdout
    wrong = run("--pairs", "caffe")
    assert wrong.returncode == 2
    assert "no such name: caffe" in wrong.stderr
