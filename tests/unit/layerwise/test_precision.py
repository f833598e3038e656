"""In which type a model is meant to be computed."""

import numpy as np
import pytest

from parity.dtypes import FLOAT_DTYPES
from parity.layerwise.precision import declared_dtype, narrowest, region_dtype

X = np.ones((2, 4), np.float32)


def cast(dtype: str):
    return lambda x: x.astype(FLOAT_DTYPES[dtype])


def weighted(toy, **dtypes: tuple[str, int]):
    """A model that reads weights: name to dtype and count."""
    model = toy(x=(None, 4))
    for name, (dtype, count) in dtypes.items():
        model.weights[name] = np.linspace(0, 1, count).astype(FLOAT_DTYPES.get(dtype, dtype))
        model("add", "x", name, function=lambda x, w: x + w.astype(np.float32).sum())
    return model.view(x=X)


def test_an_option_says_it(toy) -> None:
    assert declared_dtype(weighted(toy, w=("float16", 9)), "bfloat16") == "bfloat16"


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_the_type_of_most_weights(toy, dtype: str) -> None:
    other = "float64" if dtype == "float32" else "float32"
    assert declared_dtype(weighted(toy, big=(dtype, 90), small=(other, 10), table=("int64", 500)), None) == dtype


def test_without_weights_that_of_the_ends(toy) -> None:
    model = toy(x=(None, 4))
    assert declared_dtype(model.gives(model("tanh", "x")).view(x=X), None) == "float32"
    half = toy(x=(None, 4))
    half.gives(half("cast", "x", function=cast("float16")))
    assert declared_dtype(half.view(x=X), None) == "float16"
    whole = toy("int64", x=(None, 4))
    assert declared_dtype(whole.gives(whole("neg", "x")).view(x=X.astype(np.int64)), None) == "float32"


def test_the_narrowest() -> None:
    assert narrowest([]) == "float32"
    assert narrowest(["int64", "bool"]) == "float32"
    assert narrowest(["float64", "int8"]) == "float64"
    assert narrowest(["float64", "float16", "float32"]) == "float16"
    assert narrowest(["bfloat16", "float16"]) == "bfloat16", "of equal rank the first counts"


@pytest.mark.parametrize(
    ("declared", "ends", "meant"),
    [
        ("float32", ["float32", "float32"], "float32"),
        ("float32", ["float32", "float16"], "float32"),  # narrower than declared excuses nothing
        ("float32", ["float16", "float16"], "float32"),
        ("float16", ["float16", "float32"], "float16"),
        ("float16", ["float32", "float32"], "float16"),  # what an engine computes wider may still be rounded so
        ("float32", ["float64", "float64"], "float64"),
        ("float16", ["bfloat16", "float32"], "float16"),
        ("float32", ["int64"], "float32"),
        ("float32", [], "float32"),
    ],
)
def test_of_a_region(toy, declared: str, ends: list[str], meant: str) -> None:
    model = toy(x=(None, 4))
    kinds = {**FLOAT_DTYPES, "int64": np.dtype(np.int64)}
    for k, dtype in enumerate(ends):
        model("cast", "x", to=f"t{k}", function=lambda x, kind=kinds[dtype]: x.astype(kind))
    view = model.view(x=X)
    assert region_dtype(view, declared, [f"t{k}" for k in range(len(ends))]) == meant
    assert region_dtype(view, declared, [*(f"t{k}" for k in range(len(ends))), "nowhere"]) == meant
