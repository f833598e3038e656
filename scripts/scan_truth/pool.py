"""Workers that die without harm: each model type has a time and a memory limit."""

import logging
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final

import torch

FORK: Final = multiprocessing.get_context("fork")
"""So that transformers is imported once."""


@dataclass(slots=True)
class _Worker:
    """One process.

    Attributes:
        process: It.
        connection: To it.
        task: What it works on.
        until: When it is given up.
    """

    process: BaseProcess
    connection: Connection
    task: str
    until: float


def run(
    work: Callable[[str], str], tasks: Sequence[str], *, jobs: int, seconds: float, gigabytes: float
) -> Iterator[tuple[str, str, str]]:
    """Does tasks in other processes.

    Args:
        work: What is done; its results come back as text.
        tasks: Names.
        jobs: Processes at a time.
        seconds: After which a task is given up.
        gigabytes: Memory that a process may take.

    Yields:
        Name, result, and what went wrong: of the last two one is empty.
    """
    left = list(reversed(tasks))
    busy: list[_Worker] = []
    while left or busy:
        while left and len(busy) < jobs:
            busy.append(_started(work, left.pop(), seconds, gigabytes))
        soonest = min(worker.until for worker in busy)
        ready = wait([worker.connection for worker in busy], max(0.0, soonest - time.monotonic()))
        for worker in list(busy):
            if worker.connection in ready:
                yield worker.task, *_received(worker)
                if worker.process.is_alive() and left:
                    worker.task, worker.until = left.pop(), time.monotonic() + seconds
                    worker.connection.send(worker.task)
                    continue
            elif time.monotonic() < worker.until:
                continue
            else:
                yield worker.task, "", f"took more than {seconds:.0f} s"
            _stop(worker)
            busy.remove(worker)


def _started(work: Callable[[str], str], task: str, seconds: float, gigabytes: float) -> _Worker:
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=_serve, args=(work, theirs, gigabytes), daemon=True)
    process.start()
    theirs.close()
    ours.send(task)
    return _Worker(process, ours, task, time.monotonic() + seconds)


def _serve(work: Callable[[str], str], connection: Connection, gigabytes: float) -> None:
    """What a worker does."""
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(work(task))


def _received(worker: _Worker) -> tuple[str, str]:
    try:
        return worker.connection.recv(), ""
    except (EOFError, ConnectionError):
        worker.process.join(5)
        return "", f"its process died (exit code {worker.process.exitcode})"


def _stop(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.connection.close()
