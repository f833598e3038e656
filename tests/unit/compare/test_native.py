"""When the native kernel is used."""

import numpy as np
import pytest

from parity.compare import compare, native


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
