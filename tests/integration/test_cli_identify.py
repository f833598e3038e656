"""``parity identify`` from end to end."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parity.functions import variant

CONTRACT = {
    "schema", "command", "verdict", "summary", "findings", "coverage", "environment", "variant", "residual_ulp",
    "runner_up", "margin",
}  # fmt: skip


def refuse(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def samples(path: Path, low: float, high: float, name: str = "gelu_erf") -> Path:
    x = np.linspace(low, high, 500, dtype=np.float32)
    np.savez(path / "s.npz", x=x, y=variant(name).value(x).astype(np.float32))
    return path / "s.npz"


@pytest.mark.parametrize(
    ("low", "high", "code", "verdict", "found"),
    [(-4, 4, 0, "pass", "gelu_erf"), (8, 12, 3, "inconclusive", None), (0, 0, 3, "inconclusive", None)],
)
def test_a_file(  # noqa: PLR0917 – a table
    parity, tmp_path: Path, low: float, high: float, code: int, verdict: str, found: str | None
) -> None:
    got, out, err = parity("identify", samples(tmp_path, low, high), "--format", "json")
    assert (got, err) == (code, "")
    document = json.loads(out, parse_constant=refuse)
    assert set(document) >= CONTRACT
    assert (document["schema"], document["command"]) == ("framework-parity/1", "identify")
    assert (document["verdict"], document["variant"]) == (verdict, found)
    if code == 3:
        assert {"relu", "gelu_tanh"} <= {document["nearest"], *document["ambiguous"]}


def test_what_is_nothing_known_ends_with_1(parity, tmp_path: Path) -> None:
    x = np.linspace(-4, 4, 500, dtype=np.float32)
    np.savez(tmp_path / "s.npz", x=x, y=x**2)
    code, out, err = parity("identify", tmp_path / "s.npz")
    assert (code, err) == (1, "")
    assert out.split("\n\n")[-1].startswith("MISMATCH  ")


def test_text_and_quiet(parity, tmp_path: Path) -> None:
    path = samples(tmp_path, -4, 4)
    code, out, err = parity("identify", path)
    assert (code, err) == (0, "")
    assert "runner-up" in out
    assert "gelu_tanh" in out
    assert out.splitlines()[-1].startswith("PASS  ")
    code, out, err = parity("identify", path, "--quiet")
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert "is gelu_erf" in out


def test_a_function_of_the_users_folder_through_the_installed_command(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported the wrong file')")
    (tmp_path / "mine.py").write_text(
        "print('printed while importing')\ndef f(x):\n    print('printed while running')\n    return x.clip(0)\n"
    )
    command = [str(Path(sys.executable).with_name("parity")), "identify", "mine.py:f", "--format", "json"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout, parse_constant=refuse)["variant"] == "relu"


@pytest.mark.parametrize(
    ("package", "target", "found"),
    [
        ("torch", "torch.nn.functional:gelu", "gelu_erf"),
        ("torch", "torch.nn:GELU", "gelu_erf"),
        ("jax", "jax.nn:gelu", "gelu_tanh"),
    ],
)
def test_a_function_of_a_framework(parity, package: str, target: str, found: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    code, out, _ = parity("identify", target, "--format", "json")
    document = json.loads(out, parse_constant=refuse)
    assert (code, document["variant"]) == (0, found)
    assert package in document["environment"]["adapters"][package]
