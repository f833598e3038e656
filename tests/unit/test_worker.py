"""The worker: frames, and a job that does its worst."""

import io
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from parity.errors import EngineError, InputError
from parity.worker import Frame, Message, Worker, WorkerDiedError, WorkerHungError, first_line, read_frame, write_frame

JOBS = """
import ctypes, os, sys, time
import numpy as np
from parity.errors import InputError
from parity.worker import Message


def echo(adapter, **arrays):
    yield Message({"adapter": adapter.name, "names": sorted(arrays)}, arrays)


def count(adapter, upto):
    for number in range(upto):
        yield Message({"number": number})


def threads(adapter):
    yield Message({"threads": os.environ["OMP_NUM_THREADS"]})


def leaves(adapter):
    import tempfile
    handle, name = tempfile.mkstemp()
    yield Message({"file": name, "cache": os.environ.get("TORCHINDUCTOR_CACHE_DIR")})


def variable(adapter, name):
    yield Message({"value": os.environ.get(name)})


def modules(adapter):
    import json
    yield Message({"numpy": np.__file__, "json": json.__file__, "path": sys.path})


def pid(adapter):
    yield Message({"pid": os.getpid()})


def noise(adapter):
    print("printed")
    os.write(1, b"garbage" * 100_000)
    os.system("echo from a child")
    yield Message({"well": True})


def reads(adapter):
    yield Message({"read": sys.stdin.read()})


def raises(adapter):
    yield Message({"before": True})
    raise ValueError("first line\\nsecond line")


def refuses(adapter):
    raise InputError("not usable", hint="use another")
    yield


def objects(adapter):
    yield Message({}, {"y": np.array([object()])})


def not_json(adapter):
    yield Message({"value": object()})


def aborts(adapter):
    print("the last words")
    sys.stdout.flush()
    os.abort()
    yield


def exits(adapter):
    sys.exit(3)
    yield


def segfaults(adapter):
    ctypes.string_at(0)
    yield


def hangs(adapter):
    yield Message({"before": True})
    time.sleep(600)
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of jobs that workers can import."""
    (tmp_path / "worker_test_jobs.py").write_text(JOBS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return "worker_test_jobs"


def round_trip(message: Message) -> Message:
    stream = io.BytesIO()
    write_frame(stream, Frame("item", message, 7))
    stream.seek(0)
    frame = read_frame(stream)
    assert frame is not None
    assert (frame.kind, frame.call) == ("item", 7)
    assert stream.read() == b""
    return frame.message


@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int64, np.uint8, np.bool_,
     np.complex64],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_frames_keep_dtype_shape_and_bits(dtype: type, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    got = round_trip(Message({"a": 1}, {"x": array})).arrays["x"]
    assert (got.dtype, got.shape, got.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_frames_keep_nan_payloads_and_infinities() -> None:
    array = np.array([0x7F800001, 0xFFC12345, 0x7F800000, 0x80000000], dtype=np.uint32).view(np.float32)
    assert round_trip(Message({}, {"x": array})).arrays["x"].tobytes() == array.tobytes()


@pytest.mark.parametrize("array", [np.arange(12.0).reshape(3, 4).T, np.arange(12.0)[::-2], np.arange(3, dtype=">f4")])
def test_frames_keep_the_values_of_views_and_of_foreign_byte_order(array: np.ndarray) -> None:
    np.testing.assert_array_equal(round_trip(Message({}, {"x": array})).arrays["x"], array)


def test_a_large_array_and_several_names() -> None:
    arrays = {"a\nb": np.ones(1), "x": np.arange(3_000_000.0)}
    got = round_trip(Message({"text": "line\nline – ü", "none": None}, arrays))
    assert got.data == {"text": "line\nline – ü", "none": None}
    assert list(got.arrays) == ["a\nb", "x"]
    np.testing.assert_array_equal(got.arrays["x"], arrays["x"])


def test_a_stream_that_breaks_off_anywhere_ends_there() -> None:
    stream = io.BytesIO()
    write_frame(stream, Frame("item", Message({"a": 1}, {"x": np.arange(4.0), "y": np.arange(2.0)}), 1))
    whole = stream.getvalue()
    assert read_frame(io.BytesIO(whole)) is not None
    assert [cut for cut in range(len(whole)) if read_frame(io.BytesIO(whole[:cut])) is not None] == []


def test_what_python_prints_at_start_up_is_no_frame() -> None:
    stream = io.BytesIO(b"hello from sitecustomize\n\n")
    stream.seek(0, os.SEEK_END)
    write_frame(stream, Frame("end", Message({}), 1))
    stream.seek(0)
    assert read_frame(stream) == Frame("end", Message({}), 1)


def test_an_array_of_objects_is_refused() -> None:
    with pytest.raises(InputError, match="'x' is an array of Python objects"):
        write_frame(io.BytesIO(), Frame("item", Message({}, {"x": np.array([None])}), 1))


def test_a_worker_answers_call_after_call(jobs: str) -> None:
    x = np.arange(200_000, dtype=np.float32).astype(ml_dtypes.bfloat16)
    with Worker("numpy", threads=3) as worker:
        (message,) = worker.call(f"{jobs}:echo", {}, {"x": x, "empty": np.empty((0, 2))})
        assert message.data == {"adapter": "numpy", "names": ["empty", "x"]}
        assert message.arrays["x"].tobytes() == x.tobytes()
        assert message.arrays["empty"].shape == (0, 2)
        assert [one.data["number"] for one in worker.call(f"{jobs}:count", {"upto": 100})] == list(range(100))
        (message,) = worker.call(f"{jobs}:threads", {})
        assert message.data == {"threads": "3"}


@pytest.mark.parametrize(
    ("lean", "own", "found"), [(False, None, None), (True, None, str(2**24)), (True, "65536", "65536")]
)
def test_a_lean_worker_gives_large_memory_back(jobs: str, monkeypatch, lean: bool, own, found) -> None:
    name = "MALLOC_MMAP_THRESHOLD_"
    monkeypatch.delenv(name, raising=False)
    if own is not None:
        monkeypatch.setenv(name, own)
    with Worker("numpy", timeout=20, lean=lean) as worker:
        (message,) = worker.call(f"{jobs}:variable", {"name": name})
    assert message.data == {"value": found}, "what the user set goes first"


@pytest.mark.parametrize("lean", [False, True])
def test_a_lean_worker_leaves_no_file_behind_but_its_compiled_code(
    jobs: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, lean: bool
) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    with Worker("numpy", timeout=20, lean=lean) as worker:
        (message,) = worker.call(f"{jobs}:leaves", {})
        file = Path(message.data["file"])
        assert file.is_relative_to(temporary)
        assert file.exists()
    assert file.exists() != lean
    assert sorted(temporary.iterdir()) == ([] if lean else [file])
    if lean:
        assert Path(message.data["cache"]).parent == temporary, "where it would be without"
        assert Path(message.data["cache"]).name.startswith("torchinductor_")


def test_a_job_that_prints_and_one_that_reads_do_not_disturb_the_frames(jobs: str) -> None:
    with Worker("numpy", timeout=20) as worker:
        assert [one.data for one in worker.call(f"{jobs}:noise", {})] == [{"well": True}]
        assert [one.data for one in worker.call(f"{jobs}:reads", {})] == [{"read": ""}]
        assert [one.data for one in worker.call(f"{jobs}:count", {"upto": 1})] == [{"number": 0}]


def test_what_is_left_of_an_abandoned_call_is_not_taken_for_the_next_ones(jobs: str) -> None:
    with Worker("numpy", timeout=20) as worker:
        assert next(worker.call(f"{jobs}:count", {"upto": 50})).data == {"number": 0}
        assert [one.data for one in worker.call(f"{jobs}:threads", {})] == [{"threads": "1"}]


@pytest.mark.parametrize(
    ("job", "error", "said"),
    [
        ("raises", EngineError, "Adapter 'numpy' failed: ValueError: first line"),
        ("refuses", InputError, "not usable"),
        ("objects", InputError, "'y' is an array of Python objects"),
        ("not_json", EngineError, "TypeError"),
        ("missing", EngineError, "AttributeError"),
    ],
)
def test_a_job_that_raises_leaves_the_worker_alive(jobs: str, job: str, error: type[Exception], said: str) -> None:
    with Worker("numpy", timeout=20) as worker:
        with pytest.raises(error) as caught:
            list(worker.call(f"{jobs}:{job}", {}))
        assert said in str(caught.value)
        assert "second line" not in str(caught.value)
        assert [one.data for one in worker.call(f"{jobs}:count", {"upto": 1})] == [{"number": 0}]


def test_messages_before_the_failure_arrive(jobs: str) -> None:
    with Worker("numpy", timeout=20) as worker:
        messages = worker.call(f"{jobs}:raises", {})
        assert next(messages).data == {"before": True}
        with pytest.raises(EngineError):
            next(messages)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("aborts", "was killed by SIGABRT"),
        ("segfaults", "was killed by SIGSEGV"),
        ("exits", "ended with exit code 3"),
    ],
)
def test_a_job_that_ends_the_process_is_a_death(jobs: str, job: str, said: str) -> None:
    with Worker("numpy", timeout=20) as worker, pytest.raises(WorkerDiedError) as caught:
        list(worker.call(f"{jobs}:{job}", {}))
    assert f"The worker of adapter 'numpy' {said}" in caught.value.message
    assert caught.value.status == "crashed"
    assert caught.value.exit_code == 4


def test_the_last_words_are_reported(jobs: str) -> None:
    with Worker("numpy", timeout=20) as worker, pytest.raises(WorkerDiedError, match="last words: the last words"):
        list(worker.call(f"{jobs}:aborts", {}))


def test_a_dead_worker_takes_no_more_calls(jobs: str) -> None:
    with Worker("numpy", timeout=20) as worker:
        for _ in range(2):
            with pytest.raises(WorkerDiedError, match="ended with exit code 3"):
                list(worker.call(f"{jobs}:exits", {}))


def test_a_worker_that_never_started_says_so() -> None:
    worker = Worker("numpy", python="/bin/false", timeout=20)
    time.sleep(0.3)
    with worker, pytest.raises(WorkerDiedError, match="ended with exit code 1"):
        list(worker.call("job:job", {}, {"x": np.zeros(100_000)}))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f'exec "{sys.executable}" -I -S "$@"', "it has no module 'parity'"),
        ("echo 'Unknown option: -P' >&2; echo 'Try `python -h`.' >&2; exit 2", "it is older than Python 3.11"),
        ("echo \"ModuleNotFoundError: No module named 'numpy'\" >&2; exit 1", "it has no module 'numpy'"),
    ],
)
def test_an_interpreter_without_this_package_is_the_users_mistake(tmp_path: Path, script: str, said: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with Worker("torch", python=str(python), timeout=20) as worker, pytest.raises(InputError) as caught:
        list(worker.call("job:job", {}))
    assert caught.value.message == f"The interpreter {python} cannot run a worker of framework-parity: {said}."
    assert caught.value.hint.endswith(f'{python} -m pip install "framework-parity[torch]"')


def test_an_interpreter_that_does_not_exist_is_the_users_mistake() -> None:
    with pytest.raises(InputError, match="/nowhere/python cannot be started: No such file"):
        Worker("numpy", python="/nowhere/python")


def test_silence_past_the_timeout_is_a_hang_and_ends_the_process(jobs: str) -> None:
    started = time.monotonic()
    with Worker("numpy", timeout=1.5) as worker:
        (message,) = worker.call(f"{jobs}:pid", {})
        with pytest.raises(WorkerHungError, match=r"silent for 1\.5 s") as caught:
            list(worker.call(f"{jobs}:hangs", {}))
        assert ended_within(message.data["pid"], 2)
    assert caught.value.status == "hung"
    assert "--timeout" in caught.value.hint
    assert time.monotonic() - started < 10


def test_closing_in_the_middle_of_a_flood_ends_the_process(jobs: str) -> None:
    with Worker("numpy", timeout=20) as worker:
        (message,) = worker.call(f"{jobs}:pid", {})
        assert next(worker.call(f"{jobs}:count", {"upto": 10_000})).data == {"number": 0}
    assert ended_within(message.data["pid"], 2)


@pytest.mark.parametrize("job", ["hangs", "count"])
def test_no_worker_outlives_its_parent(jobs: str, job: str, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(f"""
            from parity.worker import Worker
            worker = Worker("numpy")
            print(next(worker.call("{jobs}:pid", {{}})).data["pid"], flush=True)
            arguments = {{"upto": 10**9}} if "{job}" == "count" else {{}}
            for message in worker.call("{jobs}:{job}", arguments):
                print("busy", flush=True)
                import time; time.sleep(60)
        """)],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "busy\n"
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
        assert ended_within(pid, 5)


def test_files_in_the_users_folder_called_like_modules_are_not_imported(
    jobs: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("user")
    for name in ("numpy.py", "json.py", "parity.py", "queue.py"):
        (folder / name).write_text("raise SystemExit('imported the wrong file')")
    monkeypatch.chdir(folder)
    with Worker("numpy", timeout=20) as worker:
        (message,) = worker.call(f"{jobs}:modules", {})
    assert str(folder) not in [*message.data["path"], str(Path(message.data["numpy"]).parent)]
    assert Path(message.data["json"]).parent != folder


def test_an_unknown_adapter_is_the_users_mistake(jobs: str) -> None:
    with Worker("nunpy", timeout=20) as worker, pytest.raises(InputError, match="There is no adapter called 'nunpy'"):
        list(worker.call(f"{jobs}:echo", {}))


@pytest.mark.parametrize(
    ("error", "line"),
    [(ValueError("a\nb"), "a"), (ValueError(""), ""), (ValueError("\n a \n"), "a"), (ValueError("x" * 999), "x" * 300)],
)
def test_first_line(error: Exception, line: str) -> None:
    assert first_line(error) == line


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def ended_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False
