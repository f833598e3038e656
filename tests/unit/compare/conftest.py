import pytest

from parity.compare import native


@pytest.fixture(params=["native", "numpy"])
def backend(request, monkeypatch):
    """Runs a test with the kernel in C, where it was built, and once more without it."""
    if request.param == "numpy":
        monkeypatch.setattr(native, "available", lambda: False)
    elif not native.available():
        pytest.skip("the native kernel was not built")
