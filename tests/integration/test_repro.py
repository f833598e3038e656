"""``parity diff --repro``: folders that show a difference without the models, each run in a process of its own."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parity
from parity import DiffOptions
from parity.errors import InputError
from parity.jobs import reproduction

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)

TORCH = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.norm, self.down = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)
        self.factor = factor

    def forward(self, x):
        h = self.up(x).view(-1, 2, 8).transpose(1, 2)
        h = h * torch.sin(h if self.factor == 1 else self.factor * h)
        return self.down(self.norm(h.transpose(1, 2).reshape(-1, 16)))


def build():
    return Model(1.0).eval()


def other():
    return Model(1.1).eval()
"""

JAX = """
import jax.numpy as jnp
import numpy as np

W = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
V = np.random.default_rng(2).standard_normal((16, 4)).astype(np.float32)


def forward(x, factor=1.0):
    h = x @ W
    return (h * jnp.sin(h if factor == 1 else factor * h)) @ V


def other(x):
    return forward(x, 1.1)
"""


def onnx_model(factor: float) -> Any:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    body = "h = MatMul (x, w) f = Mul (h, factor) s = Sin (f) a = Mul (h, s) y = MatMul (a, v)"
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 17]> g (float[n, 8] x) => (float[n, 4] y) {{ {body} }}'
    )
    random = np.random.default_rng(3)
    numbers = {"factor": np.float32(factor), "w": random.standard_normal((8, 16)), "v": random.standard_normal((16, 4))}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in numbers.items()
    )
    return model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(TORCH)
    (tmp_path / "function.py").write_text(JAX)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reproduced(reference: Any, candidate: Any, **options: Any) -> tuple[Any, list[Path]]:
    report = parity.diff(reference, candidate, {"x": X}, options=DiffOptions(repro=Path("repro"), **options))
    assert report.verdict == "mismatch"
    return report, sorted(Path("repro").iterdir())


def ran(folder: Path, elsewhere: Path) -> tuple[int, str]:
    """Exit code and output of a reproduction that was moved away from its models."""
    moved = folder.rename(elsewhere / folder.name)
    done = subprocess.run(
        [sys.executable, "-I", moved / "run.py"], cwd=elsewhere, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def largest(out: str) -> float:
    return float(re.search(r"max abs difference: (\S+)", out)[1])


PAIRS = {
    "torch": ("torch:model.py:build", "torch:model.py:other"),
    "jax": ("jax:function.py:forward", "jax:function.py:other"),
}


@pytest.mark.parametrize("name", [*PAIRS, "onnxruntime"])
def test_a_reproduction_runs_without_the_models(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    if name != "onnxruntime":
        pytest.importorskip(name)
    report, folders = reproduced(*(PAIRS.get(name) or (onnx_model(1.0), onnx_model(1.1))))
    finding = report.findings[0]
    assert finding.rule == "unexplained"
    assert finding.evidence["reproduction"] == "repro/01-unexplained"
    assert finding.evidence["error_shape"]
    assert folders[0].name == "01-unexplained"
    text = (folders[0] / "README.md").read_text()
    assert "run.py" in text
    assert "The error: at most" in text
    every = [path for path in folders[0].rglob("*") if path.is_file()]
    assert not any(str(Path.cwd()).encode() in path.read_bytes() for path in every)
    assert not [path for path in every if path.suffix in {".pt", ".pkl", ".npy"}]
    code, out = ran(folders[0], tmp_path_factory.mktemp("elsewhere"))
    assert code == 1
    assert largest(out) == pytest.approx(finding.evidence["max_abs"], rel=1e-3)


def test_a_mended_region_exits_0(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The code is to be changed until it agrees."""
    _, folders = reproduced(*PAIRS["torch"])
    code = folders[0] / "candidate" / "region.py"
    code.write_text(code.read_text().replace("1.1", "1.0"))
    assert ran(folders[0], tmp_path_factory.mktemp("elsewhere"))[0] == 0


def test_across_frameworks_and_with_a_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not what is unexplained alone: each error's first place; layouts are the sides' own."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    weights = {name.replace(".", "_"): tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    body = "h = Gemm <transB = 1> (x, a, b) t = Tanh (h) g = Mul (h, t) y = Gemm <transB = 1> (g, c, d)"
    made = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 17]> g (float[n, 8] x) => (float[n, 4] y) {{ {body} }}'
    )
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in zip("abcd", weights.values(), strict=True)
    )
    onnx.save(made, "candidate.onnx")
    report, folders = reproduced(model, "candidate.onnx")
    assert [one.name for one in folders] == [f"01-{report.findings[0].rule}"]
    code, out = ran(folders[0], tmp_path_factory.mktemp("elsewhere"))
    assert code == 1
    assert largest(out) == pytest.approx(report.findings[0].evidence["max_abs"], rel=1e-3)


@pytest.mark.parametrize("text", ["TF", "KERAS"])
def test_a_region_that_cannot_be_written_is_opened_in_its_model(text: str, folder: Path) -> None:
    """``run.py`` opens both models in one process, through which Keras counts the names of layers."""
    pytest.importorskip("tensorflow")
    (folder / "port.py").write_text(globals()[text])
    report, folders = reproduced("tf:port.py:build", "tf:port.py:other")
    assert "which `parity` opens" in (folders[0] / "README.md").read_text()
    done = subprocess.run([sys.executable, folders[0] / "run.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert largest(done.stdout) == pytest.approx(report.findings[0].evidence["max_abs"], rel=1e-3)


TF = """
import numpy as np
import tensorflow as tf

W = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
V = np.random.default_rng(2).standard_normal((16, 4)).astype(np.float32)


def model(factor):
    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, "x")])
    def call(x):
        h = x @ W
        return (h * tf.sin(factor * h)) @ V

    return call


def build():
    return model(1.0)


def other():
    return model(1.1)
"""


KERAS = """
import keras
import numpy as np


def model(approximate):
    x = keras.Input((8,))
    h = keras.layers.Dense(16)(x)
    h = keras.layers.Activation(lambda h: keras.activations.gelu(h, approximate=approximate))(h)
    made = keras.Model(x, keras.layers.Dense(4)(h))
    random = np.random.default_rng(1)
    made.set_weights([random.standard_normal(one.shape) for one in made.get_weights()])
    return made


def build():
    return model(False)


def other():
    return model(True)
"""


def test_a_folder_that_holds_something_is_told_before_anything_runs() -> None:
    Path("repro").mkdir()
    Path("repro/mine.txt").write_text("mine")
    for place in ("repro", "model.py"):
        with pytest.raises(InputError, match="there already"):
            parity.diff("torch:model.py:no", "missing.onnx", options=DiffOptions(repro=Path(place)))
    assert Path("repro/mine.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_told_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"nothing can be written to '.*model\.py'"):
        parity.diff("torch:model.py:no", "missing.onnx", options=DiffOptions(repro=Path("model.py/repro")))


def test_a_reproduction_is_there_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(reproduction, "write_shard", full)
    with pytest.raises(InputError, match="repro cannot be written: No space left on device") as caught:
        parity.diff(onnx_model(1.0), onnx_model(1.1), {"x": X}, options=DiffOptions(repro=Path("repro")))
    assert "make room" in caught.value.hint
    assert list(Path("repro").iterdir()) == []


def test_what_agrees_leaves_no_folder() -> None:
    options = DiffOptions(repro=Path("repro"))
    assert parity.diff(PAIRS["torch"][0], PAIRS["torch"][0], {"x": X}, options=options).verdict == "pass"
    assert not Path("repro").exists()


def test_the_command_line(parity: Any) -> None:
    np.savez("x.npz", x=X)
    code, out, _ = parity("diff", *PAIRS["torch"], "--inputs", "x.npz", "--repro", "repro")
    assert code == 1
    assert "reproduction: repro/01-unexplained/run.py" in out
    assert "the error is " in out
    code, _, err = parity("diff", *PAIRS["torch"], "--inputs", "x.npz", "--repro", "repro")
    assert code == 2
    assert "there already" in err
