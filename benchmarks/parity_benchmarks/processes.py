"""Runs a command and watches the memory of every process of its tree, from /proc: Linux alone."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

INTERVAL: Final = 0.02
"""Seconds between two looks; the kernel keeps the peak of a process, so that only its last moments can be missed."""

MB: Final = 1e6


@dataclass(slots=True)
class Process:
    """One process of a tree.

    Attributes:
        words: Its command line.
        peak: The most memory that it had at a time, in bytes, mapped files included (VmHWM).
        own: The most that was seen of memory that is no file's (RssAnon), in bytes.
    """

    words: tuple[str, ...]
    peak: int = 0
    own: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended.

    Attributes:
        seconds: Wall time.
        code: Exit code.
        out: Standard output.
        err: Standard error.
        processes: All that were seen, in the order in which they were started.
    """

    seconds: float
    code: int
    out: str
    err: str
    processes: tuple[Process, ...]

    @property
    def peak(self) -> int:
        """The most that one of its processes took, in bytes."""
        return max(process.peak for process in self.processes)


def run(words: Sequence[str], *, codes: Sequence[int] = (0,)) -> Finished:
    """Runs a command to its end.

    Args:
        words: The command line.
        codes: Exit codes that are no failure.

    Raises:
        SystemExit: It ended with another exit code.
    """
    found: dict[int, Process] = {}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        with subprocess.Popen(words, stdout=out, stderr=err) as root:
            while root.poll() is None:
                for pid in _tree(root.pid):
                    _look(pid, found)
                time.sleep(INTERVAL)
        seconds = time.perf_counter() - start
        said, complained = _whole(out), _whole(err)
    if root.returncode not in codes:
        sys.exit(f"{' '.join(words)}\nended with exit code {root.returncode}:\n{complained[-2000:]}")
    return Finished(seconds, root.returncode, said, complained, tuple(found.values()))


def python(script: Path, *arguments: str) -> list[str]:
    """The command line that runs a script in this environment, without its warnings."""
    return [sys.executable, "-W", "ignore", str(script), *arguments]


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _tree(pid: int) -> Iterator[int]:
    """A process and all that it started, as far as they are there."""
    yield pid
    try:
        lists = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return
    for child in " ".join(lists).split():
        yield from _tree(int(child))


def _look(pid: int, found: dict[int, Process]) -> None:
    """Notes the memory of a process; a new command line is a new program, whose peak begins anew."""
    try:
        words = tuple(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1])
        memory = _memory(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return
    if not memory or not words:
        return
    known = found.get(pid)
    if known is None or known.words != words:
        known = found[pid] = Process(words)
    known.peak = max(known.peak, memory["VmHWM"])
    known.own = max(known.own, memory["RssAnon"])


def _memory(status: str) -> Mapping[str, int]:
    """Bytes by the name of the kernel's count; nothing for a process that has ended."""
    pairs = (line.split(":", 1) for line in status.splitlines())
    return {name: int(value.split()[0]) * 1024 for name, value in pairs if name in {"VmHWM", "RssAnon"}}
