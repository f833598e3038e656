"""The trace store: what was written is read again to the bit, and what is not whole is told so."""

import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from parity.errors import InputError
from parity.graph import Site, Traced
from parity.trace import shards, store
from parity.trace.shards import Shard, iterate_shard, read_shard, write_shard
from parity.trace.store import (
    MANIFEST,
    UNFINISHED,
    TraceWriter,
    clear_unfinished,
    is_trace,
    read_trace,
)

DTYPES = [*(dtype.name for dtype in shards._NAMES.values())]
ENDS = Traced(inputs={"x": "x"}, outputs={"y": "y"}, named_outputs=True, notes=("A note.",), drawn=("w",))


def numbers(dtype: str, shape: tuple[int, ...] = (2, 3)) -> np.ndarray:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    return (
        (np.random.default_rng(1).standard_normal(shape) * 3).astype("int8" if kind.kind == "u" else kind).astype(kind)
    )


def site(kind: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **more) -> Site:
    return Site(name=f"{kind}:{outputs[0]}", op=kind, kind=kind, scope="a.b", inputs=inputs, outputs=outputs, **more)


def written(folder: Path, arrays: dict[str, np.ndarray], weights: dict[str, np.ndarray] | None = None) -> store.Trace:
    writer = TraceWriter(folder)
    for name, array in arrays.items():
        writer(site("relu", tuple(weights or ()), (name,)), {name: array})
    return writer.finish(ENDS, weights or {}, {"model": "m"})


def assert_same(found: np.ndarray, array: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(2, 3), (), (0,), (4, 0, 2), (1,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_shape_comes_back_to_the_bit(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = numbers(dtype, shape)
    written(tmp_path, {"t": array, "before": numbers("int8", (3,)), "after": array})
    trace = read_trace(tmp_path)
    assert_same(trace.array("t"), array)
    assert_same(trace.array("after"), array)
    assert trace.tensors["t"].dtype == dtype


def test_special_values_keep_their_bits(tmp_path: Path) -> None:
    array = np.array([math.nan, -math.nan, math.inf, -0.0, 1e-45], np.float32)
    written(tmp_path, {"t": array})
    assert_same(read_trace(tmp_path).array("t"), array)


def test_large_weights_that_are_known_are_not_read_again(tmp_path: Path) -> None:
    large = numbers("float32", (store.SMALL + 1,))
    first = written(tmp_path / "first", {"y": numbers("float32")}, {"w": large, "b": numbers("float32")})
    writer = TraceWriter(tmp_path / "second")
    writer(site("relu", ("w", "b"), ("y",)), {"y": numbers("float32")})
    trace = writer.finish(ENDS, {"w": np.zeros_like(large), "b": numbers("float32")}, {}, known=first.weights)
    assert trace.weights["w"] == first.weights["w"]
    assert_same(read_trace(trace.folder).array("b"), numbers("float32"))


def test_sites_ends_weights_and_facts_come_back(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path)
    first = site("add", ("x", "", "w"), ("y",), attributes={"axes": [0, -1]}, source="m.py:3", labels=("/add",))
    writer(first, {"y": numbers("float32")})
    writer.add("x", numbers("float32"))
    writer.finish(ENDS, {"w": numbers("float32", (5,)), "unread": numbers("float32")}, {"versions": {"a": "1"}})
    trace = read_trace(tmp_path)
    assert trace.sites == (first,)
    assert trace.ends == ENDS
    assert trace.facts == {"versions": {"a": "1"}}
    assert list(trace.tensors) == ["y", "x"]
    assert list(trace.weights) == ["w"]
    assert_same(trace.array("w"), numbers("float32", (5,)))


def test_the_trace_that_the_writer_returns_is_the_one_that_is_read(tmp_path: Path) -> None:
    made = written(tmp_path, {"t": numbers("bfloat16")}, {"w": numbers("float32")})
    found = read_trace(tmp_path)
    assert (made.sites, made.ends, made.tensors, made.weights) == (
        found.sites,
        found.ends,
        found.tensors,
        found.weights,
    )
    assert_same(made.array("t"), found.array("t"))


def test_numbers_are_spread_over_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SHARD", 100)
    arrays = {f"t{k}": np.full(k + 1, k, np.float32) for k in range(20)}
    written(tmp_path, arrays, {"w": numbers("float32")})
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 5
    trace = read_trace(tmp_path)
    for name, array in arrays.items():
        assert_same(trace.array(name), array)
    assert_same(trace.array("w"), numbers("float32"))


def test_a_large_tensor_is_a_shard_of_its_own_and_the_order_stays(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "LARGE", 40)
    monkeypatch.setattr(store, "SHARD", 100)
    sizes = [1, 20, 2, 3, 30, 10, 9, 9, 9, 1]  # of float32: from 10 on they are large
    arrays = {f"t{k}": np.full(size, k, np.float32) for k, size in enumerate(sizes)}
    written(tmp_path, arrays)
    held = [list(read_shard(path)) for path in sorted(tmp_path.glob("*.safetensors"))]
    assert held == [["t0"], ["t1"], ["t2", "t3"], ["t4"], ["t5"], ["t6", "t7", "t8"], ["t9"]]
    for name, array in arrays.items():
        assert_same(read_trace(tmp_path).array(name), array)


@pytest.mark.parametrize("moved", [lambda a: a.T, lambda a: a[::2], lambda a: np.broadcast_to(a[:1], a.shape)])
def test_a_large_tensor_that_lies_scattered_in_memory(tmp_path: Path, monkeypatch, moved) -> None:
    monkeypatch.setattr(store, "LARGE", 1)
    array = moved(np.arange(12, dtype=np.float32).reshape(4, 3))
    written(tmp_path, {"t": array})
    assert_same(read_trace(tmp_path).array("t"), np.ascontiguousarray(array))


def test_only_so_many_shards_are_open_at_a_time(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "LARGE", 1)
    monkeypatch.setattr(store, "OPEN", 3)
    arrays = {f"t{k}": np.full(4, k, np.float32) for k in range(8)}
    written(tmp_path, arrays)
    trace = read_trace(tmp_path)
    kept = {}
    for name in [*arrays, *reversed(arrays), "t0", "t7", "t0"]:
        kept[name] = trace.array(name)
        assert len(trace._shards) <= 3
        assert_same(trace.read(name), arrays[name])
    for name, array in kept.items():
        assert_same(array, arrays[name])


def test_numbers_that_are_read_are_memory_of_their_own(tmp_path: Path) -> None:
    written(tmp_path, {"t": numbers("float32")})
    trace = read_trace(tmp_path)
    trace.read("t")[:] = 0
    assert_same(trace.read("t"), numbers("float32"))
    with pytest.raises(KeyError):
        trace.read("nowhere")


def test_only_small_weights_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SMALL", 6)
    large = np.arange(7, dtype=np.float32)
    written(tmp_path, {"t": large}, {"small": numbers("float32"), "large": large})
    trace = read_trace(tmp_path)
    assert "small" in trace
    assert "large" not in trace
    assert trace.weights["large"].signature.high == 6
    with pytest.raises(KeyError):
        trace.array("large")
    with pytest.raises(KeyError):
        trace.array("nowhere")


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.int4, "datetime64[s]"])
def test_a_dtype_that_cannot_be_stored_leaves_its_signature(tmp_path: Path, dtype) -> None:
    array = np.array([1, 2, 3]).astype(dtype)
    written(tmp_path, {"t": array, "u": numbers("float32")})
    trace = read_trace(tmp_path)
    assert "t" not in trace
    assert trace.tensors["t"].signature.count == 3
    assert "u" in trace


def test_a_mere_reshaping_shares_the_numbers_of_its_input(tmp_path: Path) -> None:
    array = numbers("float32")
    writer = TraceWriter(tmp_path)
    writer(site("relu", ("x",), ("a",)), {"a": array})
    writer(site("reshape", ("a",), ("b",)), {"b": array.reshape(6)})
    writer(site("identity", ("b",), ("c",)), {"c": array.reshape(6)})
    writer(site("transpose", ("a",), ("d",)), {"d": np.ascontiguousarray(array.T)})
    writer(site("identity", ("a",), ("e",)), {"e": array.astype(np.float16)})
    writer.finish(ENDS, {}, {})
    assert set(read_shard(tmp_path / "00000.safetensors")) == {"a", "d", "e"}
    trace = read_trace(tmp_path)
    for name, wanted in {"b": array.reshape(6), "c": array.reshape(6), "d": array.T, "e": array.astype("f2")}.items():
        assert_same(trace.array(name), wanted)


def test_large_weights_that_are_merely_moved_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SMALL", 5)
    array, few, whole = numbers("float32"), numbers("float32", (2, 2)), numbers("int64")
    writer = TraceWriter(tmp_path, inputs=[9, 20])
    moves = {
        "w.T": (("w",), array.T),
        "w.T.T": (("w.T",), array),
        "flat": (("w.T.T",), array.reshape(6)),
        "few.T": (("few",), few.T),
        "whole.T": (("whole",), whole.T),
        "x.T": (("x",), numbers("float32", (3, 3)).T),
        "made.T": (("made",), array.T),
    }
    writer(site("relu", ("x",), ("made",)), {"made": array})
    for name, (inputs, moved) in moves.items():
        writer(site("reshape" if name == "flat" else "transpose", inputs, (name,)), {name: moved})
    writer(site("add", ("w",), ("sum",)), {"sum": array})
    writer.finish(ENDS, {}, {})
    trace = read_trace(tmp_path)
    assert {name for name in trace.tensors if name not in trace} == {"w.T", "w.T.T", "flat"}
    assert trace.tensors["w.T"].signature == trace.tensors["made"].signature
    assert trace.tensors["flat"].shape == (6,)


def test_without_the_sizes_of_the_inputs_all_that_is_moved_is_stored(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "SMALL", 5)
    writer = TraceWriter(tmp_path)
    writer(site("transpose", ("x",), ("x.T",)), {"x.T": numbers("float32").T})
    assert "x.T" in writer.finish(ENDS, {}, {})


def test_what_is_written_over_later_was_copied(tmp_path: Path) -> None:
    array = numbers("float32")
    kept = array.copy()
    writer = TraceWriter(tmp_path)
    writer(site("relu", ("x",), ("a",)), {"a": array})
    array[:] = 0
    writer.finish(ENDS, {}, {})
    assert_same(read_trace(tmp_path).array("a"), kept)


def test_other_readers_read_the_shards(tmp_path: Path) -> None:
    arrays = {"a": numbers("float32"), "b": numbers("int64", (0,)), "c": numbers("bool", ())}
    written(tmp_path, arrays)
    for name, array in load_file(tmp_path / "00000.safetensors").items():
        assert_same(array, arrays[name])


def test_shards_of_other_writers_are_read(tmp_path: Path) -> None:
    arrays = {"a": numbers("float32"), "b": numbers("float16", (3,))}
    save_file(arrays, tmp_path / "x.safetensors", metadata={"made": "elsewhere"})
    found = dict(iterate_shard(tmp_path / "x.safetensors"))
    assert set(found) == {"a", "b"}
    for name, array in arrays.items():
        assert_same(found[name], array)


def test_numbers_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    write_shard(tmp_path / "x.safetensors", {"a": numbers("float32")})
    with pytest.raises(ValueError, match="read-only"):
        read_shard(tmp_path / "x.safetensors")["a"][0] = 1


def refused(folder: Path, said: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_trace(folder)
    assert said in caught.value.message
    assert str(folder) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_folder_without_a_trace(tmp_path: Path) -> None:
    refused(tmp_path, "holds no trace")
    refused(tmp_path / "nowhere", "holds no trace")
    assert not is_trace(tmp_path)


def test_a_writer_that_never_finished(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t")
    writer.add("a", numbers("float32"))
    assert is_trace(tmp_path / "t")
    refused(tmp_path / "t", "incomplete")


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from parity.trace import shards, store
store.SHARD = 64
writer = store.TraceWriter(Path(sys.argv[1]))
for k in range(10):
    writer.add(f"t{k}", np.zeros(10, np.float32))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_recording_that_was_killed_is_recognised_and_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(folder.glob("*.safetensors"))
    refused(folder, "incomplete")
    with pytest.raises(InputError):
        read_trace(folder)
    assert clear_unfinished(folder)
    assert not folder.exists()


def test_killed_while_the_manifest_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "t", {"a": numbers("float32")})
    refused(tmp_path / "t", "incomplete")
    assert clear_unfinished(tmp_path / "t")


def test_a_whole_trace_is_never_cleared(tmp_path: Path) -> None:
    written(tmp_path, {"a": numbers("float32")})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert not clear_unfinished(tmp_path)
    (tmp_path / UNFINISHED).write_text("killed between the manifest and this one's removal")
    assert not clear_unfinished(tmp_path)
    (tmp_path / UNFINISHED).unlink()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert_same(read_trace(tmp_path).array("a"), numbers("float32"))


def test_a_folder_of_other_things_is_never_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    assert not clear_unfinished(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_whole_trace_is_not_written_over(tmp_path: Path) -> None:
    written(tmp_path, {"a": numbers("float32")})
    with pytest.raises(InputError, match="already holds a recorded trace"):
        TraceWriter(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        TraceWriter(tmp_path / "file" / "t")


def test_a_trace_of_a_future_format(tmp_path: Path) -> None:
    written(tmp_path, {"a": numbers("float32")})
    body = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps(body | {"format": "framework-parity-trace/2"}))
    refused(tmp_path, "framework-parity-trace/2")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", "3", '"x"', '{"format": 1}', "\x00", "[" * 100_000])
def test_a_manifest_of_something_else(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    refused(tmp_path, "")


def test_a_manifest_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(b"\xff\xfe\x00")
    refused(tmp_path, "damaged")


def paths(value, at=()):
    """Every place in a JSON document."""
    yield at
    if isinstance(value, dict):
        for key, one in value.items():
            yield from paths(one, (*at, key))
    elif isinstance(value, list):
        for k, one in enumerate(value):
            yield from paths(one, (*at, k))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_manifest_damaged_anywhere_gives_a_trace_or_a_message(tmp_path_factory, data) -> None:
    """Removed keys and other values: an answer or an `InputError`, then and when numbers are asked for."""
    folder = tmp_path_factory.mktemp("trace")
    written(folder, {"a": numbers("float32")}, {"w": numbers("float32")})
    body = json.loads((folder / MANIFEST).read_text())
    *way, last = data.draw(st.sampled_from([one for one in paths(body) if one]))
    inside = body
    for key in way:
        inside = inside[key]
    wrong = data.draw(st.sampled_from(["remove", None, -1, "x", [], {}, [1], 1e9, True]))
    if wrong == "remove":
        del inside[last]
    else:
        inside[last] = wrong
    (folder / MANIFEST).write_text(json.dumps(body))
    try:
        trace = read_trace(folder)
    except InputError:
        return
    for name in (*trace.tensors, *trace.weights):
        if name in trace:
            trace.array(name)


def test_a_shard_that_is_missing(tmp_path: Path) -> None:
    written(tmp_path, {"a": numbers("float32")})
    (tmp_path / "00000.safetensors").unlink()
    refused(tmp_path, "lacks 00000.safetensors")


@pytest.mark.parametrize("keep", [0, 4, 8, 20, -1, -9])
def test_a_shard_that_is_cut_off(tmp_path: Path, keep: int) -> None:
    written(tmp_path, {"a": numbers("float32"), "b": numbers("int64")})
    shard = tmp_path / "00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:keep])
    with pytest.raises(InputError) as caught:
        read_trace(tmp_path).array("b")
    assert str(shard) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"\xff" * 64, b"hello", b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{}"])
def test_a_shard_of_something_else(tmp_path: Path, content: bytes) -> None:
    written(tmp_path, {"a": numbers("float32")})
    (tmp_path / "00000.safetensors").write_bytes(content)
    with pytest.raises(InputError):
        read_trace(tmp_path).array("a")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [-4, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]},
        {"dtype": "F7", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": 1, "data_offsets": None},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {},
        [],
    ],
)
def test_a_shard_whose_header_lies(tmp_path: Path, entry) -> None:
    head = json.dumps({"a": entry}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    with pytest.raises(InputError, match="not a readable safetensors file"):
        read_shard(path)


def test_a_file_that_is_written_over_holds_the_last_numbers_in_the_same_pages(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    longer, shorter = np.arange(5000.0), np.arange(3, dtype=np.int8)
    write_shard(file, {"a": longer}, over=True)
    size, number = file.stat().st_size, file.stat().st_ino
    for array in (shorter, longer, np.zeros((0, 4), np.float32), shorter):
        write_shard(file, {"b": array}, over=True)
        assert list(read_shard(file)) == ["b"]
        np.testing.assert_array_equal(Shard(file).read("b"), array)
    assert (file.stat().st_size, file.stat().st_ino) == (size, number)
    write_shard(file, {"b": shorter})
    assert file.stat().st_size < size, "a file that is not to be written over is of its own length"
