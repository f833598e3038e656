"""One adapter in one process of its own: a crash is a result, not a crash.

The parent starts ``python -m parity.worker NAME`` and sends it jobs, each a function named as ``module:function`` that
takes the adapter first and yields messages. A message is a dictionary of JSON values, with arrays beside it where there
are any. Both directions use the same frames, a line of JSON and then the bytes of its arrays, so nothing is pickled
and the two sides need not run the same Python. Whatever a framework prints goes to the worker's standard error, which
is kept for the reason given when it dies.
"""

import ctypes
import getpass
import json
import math
import mmap
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import numpy as np

from parity.adapter import Array, load_adapter
from parity.dtypes import any_dtype
from parity.errors import EngineError, InputError, ParityError

PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>."""

GLANCE = 0.5
"""Seconds between two looks at whether a silent worker is alive."""

LARGE = 2**18
"""Bytes from which an array is handed over in a file."""

EXCHANGE = "PARITY_EXCHANGE"
"""Environment variable that names the folder in which worker and parent hand over large arrays."""

MALLOC: Final = {"MALLOC_MMAP_THRESHOLD_": str(2**24), "MALLOC_TRIM_THRESHOLD_": str(2**26)}
"""Has glibc use memory again that was freed, as that of most tensors is, and give back what is more than some of it.

To get pages anew costs about as much as to compute what comes into them; to keep all that was ever freed, as glibc does
by itself, would have a worker grow with the depth of its model. Blocks from the first size on are pages of their own.
"""

CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable of the one folder among a framework's temporary files that is worth keeping: compiled code."""

STDERR_TAIL = 2000
"""Characters of a dead worker's standard error that are looked at for a reason."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a job yields: JSON values, and arrays by name."""

    data: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frame:
    """One message on its way: ``call``, or in answer to it any number of ``item`` and one ``end`` or ``error``.

    ``call`` is the number of the call, so that what is left of an abandoned one is not taken for the next one's.
    """

    kind: str
    message: Message
    call: int


FRAME_START = b'{"kind": '


def write_frame(stream: IO[bytes], frame: Frame, exchange: Path | None = None) -> None:
    """Writes a frame: a header line of JSON, then each array's bytes in C order, little end first.

    Args:
        stream: Where to.
        frame: What.
        exchange: A folder of both sides. Large arrays go there as files of their own, which the reader maps and
            removes; through a pipe they would be copied three times.

    Raises:
        InputError: An array holds Python objects.
    """
    arrays = {name: _sendable(name, array) for name, array in frame.message.arrays.items()}
    heads: list[dict[str, Any]] = []
    for name, array in arrays.items():
        head = {"name": name, "dtype": array.dtype.name, "shape": array.shape}
        if exchange is not None and array.nbytes >= LARGE:
            head["file"] = _handed_over(array, exchange)
        heads.append(head)
    header = {"kind": frame.kind, "call": frame.call, "data": frame.message.data, "arrays": heads}
    stream.write(json.dumps(header).encode() + b"\n")
    for head, array in zip(heads, arrays.values(), strict=True):
        if "file" not in head:
            stream.write(array.tobytes())
    stream.flush()


def _handed_over(array: Array, exchange: Path) -> str:
    """Name of a new file in the folder that holds the array's bytes."""
    handle, name = tempfile.mkstemp(dir=exchange)
    with os.fdopen(handle, "wb") as file:
        file.write(array.reshape(-1).view(np.uint8).data)
    return name


def _sendable(name: str, array: Array) -> Array:
    array = np.asarray(array, order="C")
    if array.dtype.hasobject:
        raise InputError(f"'{name}' is an array of Python objects and not of numbers.")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def read_frame(stream: IO[bytes]) -> Frame | None:
    """Reads one frame; None at the end of the stream or where it breaks off inside a frame."""
    line = stream.readline()
    while line and not line.startswith(FRAME_START):
        line = stream.readline()  # what Python's own start-up printed before the worker took the stream over
    if not line.endswith(b"\n"):
        return None
    header = json.loads(line)
    arrays = {}
    for head in header["arrays"]:
        dtype = any_dtype(head["dtype"])
        size = dtype.itemsize * math.prod(head["shape"])
        data = _taken_over(head["file"]) if "file" in head else stream.read(size)
        if len(data) < size:
            return None
        arrays[head["name"]] = np.frombuffer(data, dtype=dtype).reshape(head["shape"])
    return Frame(header["kind"], Message(header["data"], arrays), header["call"])


def _taken_over(name: str) -> "mmap.mmap | bytes":
    """The bytes of a file that the other side wrote for this one, which is removed; none where it is gone."""
    try:
        with Path(name).open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        Path(name).unlink()
    except OSError:
        return b""
    return data


class Worker:
    """A process that holds one adapter, and the parent's end of the conversation with it.

    Args:
        adapter: Name of the adapter, as in the entry-point group ``parity.adapters``.
        threads: Threads that the framework's own libraries may use.
        timeout: Seconds to wait for each message before the worker counts as hung.
        python: The interpreter to run; that of another environment for a side that cannot share this one.
        lean: Whether it is to leave nothing behind: most memory goes back to the system when it is free, and temporary
            files go where they are removed when it ends.
    """

    def __init__(
        self,
        adapter: str,
        *,
        threads: int = 1,
        timeout: float = 300.0,
        python: str = sys.executable,
        lean: bool = False,
    ) -> None:
        if not 0 < timeout < threading.TIMEOUT_MAX:
            raise InputError(f"A timeout of {timeout} s is none.", hint="Give a number of seconds above 0.")
        self.adapter = adapter
        self.timeout = timeout
        self._python = python
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 – lives as long as the process
        # -P: a file in the user's folder that is called like a module must not be imported in its place.
        command = [python, "-P", "-m", "parity.worker", adapter]
        # Of processes that were just killed one may write there to the last.
        self._exchange = tempfile.TemporaryDirectory(prefix="parity-exchange-", ignore_cleanup_errors=True)
        environment = os.environ | {name: str(threads) for name in THREAD_VARIABLES} | {EXCHANGE: self._exchange.name}
        if lean:
            environment = {**MALLOC, CACHE: _compile_cache(), **environment}
            environment["TMPDIR"] = self._exchange.name
        try:
            self._process = subprocess.Popen(  # noqa: S603 – our own interpreter and module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=environment,
                start_new_session=True,  # Ctrl-C is the parent's to answer
            )
        except OSError as error:
            self._stderr.close()
            self._exchange.cleanup()
            raise InputError(
                f"The interpreter {python} cannot be started: {error.strerror}.", hint="Name a Python executable."
            ) from error
        self._calls = 0
        self._frames: queue.Queue[Frame | None] = queue.Queue(maxsize=8)
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self, job: str, arguments: Mapping[str, Any], arrays: Mapping[str, Array] | None = None
    ) -> Iterator[Message]:
        """Runs ``job`` (``module:function``) in the worker and yields its messages as they come.

        Raises:
            EngineError: The worker died, hung past the timeout, or the framework raised.
            InputError: The job said that what the user gave cannot be used, or the interpreter lacks this package.
        """
        self._calls += 1
        number = self._calls
        request = Message({"job": job, "arguments": dict(arguments)}, arrays or {})
        try:
            write_frame(self._stdin, Frame("call", request, number), Path(self._exchange.name))
        except BrokenPipeError:
            raise self._death() from None
        while True:
            frame = self._next()
            if frame is None:
                raise self._death()
            message = frame.message
            if frame.call != number:
                continue
            if frame.kind == "end":
                return
            if frame.kind == "error":
                known = InputError if message.data["exit_code"] == InputError.exit_code else EngineError
                raise known(message.data["message"], hint=message.data["hint"])
            yield message

    def _next(self) -> Frame | None:
        """The next frame; None where the worker is dead, be the pipe open still in a process that it started."""
        end = time.monotonic() + self.timeout
        dead = False
        while True:
            try:
                return self._frames.get(timeout=max(0.0, min(GLANCE, end - time.monotonic())))
            except queue.Empty:
                if dead:
                    return None
                dead = self._process.poll() is not None  # one glance more, for what it had written
            if not dead and time.monotonic() >= end:
                self.close()
                raise WorkerHungError(
                    f"The worker of adapter '{self.adapter}' was silent for {self.timeout:g} s and was ended.",
                    hint="If it is only slow here, give it longer with --timeout SECONDS.",
                )

    def kill(self) -> None:
        """Ends the process and all that it started, from any thread; the call under way raises `EngineError`."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            self._process.kill()

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        self.kill()
        self._process.wait()
        with suppress(BrokenPipeError):  # of a request that a dead worker did not take
            self._stdin.close()
        self._stderr.close()
        self._exchange.cleanup()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None  # noqa: S101 – opened as a pipe above
        return self._process.stdin

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 – opened as a pipe above
        with self._process.stdout as stream:
            while frame := read_frame(stream):
                self._frames.put(frame)
        self._frames.put(None)

    def _death(self) -> ParityError:
        code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - STDERR_TAIL))
        lines = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        if code > 0 and (lacking := _lacking(lines)):
            return InputError(
                f"The interpreter {self._python} cannot run a worker of framework-parity: {lacking}.",
                hint="It has to be Python 3.11 or newer, with framework-parity and the extra of this framework: "
                f'{self._python} -m pip install "framework-parity[{self.adapter}]"',
            )
        last = f"; its last words: {lines[-1].strip()}" if lines else ""
        return WorkerDiedError(
            f"The worker of adapter '{self.adapter}' {how}{last}.", hint="The other adapters are not affected."
        )


def _compile_cache() -> str:
    """Where PyTorch keeps compiled code if nobody says otherwise: a folder of the user's among the temporary ones."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    return str(Path(tempfile.gettempdir(), f"torchinductor_{user}"))


def _lacking(said: Sequence[str]) -> str:
    """What an interpreter lacks that ended with these words before it was a worker; empty where that is not known."""
    if any(re.match(r"unknown option:? -P", line, re.IGNORECASE) for line in said):
        return "it is older than Python 3.11"
    found = re.search(r"No module named '?([\w.]+)", said[-1]) if said else None
    return f"it has no module '{found[1].removesuffix('.worker')}'" if found else ""


class WorkerDiedError(EngineError):
    """The process ended in the middle of a job."""

    status = "crashed"


class WorkerHungError(EngineError):
    """The process gave no message within its timeout."""

    status = "hung"


THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


def serve(name: str) -> None:
    """The worker's side: loads the adapter called ``name`` and answers calls until its parent goes away."""
    _die_with_parent()
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a framework prints must not end up between our frames
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # and what it reads must not be our calls
    requests: queue.Queue[Frame] = queue.Queue()
    threading.Thread(target=_receive, args=(calls, requests), daemon=True).start()
    adapter: Any = None
    exchange = Path(os.environ[EXCHANGE]) if EXCHANGE in os.environ else None
    while True:
        frame = requests.get()
        request = frame.message

        def answer(kind: str, message: Message, call: int = frame.call) -> None:
            write_frame(answers, Frame(kind, message, call), exchange)

        try:
            adapter = adapter or load_adapter(name)
            module, _, function = request.data["job"].partition(":")
            job = getattr(import_module(module), function)
            for message in job(adapter, **request.data["arguments"], **request.arrays):
                answer("item", message)
            answer("end", Message({}))
        except ParityError as error:
            answer("error", Message({"exit_code": error.exit_code, "message": error.message, "hint": error.hint}))
        except Exception as error:  # noqa: BLE001 – whatever a framework raises is the parent's to report
            text = f"Adapter '{name}' failed: {type(error).__name__}: {first_line(error)}"
            answer("error", Message({"exit_code": EngineError.exit_code, "message": text, "hint": ""}))


def _die_with_parent() -> None:
    """Has Linux end this process when its parent ends, even while it is stuck in native code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, at most 300 characters of it."""
    lines = str(error).strip().splitlines() or [""]
    return lines[0][:300]


def _receive(calls: IO[bytes], requests: "queue.Queue[Frame]") -> None:
    while frame := read_frame(calls):
        requests.put(frame)
    # The parent is gone. A framework may hang in its own clean-up, and nobody is left to wait for it.
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
