"""Inputs of models: made from what the model says of them, or read from a file."""

import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from parity.errors import InputError
from parity.graph import InputSpec
from parity.model_inputs import FREE, LENGTH, VOCABULARY, make_inputs, read_inputs

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def made(name: str, dtype: str, shape, number: int = 0, **more) -> np.ndarray:
    (array,) = make_inputs({name: InputSpec(dtype=dtype, shape=shape, **more)}, number).values()
    return array


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"])
def test_of_every_dtype(dtype: str) -> None:
    array = made("x", dtype, (2, 50), limit=100)
    assert (array.dtype.name, array.shape) == (dtype, (2, 50))
    assert np.unique(array.astype(np.float64)).size > 1


def test_free_dimensions_are_small() -> None:
    assert made("x", "float32", (None, 3, None)).shape == (FREE[0], 3, LENGTH)
    assert made("x", "float32", ()).shape == ()
    assert made("x", "float32", (0, 4)).shape == (0, 4)


def test_the_same_number_makes_the_same_inputs_and_another_others() -> None:
    one, two, other = (made("x", "float32", (None, 8), number) for number in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_several_inputs_are_not_alike() -> None:
    spec = InputSpec(dtype="float32", shape=(8,))
    found = make_inputs({"a": spec, "b": spec})
    assert list(found) == ["a", "b"]
    assert not np.array_equal(found["a"], found["b"])


def test_floats_are_normal() -> None:
    array = made("x", "float32", (10_000,))
    assert abs(array.mean()) < 0.05
    assert abs(array.std() - 1) < 0.05


@pytest.mark.parametrize(("limit", "most"), [(None, VOCABULARY), (7, 7), (1, 1)])
def test_token_ids_are_of_the_vocabulary(limit: int | None, most: int) -> None:
    array = made("input_ids", "int64", (4, 500), limit=limit)
    assert array.min() >= 0
    assert most - 10 < array.max() < most


@pytest.mark.parametrize(("name", "dtype"), [("attention_mask", "int64"), ("MASK", "float32"), ("keep", "bool")])
def test_masks_leave_the_end_of_the_second_row_out(name: str, dtype: str) -> None:
    array = made(name, dtype, (None, 16)).astype(np.float64)
    if dtype == "float32":
        return
    assert (array[0] == 1).all()
    assert array[1].tolist() == [1] * 12 + [0] * 4
    assert made(name, dtype, (1, 16)).all(), "of a single row nothing"


def test_positions_count_up() -> None:
    assert made("position_ids", "int64", (None, 5)).tolist() == [[0, 1, 2, 3, 4]] * 2
    assert made("position", "int64", ()).shape == ()


def test_segments_are_of_two() -> None:
    assert set(made("token_type_ids", "int64", (4, 100)).ravel()) == {0, 1}
    assert set(made("segment_ids", "int64", (4, 100), limit=1).ravel()) == {0}


def test_optional_inputs_are_left_out() -> None:
    specs = {"a": InputSpec(dtype="float32", shape=(2,)), "b": InputSpec(dtype="float32", shape=None, optional=True)}
    assert list(make_inputs(specs)) == ["a"]


def test_optional_inputs_are_made_where_the_other_side_needs_them() -> None:
    one, optional = InputSpec(dtype="int64", shape=(2,)), InputSpec(dtype="int64", shape=(2,), optional=True)
    specs = {"a": one, "mask": optional, "types": optional}
    assert list(make_inputs(specs, other={"mask": one, "types": optional, "more": one})) == ["a", "mask"]


@pytest.mark.parametrize(
    ("specs", "said"),
    [({}, "says what inputs"), ({"x": InputSpec(dtype="float32", shape=None)}, "shape of its input 'x'")],
)
def test_a_model_that_does_not_say_what_it_takes(specs, said: str) -> None:
    with pytest.raises(InputError) as caught:
        make_inputs(specs)
    assert said in caught.value.message
    assert "--inputs" in caught.value.hint


@pytest.mark.parametrize(
    ("models", "said", "hint"),
    [
        (["torch:net.py:build"], "torch:net.py:build does not say what inputs it takes.", "a tuple of tensors in call"),
        (["jax:net.py:f"], "jax:net.py:f does not say what inputs it takes.", "a tuple of arrays in call order"),
        (["torch:net.py:build", "m.pt"], "Neither side says what inputs it takes.", "example_inputs"),
        (["m.pt"], "m.pt does not say what inputs it takes.", ""),
    ],
)
def test_who_does_not_say_what_it_takes_and_what_to_type(models: list[str], said: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        make_inputs({}, models=models)
    assert caught.value.message == said
    assert "--inputs FILE.npz" in caught.value.hint
    assert hint in caught.value.hint
    assert ("example_inputs" in caught.value.hint) == bool(hint)


# ---- files


def test_npz_by_name_and_in_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", b=X, a=X > 2, c=X.astype(np.int64))
    found = read_inputs(tmp_path / "x.npz")
    assert list(found) == ["b", "a", "c"]
    np.testing.assert_array_equal(found["b"], X)
    assert [array.dtype.name for array in found.values()] == ["float32", "bool", "int64"]


def test_safetensors(tmp_path: Path) -> None:
    save_file({"a": X, "b": X.astype(ml_dtypes.bfloat16)}, tmp_path / "x.safetensors")
    found = read_inputs(tmp_path / "x.safetensors")
    assert {name: array.dtype.name for name, array in found.items()} == {"a": "float32", "b": "bfloat16"}
    np.testing.assert_array_equal(found["a"], X)


def test_a_model_in_float64_inputs_is_the_users_affair(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X.astype(np.float64))
    assert read_inputs(tmp_path / "x.npz")["x"].dtype == np.float64


def letters(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "Dear all")


FILES = {
    "missing.npz": (None, "no input file"),
    "missing.safetensors": (None, "no input file"),
    "x.npy": (lambda path: np.save(path, X), "neither .npz nor .safetensors"),
    "x.csv": (lambda path: path.write_text("1,2"), "neither .npz nor .safetensors"),
    "folder.npz": (Path.mkdir, "no input file"),
    "empty.npz": (np.savez, "holds no arrays"),
    "nothing.npz": (lambda path: path.write_bytes(b""), "not a readable .npz"),
    "garbage.npz": (lambda path: path.write_bytes(b"hello" * 99), "not a readable .npz"),
    "cut.npz": (lambda path: (np.savez(path, x=X), path.write_bytes(path.read_bytes()[:99])), "not a readable .npz"),
    "letter.npz": (lambda path: path.write_text("Dear all\n"), "not a readable .npz file: it is no archive of arrays"),
    "letters.npz": (letters, "letters.npz' is no array of numbers"),
    "pickle.npz": (lambda path: path.write_bytes(pickle.dumps({"x": 1})), "not a readable .npz"),
    "objects.npz": (lambda path: np.savez(path, allow_pickle=True, x=np.array([None])), "'x' in it is damaged, or no"),
    "bare.npz": (lambda path: (np.save(f"{path}.npy", X), Path(f"{path}.npy").rename(path)), "not a readable .npz"),
    "text.npz": (lambda path: np.savez(path, x=np.array(["a"])), "is no array of numbers"),
    "empty.safetensors": (lambda path: save_file({}, path), "holds no arrays"),
    "nothing.safetensors": (lambda path: path.write_bytes(b""), "not a readable safetensors"),
    "garbage.safetensors": (lambda path: path.write_bytes(b"\xff" * 99), "not a readable safetensors"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    make, said = FILES[name]
    if make is not None:
        make(tmp_path / name)
    with pytest.raises(InputError) as caught:
        read_inputs(tmp_path / name)
    assert said in caught.value.message
    assert name in caught.value.message
    assert caught.value.hint
    assert "pickle" not in caught.value.hint, "NumPy's advice is to load it unsafely"


def test_no_traceback_wherever_a_file_is_damaged(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "whole.npz", x=X)
    save_file({"x": X}, tmp_path / "whole.safetensors")
    random = np.random.default_rng(0)
    for whole in (tmp_path / "whole.npz", tmp_path / "whole.safetensors"):
        content = whole.read_bytes()
        for _ in range(40):
            damaged = bytearray(content)
            damaged[random.integers(len(content))] = random.integers(256)
            path = tmp_path / f"damaged{whole.suffix}"
            path.write_bytes(damaged)
            try:
                read_inputs(path)
            except InputError:
                continue
