"""A newcomer who follows the first page of the documentation, command by command, gets what it shows."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "index.md"
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    env = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    blocks = [(page[: one.start()], one[2], dedent(one[3])) for one in BLOCK.finditer(page)]
    ran = 0
    for (before, language, text), (_, following, shown) in pairwise([*blocks, ("", "", "")]):
        if language == "python":
            (tmp_path / re.findall(r"`(\w+\.py)`", before)[-1]).write_text(text)
        if language != "sh":
            continue
        said = ""
        for line in text.splitlines():
            if line.startswith("pip "):
                continue
            done = subprocess.run(line, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)  # noqa: S602
            expected = re.search(r"# exit code (\d)", line)
            assert done.returncode == int(expected[1] if expected else 0), f"{line}\n{done.stdout}{done.stderr}"
            said += done.stdout
            ran += 1
        if following == "text":
            (beginning,) = re.match(r"(\D+)\d", shown).groups()
            assert beginning in said
    assert ran >= 8
