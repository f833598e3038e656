"""``parity identify`` with files and functions that cannot be used: exit code 2 and a message for a person."""

import io
import os
import pickle
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

X = np.linspace(-3, 3, 64, dtype=np.float32)


def npz(path: Path, **arrays: object) -> None:
    np.savez(path, allow_pickle=True, **arrays)


class Boom:
    """Leaves a trace if it is ever unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.trace),)


def npy_entry(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def write_zip(path: Path, entry: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, entry)


def truncated(path: Path, keep: float) -> None:
    npz(path, x=X, y=X)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])


def corrupt(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            data = io.BytesIO()
            np.save(data, X)
            archive.writestr(name, data.getvalue())
    content = bytearray(path.read_bytes())
    for place in range(60, 180):
        content[place] ^= 0x5A
    path.write_bytes(content)


def encrypted(path: Path) -> None:
    npz(path, x=X, y=X)
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.find(signature)
        while start >= 0:
            content[start + offset] |= 1
            start = content.find(signature, start + 4)
    path.write_bytes(content)


def bomb(path: Path) -> None:
    npz(path, x=X, y=X)
    content = bytearray(path.read_bytes())
    start = content.find(b"PK\x01\x02")
    content[start + 24 : start + 28] = struct.pack("<I", 0xFFFF_FFF0)
    path.write_bytes(content)


HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }\n"

NPZ = {
    "no y": (lambda path: npz(path, x=X), "has no tensor 'y' (it has: x)"),
    "neither": (lambda path: npz(path, a=X), "has no tensor 'x' (it has: a)"),
    "no tensors": (npz, "has no tensor 'x' (it has: none)"),
    "unequal lengths": (lambda path: npz(path, x=X, y=X[:-1]), "shape (64,) and 'y' has shape (63,)"),
    "unequal ranks": (lambda path: npz(path, x=X.reshape(8, 8), y=X), "shape (8, 8) and 'y' has shape (64,)"),
    "empty": (lambda path: npz(path, x=X[:0], y=X[:0]), "empty"),
    "complex": (lambda path: npz(path, x=X.astype(complex), y=X), "'x'"),
    "integers": (lambda path: npz(path, x=X, y=X.astype(int)), "'y'"),
    "booleans": (lambda path: npz(path, x=X > 0, y=X), "'x'"),
    "text": (lambda path: npz(path, x=X, y=X.astype(str)), "'y'"),
    "bfloat16": (lambda path: npz(path, x=X.astype(ml_dtypes.bfloat16), y=X), ".safetensors"),
    "float128": (lambda path: npz(path, x=X.astype(np.longdouble), y=X), "'x'"),
    "nothing finite": (lambda path: npz(path, x=X * np.nan, y=X), "finite"),
    "objects": (lambda path: npz(path, x=np.array([None, 1.0]), y=X), "object arrays are not read"),
    "no bytes": (lambda path: path.write_bytes(b""), "not a .npz file"),
    "no zip": (lambda path: path.write_bytes(b"hello"), "not a .npz file"),
    "a bare npy": (lambda path: path.write_bytes(npy_entry(HUGE)), "not a .npz file"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"x": 1})), "not a .npz file"),
    "no npy inside": (lambda path: write_zip(path, b"hello"), "'x' in "),
    "a broken header": (lambda path: write_zip(path, npy_entry(b"{'descr': (((\n")), "not a .npz file"),
    "a header of code": (lambda path: write_zip(path, npy_entry(b"__import__('os').abort()\n")), "not a .npz file"),
    "a header that claims terabytes": (lambda path: write_zip(path, npy_entry(HUGE)), "not a .npz file"),
    "truncated early": (lambda path: truncated(path, 0.3), "not a .npz file"),
    "truncated late": (lambda path: truncated(path, 0.95), "not a .npz file"),
    "corrupt": (corrupt, "not a .npz file"),
    "encrypted": (encrypted, "not a .npz file"),
    "a zip bomb": (bomb, "unpacks to 4.0 GiB"),
}


@pytest.mark.parametrize("case", NPZ)
def test_a_npz_that_cannot_be_used(parity, tmp_path: Path, case: str) -> None:
    path = tmp_path / "samples.npz"
    make, said = NPZ[case]
    make(path)
    code, out, err = parity("identify", path)
    assert (code, out) == (2, ""), err
    assert err.startswith("parity: ")
    assert said in err
    assert "Traceback" not in err


def test_a_pickle_inside_is_not_executed(parity, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    npz(tmp_path / "samples.npz", x=np.array([Boom(trace)], dtype=object), y=X)
    code, _, err = parity("identify", tmp_path / "samples.npz")
    assert code == 2
    assert "object arrays are not read" in err
    assert not trace.exists()
    with np.load(tmp_path / "samples.npz", allow_pickle=True) as archive:
        archive["x"]
    assert trace.exists(), "the test itself must be able to fail"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir])
def test_a_file_that_is_missing_or_a_folder(parity, tmp_path: Path, suffix: str, make: Callable[[Path], None]) -> None:
    path = tmp_path / f"samples{suffix}"
    make(path)
    code, out, err = parity("identify", path)
    assert (code, out) == (2, "")
    assert f"There is no file {path}" in err


def header(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + data


SAFETENSORS = {
    "no y": (lambda path: save_file({"x": X}, path), "has no tensor 'y'"),
    "unequal lengths": (lambda path: save_file({"x": X, "y": X[:-1].copy()}, path), "shape (63,)"),
    "empty": (lambda path: save_file({"x": X[:0].copy(), "y": X[:0].copy()}, path), "empty"),
    "integers": (lambda path: save_file({"x": X, "y": X.astype(np.int64)}, path), "'y' in "),
    "no bytes": (lambda path: path.write_bytes(b""), "not a .safetensors file"),
    "garbage": (lambda path: path.write_bytes(b"\xff" * 99), "not a .safetensors file"),
    "no header": (lambda path: path.write_bytes(header("not json")), "not a .safetensors file"),
    "too little data": (
        lambda path: path.write_bytes(header('{"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', b"1234")),
        "not a .safetensors file",
    ),
    "a shape of another size": (
        lambda path: path.write_bytes(header('{"x":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}}', bytes(16))),
        "not a .safetensors file",
    ),
}


@pytest.mark.parametrize("case", SAFETENSORS)
def test_a_safetensors_that_cannot_be_used(parity, tmp_path: Path, case: str) -> None:
    path = tmp_path / "samples.safetensors"
    make, said = SAFETENSORS[case]
    make(path)
    code, out, err = parity("identify", path)
    assert (code, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err


def test_flipped_bytes_give_an_answer_or_a_message(parity, tmp_path: Path) -> None:
    """Wherever a file is damaged, the user gets an answer or exit code 2, never a traceback."""
    save_file({"x": X, "y": X}, tmp_path / "whole.safetensors")
    np.savez_compressed(tmp_path / "whole.npz", x=X, y=X)
    random = np.random.default_rng(0)
    for whole in (tmp_path / "whole.npz", tmp_path / "whole.safetensors"):
        content = whole.read_bytes()
        structure = 130 if whole.suffix == ".safetensors" else len(content)
        for _ in range(60):
            damaged = bytearray(content)
            damaged[random.integers(structure)] = random.integers(256)
            path = tmp_path / f"damaged{whole.suffix}"
            path.write_bytes(damaged)
            code, _, err = parity("identify", path, "--quiet")
            assert code in (0, 1, 2, 3), (bytes(damaged), err)
            assert "Traceback" not in err


FILE = """
import sys, time, os, ctypes
import numpy as np

number = 3
relu = lambda x: np.maximum(x, x.dtype.type(0))

def two(x, y): return x
def raises(x): raise RuntimeError("it raises\\nand says more")
def shortens(x): return x[:-1]
def scalar(x): return x.sum()
def listed(x): return list(x)
def nothing(x): pass
def integers(x): return x.astype(int)
def objects(x): return x.astype(object)
def complexes(x): return x.astype(complex)
def leaves(x): sys.exit(0)
def quits(x): exit()
def hangs(x): time.sleep(600)
def aborts(x): os.abort()
def asks(x): input()

class Needs:
    def __init__(self, size): pass
class Fails:
    def __init__(self): raise ValueError("no")
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nope", "There is no name in"),
        ("rel", "Did you mean relu?"),
        ("number", "is a int and cannot be called"),
        ("np.nope", "nope"),
        ("two", "cannot be called on one float32 tensor of the adapter 'numpy': TypeError"),
        ("raises", "RuntimeError: it raises"),
        ("shortens", "returned shape"),
        ("scalar", "returned shape ()"),
        ("listed", "list"),
        ("nothing", "NoneType"),
        ("integers", "returned int64"),
        ("objects", "returned object"),
        ("complexes", "returned complex128"),
        ("leaves", "SystemExit"),
        ("quits", "SystemExit"),
        ("asks", "EOFError"),
        ("Needs", "missing 1 required positional argument"),
        ("Fails", "ValueError: no"),
    ],
)
def test_a_function_that_cannot_be_used(parity, tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    code, out, err = parity("identify", f"{path}:{name}", "--timeout", "20")
    assert (code, out) == (2, ""), err
    assert said in err
    assert "says more" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("name", "said"), [("hangs", "silent for 2 s"), ("aborts", "was killed by SIGABRT")])
def test_a_function_that_takes_the_engine_down(parity, tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    started = time.monotonic()
    code, out, err = parity("identify", f"{path}:{name}", "--timeout", "2")
    assert (code, out) == (4, ""), err
    assert said in err
    assert time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(x) return x", "is not Python"),
        ("x = '\0'", "is not Python"),
        ("raise RuntimeError('at import')", "does not run: RuntimeError: at import"),
        ("import sys; sys.exit(7)", "does not run: SystemExit: 7"),
        ("import nowhere_to_be_found", "does not run: ModuleNotFoundError"),
    ],
)
def test_a_file_that_does_not_run(parity, tmp_path: Path, source: str, said: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    code, out, err = parity("identify", f"{path}:f")
    assert (code, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("", "names nothing that can be identified"),
        ("gelu", "names nothing that can be identified"),
        ("numpy:", "names nothing that can be identified"),
        (":tanh", "names nothing that can be identified"),
        ("nowhere_to_be_found:f", "There is no module 'nowhere_to_be_found'"),
        ("nowhere.to.be:f", "There is no module 'nowhere"),
        (".relative:f", "'.relative'"),
        ("numpy:nope", "There is no name in numpy called 'nope'"),
        ("numpy:tahn", "Did you mean"),
        ("numpy:pi", "cannot be called"),
        ("missing.py:f", "No such file"),
    ],
)
def test_a_target_that_is_none(parity, target: str, said: str) -> None:
    code, out, err = parity("identify", target)
    assert (code, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dtype", "float8"], "There is no dtype called 'float8'"),
        (["--adapter", "nope"], "There is no adapter called 'nope'"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_options_that_cannot_be_used(parity, arguments: list[str], said: str) -> None:
    code, out, err = parity("identify", "numpy:tanh", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_the_extra_that_is_missing_is_named(parity, offer) -> None:
    offer("lacking", requires="nowhere-to-be-found>=1")
    code, out, err = parity("identify", "numpy:tanh", "--adapter", "lacking")
    assert (code, out) == (2, "")
    assert 'pip install "outside-lacking[lacking]"' in err
