"""The wheel holds the two packages and nothing else."""

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OFFLINE = find_spec("hatchling") is not None and find_spec("build") is not None


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="runs in a checkout alone")
@pytest.mark.parametrize(
    "isolation",
    [
        pytest.param(
            ["--no-isolation"], marks=pytest.mark.skipif(not OFFLINE, reason="hatchling or build is not installed")
        ),
        pytest.param([], marks=pytest.mark.slow),
    ],
)
def test_the_wheels_top_levels(tmp_path: Path, isolation: list[str]) -> None:
    command = [sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    (info,) = {name for name in tops if name.endswith(".dist-info")}
    assert tops == {"parity", "parity_adapters", info}
    assert {
        "parity/__init__.py",
        "parity/report/html/templates/page.html",
        "parity_adapters/numpy/__init__.py",
        f"{info}/entry_points.txt",
    } <= set(names)
    assert any(name.startswith(f"{info}/licenses/") for name in names)
    assert not [name for name in names if "__pycache__" in name or Path(name).name.lower().startswith("test_")]
