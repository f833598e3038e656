"""When the native kernel is used."""

from dataclasses import fields

import numpy as np
import pytest

from parity.align.layout import distance
from parity.compare import compare, native
from parity.compare.local import local_error
from parity.trace.signature import signature


@pytest.fixture
def loads_anew():
    """The library is looked for again in a test, and after it."""
    native._library.cache_clear()
    yield
    native._library.cache_clear()


@pytest.fixture
def called(monkeypatch):
    """Sizes of the blocks that the native kernel is given in a test."""
    if not native.available():
        pytest.skip("the native kernel was not built")
    sizes, add = [], native.Kernel.add

    def spy(kernel, reference, candidate, start):
        sizes.append(reference.size)
        add(kernel, reference, candidate, start)

    monkeypatch.setattr(native.Kernel, "add", spy)
    return sizes


def test_it_can_be_turned_off(loads_anew, monkeypatch):
    monkeypatch.setenv("PARITY_NO_NATIVE", "1")
    assert not native.available()


def test_a_library_made_from_another_source_is_not_used(loads_anew, monkeypatch, tmp_path):
    edited = tmp_path / "native.c"
    edited.write_text(native._SOURCE.read_text() + "/* edited */\n")
    monkeypatch.setattr(native, "_SOURCE", edited)
    assert not native.available()


def test_what_is_no_library_is_not_used(loads_anew, monkeypatch, tmp_path):
    monkeypatch.setattr(native, "_LIBRARY", tmp_path / "missing.so")
    assert not native.available()


def test_float32_in_c_order_is_its_own(called):
    x = np.ones((6, 4), np.float32)
    compare(x, x)
    compare(x[:, :2], x[:, ::2])
    compare(x.astype(">f4"), x)
    assert sum(called) == 24 + 12 + 24


@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}])
def test_everything_else_is_left_to_numpy(called, options):
    x = np.ones((6, 4), np.float32)
    for other in (x.T, x.astype(np.float64).T, x.astype(np.float16).T):
        compare(x.T, other, **options)
    assert called == []


# ---- sums for the signature, the distance and local errors

VALUES = np.random.default_rng(0).standard_normal(1001).astype(np.float32)


@pytest.fixture
def both_ways(loads_anew, monkeypatch):
    """What a function gives with the library and, by the environment's wish, without it."""
    if not native.available():
        pytest.skip("the native kernel was not built")

    def both(function, *arguments, **named):
        native._library.cache_clear()
        monkeypatch.delenv("PARITY_NO_NATIVE", raising=False)
        fast = function(*arguments, **named)
        native._library.cache_clear()
        monkeypatch.setenv("PARITY_NO_NATIVE", "1")
        assert not native.available()
        return fast, function(*arguments, **named)

    return both


def misaligned(array):
    memory = np.empty(array.nbytes + 1, np.uint8)
    memory[1:] = array.view(np.uint8)
    return memory[1:].view(array.dtype)


ODD = {
    "plain": VALUES,
    "every other": VALUES[::2],
    "backwards": VALUES[::-1],
    "one number again and again": np.broadcast_to(np.float32(3.0), (50,)),
    "two axes": VALUES[:1000].reshape(20, 50).T,
    "misaligned": misaligned(VALUES),
    "of another byte order": VALUES.astype(">f4"),
    "empty": VALUES[:0],
    "one number": VALUES[:1],
    "subnormal": VALUES * np.float32(1e-42),
    "huge": np.clip(VALUES, -2, 2) * np.float32(1e38),
    "NaN": np.where(VALUES > 2, np.float32(np.nan), VALUES),
    "infinite": np.where(VALUES > 2, np.float32(np.inf), VALUES),
    "all NaN": np.full(9, np.nan, np.float32),
    "zeros": np.zeros(9, np.float32),
    "float64": VALUES.astype(np.float64),
    "float16": VALUES.astype(np.float16),
    "whole": np.arange(9),
}


@pytest.mark.parametrize("name", ODD)
def test_signatures_are_the_same(both_ways, name):
    fast, slow = both_ways(signature, ODD[name])
    assert (fast.count, fast.finite, fast.low, fast.high) == (slow.count, slow.finite, slow.low, slow.high)
    for one, two in ((fast.mean, slow.mean), (fast.rms, slow.rms)):
        assert one == pytest.approx(two, rel=1e-12, abs=1e-12 * slow.rms)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_distances_are_the_same(both_ways, name, shifted):
    array = ODD[name]
    other = array[::-1] if shifted and array.ndim == 1 else array.copy()
    fast, slow = both_ways(distance, array, other)
    assert fast == pytest.approx(slow, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in ODD if name != "whole"])
def test_local_errors_are_the_same(both_ways, name):
    twin = ODD[name]
    exact = twin.astype(np.float64) * (1 + 1e-8)
    strided = np.repeat(exact.reshape(-1), 2)[::2].reshape(exact.shape)
    arguments = {"twin": twin, "candidate": twin * twin.dtype.type(1.5), "dtype": "float32"}
    for own in (None, strided):
        fast, slow = both_ways(local_error, exact=strided, candidate_exact=own, **arguments)
        for field in fields(fast):
            one, two = getattr(fast, field.name), getattr(slow, field.name)
            assert one == (two if two is None else pytest.approx(two, rel=1e-9)), field.name


def local(exact, candidate):
    wide = exact.astype(np.float64)
    return local_error(exact=wide, twin=candidate, candidate=candidate, candidate_exact=None, dtype="float32")


@pytest.mark.parametrize("function", [distance, local])
def test_arrays_of_two_sizes_are_no_pair(both_ways, function):
    """Nothing is read beyond the end of the shorter one."""
    with pytest.raises(ValueError, match="operands"):
        both_ways(function, VALUES, VALUES[:900])


def test_plain_arrays_are_summed_in_c(monkeypatch):
    if not native.available():
        pytest.skip("the native kernel was not built")
    told = []

    def spy(name):
        add = getattr(native, name)

        def wrapped(*arguments):
            told.append((name, add(*arguments)))
            return told[-1][1]

        return wrapped

    for name in ("add_moments", "add_local"):
        monkeypatch.setattr(native, name, spy(name))
    signature(VALUES)
    distance(VALUES, VALUES)
    local(VALUES, VALUES)
    assert told == [("add_moments", True), ("add_moments", True), ("add_local", True)]
    signature(ODD["NaN"])
    assert told[-1] == ("add_moments", False)
