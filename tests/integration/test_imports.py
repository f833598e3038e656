"""Nothing of this package loads a framework before it must."""

import json
import subprocess
import sys

import pytest

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "flax", "onnx", "onnxruntime", "transformers")

REPORT = f"""
import atexit, json, sys
def report():
    roots = {{name.partition(".")[0] for name in sys.modules}}
    print("LOADED " + json.dumps(sorted(roots & set({FRAMEWORKS!r}))), file=sys.stderr)
atexit.register(report)
"""


def loaded_by(code: str) -> list[str]:
    """The frameworks that are loaded when an interpreter that ran ``code`` ends."""
    command = [sys.executable, "-c", REPORT + code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("LOADED ")]
    assert "Traceback" not in run.stderr, run.stderr
    return json.loads(line.removeprefix("LOADED "))


def command(*arguments: str) -> str:
    return f"import sys; sys.argv = {['parity', *arguments]!r}\nfrom parity.cli import main; main()"


@pytest.mark.parametrize(
    "code",
    [
        "import parity",
        "import parity; parity.suite, parity.identify, parity.doctor, parity.variant, parity.Comparison",
        "import parity.testing",
        command("--help"),
        command("--version"),
        command("doctor"),
        command("doctor", "--format", "json"),
        command("suite", "--help"),
        command("identify", "--help"),
        command("suite", "--adapter", "nope"),
        command("identify", "numpy:tanh"),
        command("suite", "--adapter", "numpy", "--implementation", "np.tanh", "--dtype", "float32"),
    ],
)
def test_no_framework_is_loaded(code: str) -> None:
    assert loaded_by(code) == []


def test_this_test_can_fail() -> None:
    pytest.importorskip("onnx", reason="onnx is the lightest of the frameworks, and is not installed")
    assert "onnx" in loaded_by("import parity, onnx")


def test_import_parity_loads_next_to_nothing() -> None:
    code = "import sys, parity; sys.exit('numpy' in sys.modules or 'click' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_public_names_are_those_of_their_modules() -> None:
    import parity

    assert set(parity.__all__) <= set(dir(parity))
    for name in parity.__all__:
        assert getattr(parity, name).__name__.removeprefix("parity.") == name
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        parity.nope  # noqa: B018


def test_python_m_parity_is_the_command() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "parity", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "version" in run.stdout
